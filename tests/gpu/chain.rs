//! A model that is a table, on the device and on the host: a token's row is the scores of what follows it.

use decant::{
    exec::{
        Executor, TapeId,
        gpu::{Gpu, GpuOptions},
        sample::{Change, Choice, Edit, Row, Run, Sampler, When},
    },
    generation::{
        Value,
        processors::{self, apply_processors},
        selection::{Draw, Selection},
    },
    ops::{BufferSpec, Op, Rows, SelectRows},
    tape::Step,
};
use pollster::block_on;

use crate::{gpu, support::scene::Scene};

/// Sequences of a test, and the most steps of one.
pub const SEQUENCES: usize = 3;
pub const POSITIONS: usize = 64;

/// A table of scores on the device.
pub struct Chain {
    pub gpu: Gpu,
    pub table: Vec<f32>,
    vocabulary: usize,
}

impl Chain {
    /// The chain of `tokens` tokens whose scores are `table`, row after row; of `vocabulary` each.
    pub fn new(vocabulary: usize, table: Vec<f32>) -> Option<Self> {
        let mut gpu = gpu(GpuOptions::default())?;
        let mut scene = Scene::new(SEQUENCES, 1);
        scene.sequences = SEQUENCES;
        scene.pages_per_sequence = POSITIONS;
        let x = scene.input("x", vocabulary, &table);
        scene.tape.buffers.push(BufferSpec {
            name: "logits".into(),
            rows: Rows::Outputs,
            columns: vocabulary,
        });
        let out = decant::ops::BufferId(scene.tape.buffers.len() - 1);
        scene.op(Op::SelectRows(SelectRows { x, out }));
        scene.tape.logits = out;
        block_on(scene.load(&mut gpu)).unwrap();
        assert!(!gpu.samples());
        block_on(gpu.prepare_sampling()).unwrap();
        assert!(gpu.samples());
        Some(Self {
            gpu,
            table,
            vocabulary,
        })
    }

    fn row(&self, token: u32) -> &[f32] {
        &self.table[token as usize * self.vocabulary..][..self.vocabulary]
    }

    /// Runs `steps` after `sequences`, in two runs of which the second resumes the first; then follows the
    /// host to the same ids.
    pub fn check(&self, what: &str, call: &Call, sequences: &[Vec<u32>], steps: usize) {
        let rows = |done: usize| -> Vec<Row> {
            let rows = sequences
                .iter()
                .zip(call.numbers())
                .map(|(ids, sequence)| Row {
                    sequence,
                    ids,
                    prompt_length: call.prompt_length,
                    new_tokens: ids.len() - call.prompt_length + done,
                    limit: call.limit,
                });
            rows.collect()
        };
        let mut found = vec![Vec::new(); sequences.len()];
        let first = steps.div_ceil(2);
        for (done, count, resume) in [(0, first, false), (first, steps - first, true)] {
            if count == 0 {
                continue;
            }
            let step = step(sequences, done);
            let run = Run {
                sampler: &call.sampler,
                rows: &rows(done),
                steps: count,
                resume,
            };
            let choices = block_on(self.gpu.sample(TapeId(0), &step, &run)).unwrap();
            assert_eq!(choices.len(), count * sequences.len());
            for (at, choice) in choices.into_iter().enumerate() {
                found[at % sequences.len()].push(choice);
            }
        }
        for ((ids, sequence), found) in sequences.iter().zip(call.numbers()).zip(found) {
            let mut ids = ids.clone();
            let expected: Vec<Choice> = (0..steps)
                .map(|_| {
                    let scores = self.row(*ids.last().unwrap());
                    let token = call.choose(scores, &ids, sequence);
                    ids.push(token);
                    Choice::Token(token)
                })
                .collect();
            assert_eq!(found, expected, "{what}: sequence {sequence}");
        }
    }
}

/// A call, as both sides see it.
pub struct Call {
    pub sampler: Sampler,
    /// The same filters by their fields.
    filters: serde_json::Value,
    prompt_length: usize,
    pub limit: usize,
}

impl Call {
    pub fn new(edits: Vec<Edit>, seed: Option<u64>) -> Self {
        Self {
            sampler: Sampler {
                edits,
                top_k: 0,
                removable: None,
                min_p: 0.0,
                seed,
            },
            filters: serde_json::json!({ "do_sample": true, "top_k": 0 }),
            prompt_length: 2,
            limit: 100,
        }
    }

