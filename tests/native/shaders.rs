//! Every kernel in the registry parses, validates, and is what the registry says it is.

use std::collections::BTreeMap;

use decant::exec::gpu::{ENTRY, Kernel, Scalar, kernels};
use naga::{
    AddressSpace, GlobalVariable, Module, ScalarKind, ShaderStage, StorageAccess, TypeInner,
    front::wgsl,
    valid::{Capabilities, ValidationFlags, Validator},
};

/// `unpack2x16float` and its like belong to WGSL; of what is optional, some kernels use subgroups.
fn validator(kernel: &Kernel) -> Validator {
    let stem = kernel.name.split('.').next().unwrap_or_default();
    let optional = match SUBGROUPS.contains(&stem) {
        true => Capabilities::SUBGROUP,
        false => Capabilities::empty(),
    };
    let capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32 | optional;
    Validator::new(ValidationFlags::all(), capabilities)
}

/// The stems of kernels that are only for adapters with subgroups.
const SUBGROUPS: [&str; 2] = ["matmul_broadcast", "attention_broadcast"];

/// The default limits of WebGPU.
const STORAGE_BUFFERS: usize = 8;
const INVOCATIONS: u32 = 256;
const WORKGROUP_BYTES: u32 = 16 << 10;

/// What is wrong with a kernel; nothing, one hopes.
fn faults(kernel: &Kernel) -> Vec<String> {
    let source = kernel.source();
    let module = match wgsl::parse_str(&source) {
        Ok(module) => module,
        Err(error) => return vec![error.emit_to_string(&source)],
    };
    let info = validator(kernel).validate(&module);
    let info = match info {
        Ok(info) => info,
        Err(error) => return vec![error.emit_to_string(&source)],
    };
    let mut faults = Vec::new();
    let [entry] = &*module.entry_points else {
        return vec![format!("{} entry points", module.entry_points.len())];
    };
    if entry.name != ENTRY || entry.stage != ShaderStage::Compute {
        faults.push(format!("the entry point is {}", entry.name));
    }
    let uses = info.get_entry_point(0);
    let unused = module
        .global_variables
        .iter()
        .filter(|(handle, _)| uses[*handle].is_empty());
    faults.extend(unused.map(|(_, variable)| format!("{:?} is not used", variable.name)));
    faults.extend(binding_faults(kernel, &module));
    faults.extend(params_faults(kernel, &module));
    faults.extend(override_faults(kernel, &module));
    faults
}

fn binding_faults(kernel: &Kernel, module: &Module) -> Vec<String> {
    let expected = kernel.bindings.iter().map(|b| (b.number, b.writes));
    let found =
        storage(module).map(|(number, access, _)| (number, access.contains(StorageAccess::STORE)));
    let (expected, found): (BTreeMap<_, _>, BTreeMap<_, _>) = (expected.collect(), found.collect());
    let mut faults = Vec::new();
    if expected != found {
        faults.push(format!(
            "bindings are {found:?}, the registry says {expected:?}"
        ));
    }
    if found.len() > STORAGE_BUFFERS {
        faults.push(format!("{} storage buffers", found.len()));
    }
    faults
}

fn storage(module: &Module) -> impl Iterator<Item = (u32, StorageAccess, &GlobalVariable)> {
    module.global_variables.iter().filter_map(|(_, variable)| {
        let binding = variable.binding.as_ref()?;
        match variable.space {
            AddressSpace::Storage { access } => Some((binding.binding, access, variable)),
            _ => None,
        }
    })
}

fn params_faults(kernel: &Kernel, module: &Module) -> Vec<String> {
    let uniform = module.global_variables.iter().find(|(_, variable)| {
        variable.space == AddressSpace::Uniform
            && variable
                .binding
                .as_ref()
                .is_some_and(|b| (b.group, b.binding) == (0, 0))
    });
    let Some((_, uniform)) = uniform else {
        return vec!["binding 0 is no uniform".into()];
    };
    let TypeInner::Struct { members, .. } = &module.types[uniform.ty].inner else {
        return vec!["binding 0 is no struct".into()];
    };
    let found: Vec<_> = members
        .iter()
        .map(|member| {
            let scalar = match module.types[member.ty].inner {
                TypeInner::Scalar(scalar) if scalar.width == 4 => match scalar.kind {
                    ScalarKind::Uint => Some(Scalar::U32),
                    ScalarKind::Float => Some(Scalar::F32),
                    _ => None,
                },
                _ => None,
            };
            (member.name.clone().unwrap(), scalar, member.offset)
        })
        .collect();
    let expected: Vec<_> = (kernel.params.iter().zip(0u32..))
        .map(|(&(name, scalar), i)| (name.to_owned(), Some(scalar), i * 4))
        .collect();
    match found == expected {
        true => Vec::new(),
        false => vec![format!(
            "Params are {found:?}, the registry says {expected:?}"
        )],
    }
}

