//! What was measured: lines for people as it comes, and JSON at the end.

use decant::exec::Ceilings;
use serde_json::{Map, Value, json};

/// What a measurement is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ceiling {
    /// Bytes read.
    Read,
    /// Multiply-adds.
    MultiplyAdd,
}

/// All measurements of a run.
pub struct Report {
    ceilings: Ceilings,
    sections: Map<String, Value>,
    section: String,
}

impl Report {
    pub fn new(adapter: &str, notes: &[String], ceilings: Ceilings) -> Self {
        println!("{adapter}");
        notes.iter().for_each(|note| println!("  {note}"));
        let mut sections = Map::new();
        sections.insert("adapter".into(), json!(adapter));
        sections.insert(
            "ceilings".into(),
            json!({
                "read_bytes_per_second": ceilings.read,
                "multiply_adds_per_second": ceilings.multiply_add,
                "dispatch_seconds": ceilings.dispatch,
                "round_trip_seconds": ceilings.round_trip,
            }),
        );
        println!(
            "ceilings: {:.2} GB/s read, {:.2} G multiply-adds/s, {:.1} µs a dispatch, {:.0} µs a round trip",
            ceilings.read / 1e9,
            ceilings.multiply_add / 1e9,
            ceilings.dispatch * 1e6,
            ceilings.round_trip * 1e6,
        );
        Self {
            ceilings,
            sections,
            section: String::new(),
        }
    }

    pub fn ceilings(&self) -> Ceilings {
        self.ceilings
    }

    /// Begins a section; `about` is for people.
    pub fn section(&mut self, name: &str, about: &str) {
        println!("\n{name}: {about}");
        self.section = name.to_owned();
        self.sections.insert(name.to_owned(), json!([]));
    }

    /// A measurement of `work` bytes or multiply-adds; returns its share of the ceiling.
    pub fn share(&mut self, what: Value, seconds: f64, ceiling: Ceiling, work: usize) -> f64 {
        let rate = work as f64 / seconds;
        let (most, unit, key) = match ceiling {
            Ceiling::Read => (self.ceilings.read, "GB/s", "bytes_per_second"),
            Ceiling::MultiplyAdd => (
                self.ceilings.multiply_add,
                "G/s",
                "multiply_adds_per_second",
            ),
        };
        let share = rate / most;
        let text = format!("{:8.2} {unit:4}  {:5.1} %", rate / 1e9, share * 100.0);
        self.row(what, seconds, &text, json!({ key: rate, "share": share }));
        share
    }

    /// A measurement in tokens; returns the rate.
    pub fn rate(&mut self, what: Value, seconds: f64, tokens: usize) -> f64 {
        let rate = tokens as f64 / seconds;
        let text = format!("{rate:9.2} tokens/s");
        self.row(what, seconds, &text, json!({ "tokens_per_second": rate }));
        rate
    }

    /// One figure that follows from others, such as a ratio that has a target.
    pub fn figure(&mut self, what: Value, name: &str, value: f64) {
        println!("  {:44} {name} {value:.2}", words(&what));
        self.push(what, json!({ name: value }));
    }

    /// A measurement, `text` beside it for people and `figures` for programs.
    pub fn row(&mut self, what: Value, seconds: f64, text: &str, mut figures: Value) {
        println!("  {:44} {:10.3} ms  {text}", words(&what), seconds * 1e3);
        figures["seconds"] = json!(seconds);
        self.push(what, figures);
    }

    fn push(&mut self, what: Value, figures: Value) {
        let fields = [what, figures]
            .into_iter()
            .filter_map(|fields| match fields {
                Value::Object(fields) => Some(fields),
                _ => None,
            });
        let row: Map<String, Value> = fields.flatten().collect();
        if let Some(Value::Array(rows)) = self.sections.get_mut(&self.section) {
            rows.push(Value::Object(row));
        }
    }

    /// Everything, as one object.
    pub fn json(&self) -> Value {
        Value::Object(self.sections.clone())
    }
}

/// The values of an object, one after another, with the names of those that are no text.
fn words(what: &Value) -> String {
    let Value::Object(fields) = what else {
        return what.to_string();
    };
    let words = fields.iter().map(|(name, value)| match value {
        Value::String(text) => text.clone(),
        other => format!("{name} {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