    pub fn filtered(seed: u64, top_k: usize, top_p: Option<f64>, min_p: Option<f64>) -> Self {
        let mut call = Self::new(Vec::new(), Some(seed));
        call.sampler.top_k = top_k;
        call.sampler.removable = top_p.map(|p| (1.0 - p) as f32);
        call.sampler.min_p = min_p.unwrap_or(0.0) as f32;
        call.filters = serde_json::json!({
            "do_sample": true, "top_k": top_k, "top_p": top_p.unwrap_or(1.0), "min_p": min_p,
        });
        call
    }

    /// Numbers of sequences in a call, not in order.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        [7, 0, 3].into_iter()
    }

    /// What the host chooses.
    fn choose(&self, scores: &[f32], ids: &[u32], sequence: u32) -> u32 {
        let new_tokens = ids.len() - self.prompt_length;
        let mut scores = scores.to_vec();
        for edit in &self.sampler.edits {
            let applies = match edit.when {
                When::Always => true,
                When::NewTokensBelow(count) => new_tokens < count as usize,
                When::LengthBelow(count) => ids.len() < count as usize,
                When::NewTokensAre(count) => new_tokens == count as usize,
                When::LengthIs(count) => ids.len() == count as usize,
                When::Last => ids.len() + 1 == self.limit,
            };
            if applies {
                apply(&edit.change, &mut scores, ids, self.prompt_length);
            }
        }
        let Some(seed) = self.sampler.seed else {
            let draw = Draw { sequence, step: 0 };
            return Selection::Greedy.select(&scores, draw).unwrap();
        };
        let config = Value::from(&self.filters);
        let row = processors::Row {
            ids,
            prompt_length: self.prompt_length,
            ..processors::Row::default()
        };
        let applied = apply_processors(&scores, row, &config).unwrap();
        let scores = applied.last().map_or(scores, |last| last.scores.clone());
        let draw = Draw {
            sequence,
            step: new_tokens as u32,
        };
        let selection = Selection::Multinomial { seed };
        selection.select(&scores, draw).unwrap()
    }
}

/// An edit, naively.
fn apply(change: &Change, scores: &mut [f32], ids: &[u32], prompt_length: usize) {
    let answer = &ids[prompt_length..];
    for (id, score) in scores.iter_mut().enumerate() {
        let occurrences = answer.iter().filter(|&&a| a as usize == id).count();
        let listed = |list: &[u32]| list.contains(&(id as u32));
        match change {
            Change::Repetition(penalty) if listed(ids) => {
                *score = if *score < 0.0 {
                    *score * penalty
                } else {
                    *score / penalty
                };
            }
            Change::Repetition(_) => {}
            Change::Frequency(penalty) => (0..occurrences).for_each(|_| *score -= penalty),
            Change::Presence(penalty) if occurrences > 0 => *score -= penalty,
            Change::Presence(_) => {}
            Change::Temperature(temperature) => *score /= temperature,
            Change::Add(biases) => {
                let bias = biases.iter().find(|bias| bias.0 as usize == id);
                *score += bias.map_or(0.0, |bias| bias.1);
            }
            Change::Remove(list) if listed(list) => *score = f32::NEG_INFINITY,
            Change::Remove(_) => {}
            Change::Force(list) => *score = if listed(list) { 0.0 } else { f32::NEG_INFINITY },
        }
    }
}

/// The step that evaluates what follows each sequence, `done` tokens later.
pub fn step(sequences: &[Vec<u32>], done: usize) -> Step {
    let rows = 0..sequences.len() as u32;
    Step {
        tokens: sequences.iter().map(|ids| *ids.last().unwrap()).collect(),
        positions: sequences
            .iter()
            .map(|ids| (ids.len() - 1 + done) as u32)
            .collect(),
        slots: rows.clone().collect(),
        outputs: rows.collect(),
        tables: vec![vec![0; POSITIONS]; sequences.len()],
        ..Step::default()
    }
}

/// An edit of every step.
pub fn always(change: Change) -> Edit {
    Edit {
        change,
        when: When::Always,
    }
}
