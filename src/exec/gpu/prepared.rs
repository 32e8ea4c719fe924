//! A tape made ready: buffers, bind groups and pipelines, so that a step only fills in numbers.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::{
    binder::{Binder, Bound},
    clock::Recorder,
    device::Device,
    dispatch::{Operation, Piece, stride},
    lower::Lowering,
    memory::{Budget, Buffer},
    pipelines::Pipelines,
    readback::Staging,
    store::Store,
    tune::Tuner,
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, Op, Rows},
    tape::{Step, StepLayout, Tape},
};

/// A tape on the device.
pub(super) struct Prepared {
    pub tape: Tape,
    pub layout: StepLayout,
    pub buffers: Buffers,
    pub staging: Staging,
    groups: Vec<Group>,
    words: RefCell<Vec<u32>>,
    /// What the last step was like.
    last: Cell<Option<Extent>>,
    /// Bind groups refer to it.
    _params: Buffer,
}

/// What the dispatches of a tape use beside weights and cache.
pub(super) struct Buffers {
    /// One for all tapes, so that one may go on where another left a token.
    pub step: Rc<Buffer>,
    pub activations: Vec<Buffer>,
    pub scratch: Buffer,
    pub joined: Buffer,
}

/// What preparing takes.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub device: &'a Device,
    pub budget: &'a Budget,
    pub store: &'a Store,
    pub pipelines: &'a Pipelines,
    /// Chooses where several kernels fit.
    pub tuner: &'a Tuner,
}

/// What decides how a step is run.
#[derive(Clone, Copy)]
struct Extent {
    tokens: usize,
    outputs: usize,
    /// Whether every row is of a sequence of its own.
    alone: bool,
}

/// Neighbouring operations, and when their joint form serves a step.
struct Group {
    /// What they write, in order. The joint form writes only the last.
    outs: Vec<BufferId>,
    /// Empty where the joint form serves every step.
    separate: Vec<Task>,
    fused: Vec<Task>,
    /// The most rows for the joint form; 0 where there is none.
    most: usize,
    alone: bool,
}

/// An operation with everything bound.
pub(super) struct Task {
    pub rows: Rows,
    /// The chosen way of each class of row counts, by the least rows.
    pub classes: Vec<(usize, Vec<Bound>)>,
}

/// Steps that may be in flight without making a new staging buffer.
const STAGING_BUFFERS: usize = 2;

/// The buffer for the steps of tapes of up to `rows` rows, and its layout.
pub(super) async fn shared_step(
    device: &Device,
    budget: &Budget,
    store: &Store,
    rows: usize,
) -> Result<(StepLayout, Rc<Buffer>)> {
    let layout = StepLayout {
        rows,
        sequences: store.allocation.sequences,
        pages: store.allocation.pages_per_sequence,
    };
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
    let words = layout.len() as u64 * 4;
    let made = budget.buffers(device, "step", usage, &[words]).await?;
    let buffer = made.into_iter().next();
    let buffer = buffer.ok_or_else(|| Error::internal("a buffer was asked for"))?;
    Ok((layout, Rc::new(buffer)))
}

impl Prepared {
    /// Makes everything that steps of `tape` need in the buffer `step`. Operations run together if `fuse`.
    pub async fn new(
        means: Means<'_>,
        tape: Tape,
        layout: StepLayout,
        step: Rc<Buffer>,
        fuse: bool,
    ) -> Result<Self> {
        let Means {
            device,
            budget,
            store,
            ..
        } = means;
        let allocation = &store.allocation;
        tape.check(&allocation.weights, &allocation.cache)?;
        let lowering = Lowering {
            tape: &tape,
            layout,
            specs: &allocation.weights,
            placed: &store.placement.weights,
            cache: allocation.cache,
            adapter: device.adapter,
        };
        let pieces = lowering.pieces(fuse)?;
        let shared = [lowering.scratch_bytes(), lowering.joined_bytes(&pieces)];
        let buffers = Buffers::new(device, budget, &tape, step, shared).await?;
        let logits = tape.max_outputs * stride(tape.buffers[tape.logits.0].columns) * 4;
        let staging = Staging::new(device, budget, logits as u64, STAGING_BUFFERS).await?;

        let binder = Binder {
            device,
            store,
            pipelines: means.pipelines,
            buffers: &buffers,
            sampling: None,
        };
        let mut operations = Vec::new();
        let mut chosen = Vec::new();
        for piece in &pieces {
            let needed = needed(piece, &tape);
            for (operation, most) in needed.0.chain(needed.1) {
                let choice = means
                    .tuner
                    .choose(&binder, budget, operation, most, &layout);
                chosen.push(choice.await?);
                operations.push(operation);
            }
        }
        let (tasks, params) = binder.bind(budget, &operations, &chosen).await?;
        let mut tasks = tasks.into_iter();
        let mut take = |count: usize| tasks.by_ref().take(count).collect::<Vec<_>>();
        let mut ops = tape.ops.iter();
        let group = |piece: &Piece| {
            let needed = needed(piece, &tape);
            let own = ops.by_ref().take(piece.separate.len());
            Group {
                outs: own.map(Op::out).collect(),
                separate: take(needed.0.count()),
                fused: take(needed.1.count()),
                most: piece.fused.as_ref().map_or(0, |fused| fused.most),
                alone: piece.fused.as_ref().is_some_and(|fused| fused.alone),
            }
        };
        let groups = pieces.iter().map(group).collect();
        Ok(Self {
            words: RefCell::new(vec![0; layout.len()]),
            last: Cell::new(None),
            tape,
            layout,
            buffers,
            staging,
            groups,
            _params: params,
        })
    }