fn override_faults(kernel: &Kernel, module: &Module) -> Vec<String> {
    let mut faults = Vec::new();
    let mut found: Vec<_> = module
        .overrides
        .iter()
        .map(|(_, o)| o.name.as_deref().unwrap())
        .collect();
    let mut expected = kernel.overrides.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    if found != expected {
        faults.push(format!(
            "overrides are {found:?}, the registry says {expected:?}"
        ));
    }
    let undefined = module.overrides.iter().filter(|(_, o)| o.init.is_none());
    faults.extend(undefined.map(|(_, o)| format!("{:?} has no default", o.name)));
    if !faults.is_empty() {
        return faults;
    }
    // With the defaults in place, sizes are numbers.
    let info = validator(kernel).validate(module).unwrap();
    let constants = naga::back::PipelineConstants::default();
    let processed =
        naga::back::pipeline_constants::process_overrides(module, &info, None, &constants);
    let (module, _) = processed.unwrap();
    let invocations: u32 = module.entry_points[0].workgroup_size.iter().product();
    if invocations > INVOCATIONS {
        faults.push(format!("{invocations} invocations"));
    }
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).unwrap();
    let workgroup = module
        .global_variables
        .iter()
        .filter(|(_, v)| v.space == AddressSpace::WorkGroup);
    let bytes: u32 = workgroup.map(|(_, v)| layouter[v.ty].size).sum();
    if bytes > WORKGROUP_BYTES {
        faults.push(format!("{bytes} bytes of workgroup memory"));
    }
    faults
}

/// Naga accepts a return before a barrier, browsers do not. A return at the indentation of the body of
/// `main`, or one level deeper, before the last barrier, is one.
fn returns_before_barrier(source: &str) -> bool {
    let Some(body) = source.split("fn main(").nth(1) else {
        return false;
    };
    let body = body.split("\n}").next().unwrap_or(body);
    match body.rfind("workgroupBarrier") {
        Some(last) => body[..last].contains("return;"),
        None => false,
    }
}

#[test]
fn every_kernel_is_what_the_registry_says() {
    let mut count = 0;
    for kernel in kernels() {
        let faults = faults(kernel);
        assert!(faults.is_empty(), "{}: {}", kernel.name, faults.join("\n"));
        assert!(
            !returns_before_barrier(&kernel.source()),
            "{}: a return before a barrier",
            kernel.name
        );
        count += 1;
    }
    assert!(count > 20, "{count} kernels");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = kernels().map(|kernel| kernel.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn the_checks_notice_a_shader_that_differs() {
    let good = kernels()
        .find(|kernel| kernel.name == "select_rows")
        .unwrap();
    assert_eq!(faults(good), [""; 0]);
    let with = |from: &str, to: &str| {
        let source = good.source();
        assert!(source.contains(from), "{from}");
        let source: &'static str = source.replace(from, to).leak();
        let kernel = Kernel {
            files: vec![source].leak(),
            ..*good
        };
        faults(&kernel).join("; ")
    };
    let cases = [
        ("= params.stride / 4u", "= params.stride / 4", ""),
        ("let quads", "let", "expected identifier"),
        ("fn main", "fn other", "the entry point is other"),
        ("outputs: u32,  ", "outputs: i32,  ", "is invalid"),
        (
            "    outputs: u32,",
            "    spare: u32, outputs: u32,",
            "Params are",
        ),
        ("@binding(3)", "@binding(4)", "bindings are"),
        (
            "<storage, read> x",
            "<storage, read_write> x",
            "bindings are",
        ),
        (
            "override LANES: u32 = 64u",
            "override LANES: u32 = 512u",
            "512 invocations",
        ),
        (
            "override LANES: u32 = 64u",
            "override LANES: u32",
            "has no default",
        ),
        (
            "override LANES",
            "@group(0) @binding(7) var<storage, read> spare: array<u32>; override LANES",
            "is not used",
        ),
        (
            "override LANES",
            "override SPARE: u32 = 1; override LANES",
            "overrides are",
        ),
    ];
    for (from, to, fault) in cases {
        let found = with(from, to);
        assert!(
            found.contains(fault) && (found.is_empty() == fault.is_empty()),
            "{from} → {to}: {found}"
        );
    }
    assert!(returns_before_barrier(
        "fn main() {\n if (x) { return; }\n workgroupBarrier();\n}\n"
    ));
}
