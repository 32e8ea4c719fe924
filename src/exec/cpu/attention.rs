//! Attention over the pages of the cache, with the softmax kept up to date from page to page.
//!
//! For each sequence and key-value head, a page is turned into numbers once and then serves all queries: the
//! heads of its group and all rows of the step, up to [`TILE`] in registers at a time. A query keeps the
//! largest score so far, the sum of `e^(score − largest)` and the values weighted so; when a page raises the
//! largest score, what came before is scaled down. Source: Milakov and Gimelshein 2018.

use std::{array, mem::take, ops::Range};

use super::{
    cache::{Entries, Layer},
    formats::ROWS,
    math::{activate, exp},
    product::{TILE, tiles},
    simd::{F32x4, HALVES, Octet, load8, store8},
};
use crate::{
    ops::{Activation, Attention, CacheSpec},
    tape::Step,
};

/// Memory that is kept from call to call.
#[derive(Default)]
pub struct Scratch {
    keys: Vec<[f32; ROWS]>,
    values: Vec<[f32; ROWS]>,
    /// For each query of a tile, the scores of a page.
    scores: Vec<[f32; ROWS]>,
    /// The rows of the sequence at hand.
    rows: Vec<usize>,
    queries: Vec<Query>,
    /// For each query, its weighted values.
    totals: Vec<[f32; ROWS]>,
    /// All queries, for keys that are halves.
    scaled: Vec<f32>,
}

/// How far a query's softmax is.
#[derive(Clone, Copy)]
struct Query {
    largest: f32,
    sum: f32,
}

/// What all queries of a call share.
struct Call<'a> {
    op: &'a Attention,
    cache: &'a CacheSpec,
    step: &'a Step,
    q: &'a [f32],
    /// The same times [`HALVES`], where each key meets only few queries and none becomes too large.
    scaled: Option<&'a [f32]>,
    /// The heads that are computed.
    heads: Range<usize>,
}

/// Computes `heads`. `q` and `out`: a row of all heads' `head_dim` values for each row of the step.
#[expect(clippy::too_many_arguments, reason = "it is called once")]
pub fn attend(
    op: &Attention,
    cache: &CacheSpec,
    layer: &Layer,
    step: &Step,
    q: &[f32],
    heads: Range<usize>,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    if heads.is_empty() {
        return;
    }
    let group = op.heads / cache.kv_heads;
    let kv_heads = heads.start / group..heads.end.div_ceil(group);
    let q = &q[..step.slots.len() * op.heads * cache.head_dim];
    let few = step.slots.len() <= step.tables.len() && group <= TILE;
    let small = few && q.iter().all(|q| q.abs() < f32::MAX / HALVES);
    let mut scaled = take(&mut scratch.scaled);
    scaled.clear();
    scaled.extend(q.iter().filter(|_| small).map(|q| q * HALVES));
    let call = Call {
        op,
        cache,
        step,
        q,
        scaled: small.then_some(&scaled),
        heads,
    };
    for slot in 0..step.tables.len() {
        scratch.rows.clear();
        let rows = (0..step.slots.len()).filter(|&row| step.slots[row] as usize == slot);
        scratch.rows.extend(rows);
        if !scratch.rows.is_empty() {
            for head in kv_heads.clone() {
                call.head(layer, slot, head, scratch, out);
            }
        }
    }
    scratch.scaled = scaled;
}

