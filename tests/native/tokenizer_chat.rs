//! Chat templates against Hugging Face's renderings, and the failures that users of other runtimes met.

use std::fs;

use decant::{
    error::ErrorKind,
    tokenizer::{Moment, TemplateOptions, Tokenizer},
};
use serde_json::{Value, json};

use crate::support::{golden::folder, tokenizers::rows};

/// A tokenizer with nothing but special tokens and a template.
fn with_template(template: &str, special_tokens: Value) -> Tokenizer {
    let tokenizer = json!({ "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] } });
    let mut config = special_tokens;
    config["chat_template"] = template.into();
    Tokenizer::from_json(
        tokenizer.to_string().as_bytes(),
        Some(config.to_string().as_bytes()),
    )
    .unwrap()
}

/// The seconds from 1970 of a time such as `2024-07-26T09:05:03`, for the years that the goldens use.
fn moment(text: &str) -> Moment {
    let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month) = (part(0..4), part(5..7));
    let leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let month_lengths = [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let days = (1970..year)
        .map(|y| if leap(y) { 366 } else { 365 })
        .sum::<i64>()
        + month_lengths[..month as usize - 1].iter().sum::<i64>()
        + part(8..10)
        - 1;
    Moment {
        unix_seconds: ((days * 24 + part(11..13)) * 60 + part(14..16)) * 60 + part(17..19),
        microseconds: 0,
        utc_offset_seconds: 0,
    }
}

fn options(row: &Value) -> TemplateOptions {
    let present = |name: &str| Some(row[name].clone()).filter(|v| !v.is_null());
    TemplateOptions {
        tools: present("tools"),
        documents: present("documents"),
        add_generation_prompt: row["add_generation_prompt"] == true,
        continue_final_message: (row["continue_final_message"] == true).then(|| "content".into()),
        variables: row["variables"].as_object().cloned().unwrap_or_default(),
        now: Some(moment(row["now"].as_str().unwrap())),
        ..Default::default()
    }
}

#[test]
fn renderings_equal_the_reference() {
    let mut wrong = Vec::new();
    let rows = rows("chat/cases.jsonl");
    assert_eq!(rows.len(), 108);
    for row in &rows {
        let name = row["template"].as_str().unwrap();
        let template =
            fs::read_to_string(folder().join(format!("chat/templates/{name}.jinja"))).unwrap();
        let tokenizer = with_template(&template, row["special_tokens"].clone());
        let rendered = tokenizer.apply_chat_template(&row["messages"], &options(row));
        let ok = match (&rendered, row["expect"]["text"].as_str()) {
            (Ok(text), Some(expected)) => text == expected,
            (Err(error), None) if row["expect"]["error"] == "TemplateError" => {
                *error.kind() == ErrorKind::InvalidTemplate
                    && error
                        .to_string()
                        .contains(row["expect"]["message"].as_str().unwrap())
            }
            (result, expected) => result.is_err() && expected.is_none(),
        };
        if !ok {
            wrong.push(format!(
                "{}\n  got {rendered:?}\n  not {}",
                row["name"], row["expect"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}
