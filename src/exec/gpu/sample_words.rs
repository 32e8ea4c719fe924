//! What travels between the host and the kernels that choose tokens, in words: plans, rows, results. The
//! layout is that of `shaders/lib/sample.wgsl` and `shaders/sample_scores.wgsl`, which a test compares.

use crate::{
    error::{Error, Result},
    exec::sample::{Change, Choice, EDIT_WORDS, Edit, Pick, Row, Sampler, When},
};

/// Words that a plan may take.
pub(super) const PLAN_WORDS: usize = HEAD + EDIT_WORDS;
/// Words of a row.
pub(super) const ROW_WORDS: usize = 8;
/// Words of all bins of a row.
pub(super) const BIN_WORDS: usize = 1024 * 3;
/// Words of a plan's head.
const HEAD: usize = 16;
/// Words of an edit without its lists.
const EDIT: usize = 8;

/// The words of a plan.
pub(super) fn plan(sampler: &Sampler) -> Result<Vec<u32>> {
    let edits = &sampler.edits;
    let wanted: usize = edits.iter().map(Edit::words).sum();
    if wanted > EDIT_WORDS {
        return Err(Error::internal(format!(
            "edits of {wanted} words, allowed: {EDIT_WORDS}"
        )));
    }
    let seed = sampler.seed.unwrap_or(0);
    let mut words = vec![
        edits.len() as u32,
        u32::from(sampler.seed.is_some()),
        u32::from(sampler.filters()),
        sampler.top_k.min(u32::MAX as usize) as u32,
        sampler.removable.unwrap_or(-1.0).to_bits(),
        sampler.min_p.to_bits(),
        seed as u32,
        (seed >> 32) as u32,
        sampler.best as u32,
        sampler.needed().min(u32::MAX as usize) as u32,
        sampler.typical.to_bits(),
        sampler.epsilon.to_bits(),
        sampler.eta.to_bits(),
        u32::from(sampler.search),
    ];
    words.resize(HEAD + edits.len() * EDIT, 0);
    for (i, edit) in edits.iter().enumerate() {
        let kind = kind(&edit.change);
        let (value, mut list) = match &edit.change {
            Change::Repetition(value)
            | Change::Frequency(value)
            | Change::Presence(value)
            | Change::Temperature(value) => (*value, Vec::new()),
            Change::Add(biases) => (0.0, biases.clone()),
            Change::Remove(ids) | Change::Force(ids) => (0.0, plain(ids)),
            Change::Grow { ids, factor, .. } => (*factor, plain(ids)),
            Change::NoRepeat(_) => (0.0, Vec::new()),
        };
        list.sort_by_key(|&(id, _)| id);
        let ids = words.len() as u32;
        words.extend(list.iter().map(|&(id, _)| id));
        let numbers = match edit.change {
            Change::Grow { start, .. } => start,
            _ => words.len() as u32,
        };
        words.extend(list.iter().map(|&(_, number)| number.to_bits()));
        let count = match edit.change {
            Change::NoRepeat(size) => size,
            _ => list.len() as u32,
        };
        let (condition, number, length) = match &edit.when {
            When::Always => (0, 0, 0),
            When::NewTokensBelow(number) => (1, *number, 0),
            When::LengthBelow(number) => (2, *number, 0),
            When::NewTokensAre(number) => (3, *number, 0),
            When::LengthIs(number) => (4, *number, 0),
            When::Last => (5, 0, 0),
            When::Begins(place) => (6, *place, 0),
            When::After(beginning) => {
                let at = words.len() as u32;
                words.extend(beginning);
                (7, at, beginning.len() as u32)
            }
        };
        let value = value.to_bits();
        let head = [kind, condition, number, value, ids, numbers, count, length];
        words[HEAD + i * EDIT..][..EDIT].copy_from_slice(&head);
    }
    Ok(words)
}

fn plain(ids: &[u32]) -> Vec<(u32, f32)> {
    ids.iter().map(|&id| (id, 0.0)).collect()
}

fn kind(change: &Change) -> u32 {
    match change {
        Change::Repetition(_) => 0,
        Change::Frequency(_) => 1,
        Change::Presence(_) => 2,
        Change::Temperature(_) => 3,
        Change::Add(_) => 4,
        Change::Remove(_) => 5,
        Change::Force(_) => 6,
        Change::Grow { .. } => 7,
        Change::NoRepeat(_) => 8,
    }
}

/// The words of a run's rows.
pub(super) fn rows(rows: &[Row]) -> Vec<u32> {
    let words = rows.iter().flat_map(|row| {
        let new_tokens = row.new_tokens as u32;
        let length = (row.prompt_length + row.new_tokens) as u32;
        let limit = row.limit.min(u32::MAX as usize) as u32;
        [row.sequence, new_tokens, length, limit, new_tokens, 0, 0, 0]
    });
    words.collect()
}

/// How often each token occurred in the answer, and in bit 31 whether it occurred in the prompt.
pub(super) fn counts(row: &Row, vocabulary: usize) -> Vec<u32> {
    let mut counts = vec![0u32; vocabulary];
    let (prompt, answer) = row.ids.split_at(row.prompt_length);
    for &id in answer {
        if let Some(count) = counts.get_mut(id as usize) {
            *count += 1;
        }
    }
    for &id in prompt {
        if let Some(count) = counts.get_mut(id as usize) {
            *count |= 1 << 31;
        }
    }
    counts
}