impl Call<'_> {
    /// One key-value head for the rows of one sequence.
    fn head(
        &self,
        layer: &Layer,
        slot: usize,
        head: usize,
        scratch: &mut Scratch,
        out: &mut [f32],
    ) {
        let Scratch {
            keys,
            values,
            scores,
            rows,
            queries,
            totals,
            ..
        } = scratch;
        let (page_size, head_dim) = (self.cache.page_size, self.cache.head_dim);
        // Of the heads that share these keys and values, those that are computed.
        let whole = self.op.heads / self.cache.kv_heads;
        let start = self.heads.start.max(head * whole);
        let group = self.heads.end.min((head + 1) * whole) - start;
        let octets = head_dim.div_ceil(ROWS);
        let fresh = Query {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        };
        queries.clear();
        queries.resize(rows.len() * group, fresh);
        totals.clear();
        totals.resize(queries.len() * octets, [0.0; ROWS]);
        let in_page = page_size.div_ceil(ROWS);
        scores.resize(TILE * in_page, [0.0; ROWS]);
        let seen = rows.iter().map(|&row| self.seen(row));
        let first = seen.clone().map(|seen| seen.start).min().unwrap_or(0);
        let end = seen.map(|seen| seen.end).max().unwrap_or(0);
        for page in first / page_size..end.div_ceil(page_size) {
            let place = self.step.tables[slot][page] as usize;
            let filled = (end - page * page_size).min(page_size);
            let once = self.scaled.is_some();
            let keys = layer.keys(place, head, filled, once, keys);
            let values = layer.values(place, head, once, values);
            let q = match (&keys, self.scaled) {
                (Entries::Halves(_), Some(scaled)) => scaled,
                _ => self.q,
            };
            let factor = match values {
                Entries::Numbers(_) => 1.0,
                Entries::Halves(_) => HALVES,
            };
            let tiles = queries
                .chunks_mut(TILE)
                .zip(totals.chunks_mut(TILE * octets));
            for (tile, (queries, totals)) in tiles.enumerate() {
                // Only as many entries as there are queries are looked at.
                let rows: [usize; TILE] = array::from_fn(|i| {
                    let query = tile * TILE + i;
                    rows[(query / group).min(rows.len() - 1)]
                });
                let visible = rows.map(|row| within(self.seen(row), page * page_size, page_size));
                let q: [&[f32]; TILE] = array::from_fn(|i| {
                    let head = start + (tile * TILE + i) % group;
                    &q[(rows[i] * self.op.heads + head) * head_dim..][..head_dim]
                });
                let visible = &visible[..queries.len()];
                let scores = &mut scores[..queries.len() * in_page];
                match keys {
                    Entries::Numbers(keys) => self.score(keys, &q, visible, scores),
                    Entries::Halves(keys) => self.score(keys, &q, visible, scores),
                }
                for ((query, totals), (scores, visible)) in queries
                    .iter_mut()
                    .zip(totals.chunks_mut(octets))
                    .zip(scores.chunks_mut(in_page).zip(visible))
                {
                    if !visible.is_empty() {
                        self.finish(scores, visible);
                        query.weigh(scores, visible, factor, totals);
                    }
                }
                match values {
                    Entries::Numbers(values) => self.add(values, scores, visible, totals),
                    Entries::Halves(values) => self.add(values, scores, visible, totals),
                }
            }
        }
        for (i, (query, totals)) in queries.iter().zip(totals.chunks(octets)).enumerate() {
            let at = rows[i / group] * self.op.heads + start + i % group;
            let out = &mut out[at * head_dim..][..head_dim];
            let totals = totals.as_flattened();
            out.iter_mut()
                .zip(totals)
                .for_each(|(out, total)| *out = total / query.sum);
        }
    }

    /// The positions that a row attends to.
    fn seen(&self, row: usize) -> Range<usize> {
        let end = self.step.positions[row] as usize + 1;
        end - self.op.window.unwrap_or(end).min(end)..end
    }

    /// The products of queries with the keys of a page, as far as any of the queries sees them.
    fn score<O: Octet>(
        &self,
        keys: &[O],
        q: &[&[f32]; TILE],
        visible: &[Range<usize>],
        scores: &mut [[f32; ROWS]],
    ) {
        let Some(touched) = touched(visible) else {
            return;
        };
        let between = scores.len() / visible.len();
        scores.fill([0.0; ROWS]);
        let (keys, scores) = (
            &keys[touched.start * q[0].len()..],
            &mut scores[touched.start..],
        );
        tiles(keys, q[0].len(), |i| q[i], scores, between, touched.len());
    }

    /// Makes scores of a query's products; those of positions that it does not see are −∞.
    fn finish(&self, scores: &mut [[f32; ROWS]], visible: &Range<usize>) {
        let scale = F32x4::splat(self.op.scale);
        for octet in visible.start / ROWS..visible.end.div_ceil(ROWS) {
            let scores = &mut scores[octet];
            let mut values = load8(scores).map(|sum| sum * scale);
            if let Some(cap) = self.op.cap {
                values = values.map(|value| activate(Activation::SoftCap(cap), value));
            }
            store8(values, scores);
            let all = octet * ROWS..(octet + 1) * ROWS;
            if all.start < visible.start || visible.end < all.end {
                for (score, position) in scores.iter_mut().zip(all) {
                    if !visible.contains(&position) {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    /// Adds the values of a page, weighted.
    fn add<O: Octet>(
        &self,
        values: &[O],
        weights: &[[f32; ROWS]],
        visible: &[Range<usize>],
        totals: &mut [[f32; ROWS]],
    ) {
        let octets = totals.len() / visible.len();
        let mut add = |query: usize, range: Range<usize>, together: usize| {
            if range.is_empty() {
                return;
            }
            let totals = &mut totals[query * octets..][..together * octets];
            let between = weights.len() / visible.len();
            let weights = |i: usize| {
                let weights = &weights[(query + i) * between..][..between];
                &weights.as_flattened()[range.clone()]
            };
            let values = &values[range.start..];
            tiles(
                values,
                self.cache.page_size,
                weights,
                totals,
                octets,
                octets,
            );
        };
        // What a query does not see must not even meet its weight of zero: it might be NaN.
        let first = visible.iter().map(|range| range.start).max().unwrap_or(0);
        let end = visible.iter().map(|range| range.end).min().unwrap_or(0);
        let together = first..end.max(first);
        for (query, range) in visible.iter().enumerate() {
            add(query, range.start..together.start.min(range.end), 1);
        }
        add(0, together.clone(), visible.len());
        for (query, range) in visible.iter().enumerate() {
            add(query, together.end.max(range.start)..range.end, 1);
        }
    }
}

impl Query {
    /// Turns the scores of a page into weights, `factor` times as large, and scales what came before to suit.
    fn weigh(
        &mut self,
        scores: &mut [[f32; ROWS]],
        visible: &Range<usize>,
        factor: f32,
        totals: &mut [[f32; ROWS]],
    ) {
        let octets = &mut scores[visible.start / ROWS..visible.end.div_ceil(ROWS)];
        let mut largest = F32x4::splat(self.largest);
        for octet in octets.iter() {
            let [low, high] = load8(octet);
            largest = largest.at_least(low).at_least(high);
        }
        let largest = largest.lanes().into_iter().fold(self.largest, f32::max);
        if largest > self.largest {
            let shrink = exp(F32x4::splat(self.largest - largest));
            for total in totals {
                store8(load8(total).map(|total| total * shrink), total);
            }
            self.sum *= shrink.lanes()[0];
            self.largest = largest;
        }
        let mut sum = F32x4::zero();
        for octet in octets {
            let weights = load8(octet).map(|score| exp(score - F32x4::splat(largest)));
            sum = sum + (weights[0] + weights[1]);
            store8(weights.map(|weight| weight * F32x4::splat(factor)), octet);
        }
        self.sum += sum.sum();
    }
}

/// The part of `range` on the page that begins at `page`, counted from there.
fn within(range: Range<usize>, page: usize, page_size: usize) -> Range<usize> {
    let place = |at: usize| at.saturating_sub(page).min(page_size);
    place(range.start)..place(range.end)
}

/// The octets of positions that any of the ranges meets.
fn touched(ranges: &[Range<usize>]) -> Option<Range<usize>> {
    let ranges = ranges.iter().filter(|range| !range.is_empty());
    let start = ranges.clone().map(|range| range.start).min()?;
    let end = ranges.map(|range| range.end).max()?;
    Some(start / ROWS..end.div_ceil(ROWS))
}
