//! Python's `json.dumps`, which is what `tojson` is in chat templates.

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

/// The options of `json.dumps` that templates can give.
pub(super) struct Format {
    ensure_ascii: bool,
    /// The text of one level; nothing means a single line.
    indent: Option<String>,
    between: String,
    after_key: String,
    sort_keys: bool,
}

impl Format {
    /// Reads the filter's keyword arguments.
    pub fn from_kwargs(options: &Kwargs) -> Result<Self, Error> {
        let indent = match options.get::<Option<Value>>("indent")? {
            None => None,
            Some(v) if v.is_none() || v.is_undefined() => None,
            Some(v) => Some(match v.as_str() {
                Some(text) => text.to_owned(),
                // A negative number is an empty indentation, as in Python.
                None => " ".repeat(usize::try_from(i64::try_from(v)?.clamp(0, 64)).unwrap_or(0)),
            }),
        };
        let separators = options
            .get::<Option<Value>>("separators")?
            .filter(|v| !v.is_none());
        let (between, after_key) = match separators {
            Some(pair) => (
                text(&pair.get_item_by_index(0)?)?,
                text(&pair.get_item_by_index(1)?)?,
            ),
            None => (
                if indent.is_some() { "," } else { ", " }.to_owned(),
                ": ".to_owned(),
            ),
        };
        Ok(Self {
            ensure_ascii: options
                .get::<Option<bool>>("ensure_ascii")?
                .unwrap_or(false),
            indent,
            between,
            after_key,
            sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        })
    }

    /// The JSON of a value.
    pub fn write(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.value(value, 0, &mut out)?;
        Ok(out)
    }

    fn value(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.items('{', '}', keys, depth, out, |key, out| {
                    self.string(&key_text(&key)?, out);
                    out.push_str(&self.after_key);
                    self.value(&value.get_item(&key)?, depth + 1, out)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect();
                self.items('[', ']', items, depth, out, |item, out| {
                    self.value(&item, depth + 1, out)
                })?;
            }
            other => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("tojson: a value of kind {other} is not JSON serializable"),
                ));
            }
        }
        Ok(())
    }

    fn items(
        &self,
        open: char,
        close: char,
        items: Vec<Value>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let empty = items.is_empty();
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                out.push_str(&self.between);
            }
            self.line(depth + 1, out);
            write(item, out)?;
        }
        if !empty {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{C}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '\u{7E}') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// The text of a number.
fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => match float {
            f if f.is_nan() => "NaN".to_owned(),
            f if f.is_infinite() && f > 0.0 => "Infinity".to_owned(),
            f if f.is_infinite() => "-Infinity".to_owned(),
            f => self::float(f),
        },
        _ => value.to_string(),
    }
}

/// Python's `repr` of a float: the shortest digits that read back, with an exponent from 1e16 and
/// below 1e-4.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, size) = match exponent.strip_prefix('-') {
            Some(size) => ('-', size),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{size:0>2}");
    }
    let text = value.to_string();
    if text.contains('.') {
        text
    } else {
        text + ".0"
    }
}

/// The text of a key: JSON has only texts, and Python writes numbers, booleans and None as such.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => text(key),
        ValueKind::Number => Ok(number(key)),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        other => Err(Error::new(
            ErrorKind::BadSerialization,
            format!("tojson: a key of kind {other} is not JSON serializable"),
        )),
    }
}

fn text(value: &Value) -> Result<String, Error> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "tojson: expected a text"))
}
