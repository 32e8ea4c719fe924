//! Steps that see the joined text in pieces.

/// A step that sees the joined text.
#[derive(Clone)]
pub(in crate::tokenizer) enum TextStep {
    /// Every occurrence of the first text, which is not empty, becomes the second.
    Replace(String, String),
    /// Takes the character off the ends of the whole text.
    Strip(Strip),
}

/// A character to take off, and how often at most at each end.
#[derive(Clone, Copy)]
pub(in crate::tokenizer) struct Strip {
    /// The character.
    pub content: char,
    /// How often at the start.
    pub start: usize,
    /// How often at the end.
    pub stop: usize,
}

/// A [`TextStep`] and what it holds back.
#[derive(Clone)]
pub(super) struct TextState {
    step: TextStep,
    /// Strip: how often the character can still go at the start.
    left: usize,
    /// The end of the text so far, which later text can change.
    held: String,
}

impl TextState {
    /// The step before any text.
    pub fn new(step: TextStep) -> Self {
        let left = match &step {
            TextStep::Strip(strip) => strip.start,
            TextStep::Replace(..) => 0,
        };
        Self {
            step,
            left,
            held: String::new(),
        }
    }

    /// Takes text and appends to `out` what is now certain.
    pub fn push(&mut self, text: &str, out: &mut String) {
        match &self.step {
            TextStep::Replace(from, to) => {
                self.held.push_str(text);
                let mut done = 0;
                for (at, _) in self.held.match_indices(from.as_str()) {
                    out.push_str(&self.held[done..at]);
                    out.push_str(to);
                    done = at + from.len();
                }
                let rest = &self.held[done..];
                // What could be the beginning of another occurrence stays.
                let keep = (1..from.len().min(rest.len() + 1))
                    .rev()
                    .find(|&n| rest.as_bytes().ends_with(&from.as_bytes()[..n]))
                    .unwrap_or(0);
                out.push_str(&rest[..rest.len() - keep]);
                self.held = rest[rest.len() - keep..].to_owned();
            }
            TextStep::Strip(strip) => {
                let mut text = text;
                while self.left > 0 && !text.is_empty() {
                    match text.strip_prefix(strip.content) {
                        Some(rest) => {
                            text = rest;
                            self.left -= 1;
                        }
                        None => self.left = 0,
                    }
                }
                if strip.stop == 0 {
                    out.push_str(text);
                    return;
                }
                self.held.push_str(text);
                let trailing =
                    self.held.len() - strip.content.len_utf8() * strip.trailing(&self.held);
                out.extend(self.held.drain(..trailing));
            }
        }
    }

    /// Appends to `out` what was held back.
    pub fn finish(&mut self, out: &mut String) {
        // Strip holds only what goes at the end; Replace holds a beginning that did not complete.
        if let TextStep::Replace(..) = self.step {
            out.push_str(&self.held);
        }
        self.held.clear();
    }
}

impl Strip {
    /// A whole token without what goes.
    pub fn whole<'t>(&self, token: &'t str) -> &'t str {
        let mut text = token;
        for _ in 0..self.start {
            match text.strip_prefix(self.content) {
                Some(rest) => text = rest,
                None => break,
            }
        }
        &text[..text.len() - self.content.len_utf8() * self.trailing(text)]
    }

    /// How many characters would go at the end of `text`.
    fn trailing(&self, text: &str) -> usize {
        text.chars()
            .rev()
            .take(self.stop)
            .take_while(|&c| c == self.content)
            .count()
    }
}
