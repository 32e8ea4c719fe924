//! Chat templates against Hugging Face's renderings, and the failures that users of other runtimes met.

use std::fs;

use decant::{
    error::ErrorKind,
    tokenizer::{Moment, TemplateOptions, Tokenizer},
};
use serde_json::{Value, json};

use crate::support::{
    golden::folder,
    tokenizers::{fixture, rows},
};

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

#[test]
fn small_templates_render_as_in_python() {
    let text = fs::read_to_string(fixture("templates.jsonl")).unwrap();
    let mut rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let given = rows.next().unwrap();
    let tokenizer = with_template("", json!({}));
    // What the template engine cannot do must be an error, not another text.
    let refused = ["{{ '%s is %d' % ('a', 3) }}"];
    let mut wrong = Vec::new();
    for row in rows {
        let options = TemplateOptions {
            chat_template: Some(row["template"].as_str().unwrap().to_owned()),
            ..options(&given)
        };
        let rendered = tokenizer.apply_chat_template(&given["messages"], &options);
        let ok = match (&rendered, row["text"].as_str()) {
            (Ok(text), Some(expected)) => text == expected,
            (Err(error), Some(_)) => {
                *error.kind() == ErrorKind::InvalidTemplate
                    && refused.iter().any(|t| row["template"] == *t)
            }
            (Err(error), None) => {
                *error.kind() == ErrorKind::InvalidTemplate
                    && (row["error"] != "TemplateError"
                        || error.to_string().contains(row["message"].as_str().unwrap()))
            }
            _ => false,
        };
        if !ok {
            wrong.push(format!("got {rendered:?}\n    {row}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

fn user(content: Value) -> Value {
    json!([{ "role": "user", "content": content }])
}

fn render(template: &str, special_tokens: Value) -> decant::error::Result<String> {
    with_template(template, special_tokens)
        .apply_chat_template(&user("hi".into()), &Default::default())
}

/// `bos_token` and the others are always there, possibly empty.
#[test]
fn special_tokens_are_always_defined() {
    assert_eq!(render("{{ bos_token + 'x' }}", json!({})).unwrap(), "x");
    assert_eq!(
        render("{{ bos_token + 'x' }}", json!({ "bos_token": "<s>" })).unwrap(),
        "<s>x"
    );
    let all =
        "{{ bos_token + eos_token + unk_token + sep_token + pad_token + cls_token + mask_token }}";
    assert_eq!(
        render(all, json!({ "eos_token": { "content": "</s>" } })).unwrap(),
        "</s>"
    );
    let tokenizer = with_template("{{ bos_token }}{{ extra }}", json!({ "bos_token": "<s>" }));
    let variables = json!({ "bos_token": "mine", "extra": 5 });
    let options = TemplateOptions {
        variables: variables.as_object().unwrap().clone(),
        ..Default::default()
    };
    assert_eq!(
        tokenizer
            .apply_chat_template(&user("".into()), &options)
            .unwrap(),
        "mine5"
    );
}

#[test]
fn dates_come_from_the_given_clock() {
    let format = |text: &str, utc_offset_seconds: i32, microseconds: u32, format: &str| {
        let tokenizer = with_template(&format!("{{{{ strftime_now('{format}') }}}}"), json!({}));
        let options = TemplateOptions {
            now: Some(Moment {
                utc_offset_seconds,
                microseconds,
                ..moment(text)
            }),
            ..Default::default()
        };
        tokenizer.apply_chat_template(&user("".into()), &options)
    };
    // Expected values are those of Python's datetime.
    for (at, offset, directives, expected) in [
        (
            "2024-07-26T09:05:03",
            0,
            "%Y-%m-%d %H:%M:%S",
            "2024-07-26 09:05:03",
        ),
        ("2024-02-29T23:59:59", 0, "%d %b %Y %j", "29 Feb 2024 060"),
        (
            "2024-12-31T12:00:00",
            0,
            "%a %A %B %y %I:%M %p %j",
            "Tue Tuesday December 24 12:00 PM 366",
        ),
        (
            "2024-01-01T00:30:00",
            0,
            "%-d/%-m %l%P %e|%k",
            "1/1 12am  1| 0",
        ),
        (
            "2023-01-01T00:00:00",
            0,
            "%U %W %V %G %u %w",
            "01 00 52 2022 7 0",
        ),
        (
            "2020-12-31T00:00:00",
            0,
            "%U %W %V %G %u %w",
            "52 52 53 2020 4 4",
        ),
        ("2024-12-30T00:00:00", 0, "%V %G %g", "01 2025 25"),
        ("2024-03-01T00:10:00", -3600, "%F %T", "2024-02-29 23:10:00"),
        (
            "2024-12-31T23:30:00",
            3600 * 2,
            "%c",
            "Wed Jan  1 01:30:00 2025",
        ),
        (
            "1970-01-01T00:00:00",
            0,
            "%s %D %R %C%n%t%%",
            "0 01/01/70 00:00 19\n\t%",
        ),
    ] {
        assert_eq!(
            format(at, offset, 0, directives).unwrap(),
            expected,
            "{directives}"
        );
    }
    assert_eq!(
        format("2024-01-01T00:00:00", 0, 42, "%f").unwrap(),
        "000042"
    );
    for wrong in ["%Q", "%", "%-"] {
        let error = format("2024-01-01T00:00:00", 0, 0, wrong).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidTemplate);
    }
    let today = render("{{ strftime_now('%Y') }}", json!({})).unwrap();
    assert!(
        today.parse::<u32>().unwrap() >= 2024,
        "the system's clock otherwise"
    );
}

/// The template's own words reach the caller, and no prompt does.
#[test]
fn refusals_keep_the_template_s_message() {
    let template = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
                    {{ raise_exception('roles must alternate, found ' + m.role) }}{% endif %}{{ m.content }}{% endfor %}";
    let tokenizer = with_template(template, json!({}));
    let messages = json!([{ "role": "user", "content": "a" }, { "role": "user", "content": "b" }]);
    let error = tokenizer
        .apply_chat_template(&messages, &Default::default())
        .unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::InvalidTemplate);
    assert_eq!(
        error.to_string(),
        "the chat template refused the messages: roles must alternate, found user"
    );
}

#[test]
fn templates_are_chosen_by_name_and_tools() {
    let list = json!({ "chat_template": [
        { "name": "default", "template": "plain" },
        { "name": "tool_use", "template": "tools" },
        { "name": "rag", "template": "documents" }
    ] });
    let build = |config: &Value| {
        let tokenizer = json!({ "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] } });
        Tokenizer::from_json(
            tokenizer.to_string().as_bytes(),
            Some(config.to_string().as_bytes()),
        )
        .unwrap()
    };
    let tokenizer = build(&list);
    let choose = |chat_template: Option<&str>, tools: Option<Value>| {
        let options = TemplateOptions {
            chat_template: chat_template.map(str::to_owned),
            tools,
            ..Default::default()
        };
        tokenizer
            .apply_chat_template(&user("".into()), &options)
            .unwrap()
    };
    assert_eq!(choose(None, None), "plain");
    assert_eq!(choose(None, Some(json!([]))), "tools");
    assert_eq!(choose(Some("rag"), Some(json!([]))), "documents");
    assert_eq!(choose(Some("{{ 1 + 1 }}"), None), "2");
    assert_eq!(tokenizer.chat_template(), Some("plain"));

    let mut without = list.clone();
    without["chat_template"].as_array_mut().unwrap().remove(0);
    for (config, names) in [
        (&without, "tool_use, rag"),
        (&json!({}), "no chat template"),
    ] {
        let error = build(config)
            .apply_chat_template(&user("".into()), &Default::default())
            .unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidTemplate);
        assert!(error.to_string().contains(names), "{error}");
    }
    let replaced = tokenizer.with_chat_template("another".into());
    assert_eq!(
        replaced
            .apply_chat_template(&user("".into()), &Default::default())
            .unwrap(),
        "another"
    );
}

#[test]
fn messages_of_a_wrong_form_are_refused() {
    let tokenizer = with_template("{{ messages[0].content }}", json!({}));
    for messages in [
        json!([]),
        json!("hi"),
        json!({}),
        json!(null),
        json!(["hi"]),
        json!([{}, 5]),
    ] {
        let error = tokenizer
            .apply_chat_template(&messages, &Default::default())
            .unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let refused = |options: TemplateOptions, messages: Value, name: &str| {
        let error = tokenizer
            .apply_chat_template(&messages, &options)
            .unwrap_err();
        assert_eq!(
            *error.kind(),
            ErrorKind::InvalidOption { name: name.into() },
            "{error}"
        );
    };
    let proceed = |field: &str| TemplateOptions {
        continue_final_message: Some(field.into()),
        ..Default::default()
    };
    let both = TemplateOptions {
        add_generation_prompt: true,
        ..proceed("content")
    };
    refused(both, user("a".into()), "continue_final_message");
    refused(
        proceed("content"),
        json!([{ "role": "user" }]),
        "continue_final_message",
    );
    refused(proceed("role"), user("a".into()), "continue_final_message");
    refused(proceed("content"), user(5.into()), "continue_final_message");
    refused(
        proceed("content"),
        user(json!([{ "type": "image" }])),
        "continue_final_message",
    );
    let tools = TemplateOptions {
        tools: Some(json!({})),
        ..Default::default()
    };
    refused(tools, user("a".into()), "tools");
    let documents = TemplateOptions {
        documents: Some(json!([1])),
        ..Default::default()
    };
    refused(documents, user("a".into()), "documents");
    let continued = tokenizer.apply_chat_template(&user("so far ".into()), &proceed("content"));
    assert_eq!(continued.unwrap(), "so far ");
}
