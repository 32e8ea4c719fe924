//! The native command line: the same library without a browser, to work on the loop and the kernels.

mod bench;
mod model;

use std::{
    error::Error,
    io::{Write, stderr, stdout},
    iter,
    path::{Path, PathBuf},
    process::ExitCode,
};

use decant::{
    exec::{
        Activations, Cpu, Executor, Reference,
        gpu::{Gpu, GpuOptions},
    },
    generation::{Engine, Plan, Prompt, Value, processors::Stage},
    load::{LoadOptions, PAGE_SIZE},
    model::{Graph, GraphOptions},
    ops::CacheType,
    tensor::DType,
};
use lexopt::prelude::*;
use pollster::block_on;

const USAGE: &str = "\
decant: language-model text generation, natively

usage:
  decant generate MODEL [PROMPT] [options]   write a continuation, or an answer with --chat
  decant bench    [MODEL] [options]          what this machine can do, and how much of it is reached
  decant inspect  MODEL                      what the files hold and what they would need

MODEL is a .gguf file, a part of a split one, or the folder of a Hugging Face checkpoint.

options:
  --chat              the prompt is a user's message; the model's chat template is applied
  --system TEXT       with --chat: a system message before it
  --config JSON       generation options by their Hugging Face names, such as
                      '{\"do_sample\": true, \"temperature\": 0.7, \"max_new_tokens\": 64}'
  --explain           print the plan, and generate nothing
  --device NAME       webgpu (default), cpu, or reference (exact and slow)
  --activations NAME  on the CPU, where weights are quantised: q16_0 (default, 16 bits), q8_0 (fast, and
                      spoils the answers of small models), or f32 (exact and slow)
  --kv-cache NAME     f16 (default) or f32
  --quantize NAME     q8_0 or q4_0: make it of matrices of plain numbers while loading
  --context N         positions that can be held

options of bench, which needs no MODEL: its weights are random unless there is one
  --shape NAME        sizes of the model with random weights: 135m (default), 1b, 3b, or tiny
  --formats LIST      weight formats, such as q8_0,f16 (default: all)
  --sections LIST     of matrices,attention,norm,model,calls (default: all); calls needs MODEL
  --batch N           sequences that are decoded together (default 8)
  --prefill N         tokens of the prompt of a call (default 128)
  --decode N          tokens that a call makes (default 32)
  --json FILE         writes everything there, too
";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Which executor runs the model.
#[derive(Clone, Copy)]
enum Device {
    WebGpu,
    Cpu,
    Reference,
}

