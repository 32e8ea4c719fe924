//! What the thread that leads tells the others, in words: each command is a number and what belongs to it.
//!
//! All commands reach all threads in one order, and each thread does what the leader does at the same time.

use bytemuck::{cast_slice, cast_slice_mut};

use super::{
    Activations, Cpu,
    crew::{Crew, hear, send},
    wire::Wire,
};
use crate::{
    error::{Error, ErrorKind, Result},
    exec::{Allocation, TapeId},
    ops::{BufferId, WeightId},
    tape::{Step, Tape},
};

const END: u32 = 0;
const ALLOCATE: u32 = 1;
const WRITE: u32 = 2;
const PREPARE: u32 = 3;
const RUN: u32 = 4;
const READ: u32 = 5;
const COPY_PAGE: u32 = 6;

/// Words before the blocks of a weight: the length of what is sent, the command, weight, first block, bytes.
const HEAD: usize = 5;

const ACTIVATIONS: [Activations; 3] = [Activations::Q8, Activations::Q16, Activations::F32];

/// How threads tell one another what became of a command.
const DONE: u32 = 0;
const NO_MEMORY: u32 = 1;
const FAILED: u32 = 2;

impl Cpu {
    /// Does what the thread that leads `crew` does, until that says that it is over.
    ///
    /// # Errors
    /// A thread is gone, or something failed that did not fail where it was told.
    pub fn follow(crew: Box<dyn Crew>) -> Result<()> {
        let mut cpu = Self::with_crew(Activations::default(), crew);
        loop {
            let words = hear(&*cpu.crew)?;
            let from = &mut &words[..];
            match u32::take(from) {
                END => return Ok(()),
                ALLOCATE => {
                    cpu.activations = ACTIVATIONS[usize::take(from)];
                    let made = cpu.make_room(Wire::take(from));
                    cpu.agree(made)?;
                }
                WRITE => {
                    let [weight, first, len] = std::array::from_fn(|_| usize::take(from));
                    cpu.write(WeightId(weight), first, &cast_slice(from)[..len])?;
                }
                PREPARE => {
                    let prepared = cpu.make_ready(Wire::take(from));
                    cpu.agree(prepared)?;
                }
                RUN => {
                    let tape = TapeId(usize::take(from));
                    cpu.run(tape, &Wire::take(from))?;
                }
                READ => {
                    let (tape, buffer) = (TapeId(usize::take(from)), BufferId::take(from));
                    cpu.values(tape, buffer, usize::take(from))?;
                }
                COPY_PAGE => cpu.copy(u32::take(from), u32::take(from)),
                other => return Err(Error::internal(format!("there is no command {other}"))),
            }
        }
    }

    fn tell(&self, command: u32, rest: impl FnOnce(&mut Vec<u32>)) -> Result<()> {
        if self.share.count == 1 {
            return Ok(());
        }
        let mut words = vec![command];
        rest(&mut words);
        send(&*self.crew, &words)
    }

    pub(super) fn tell_to_end(&self) {
        if self.share.index == 0 {
            // Threads that are gone need not be told.
            let _ = self.tell(END, |_| {});
        }
    }

    pub(super) fn tell_to_allocate(&self, allocation: &Allocation) -> Result<()> {
        self.tell(ALLOCATE, |words| {
            let activations = ACTIVATIONS
                .iter()
                .position(|&item| item == self.activations);
            activations.unwrap_or_default().put(words);
            allocation.put(words);
        })
    }

    pub(super) fn tell_to_write(
        &self,
        weight: WeightId,
        first: usize,
        blocks: &[u8],
    ) -> Result<()> {
        if self.share.count == 1 {
            return Ok(());
        }
        let spec = &self.allocation()?.weights[weight.0];
        // In whole blocks that one round can carry.
        let size = spec.dtype.block_bytes();
        let most = (self.crew.capacity() - HEAD) * 4 / size * size;
        for (piece, bytes) in blocks.chunks(most).enumerate() {
            self.tell(WRITE, |words| {
                [weight.0, first + piece * (most / size)].put(words);
                bytes.len().put(words);
                let at = words.len();
                words.resize(at + bytes.len().div_ceil(4), 0);
                cast_slice_mut(&mut words[at..])[..bytes.len()].copy_from_slice(bytes);
            })?;
        }
        Ok(())
    }

    pub(super) fn tell_to_prepare(&self, tapes: &Vec<Tape>) -> Result<()> {
        self.tell(PREPARE, |words| tapes.put(words))
    }

    pub(super) fn tell_to_run(&self, tape: TapeId, step: &Step) -> Result<()> {
        self.tell(RUN, |words| {
            tape.0.put(words);
            step.put(words);
        })
    }

    pub(super) fn tell_to_read(&self, tape: TapeId, buffer: BufferId, rows: usize) -> Result<()> {
        self.tell(READ, |words| {
            tape.0.put(words);
            buffer.put(words);
            rows.put(words);
        })
    }

    pub(super) fn tell_to_copy_page(&self, from: u32, to: u32) -> Result<()> {
        self.tell(COPY_PAGE, |words| words.extend([from, to]))
    }

    /// `result`, or that another thread has failed; all threads must call it after the same command. One that has
    /// failed where others have not goes on to follow.
    pub(super) fn agree(&self, result: Result<()>) -> Result<()> {
        let count = self.share.count;
        if count == 1 {
            return result;
        }
        let own = match &result {
            Ok(()) => DONE,
            Err(error) if *error.kind() == ErrorKind::OutOfMemory => NO_MEMORY,
            Err(_) => FAILED,
        };
        let lens: Vec<_> = (0..count)
            .map(|i| u32::from(i != self.share.index))
            .collect();
        let mut others = vec![DONE; count - 1];
        self.crew.exchange(&[own], &lens, &mut others)?;
        if self.share.index != 0 {
            return Ok(());
        }
        result?;
        match others.into_iter().max() {
            None | Some(DONE) => Ok(()),
            Some(NO_MEMORY) => Err(Error::new(
                ErrorKind::OutOfMemory,
                "a thread has no memory for its part: choose a smaller model or context, or fewer threads",
            )),
            Some(_) => Err(Error::internal("a thread cannot do its part")),
        }
    }
}