/// What results of `size` bytes each say.
pub(super) fn picks(bytes: &[u8], size: usize) -> Vec<Pick> {
    let all = bytemuck::pod_collect_to_vec::<u8, u32>(bytes);
    all.chunks_exact(size / 4).map(pick).collect()
}

fn pick(words: &[u32]) -> Pick {
    let (head, best) = words.split_at(words.len().min(4));
    let number = |at: usize| f32::from_bits(head.get(at).copied().unwrap_or(0));
    let (pairs, _) = best.as_chunks::<2>();
    let there = pairs.iter().take_while(|[id, _]| *id != u32::MAX);
    Pick {
        choice: match head[1] {
            0 => Choice::Token(head[0]),
            1 => Choice::Incomparable,
            _ => Choice::NothingLeft,
        },
        score: number(2),
        total: number(3),
        best: there
            .map(|&[id, score]| (id, f32::from_bits(score)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole numbers that a shader calls by name.
    fn constants(source: &str) -> Vec<(&str, u32)> {
        let lines = source.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("const ")?.split_once(": u32 = ")?;
            let (digits, _) = rest.split_once("u;")?;
            Some((name, digits.parse().ok()?))
        });
        lines.collect()
    }

    #[test]
    fn layouts_are_those_of_the_shaders() {
        let layout = constants(include_str!("../../../shaders/lib/sample.wgsl"));
        let edits = constants(include_str!("../../../shaders/sample_scores.wgsl"));
        let picks = constants(include_str!("../../../shaders/sample_pick.wgsl"));
        let of = |all: &[(&str, u32)], name: &str| {
            let found = all.iter().find(|(known, _)| *known == name);
            found.unwrap_or_else(|| panic!("no {name}")).1 as usize
        };
        for (name, value) in [
            ("HEAD", HEAD),
            ("EDIT_WORDS", EDIT),
            ("ROW_WORDS", ROW_WORDS),
        ] {
            assert_eq!(of(&layout, name), value, "{name}");
        }
        assert_eq!(of(&layout, "BINS") * of(&layout, "BIN_WORDS"), BIN_WORDS);

        let sampler = Sampler {
            edits: vec![Edit::always(Change::NoRepeat(3))],
            top_k: 41,
            removable: Some(0.42),
            min_p: 0.43,
            typical: 0.44,
            epsilon: 0.45,
            eta: 0.46,
            seed: Some(47 | 48 << 32),
            best: 49,
            search: true,
        };
        let words = plan(&sampler).unwrap();
        for (name, value) in [
            ("EDITS", 1),
            ("NOISY", 1),
            ("FILTERED", 1),
            ("TOP_K", 41),
            ("REMOVABLE", 0.42f32.to_bits()),
            ("MIN_P", 0.43f32.to_bits()),
            ("SEED", 47),
            ("BEST", 49),
            ("LISTED", 41),
            ("TYPICAL", 0.44f32.to_bits()),
            ("EPSILON", 0.45f32.to_bits()),
            ("ETA", 0.46f32.to_bits()),
            ("SEARCH", 1),
        ] {
            assert_eq!(words[of(&layout, name)], value, "{name}");
        }
        assert_eq!(words[of(&layout, "SEED") + 1], 48);

        let row = Row {
            sequence: 3,
            ids: &[0, 1, 2, 3],
            prompt_length: 2,
            new_tokens: 5,
            limit: 9,
        };
        let words = rows(&[row]);
        for (name, value) in [
            ("SEQUENCE", 3),
            ("NEW_TOKENS", 5),
            ("LENGTH", 7),
            ("LIMIT", 9),
            ("FIRST", 5),
            ("SHIFT", 0),
        ] {
            assert_eq!(words[of(&layout, name)], value, "{name}");
        }

        let ids = || vec![1, 2];
        let grow = Change::Grow {
            ids: ids(),
            start: 1,
            factor: 2.0,
        };
        for (name, change) in [
            ("REPETITION", Change::Repetition(1.0)),
            ("FREQUENCY", Change::Frequency(1.0)),
            ("PRESENCE", Change::Presence(1.0)),
            ("DIVIDE", Change::Temperature(1.0)),
            ("ADD", Change::Add(vec![(1, 2.0)])),
            ("REMOVE", Change::Remove(ids())),
            ("FORCE", Change::Force(ids())),
            ("GROW", grow),
            ("NO_REPEAT", Change::NoRepeat(2)),
        ] {
            assert_eq!(of(&edits, name) as u32, kind(&change), "{name}");
        }
        for (name, when) in [
            ("NEW_BELOW", When::NewTokensBelow(1)),
            ("LENGTH_BELOW", When::LengthBelow(1)),
            ("NEW_IS", When::NewTokensAre(1)),
            ("LENGTH_IS", When::LengthIs(1)),
            ("LAST", When::Last),
            ("BEGINS", When::Begins(1)),
            ("AFTER", When::After(ids())),
        ] {
            let change = Change::Presence(1.0);
            let sampler = Sampler {
                edits: vec![Edit { change, when }],
                ..Sampler::default()
            };
            let words = plan(&sampler).unwrap();
            assert_eq!(words[HEAD + 1] as usize, of(&edits, name), "{name}");
        }
        for (name, choice) in [
            ("INCOMPARABLE", Choice::Incomparable),
            ("NOTHING_LEFT", Choice::NothingLeft),
        ] {
            assert_eq!(pick(&[7, of(&picks, name) as u32]).choice, choice);
        }
        assert_eq!(pick(&[7, 0]).choice, Choice::Token(7));
    }
}
