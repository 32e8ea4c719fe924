//! The engine: a loaded model, ready to generate.
//!
//! It holds the executor with its prepared tapes, the tokenizer, the pool of cache pages and the
//! figures of all calls. Any number of generations may run on it at once; each owns its pages.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

use super::{
    angles::LongAngles,
    arguments::Arguments,
    batch::{Capacity, Pending, pack},
    cache::PagePool,
    config::{GenerationConfig, ModelFacts},
    generate::{Generation, RunAhead},
    home,
    inputs::{self, Prompt},
    plan::{Home, Plan},
    stats::{Stats, Totals},
    value::Value,
};
use crate::{
    error::{Error, ErrorKind, Result},
    exec::{Executor, ExecutorInfo, Profile, sample::Sampler},
    ops::CacheSpec,
    tape::Step,
    tokenizer::Tokenizer,
};

/// What an engine is made of.
pub struct EngineParts {
    /// The executor; weights are written and tapes prepared.
    pub executor: Rc<dyn Executor>,
    /// What it was prepared for.
    pub capacity: Capacity,
    /// Its cache.
    pub cache: CacheSpec,
    /// The angles of long sequences, where they are others.
    pub long: Option<LongAngles>,
    /// The model's vocabulary.
    pub tokenizer: Tokenizer,
    /// What the model says about itself.
    pub model: ModelFacts,
    /// What the model's `generation_config.json` holds, an object; null where there is none.
    pub generation_config: Value,
}

/// A loaded model. Clones are handles to the same one.
#[derive(Clone)]
pub struct Engine(Rc<Shared>);

pub(super) struct Shared {
    /// Gone once the engine is closed.
    executor: RefCell<Option<Rc<dyn Executor>>>,
    pub capacity: Capacity,
    cache: CacheSpec,
    pub pool: PagePool,
    /// The angles of long sequences, where they are others.
    pub long: Option<LongAngles>,
    pub tokenizer: Tokenizer,
    pub model: ModelFacts,
    generation_config: Value,
    pub totals: RefCell<Totals>,
    /// How far steps run ahead.
    pub run_ahead: Cell<RunAhead>,
    /// Tokens of an assistant's draft: where the heuristic schedule began, and where it is.
    pub draft_tokens: Cell<Option<(usize, usize)>>,
    clock: Box<dyn Fn() -> f64>,
}

/// Stops a generation from anywhere, also while its next token is being computed.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Rc<Cell<bool>>);

impl StopHandle {
    /// Asks for the end: no further token is shown, and what was shown is the result.
    pub fn stop(&self) {
        self.0.set(true);
    }

    /// Whether the end was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.get()
    }
}

impl Engine {
    /// An engine of `parts` on the system's clock.
    pub fn new(parts: EngineParts) -> Result<Self> {
        let origin = web_time::Instant::now();
        Self::with_clock(parts, move || origin.elapsed().as_secs_f64())
    }

    /// An engine of `parts` whose time is `clock`, in seconds that never decrease.
    pub fn with_clock(parts: EngineParts, clock: impl Fn() -> f64 + 'static) -> Result<Self> {
        let (cache, model) = (parts.cache, &parts.model);
        if model.context_length > cache.pages * cache.page_size {
            return Err(Error::internal(format!(
                "a context of {} positions does not fit {} pages of {}",
                model.context_length, cache.pages, cache.page_size
            )));
        }
        // What stands in it is judged by each call, which may override it.
        GenerationConfig::check_file(&parts.generation_config)?;
        Ok(Self(Rc::new(Shared {
            executor: RefCell::new(Some(parts.executor)),
            capacity: parts.capacity,
            cache,
            long: parts.long,
            pool: PagePool::with_angles(cache.pages, cache.page_size, parts.long),
            tokenizer: parts.tokenizer,
            model: parts.model,
            generation_config: parts.generation_config,
            totals: RefCell::default(),
            run_ahead: Cell::default(),
            draft_tokens: Cell::default(),
            clock: Box::new(clock),
        })))
    }

    /// The answer to `input` (see [`Prompt::parse_many`]) under `config`.
    ///
    /// Everything that can be wrong with them is an error here. Nothing is computed and no page is taken
    /// before the first [`Generation::next`].
    pub fn generate(&self, input: &Value, config: &Value) -> Result<Generation> {
        self.generate_prompts(&Prompt::parse_many(input)?, config)
    }

    /// The answers to `prompts` under `config`, as [`generate`](Self::generate).
    pub fn generate_prompts(&self, prompts: &[Prompt], config: &Value) -> Result<Generation> {
        self.generate_with(prompts, config, &Arguments::default())
    }

