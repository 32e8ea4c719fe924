//! The options of `tokenizer.apply_chat_template`.

use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    tokenizer::TemplateOptions,
};

/// Arguments of Hugging Face's function that say what to do with the rendered text. They would reach the
/// template as variables and do nothing.
const NOT_VARIABLES: [&str; 8] = [
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
];

/// Takes the named options out of `given`; what is left are variables of the template.
pub fn options(mut given: Map<String, Value>) -> Result<TemplateOptions> {
    for name in NOT_VARIABLES {
        if given.contains_key(name) {
            return Err(Error::option(
                name,
                "is not supported: the answer is the rendered text; encode it with encode",
            ));
        }
    }
    let mut take = |name: &str| given.shift_remove(name).filter(|value| !value.is_null());
    let chat_template = match take("chat_template") {
        None => None,
        Some(Value::String(template)) => Some(template),
        Some(other) => {
            return Err(wrong(
                "chat_template",
                "a template or the name of one",
                &other,
            ));
        }
    };
    let list = |name, value| match value {
        None | Some(Value::Array(_)) => Ok(value),
        Some(other) => Err(wrong(name, "a list of objects", &other)),
    };
    let tools = list("tools", take("tools"))?;
    let documents = list("documents", take("documents"))?;
    let add_generation_prompt = match take("add_generation_prompt") {
        None => false,
        Some(Value::Bool(value)) => value,
        Some(other) => return Err(wrong("add_generation_prompt", "true or false", &other)),
    };
    let continue_final_message = match take("continue_final_message") {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some("content".into()),
        Some(Value::String(field)) => Some(field),
        Some(other) => {
            return Err(wrong(
                "continue_final_message",
                "true, false or a field's name",
                &other,
            ));
        }
    };
    Ok(TemplateOptions {
        chat_template,
        tools,
        documents,
        add_generation_prompt,
        continue_final_message,
        variables: given,
        now: None,
    })
}

fn wrong(name: &str, wanted: &str, found: &Value) -> Error {
    Error::option(name, format!("expected {wanted}, found {found}"))
}
