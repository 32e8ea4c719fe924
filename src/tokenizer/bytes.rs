//! Bytes inside tokens: the byte-level alphabet, byte-fallback tokens, and incomplete UTF-8.

/// The byte that the character of the byte-level alphabet stands for.
///
/// The alphabet is that of the GPT-2 encoder: printable Latin-1 characters stand for themselves, the
/// other 68 bytes, in order, for U+0100 and up.
pub(super) fn byte_of_char(c: char) -> Option<u8> {
    match c as u32 {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => Some(c as u8),
        n @ 0x100..=0x120 => Some((n - 0x100) as u8),
        n @ 0x121..=0x142 => Some((n - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// Appends the bytes that a byte-level token stands for. A token with a character outside the alphabet
/// (an added token, usually) stands for itself, as in the `tokenizers` crate.
pub(super) fn push_bytes(token: &str, out: &mut Vec<u8>) {
    let before = out.len();
    for c in token.chars() {
        match byte_of_char(c) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(before);
                out.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

/// Takes from `pending` all that is certain, and leaves the bytes of a character that is not complete
/// (at most three). Invalid bytes become U+FFFD as in `String::from_utf8_lossy`.
pub(super) fn take_text(pending: &mut Vec<u8>, out: &mut String) {
    let mut rest = pending.as_slice();
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                rest = &[];
                break;
            }
            Err(e) => {
                let (valid, after) = rest.split_at(e.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                rest = after;
                match e.error_len() {
                    Some(n) => {
                        out.push('\u{FFFD}');
                        rest = &rest[n..];
                    }
                    None => break,
                }
            }
        }
    }
    let consumed = pending.len() - rest.len();
    pending.drain(..consumed);
}

/// The byte that a byte-fallback token such as `<0x0A>` stands for.
pub(super) fn byte_of_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2 && digits.is_ascii())
        .then(|| u8::from_str_radix(digits, 16).ok())
        .flatten()
}
