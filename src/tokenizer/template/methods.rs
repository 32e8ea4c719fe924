//! Methods of Python's `str` that the template engine's own list lacks or treats differently.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Tuple, from_args},
};
use minijinja_contrib::pycompat;

/// Calls a Python method on a value.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = str_method(text, name, args)
    {
        return result;
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

fn str_method(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let one = |f: &dyn Fn(&str) -> Result<Value, Error>| {
        let (argument,): (&str,) = from_args(args)?;
        f(argument)
    };
    Some(match name {
        "strip" if args.is_empty() => Ok(text.trim_matches(is_space).into()),
        "lstrip" if args.is_empty() => Ok(text.trim_start_matches(is_space).into()),
        "rstrip" if args.is_empty() => Ok(text.trim_end_matches(is_space).into()),
        "title" if args.is_empty() => Ok(title(text).into()),
        "splitlines" => {
            from_args(args).map(|(keep,): (Option<bool>,)| split_lines(text, keep.unwrap_or(false)))
        }
        "rsplit" => from_args(args)
            .and_then(|(sep, max): (Option<&str>, Option<i64>)| rsplit(text, sep, max)),
        "removeprefix" => one(&|prefix| Ok(text.strip_prefix(prefix).unwrap_or(text).into())),
        "removesuffix" => one(&|suffix| Ok(text.strip_suffix(suffix).unwrap_or(text).into())),
        "partition" => {
            one(&|sep| not_empty(sep).map(|sep| parts(text.split_once(sep), sep, [text, "", ""])))
        }
        "rpartition" => {
            one(&|sep| not_empty(sep).map(|sep| parts(text.rsplit_once(sep), sep, ["", "", text])))
        }
        _ => return None,
    })
}

/// What Python's `isspace` says: Rust leaves out four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}

/// Every run of letters begins with a capital, also after an apostrophe.
fn title(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

fn split_lines(text: &str, keep_ends: bool) -> Value {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{1C}'
                ..='\u{1E}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_end) {
        let end = if rest[at..].starts_with("\r\n") {
            at + 2
        } else {
            at + rest[at..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(Value::from(&rest[..if keep_ends { end } else { at }]));
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    lines.into()
}

fn rsplit(text: &str, sep: Option<&str>, max: Option<i64>) -> Result<Value, Error> {
    let max = max
        .and_then(|max| usize::try_from(max).ok())
        .unwrap_or(usize::MAX);
    let mut pieces: Vec<Value> = match sep {
        Some(sep) => text
            .rsplitn(max.saturating_add(1), not_empty(sep)?)
            .map(Value::from)
            .collect(),
        None => {
            let mut pieces = Vec::new();
            let mut rest = text.trim_end_matches(is_space);
            while pieces.len() < max
                && let Some(at) = rest.rfind(is_space)
            {
                let begin = at + rest[at..].chars().next().map_or(0, char::len_utf8);
                pieces.push(Value::from(&rest[begin..]));
                rest = rest[..at].trim_end_matches(is_space);
            }
            let first = if pieces.len() < max {
                rest.trim_start_matches(is_space)
            } else {
                rest
            };
            if !first.is_empty() {
                pieces.push(Value::from(first));
            }
            pieces
        }
    };
    pieces.reverse();
    Ok(pieces.into())
}

fn parts(found: Option<(&str, &str)>, sep: &str, otherwise: [&str; 3]) -> Value {
    let parts = found.map_or(otherwise, |(before, after)| [before, sep, after]);
    Value::from(Tuple::from(parts.map(Value::from)))
}

fn not_empty(sep: &str) -> Result<&str, Error> {
    if sep.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    Ok(sep)
}
