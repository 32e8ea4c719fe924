//! Threads of this process that run tapes together, each with its own executor, as workers of a page do.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use decant::{
    error::{Error, ErrorKind, Result},
    exec::{Activations, Cpu, Crew},
};

/// Words that a thread can give in a round: few, so that most of what is exchanged takes several.
const CAPACITY: usize = 400;

struct Shared {
    count: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// A thread has ended otherwise than it was told to.
    gone: AtomicBool,
    /// For each parity of rounds and each thread a length and as many words as a thread can give.
    words: Vec<AtomicU32>,
}

/// An end of the line.
pub struct End {
    shared: Arc<Shared>,
    index: usize,
    followers: Vec<JoinHandle<()>>,
}

/// An executor of `count` threads.
pub fn cpu(activations: Activations, count: usize) -> Cpu {
    Cpu::with_crew(activations, Box::new(End::leader(count, usize::MAX)))
}

impl End {
    /// What counts the rounds so far.
    pub fn rounds(&self) -> impl Fn() -> usize + use<> {
        let shared = self.shared.clone();
        move || shared.round.load(Ordering::Acquire)
    }

    /// The leader of `count` threads, the last of which goes away in its round number `last`.
    pub fn leader(count: usize, last: usize) -> Self {
        Self::with(count, last, None)
    }

    /// The leader of two threads, of which the other says `status` of its first command.
    pub fn of_failing(status: u32) -> Self {
        Self::with(2, usize::MAX, Some(status))
    }

    fn with(count: usize, last: usize, status: Option<u32>) -> Self {
        let shared = Arc::new(Shared {
            count,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            words: (0..2 * count * (CAPACITY + 1))
                .map(|_| AtomicU32::new(0))
                .collect(),
        });
        let follow = |index: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                let gone = Gone(shared.clone());
                let followers = Vec::new();
                let end = Self {
                    shared,
                    index,
                    followers,
                };
                let end = Quitter {
                    end,
                    status: Cell::new(status),
                    left: AtomicUsize::new(if index + 1 == count { last } else { usize::MAX }),
                };
                if Cpu::follow(Box::new(end)).is_ok() {
                    std::mem::forget(gone);
                }
            })
        };
        Self {
            followers: (1..count).map(follow).collect(),
            index: 0,
            shared,
        }
    }

    fn region(&self, index: usize, round: usize) -> &[AtomicU32] {
        let at = (round % 2 * self.shared.count + index) * (CAPACITY + 1);
        &self.shared.words[at..at + CAPACITY + 1]
    }

    /// Gives `own` and waits for all; the number of the round.
    fn meet(&self, own: &[u32]) -> Result<usize> {
        let shared = &*self.shared;
        let round = shared.round.load(Ordering::Acquire);
        let region = self.region(self.index, round);
        region[0].store(own.len() as u32, Ordering::Relaxed);
        for (to, &word) in region[1..].iter().zip(own) {
            to.store(word, Ordering::Relaxed);
        }
        if shared.arrived.fetch_add(1, Ordering::AcqRel) + 1 == shared.count {
            shared.arrived.store(0, Ordering::Relaxed);
            shared.round.store(round + 1, Ordering::Release);
        }
        while shared.round.load(Ordering::Acquire) == round {
            if shared.gone.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::DeviceLost, "a thread is gone"));
            }
            thread::yield_now();
        }
        Ok(round)
    }

    fn given(&self, index: usize, round: usize) -> impl Iterator<Item = u32> {
        let (len, words) = self.region(index, round).split_first().unwrap();
        let len = len.load(Ordering::Relaxed) as usize;
        words[..len].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

impl Crew for End {
    fn index(&self) -> usize {
        self.index
    }

    fn count(&self) -> usize {
        self.shared.count
    }

    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn exchange(&self, own: &[u32], lens: &[u32], others: &mut [u32]) -> Result<()> {
        assert!(own.len() <= CAPACITY);
        assert_eq!(lens.len(), self.shared.count);
        assert_eq!(lens[self.index], 0);
        assert_eq!(lens.iter().sum::<u32>() as usize, others.len());
        let round = self.meet(own)?;
        let mut to = others.iter_mut();
        for (index, &len) in lens.iter().enumerate() {
            let given: Vec<_> = self.given(index, round).collect();
            let words = &given[..len as usize];
            to.by_ref().zip(words).for_each(|(to, &word)| *to = word);
        }
        Ok(())
    }

    fn post(&self, words: &[u32]) -> Result<()> {
        assert_eq!(self.index, 0);
        assert!(words.len() <= CAPACITY);
        self.meet(words).map(|_| ())
    }

    fn receive(&self) -> Result<Vec<u32>> {
        let round = self.meet(&[])?;
        Ok(self.given(0, round).collect())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for follower in self.followers.drain(..) {
            // One that failed on purpose has told so already.
            let _ = follower.join();
        }
    }
}

/// Tells the others of the end of a thread.
struct Gone(Arc<Shared>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
    }
}

/// An end that fails after a number of rounds, or says that it has failed.
struct Quitter {
    end: End,
    /// What it says in the first exchange, whatever it means to say.
    status: Cell<Option<u32>>,
    left: AtomicUsize,
}

impl Quitter {
    fn count_down(&self) -> Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Error::internal("on purpose")),
            _ => Ok(()),
        }
    }
}

impl Crew for Quitter {
    fn index(&self) -> usize {
        self.end.index()
    }

    fn count(&self) -> usize {
        self.end.count()
    }

    fn capacity(&self) -> usize {
        self.end.capacity()
    }

    fn exchange(&self, own: &[u32], lens: &[u32], others: &mut [u32]) -> Result<()> {
        self.count_down()?;
        match self.status.take() {
            Some(status) => self.end.exchange(&[status], lens, others),
            None => self.end.exchange(own, lens, others),
        }
    }

    fn post(&self, words: &[u32]) -> Result<()> {
        self.end.post(words)
    }

    fn receive(&self) -> Result<Vec<u32>> {
        self.count_down()?;
        self.end.receive()
    }
}