    /// The answers to `prompts` under `config` and `arguments`, as [`generate`](Self::generate).
    pub fn generate_with(
        &self,
        prompts: &[Prompt],
        config: &Value,
        arguments: &Arguments,
    ) -> Result<Generation> {
        if arguments.profile && !self.0.executor()?.profiles() {
            let name = self.executor_info()?.adapter;
            return Err(Error::unsupported(format!(
                "profile: {name} has no timestamps, on which a profile depends: leave it out"
            )));
        }
        self.0.executor()?;
        if prompts.is_empty() {
            let message = "there is no prompt, allowed: at least one";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let (file, model) = (&self.0.generation_config, &self.0.model);
        let mut plan = Plan::with_functions(config, file, model, arguments.functions())?;
        let prepared = arguments.prepare(prompts, &self.0, &mut plan)?;
        let drafter = arguments.drafter(&prepared, &self.0, &mut plan)?;
        let callbacks = arguments.callbacks.clone();
        let sampler = match (&drafter, &callbacks) {
            (Some(drafter), _) => Err(drafter.name()),
            (_, Some(_)) => Err("functions of the caller"),
            _ => self.0.sampler(&plan)?,
        };
        plan.home = Home::from(&sampler);
        Ok(Generation::new(
            self.0.clone(),
            plan,
            prepared,
            drafter,
            callbacks,
            arguments.profile.then(Profile::default),
            sampler.ok(),
        ))
    }

    /// What a call under `config` will do. A seed that the call would draw is null.
    pub fn explain(&self, config: &Value) -> Result<Plan> {
        let mut plan = Plan::new(config, &self.0.generation_config, &self.0.model)?;
        plan.home = Home::from(&self.0.sampler(&plan)?);
        Ok(plan.without_drawn_seed())
    }

    /// The scores of the next token after each of `ids`: `ids.len() × vocabulary`, row after row.
    pub async fn forward_all(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let executor = self.0.executor()?;
        let limit = self.0.model.context_length;
        if ids.is_empty() {
            let message = "there are no token ids, allowed: at least one";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        inputs::check_ids(ids, self.0.model.vocabulary)?;
        if ids.len() > limit {
            let message = format!("{} tokens do not fit the context of {limit}", ids.len());
            return Err(Error::new(ErrorKind::ContextFull { limit }, message));
        }
        // Without ids nothing of an earlier sequence is taken over: every position is evaluated.
        let mut table = self.0.pool.table(&[], ids.len(), 1)?;
        let (mut step, mut rows) = (Step::default(), Vec::new());
        let mut logits = Vec::new();
        while table.length() < ids.len() {
            let table = &mut table;
            let mut pending = [Pending {
                ids,
                table,
                wanted: 0,
                most: usize::MAX,
                copies: 1,
            }];
            let tape = pack(
                &self.0.capacity,
                &mut pending,
                &*executor,
                &mut step,
                &mut rows,
            )?;
            logits.extend(executor.forward(tape, &step).await?);
            table.advance(rows[0]);
        }
        Ok(logits)
    }

    /// Sets how far steps run ahead, those of running calls, too; a call that has begun on the host stays there, and
    /// one on the device as well. No token depends on it.
    pub fn set_run_ahead(&self, run_ahead: RunAhead) {
        self.0.run_ahead.set(run_ahead);
    }

    /// What all calls together did.
    pub fn stats(&self) -> Stats {
        let totals = self.0.totals.borrow();
        totals.stats(&self.0.cache, self.0.pool.usage())
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.0.tokenizer
    }

    /// What the model says about itself.
    pub fn model(&self) -> &ModelFacts {
        &self.0.model
    }

    /// The model's `generation_config.json`; null where there is none.
    pub fn generation_config(&self) -> &Value {
        &self.0.generation_config
    }

    /// The key-value cache.
    pub fn cache(&self) -> &CacheSpec {
        &self.0.cache
    }

    /// Who runs the tapes.
    pub fn executor_info(&self) -> Result<ExecutorInfo> {
        Ok(self.0.executor()?.info())
    }

    pub(super) fn shared(&self) -> Rc<Shared> {
        self.0.clone()
    }

    /// Gives the device back. Running generations and later calls fail with `Closed`; closing again does
    /// nothing.
    pub fn close(&self) {
        self.0.executor.borrow_mut().take();
    }
}

impl Shared {
    /// The executor. Whoever waits for it holds it, so that closing never pulls it away from under them.
    pub fn executor(&self) -> Result<Rc<dyn Executor>> {
        let executor = self.executor.borrow().clone();
        executor.ok_or_else(|| Error::new(ErrorKind::Closed, "the model was unloaded"))
    }

    /// How the device chooses tokens of a call, or what keeps the choice on the host.
    fn sampler(&self, plan: &Plan) -> Result<std::result::Result<Sampler, &'static str>> {
        Ok(match self.run_ahead.get() {
            RunAhead::Host => Err("run_ahead"),
            // Long sequences begin again with other angles, which only the host can see to.
            _ if self.long.is_some() => Err("the angles of long sequences"),
            _ if plan.tactics.beams.is_none() && plan.tactics.answers > self.outputs() => {
                Err("num_return_sequences")
            }
            _ => home::sampler(plan, self.executor()?.samples()),
        })
    }

    /// The most rows of scores that a step may have.
    fn outputs(&self) -> usize {
        let outputs = self.capacity.tapes.iter().map(|tape| tape.max_outputs);
        outputs.max().unwrap_or(0)
    }

    /// Seconds since some fixed moment.
    pub fn now(&self) -> f64 {
        (self.clock)()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("model", &self.0.model)
            .finish_non_exhaustive()
    }
}
