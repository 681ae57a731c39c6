//! Text of objects made safe for terminals: control characters, width, truncation.

use std::borrow::Cow;
use std::ops::Range;
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

/// A line of a container's log: its colors left out, tabs as spaces, the rest as in [`clean`], indentation kept.
pub(crate) fn clean_log(line: &str) -> String {
    let line = without_colors(line).replace('\t', "    ");
    let line = line.trim_end();
    let indent = line.len() - line.trim_start_matches(' ').len();
    [&" ".repeat(indent), &*clean(line)].concat()
}

/// `text` without SGR sequences (`ESC [ … m`), which only choose colors.
fn without_colors(text: &str) -> Cow<'_, str> {
    const START: &str = "\u{1b}[";
    if !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(START) {
        let (before, sequence) = rest.split_at(start);
        out.push_str(before);
        let parameters = &sequence[START.len()..];
        let end = parameters.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'));
        match end {
            Some(end) if parameters[end..].starts_with('m') => rest = &parameters[end + 1..],
            // Another sequence, which is not for colors alone.
            _ => {
                out.push_str(START);
                rest = parameters;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
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

/// As [`truncate`], where what is missing is in the middle: messages end with what matters.
pub(crate) fn truncate_middle(text: &str, columns: usize) -> String {
    const HEAD_MIN: usize = 6;
    if width(text) <= columns || columns < 2 * HEAD_MIN {
        return truncate(text, columns).0;
    }
    let (head, _) = split_at_width(text, (columns - 1) / 2);
    let mut start = text.len();
    let mut used = width(head) + 1;
    for (place, char) in text.char_indices().rev() {
        used += char.width().unwrap_or(0);
        if used > columns {
            break;
        }
        start = place;
    }
    format!("{head}…{}", &text[start..])
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
        let line = line_of(rest, columns);
        lines.push(line.trim_end().to_owned());
        rest = rest[line.len()..].trim_start();
    }
    (lines, false)
}

/// Where the lines of `text` are if each has at most `columns`, or `first` columns for the first of them; broken as in [`wrap`].
pub(crate) fn wrap_ranges(text: &str, first: usize, columns: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = text.len() - text.trim_start().len();
    while start < text.len() {
        let width = if ranges.is_empty() { first } else { columns };
        let line = line_of(&text[start..], width.max(2));
        ranges.push(start..start + line.trim_end().len());
        start += line.len();
        start += text[start..].len() - text[start..].trim_start().len();
    }
    ranges
}

/// The beginning of `text` that fits in a line, broken between words where possible.
fn line_of(text: &str, columns: usize) -> &str {
    let (fits, beyond) = split_at_width(text, columns);
    if beyond.is_empty() || beyond.starts_with(' ') {
        return fits;
    }
    let Some(end) = fits.rfind(' ') else { return fits };
    let word = text[end..].trim_start().split(' ').next().unwrap_or_default();
    // A word that fits in no line is torn apart, unless a third of this one is full.
    if width(word) <= columns || width(&fits[..end]) * 3 >= columns { &fits[..end] } else { fits }
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
    fn logs_lose_their_colors_and_nothing_else() {
        assert_eq!(clean_log("\x1b[31mpanic:\x1b[0m dial\x1b[38;5;9m tcp"), "panic: dial tcp");
        assert_eq!(clean_log("\x1b[2J\x1b[1;31mred\x1b["), r"\u{1b}[2Jred\u{1b}[");
        assert_eq!(clean_log("  \tmain.go:12 \r\n"), "      main.go:12");
        assert_eq!(clean_log("\x1b]0;title\x07"), r"\u{1b}]0;title\u{7}");
    }

    #[test]
    fn ranges_of_lines_leave_room_for_what_stands_before_the_first() {
        let lines = |text: &str, first, columns| -> Vec<String> {
            wrap_ranges(text, first, columns).into_iter().map(|range| text[range].to_owned()).collect()
        };
        assert_eq!(lines("one two three four", 5, 9), ["one", "two three", "four"]);
        assert_eq!(lines("  averyverylongword end", 6, 9), ["averyv", "erylongwo", "rd end"]);
        assert_eq!(lines("", 6, 9), Vec::<String>::new());
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(truncate("世界世界", 5), ("世界…".to_owned(), true));
        assert_eq!(truncate("世界", 4), ("世界".to_owned(), false));
        assert_eq!(wrap("世界世界", 4, 9).0, ["世界", "世界"]);
    }

    #[test]
    fn the_end_of_a_message_matters() {
        let text = r#"cannot pull "registry.example.com/shop/web:1.9.0": manifest unknown"#;
        assert_eq!(truncate_middle(text, 40), r#"cannot pull "regist…0": manifest unknown"#);
        assert_eq!(truncate_middle(text, 8), "cannot…");
        assert_eq!(truncate_middle("short", 5), "short");
        for columns in 12..40 {
            assert!(width(&truncate_middle("世界世界世界世界世界世界世界世界", columns)) <= columns);
        }
    }

    #[test]
    fn lines_break_between_words_and_end() {
        assert_eq!(wrap("one two three four", 9, 9).0, ["one two", "three", "four"]);
        assert_eq!(
            wrap("one two three four", 9, 2),
            (vec!["one two".to_owned(), "three fo…".to_owned()], true)
        );
        assert_eq!(wrap("ab loooong word", 9, 9).0, ["ab", "loooong", "word"]);
        assert_eq!(wrap("averyverylongword", 6, 9).0, ["averyv", "erylon", "gword"]);
        assert_eq!(wrap("", 6, 9).0, Vec::<String>::new());
        assert_eq!(wrap("世", 1, 9).0, ["世"]);
    }
}