/// What was asked for.
struct Options {
    model: Option<PathBuf>,
    prompt: String,
    chat: bool,
    system: Option<String>,
    config: Value,
    explain: bool,
    device: Device,
    activations: Option<Activations>,
    load: LoadOptions,
    bench: bench::Options,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("decant: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let mut arguments = lexopt::Parser::from_env();
    let command = match arguments.next()? {
        Some(Value(command)) => command.string()?,
        Some(Long("help") | Short('h')) | None => {
            print!("{USAGE}");
            return Ok(());
        }
        Some(other) => return Err(other.unexpected().into()),
    };
    match command.as_str() {
        "generate" => generate(&options(arguments)?),
        "bench" => {
            let mut options = options(arguments)?;
            options.bench.cpu = match options.device {
                Device::WebGpu => None,
                Device::Cpu => Some(options.activations.unwrap_or_default()),
                Device::Reference => return Err("bench measures webgpu or cpu".into()),
            };
            let named = options.model.is_some();
            bench::bench(&options.bench, named.then_some(|| load(&options)))
        }
        "inspect" => inspect(&options(arguments)?),
        other => Err(format!("unknown command {other:?}; see decant --help").into()),
    }
}

fn options(mut arguments: lexopt::Parser) -> Outcome<Options> {
    let mut model = None;
    let mut options = Options {
        model: None,
        prompt: String::new(),
        chat: false,
        system: None,
        config: Value::Null,
        explain: false,
        device: Device::WebGpu,
        activations: None,
        load: LoadOptions::default(),
        bench: bench::Options::default(),
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("chat") => options.chat = true,
            Long("system") => options.system = Some(arguments.value()?.string()?),
            Long("config") => {
                options.config = Value::from(&serde_json::from_str::<serde_json::Value>(
                    &arguments.value()?.string()?,
                )?)
            }
            Long("explain") => options.explain = true,
            Long("device") => {
                let allowed = ["webgpu", "cpu", "reference"];
                let at = choice("--device", &mut arguments, &allowed)?;
                options.device = [Device::WebGpu, Device::Cpu, Device::Reference][at];
            }
            Long("activations") => {
                let at = choice("--activations", &mut arguments, &["q16_0", "q8_0", "f32"])?;
                options.activations =
                    Some([Activations::Q16, Activations::Q8, Activations::F32][at]);
            }
            Long("kv-cache") => {
                let at = choice("--kv-cache", &mut arguments, &["f16", "f32"])?;
                options.load.kv_cache = [CacheType::F16, CacheType::F32][at];
            }
            Long("quantize") => {
                let at = choice("--quantize", &mut arguments, &["q8_0", "q4_0"])?;
                options.load.quantise = Some([DType::Q8_0, DType::Q4_0][at]);
            }
            Long("context") => options.load.context_length = Some(arguments.value()?.parse()?),
            Long("shape") => {
                options.bench.shape = choice("--shape", &mut arguments, &bench::shapes())?;
            }
            Long("formats") => {
                let names = DType::ALL.map(|dtype| dtype.name().to_lowercase());
                let all = choices("--formats", &mut arguments, &names)?;
                options.bench.formats = all.into_iter().map(|at| DType::ALL[at]).collect();
            }
            Long("sections") => {
                let all = choices("--sections", &mut arguments, &bench::SECTIONS)?;
                let names = all.into_iter().map(|at| bench::SECTIONS[at].to_owned());
                options.bench.sections = names.collect();
            }
            Long("batch") => {
                options.bench.batch = arguments.value()?.parse()?;
                if !(1..=16).contains(&options.bench.batch) {
                    return Err("--batch: allowed are 1 to 16".into());
                }
            }
            Long("prefill") => options.bench.prefill = arguments.value()?.parse()?,
            Long("decode") => options.bench.decode = arguments.value()?.parse()?,
            Long("json") => options.bench.json = Some(arguments.value()?.into()),
            lexopt::Arg::Value(path) if model.is_none() => model = Some(PathBuf::from(path)),
            lexopt::Arg::Value(prompt) if options.prompt.is_empty() => {
                options.prompt = prompt.string()?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    options.model = model;
    if !matches!(options.device, Device::Cpu)
        && matches!(
            options.activations,
            Some(Activations::Q8 | Activations::Q16)
        )
    {
        return Err("--activations is for --device cpu; elsewhere they are f32".into());
    }
    if options.system.is_some() && !options.chat {
        return Err("--system belongs to a chat; add --chat".into());
    }
    Ok(options)
}

/// The place of an option's value among those allowed.
fn choice(name: &str, arguments: &mut lexopt::Parser, allowed: &[&str]) -> Outcome<usize> {
    place(name, &arguments.value()?.string()?, allowed)
}

/// The same for a list with commas.
fn choices<T: AsRef<str>>(
    name: &str,
    arguments: &mut lexopt::Parser,
    allowed: &[T],
) -> Outcome<Vec<usize>> {
    let found = arguments.value()?.string()?;
    let places = found.split(',').map(|found| place(name, found, allowed));
    places.collect()
}

fn place<T: AsRef<str>>(name: &str, found: &str, allowed: &[T]) -> Outcome<usize> {
    let at = allowed.iter().position(|value| value.as_ref() == found);
    at.ok_or_else(|| {
        let allowed: Vec<_> = allowed.iter().map(AsRef::as_ref).collect();
        format!("{name} {found:?}: allowed are {}", allowed.join(", ")).into()
    })
}

impl Options {
    fn model(&self) -> Outcome<&Path> {
        let path = self.model.as_deref();
        path.ok_or_else(|| "the path of a model is missing; see decant --help".into())
    }
}

/// Loads the model as a page does: in pieces, none of them kept.
fn load(options: &Options) -> Outcome<Engine> {
    let executor: Box<dyn Executor> = match options.device {
        Device::Reference => Box::new(Reference::new()),
        Device::Cpu => Box::new(Cpu::new(options.activations.unwrap_or_default())),
        Device::WebGpu => Box::new(block_on(Gpu::new(GpuOptions::default()))?),
    };
    model::load(options.model()?, executor, options.load)
}

fn generate(options: &Options) -> Outcome<()> {
    let engine = load(options)?;
    if options.explain {
        print!("{}", describe(&engine.explain(&options.config)?));
        return Ok(());
    }
    let prompt = match options.chat {
        false => Prompt::Text(options.prompt.clone()),
        true => {
            let message =
                |role: &str, content: &str| serde_json::json!({ "role": role, "content": content });
            let system = options.system.iter().map(|text| message("system", text));
            Prompt::Chat(system.chain([message("user", &options.prompt)]).collect())
        }
    };
    let mut generation = engine.generate_prompts(&[prompt], &options.config)?;
    for warning in &generation.plan().warnings {
        eprintln!("warning: {}: {}", warning.field, warning.message);
    }
    // The tokens of several answers come in turns: then each is printed whole, once all are there.
    let one = generation.plan().tactics.answers == 1;
    while let Some(event) = block_on(generation.next())? {
        if one {
            print!("{}", event.text);
            stdout().flush()?;
        }
    }
    let output = generation.finish()?;
    let reasons: Vec<_> = output.stop_reasons.iter().map(|r| r.name()).collect();
    if one {
        println!();
    } else {
        for (i, (text, reason)) in iter::zip(&output.texts, &reasons).enumerate() {
            println!("--- answer {}, stopped by {reason}\n{text}", i + 1);
        }
    }
    let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.1}"));
    writeln!(
        stderr(),
        "{}: {} tokens read at {}/s, {} made at {}/s; stopped by {}",
        engine.executor_info()?.adapter,
        output.usage.prompt_tokens,
        rate(output.timings.prefill_tokens_per_second()),
        output.usage.completion_tokens,
        rate(output.timings.decode_tokens_per_second()),
        reasons.join(", "),
    )?;
    Ok(())
}

/// A plan in words, a line a decision.
fn describe(plan: &Plan) -> String {
    let mut lines = vec![format!("strategy: {}", plan.strategy.name())];
    let stages = plan.processors.iter().map(|stage| {
        format!(
            "processor: {} with {} ({})",
            stage.name(),
            args_of(stage),
            stage.source.name()
        )
    });
    lines.extend(stages);
    lines.push(format!("selection: {}", plan.selection.name()));
    let reason = plan.home.reason();
    lines.push(format!(
        "home: {}{}",
        plan.home.name(),
        reason.map_or(String::new(), |reason| format!(" ({reason})"))
    ));
    lines.extend(plan.stopping.iter().map(|rule| {
        format!(
            "stops by: {} = {} ({})",
            rule.criterion.name(),
            rule.criterion.value(),
            rule.source.name()
        )
    }));
    lines.extend(plan.settings.iter().map(|setting| {
        format!(
            "{} = {} ({})",
            setting.name,
            setting.value,
            setting.source.name()
        )
    }));
    lines.extend(
        plan.warnings
            .iter()
            .map(|w| format!("warning: {}: {}", w.field, w.message)),
    );
    lines.join("\n") + "\n"
}

fn args_of(stage: &Stage) -> String {
    let args = stage
        .args()
        .into_iter()
        .map(|(name, value)| format!("{name} = {value}"));
    args.collect::<Vec<_>>().join(", ")
}

fn inspect(options: &Options) -> Outcome<()> {
    let index = model::index(options.model()?)?;
    for (key, value) in &index.metadata.0 {
        println!("{key} = {}", value.kind());
    }
    for tensor in &index.tensors {
        let spec = &tensor.spec;
        println!(
            "{:>12} {:5} {} × {}  {}",
            tensor.offset,
            spec.dtype.name(),
            spec.rows,
            spec.columns,
            spec.name
        );
    }
    let graph = Graph::from_index(
        index,
        GraphOptions {
            context_length: options.load.context_length,
            quantise: options.load.quantise,
        },
    )?;
    let pages = graph.context_length.div_ceil(PAGE_SIZE);
    let cache = graph.cache(options.load.kv_cache, PAGE_SIZE, pages);
    let weights: usize = graph.weights.iter().map(|weight| weight.spec.bytes()).sum();
    println!("\n{:#?}", graph.config);
    println!("weights: {weights} bytes");
    println!(
        "cache of {} positions: {} bytes",
        graph.context_length,
        cache.bytes()
    );
    Ok(())
}
