//! What the crate answers, as JSON for the page. The page's types are in `www/types.ts`.

use serde_json::{Map, Value, json};

use crate::{
    exec::KernelTime,
    generation::{
        Event, Output, Plan, Speculation, Stats, Timings, TokenScore, Usage, stopping::StopReason,
    },
};

/// A token.
pub fn event(event: &Event) -> Value {
    let mut value =
        json!({ "sequence": event.sequence, "token_id": event.token_id, "text": event.text });
    if let Some(score) = &event.score {
        value["logprob"] = json!(score.logprob);
        value["top_logprobs"] = top(score);
    }
    value
}

/// The best tokens and their log-probabilities.
fn top(score: &TokenScore) -> Value {
    let best = score.top.iter();
    best.map(|(token_id, logprob)| json!({ "token_id": token_id, "logprob": logprob }))
        .collect()
}

/// An answer; `text` and `stop_reason` are the first sequence's.
pub fn output(output: &Output) -> Value {
    let reasons: Vec<_> = output
        .stop_reasons
        .iter()
        .map(|reason| reason.name())
        .collect();
    let mut value = json!({
        "sequences": output.sequences,
        "texts": output.texts,
        "text": output.texts.first(),
        "stop_reasons": reasons,
        "stop_reason": reasons.first(),
        "usage": usage(&output.usage),
        "timings": timings(&output.timings, output.kernels.as_deref()),
        "plan": plan(&output.plan),
    });
    let mut add = |name: &str, found: Option<Value>| {
        if let Some(found) = found {
            value[name] = found;
        }
    };
    add(
        "sequences_scores",
        output.sequences_scores.as_ref().map(|scores| json!(scores)),
    );
    add(
        "beam_indices",
        output.beam_indices.as_ref().map(|indices| json!(indices)),
    );
    add(
        "transition_scores",
        output
            .transition_scores
            .as_ref()
            .map(|scores| json!(scores)),
    );
    let logprobs = |sequence: &Vec<TokenScore>| -> Value {
        let tokens = sequence.iter();
        tokens
            .map(|score| json!({ "logprob": score.logprob, "top_logprobs": top(score) }))
            .collect()
    };
    let all = output.token_scores.as_ref();
    add(
        "logprobs",
        all.map(|all| all.iter().map(logprobs).collect()),
    );
    let speculation = |speculation: &Speculation| {
        json!({
            "drafted": speculation.drafted,
            "accepted": speculation.accepted,
            "acceptance_rate": speculation.acceptance_rate(),
        })
    };
    add("speculation", output.speculation.as_ref().map(speculation));
    value
}

/// What a call will do.
pub fn plan(plan: &Plan) -> Value {
    let values: Map<_, _> = plan
        .settings
        .iter()
        .map(|setting| {
            let value =
                json!({ "value": setting.value.to_json(), "source": setting.source.name() });
            (setting.name.to_owned(), value)
        })
        .collect();
    let processors = plan.processors.iter().map(|stage| {
        let args: Map<_, _> = stage
            .args()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_json()))
            .collect();
        json!({ "name": stage.name(), "args": args, "source": stage.source.name() })
    });
    let stopping = plan.stopping.iter().map(|rule| {
        let name = rule.criterion.name();
        let value = rule.criterion.value().to_json();
        json!({ "name": name, "args": { name: value }, "source": rule.source.name() })
    });
    let warnings = plan
        .warnings
        .iter()
        .map(|warning| json!({ "field": warning.field, "message": warning.message }));
    let mut selection = json!({ "name": plan.selection.name(), "args": {} });
    if let Some(seed) = values
        .get("seed")
        .filter(|_| plan.selection.name() == "multinomial")
    {
        selection["args"]["seed"] = seed["value"].clone();
    }
    json!({
        "strategy": plan.strategy.name(),
        "processors": processors.collect::<Value>(),
        "selection": selection,
        "stopping": stopping.collect::<Value>(),
        "home": plan.home.name(),
        "home_reason": plan.home.reason(),
        "warnings": warnings.collect::<Value>(),
        "values": values,
    })
}

/// What a model has done.
pub fn stats(stats: &Stats) -> Value {
    let reasons: Map<_, _> = stats
        .stop_reasons
        .iter()
        .map(|(reason, count): &(StopReason, u64)| (reason.name().to_owned(), json!(count)))
        .collect();
    json!({
        "generations": stats.generations,
        "failures": stats.failures,
        "usage": usage(&stats.usage),
        "prefill_tokens_per_second": stats.prefill_tokens_per_second,
        "decode_tokens_per_second": stats.decode_tokens_per_second,
        "time_to_first_token_ms": stats.time_to_first_token_ms,
        "mean_time_to_first_token_ms": stats.mean_time_to_first_token_ms,
        "cache_bytes_reserved": stats.cache_bytes_reserved,
        "cache_bytes_used": stats.cache_bytes_used,
        "cache_bytes_retained": stats.cache_bytes_retained,
        "truncation_rate": stats.truncation_rate,
        "stop_reasons": reasons,
    })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    })
}

fn timings(timings: &Timings, kernels: Option<&[KernelTime]>) -> Value {
    let mut value = json!({
        "time_to_first_token_ms": timings.time_to_first_token_ms,
        "prefill_ms": timings.prefill_ms,
        "decode_ms": timings.decode_ms,
        "prefill_tokens": timings.prefill_tokens,
        "decode_tokens": timings.decode_tokens,
        "prefill_tokens_per_second": timings.prefill_tokens_per_second(),
        "decode_tokens_per_second": timings.decode_tokens_per_second(),
        "forwards": timings.forwards,
        "dispatches": timings.dispatches,
        "submits": timings.submits,
        "bytes_uploaded": timings.bytes_uploaded,
        "bytes_read": timings.bytes_read,
        "run_ahead": timings.run_ahead,
        "steps_wasted": timings.steps_wasted,
    });
    if let Some(kernels) = kernels {
        let kernels = kernels.iter().map(|kernel| {
            json!({ "name": kernel.name, "dispatches": kernel.dispatches, "ms": kernel.ms })
        });
        value["kernels"] = kernels.collect();
    }
    value
}