    /// Sends `step` to the device and returns how many bytes it took. With `resume`, its tokens stay those
    /// that the device has.
    pub fn upload(&self, device: &Device, step: &Step, resume: bool) -> u64 {
        let mut words = self.words.borrow_mut();
        self.layout.write(step, &mut words);
        let used = self.layout.tables() + step.tables.len() * self.layout.pages;
        let send = |from: usize, to: usize| {
            let bytes: &[u8] = bytemuck::cast_slice(&words[from..to]);
            let at = from as u64 * 4;
            device.queue.write_buffer(&self.buffers.step, at, bytes);
            bytes.len() as u64
        };
        match resume {
            true => send(0, self.layout.tokens()) + send(self.layout.positions(), used),
            false => send(0, used),
        }
    }

    /// Fails unless the last step wrote `rows` rows of `buffer`: operations that run together leave out what
    /// nobody reads but they.
    pub fn check_written(&self, buffer: BufferId, rows: usize) -> Result<()> {
        let name = &self.tape.buffers[buffer.0].name;
        let Some(last) = self.last.get() else {
            return Err(Error::internal(format!("{name} was read before any step")));
        };
        let mut groups = self.groups.iter().rev();
        let writes = groups.find(|group| group.outs.contains(&buffer));
        if !writes.is_some_and(|g| !g.runs_joint(last) || g.outs.last() == Some(&buffer)) {
            return Err(Error::internal(format!(
                "{name} was read, which the last step did not write: operations ran together"
            )));
        }
        let most = last.rows(self.tape.buffers[buffer.0].rows);
        match rows <= most {
            true => Ok(()),
            false => Err(Error::internal(format!(
                "{rows} rows of {name} were read, the last step has {most}"
            ))),
        }
    }

    /// Records every dispatch of a step.
    pub fn record(&self, device: &Device, recorder: &mut Recorder, step: &Step) {
        let extent = Extent::of(step);
        self.last.set(Some(extent));
        let tasks = self.groups.iter().flat_map(|group| {
            let joint = group.runs_joint(extent);
            if joint { &group.fused } else { &group.separate }
        });
        for task in tasks {
            let rows = extent.rows(task.rows);
            let class = task.classes.iter().rev().find(|class| class.0 <= rows);
            let dispatches = class.map_or(&[][..], |class| &class.1);
            for dispatch in dispatches {
                recorder.dispatch(device, dispatch, rows);
            }
        }
    }
}

impl Extent {
    fn of(step: &Step) -> Self {
        Self {
            tokens: step.tokens.len(),
            outputs: step.outputs.len(),
            alone: alone(step),
        }
    }

    fn rows(self, rows: Rows) -> usize {
        match rows {
            Rows::Tokens => self.tokens,
            Rows::Outputs => self.outputs,
        }
    }
}

impl Group {
    /// Whether the joint form serves such a step.
    fn runs_joint(&self, step: Extent) -> bool {
        let fits = |task: &Task| step.rows(task.rows) <= self.most && (step.alone || !self.alone);
        self.fused.first().is_some_and(fits)
    }
}

/// The operations of a piece that steps of `tape` need, each with the most rows it takes: separate ones,
/// then fused ones.
fn needed<'a>(
    piece: &'a Piece,
    tape: &Tape,
) -> (
    impl Iterator<Item = (&'a Operation, usize)>,
    impl Iterator<Item = (&'a Operation, usize)>,
) {
    let (rows, outputs) = (tape.max_rows, tape.max_outputs);
    let most = move |operation: &Operation| match operation.rows {
        Rows::Tokens => rows,
        Rows::Outputs => outputs,
    };
    let fused = piece.fused.as_ref();
    // A row is always alone in its step.
    let always = fused.is_some_and(|fused| {
        let most = fused.operations.iter().map(most).max();
        most.is_some_and(|most| most <= fused.most) && (rows == 1 || !fused.alone)
    });
    let separate = piece.separate.iter().filter(move |_| !always);
    let together = fused.into_iter().flat_map(move |fused| {
        let limited = move |operation| (operation, fused.most.min(most(operation)));
        fused.operations.iter().map(limited)
    });
    (
        separate.map(move |operation| (operation, most(operation))),
        together,
    )
}

/// Whether every row of `step` is of a sequence of its own.
pub(super) fn alone(step: &Step) -> bool {
    let mut slots = step.slots.iter().enumerate();
    step.slots.len() <= step.tables.len()
        && slots.all(|(row, slot)| !step.slots[..row].contains(slot))
}

impl Buffers {
    async fn new(
        device: &Device,
        budget: &Budget,
        tape: &Tape,
        step: Rc<Buffer>,
        shared: [u64; 2],
    ) -> Result<Self> {
        let mut sizes: Vec<u64> = (0..tape.buffers.len())
            .map(|i| (tape.rows(BufferId(i)) * stride(tape.buffers[i].columns)) as u64 * 4)
            .collect();
        sizes.extend(shared);
        let names = tape.buffers.iter().map(|spec| &*spec.name);
        for (name, &size) in names.chain(["scratch", "joined"]).zip(&sizes) {
            if size > device.binding_limit {
                return Err(Error::unsupported(format!(
                    "the activation {name} needs {size} bytes, the device binds {}: use fewer rows a step",
                    device.binding_limit
                )));
            }
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let mut activations = budget.buffers(device, "activations", usage, &sizes).await?;
        match (activations.pop(), activations.pop()) {
            (Some(joined), Some(scratch)) => Ok(Self {
                step,
                activations,
                scratch,
                joined,
            }),
            _ => Err(Error::internal("buffers were asked for")),
        }
    }
}
