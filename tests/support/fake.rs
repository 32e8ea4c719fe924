//! An executor whose scores a test writes, and engines around it.
//!
//! In place of keys and values the fake stores the *tokens* in the pages a step names, and reads a
//! sequence's history back through its page table. Scores are a function of that history, so a fault in
//! pages, positions or order shows as a wrong token.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::Poll,
};

use decant::{
    error::{Error, Result},
    exec::{Allocation, Counters, Executor, ExecutorInfo, LocalFuture, TapeId},
    generation::{Capacity, Engine, EngineParts, LongAngles, ModelFacts, TapeSize, Value},
    ops::{BufferId, CacheSpec, CacheType, WeightId},
    tape::{Step, Tape},
    tokenizer::{TokenKind, Tokenizer, Vocabulary},
};

/// Scores of the next token after a history.
pub type Script = dyn Fn(&[u32]) -> Vec<f32>;

/// The executor.
pub struct Fake {
    script: Box<Script>,
    page_size: usize,
    tapes: Vec<TapeSize>,
    vocabulary: usize,
    pages: RefCell<Vec<Option<u32>>>,
    /// Every step, in order.
    pub steps: RefCell<Vec<(usize, Step)>>,
    /// How often a forward pass is polled in vain before its scores come.
    pub delay: Cell<usize>,
    /// The forward pass, counted from 0, that fails.
    pub failing: Cell<Option<usize>>,
}

/// What an engine for a test is like.
pub struct Setup {
    pub tokenizer: Tokenizer,
    pub facts: ModelFacts,
    pub pages: usize,
    pub page_size: usize,
    pub tapes: Vec<TapeSize>,
    pub sequences: usize,
    pub generation_config: serde_json::Value,
    pub long: Option<LongAngles>,
}

impl Setup {
    /// A vocabulary of `pieces`, one of them `<eos>`, a context of 64, pages of 4, and tapes for 1 and
    /// for 8 rows.
    pub fn new(pieces: &[&str]) -> Self {
        let eos = pieces.iter().position(|piece| *piece == "<eos>");
        Self {
            tokenizer: tokenizer(pieces, None),
            facts: ModelFacts {
                vocabulary: pieces.len(),
                context_length: 64,
                eos_token_ids: eos.map(|id| id as u32).into_iter().collect(),
                ..ModelFacts::default()
            },
            pages: 16,
            page_size: 4,
            tapes: vec![tape(1, 1), tape(8, 4)],
            sequences: 4,
            generation_config: serde_json::Value::Null,
            long: None,
        }
    }

    /// The engine on a clock that shows `time`, and the executor under it.
    pub fn engine(
        self,
        script: impl Fn(&[u32]) -> Vec<f32> + 'static,
        time: Rc<Cell<f64>>,
    ) -> (Engine, Rc<Fake>) {
        let cache = CacheSpec {
            layers: 1,
            kv_heads: 1,
            head_dim: 1,
            conv_layers: 0,
            conv_width: 1,
            dtype: CacheType::F32,
            page_size: self.page_size,
            pages: self.pages,
        };
        let fake = Rc::new(Fake {
            script: Box::new(script),
            page_size: self.page_size,
            tapes: self.tapes.clone(),
            vocabulary: self.facts.vocabulary,
            pages: RefCell::new(vec![None; self.pages * self.page_size]),
            steps: RefCell::default(),
            delay: Cell::new(0),
            failing: Cell::new(None),
        });
        let parts = EngineParts {
            executor: fake.clone(),
            capacity: Capacity {
                tapes: self.tapes,
                sequences: self.sequences,
            },
            cache,
            long: self.long,
            tokenizer: self.tokenizer,
            model: self.facts,
            generation_config: Value::from(self.generation_config),
        };
        let engine = Engine::with_clock(parts, move || time.get()).unwrap();
        (engine, fake)
    }
}

/// The sizes of a tape.
pub fn tape(max_rows: usize, max_outputs: usize) -> TapeSize {
    TapeSize {
        max_rows,
        max_outputs,
    }
}

/// Scores that make `id` the best of `vocabulary`, by far.
pub fn only(id: u32, vocabulary: usize) -> Vec<f32> {
    let mut scores = vec![0.0; vocabulary];
    scores[id as usize] = 50.0;
    scores
}

