//! Output texts: valid UTF-8 with bounded length.

/// Maximum length of an error message, in characters.
const MAX_ERROR_LENGTH: usize = 400;
/// Maximum length of a health message, in bytes: the limit of condition messages in Kubernetes.
pub(crate) const MAX_MESSAGE_LENGTH: usize = 32 * 1024;
/// Maximum length of a chunk name in Lua's messages.
const MAX_NAME_LENGTH: usize = 59;

/// The first 400 characters.
pub(crate) fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A script's message, with invalid UTF-8 replaced.
pub(crate) fn message(text: &[u8]) -> String {
    if text.len() <= MAX_MESSAGE_LENGTH {
        return String::from_utf8_lossy(text).into_owned();
    }
    // A character cut in half is dropped, not replaced.
    let mut end = MAX_MESSAGE_LENGTH;
    while end > MAX_MESSAGE_LENGTH - 4 && text[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    format!("{}…", String::from_utf8_lossy(&text[..end]))
}

/// The name that Lua puts before the line number.
pub(crate) fn chunk_name(name: &str) -> String {
    let mut shown = String::new();
    for character in name.chars() {
        let character = if character.is_control() { '_' } else { character };
        if shown.len() + character.len_utf8() > MAX_NAME_LENGTH {
            break;
        }
        shown.push(character);
    }
    shown
}

/// Message and line of an error; the line only if it is one of the script.
pub(crate) fn located(text: &[u8], chunk: &str) -> (String, Option<u32>) {
    // Long enough for the name, the line and the truncated message.
    let text = &text[..text.len().min(8 * MAX_ERROR_LENGTH)];
    let text = String::from_utf8_lossy(text);
    if let Some((line, rest)) = strip_position(&text, chunk) {
        return (bounded(rest), Some(line));
    }
    match strip_position(&text, PRELUDE) {
        Some((_, rest)) => (bounded(rest), None),
        None => (bounded(&text), None),
    }
}

/// Chunk name of the prelude.
pub(crate) const PRELUDE: &str = "[library]";

fn strip_position<'t>(text: &'t str, chunk: &str) -> Option<(u32, &'t str)> {
    let (line, rest) = text.strip_prefix(chunk)?.strip_prefix(':')?.split_once(':')?;
    Some((line.parse().ok()?, rest.strip_prefix(' ').unwrap_or(rest)))
}
