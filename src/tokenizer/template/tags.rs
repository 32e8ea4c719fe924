//! The `generation` tag, which marks what the assistant said.
//!
//! Transformers uses the marks to train; rendering only prints what is between them. The template
//! engine does not know the tag, so `{% generation %}` becomes `{% with %}`, which has the same scope,
//! and the whitespace marks stay.

/// The template with its `generation` tags replaced.
pub(super) fn replace_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let (text, after) = match tail.as_bytes().get(1) {
            Some(b'#') => split_after(tail, tail.find("#}")),
            Some(b'{') => split_after(tail, end_of_tag(tail, "}}")),
            Some(b'%') => split_after(tail, end_of_tag(tail, "%}")),
            _ => tail.split_at(1),
        };
        match name_of_tag(text) {
            Some("generation") => out.push_str(&text.replacen("generation", "with", 1)),
            Some("endgeneration") => out.push_str(&text.replacen("endgeneration", "endwith", 1)),
            Some("raw") => {
                // Everything up to the end of a raw block is text.
                let (raw, behind) = after.split_at(after.find("endraw").unwrap_or(after.len()));
                out.push_str(text);
                out.push_str(raw);
                rest = behind;
                continue;
            }
            _ => out.push_str(text),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Splits behind the two characters at `end`, or at the end of the text.
fn split_after(text: &str, end: Option<usize>) -> (&str, &str) {
    text.split_at(end.map_or(text.len(), |end| end + 2))
}

/// Where the tag that `text` begins with ends; its strings may hold the mark.
fn end_of_tag(text: &str, mark: &str) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices().skip(2);
    while let Some((i, c)) = chars.next() {
        match quote {
            None if text[i..].starts_with(mark) => return Some(i),
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(_) if c == '\\' => {
                chars.next();
            }
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

/// The name of a statement, if it has no arguments.
fn name_of_tag(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(
        inner
            .trim_start_matches(['-', '+'])
            .trim_end_matches(['-', '+'])
            .trim(),
    )
}
