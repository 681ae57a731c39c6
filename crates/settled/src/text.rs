//! Text from objects, made fit for a terminal.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// `text` on one line, with whatever could drive a terminal or deceive the eye spelled out.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_clean(&mut out, text);
    out
}

/// As [`clean`], where lines stay lines.
pub(crate) fn clean_lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            [&" ".repeat(indent), &*clean(line)].concat()
        })
        .collect();
    lines.join("\n")
}

/// Appends [`clean`] text.
pub(crate) fn push_clean(out: &mut String, text: &str) {
    let text = text.trim();
    if text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        out.push_str(text);
        return;
    }
    for char in text.chars() {
        match char {
            '\n' | '\r' | '\t' => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            _ if is_harmful(char) => out.extend(char.escape_unicode()),
            _ => out.push(char),
        }
    }
}

/// Control characters, and the invisible ones that turn the direction of writing or break lines.
fn is_harmful(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// How many columns `text` takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// As much of `text` as fits in `columns`, ending in `…` where something is missing.
pub(crate) fn truncate(text: &str, columns: usize) -> (String, bool) {
    if width(text) <= columns {
        return (text.to_owned(), false);
    }
    let (head, _) = split_at_width(text, columns.saturating_sub(1));
    (format!("{}…", head.trim_end()), true)
}

/// `text` in lines of at most `columns`, broken between words where possible; never more than `lines_max` of them,
/// the last one ending in `…` where something is missing.
pub(crate) fn wrap(text: &str, columns: usize, lines_max: usize) -> (Vec<String>, bool) {
    let columns = columns.max(2);
    let mut lines = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if lines.len() + 1 >= lines_max {
            let (line, cut) = truncate(rest, columns);
            lines.push(line);
            return (lines, cut);
        }
        let (fits, beyond) = split_at_width(rest, columns);
        let line = if beyond.is_empty() || beyond.starts_with(' ') {
            fits
        } else {
            // A third of a line is better than a word torn apart; less than that is not.
            match fits.rfind(' ') {
                Some(at) if width(&fits[..at]) * 3 >= columns => &fits[..at],
                _ => fits,
            }
        };
        lines.push(line.trim_end().to_owned());
        rest = rest[line.len()..].trim_start();
    }
    (lines, false)
}

/// Cuts `text` so that the first part takes at most `columns`, and at least one character.
fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, char) in text.char_indices() {
        used += char.width().unwrap_or(0);
        if used > columns && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// The operating system's words for an error, without their number.
pub(crate) fn os_words(error: &str) -> &str {
    error.split_once(" (os error ").map_or(error, |(words, _)| words)
}

/// `1 object`, `2 objects`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `14 ms`, and `14 s` once it is long.
pub(crate) fn elapsed(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..10_000 => format!("{millis} ms"),
        _ => format!("{} s", time.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_spelled_out() {
        assert_eq!(clean("\x1b[2Jgone\x07"), r"\u{1b}[2Jgone\u{7}");
        assert_eq!(clean("csi \u{9b}31m, del \u{7f}"), r"csi \u{9b}31m, del \u{7f}");
        assert_eq!(clean("a\u{202e}b\u{2066}c"), r"a\u{202e}b\u{2066}c");
        assert_eq!(clean("  two\r\n\tlines\n"), "two lines");
        assert_eq!(clean("grüße 世界"), "grüße 世界");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(truncate("世界世界", 5), ("世界…".to_owned(), true));
        assert_eq!(truncate("世界", 4), ("世界".to_owned(), false));
        assert_eq!(wrap("世界世界", 4, 9).0, ["世界", "世界"]);
    }

    #[test]
    fn lines_break_between_words_and_end() {
        assert_eq!(wrap("one two three four", 9, 9).0, ["one two", "three", "four"]);
        assert_eq!(
            wrap("one two three four", 9, 2),
            (vec!["one two".to_owned(), "three fo…".to_owned()], true)
        );
        assert_eq!(wrap("averyverylongword", 6, 9).0, ["averyv", "erylon", "gword"]);
        assert_eq!(wrap("", 6, 9).0, Vec::<String>::new());
        assert_eq!(wrap("世", 1, 9).0, ["世"]);
    }
}
