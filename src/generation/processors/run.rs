//! Running a chain on the rows of a step: stage by stage, so that a stage sees all rows of a prompt.

use super::{Context, Guidance, Scratch, Stage, Work, forced_token::force};
use crate::{
    error::{Error, Result},
    generation::callbacks::{Callbacks, Seen},
};

/// The scores of a sequence's next token.
#[derive(Debug)]
pub struct ScoredRow<'a> {
    /// The sequence.
    pub context: Context<'a>,
    /// Its scores, one for each id of the vocabulary.
    pub scores: &'a mut [f32],
}

/// Runs `stages` on `rows`, all of the prompt at place `prompt`.
///
/// Beside the scores only what a processor remembers of a sequence changes, and that does not depend on how often
/// a token is scored; so a run that is dropped half-way can be begun again with fresh scores.
pub async fn run(
    stages: &[Stage],
    prompt: usize,
    rows: &mut [ScoredRow<'_>],
    callbacks: Option<&dyn Callbacks>,
    scratch: &mut Scratch,
) -> Result<()> {
    for stage in stages {
        let caller = || callbacks.ok_or_else(|| Error::internal("a stage without its function"));
        match &stage.work {
            Work::Processor(processor) => {
                for row in rows.iter_mut() {
                    if processor.name() == Guidance::NAME && row.context.unconditional.is_none() {
                        return Err(Error::internal(
                            "guidance without scores to guide away from",
                        ));
                    }
                    processor.process(&row.context, row.scores, scratch);
                }
            }
            Work::Function(index) => {
                for row in rows.iter_mut() {
                    call(*index, row, caller()?).await?;
                }
            }
            Work::AllowedTokens => restrict(prompt, rows, caller()?).await?,
        }
    }
    Ok(())
}

/// Lets the caller's processor `index` change a row.
async fn call(index: usize, row: &mut ScoredRow<'_>, caller: &dyn Callbacks) -> Result<()> {
    let seen = Seen {
        sequence: row.context.sequence,
        ids: row.context.ids,
        scores: row.scores,
    };
    let scores = caller.process(index, seen).await?;
    if scores.len() != row.scores.len() {
        let (found, wanted) = (scores.len(), row.scores.len());
        return Err(Error::option(
            "logits_processor",
            format!(
                "function {index} returned {found} scores, allowed: {wanted}, one for each token"
            ),
        ));
    }
    row.scores.copy_from_slice(&scores);
    Ok(())
}

/// Removes what the caller does not allow. Where everything allowed was removed before, in every row,
/// it is forced, since the caller's word counts for more.
/// Source: `PrefixConstrainedLogitsProcessor`.
async fn restrict(prompt: usize, rows: &mut [ScoredRow<'_>], caller: &dyn Callbacks) -> Result<()> {
    let name = "prefix_allowed_tokens_fn";
    let mut allowed = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let mut ids = caller.allowed_tokens(prompt, row.context.ids).await?;
        if ids.is_empty() {
            let message = "returned no token, allowed: at least one, so that the answer can go on";
            return Err(Error::option(name, message));
        }
        let vocabulary = row.scores.len();
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            let message = format!("returned {id}, allowed: ids below {vocabulary}");
            return Err(Error::option(name, message));
        }
        ids.sort_unstable();
        allowed.push(ids);
    }
    let removed = |(row, ids): (&ScoredRow, &Vec<u32>)| {
        let mut scores = ids.iter().map(|id| row.scores[*id as usize]);
        scores.all(|score| score == f32::NEG_INFINITY)
    };
    let forced = rows.iter().zip(&allowed).all(removed);
    for (row, ids) in rows.iter_mut().zip(&allowed) {
        if forced {
            force(ids, row.scores);
            continue;
        }
        for (id, score) in row.scores.iter_mut().enumerate() {
            if ids.binary_search(&(id as u32)).is_err() {
                *score = f32::NEG_INFINITY;
            }
        }
    }
    Ok(())
}