/// A byte-level tokenizer of `pieces`; those in angle brackets are special tokens. A text is encoded as
/// the piece it is.
pub fn tokenizer(pieces: &[&str], chat_template: Option<&str>) -> Tokenizer {
    let special = |piece: &&&str| piece.starts_with('<') && piece.ends_with('>');
    let kind = |piece: &&str| match special(&piece) {
        true => TokenKind::Control,
        false => TokenKind::Normal,
    };
    let spell = |piece: &&str| match special(&piece) {
        true => (*piece).to_owned(),
        false => piece.bytes().map(byte_char).collect(),
    };
    Tokenizer::from_vocabulary(Vocabulary {
        model: "gpt2".into(),
        pre: "llama-bpe".into(),
        tokens: pieces.iter().map(spell).collect(),
        kinds: pieces.iter().map(kind).collect(),
        add_bos: Some(false),
        chat_template: chat_template.map(str::to_owned),
        ..Vocabulary::default()
    })
    .unwrap()
}

/// The character that stands for a byte in the byte-level alphabet: printable Latin-1 for itself, the
/// others in order from U+0100.
pub fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap()
}

impl Fake {
    /// Steps so far.
    pub fn forwards(&self) -> usize {
        self.steps.borrow().len()
    }

    /// Rows so far: tokens evaluated, over all sequences.
    pub fn rows(&self) -> usize {
        self.steps
            .borrow()
            .iter()
            .map(|(_, s)| s.tokens.len())
            .sum()
    }

    fn run(&self, tape: TapeId, step: &Step) -> Result<Vec<f32>> {
        let size = self.tapes[tape.0];
        assert!(step.tokens.len() <= size.max_rows && !step.tokens.is_empty());
        assert!(step.outputs.len() <= size.max_outputs);
        let known = |id: &u32| (*id as usize) < self.vocabulary;
        assert!(step.tokens.iter().all(known), "an id beyond the vocabulary");
        let forward = self.forwards();
        self.steps.borrow_mut().push((tape.0, step.clone()));
        if self.failing.get() == Some(forward) {
            return Err(Error::new(
                decant::error::ErrorKind::DeviceLost,
                "the device is gone",
            ));
        }
        let cell = |slot: u32, position: u32| {
            let page = step.tables[slot as usize][position as usize / self.page_size];
            page as usize * self.page_size + position as usize % self.page_size
        };
        let mut pages = self.pages.borrow_mut();
        let mut logits = Vec::new();
        for row in 0..step.tokens.len() {
            let (slot, position) = (step.slots[row], step.positions[row]);
            pages[cell(slot, position)] = Some(step.tokens[row]);
            if step.outputs.contains(&(row as u32)) {
                let history = (0..=position).map(|at| pages[cell(slot, at)]);
                let history: Option<Vec<u32>> = history.collect();
                logits.extend((self.script)(
                    &history.expect("a position was never stored"),
                ));
            }
        }
        Ok(logits)
    }
}

impl Executor for Fake {
    fn info(&self) -> ExecutorInfo {
        ExecutorInfo {
            device: "cpu",
            adapter: "fake".into(),
            software: true,
            threads: None,
            notes: Vec::new(),
        }
    }

    fn allocate(&mut self, _: Allocation) -> LocalFuture<'_, Result<()>> {
        unreachable!("the fake is made whole")
    }

    fn write_weight(&self, _: WeightId, _: usize, _: &[u8]) -> Result<()> {
        unreachable!("the fake has no weights")
    }

    fn prepare(&mut self, _: Vec<Tape>) -> LocalFuture<'_, Result<()>> {
        unreachable!("the fake is made whole")
    }

    fn forward(&self, tape: TapeId, step: &Step) -> LocalFuture<'_, Result<Vec<f32>>> {
        // As the trait demands, the work is done before the future is polled.
        let mut result = Some(self.run(tape, step));
        let mut waits = self.delay.get();
        Box::pin(poll_fn(move |context| {
            if waits > 0 {
                waits -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(result.take().expect("polled after the end"))
        }))
    }

    fn read(&self, _: TapeId, _: BufferId, _: usize) -> LocalFuture<'_, Result<Vec<f32>>> {
        unreachable!("the loop reads no activations")
    }

    fn copy_page(&self, from: u32, to: u32) -> Result<()> {
        let (from, to) = (from as usize * self.page_size, to as usize * self.page_size);
        let mut pages = self.pages.borrow_mut();
        pages.copy_within(from..from + self.page_size, to);
        Ok(())
    }

    fn counters(&self) -> Counters {
        let forwards = self.forwards() as u64;
        Counters {
            forwards,
            dispatches: 10 * forwards,
            submits: forwards,
            ..Counters::default()
        }
    }
}
