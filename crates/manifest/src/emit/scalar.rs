//! YAML string styles: plain, quoted or block.

use crate::yaml::{looks_like_other_type, write_escape};

/// Properties of a string that determine its style.
struct Shape {
    /// Has line feeds.
    multiline: bool,
    /// Has characters that require double quotes.
    special: bool,
    /// Could be plain in block style, on one line.
    plain: bool,
    /// Could be a literal block.
    block: bool,
}

/// Whether a character needs no escape: it is printable in YAML, and neither invisible nor a bidirectional control,
/// which could disguise text.
fn is_printable(char: char) -> bool {
    match char {
        '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' => false,
        ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}' => true,
        _ => char >= '\u{10000}',
    }
}

impl Shape {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let (mut multiline, mut special) = (false, false);
        for char in text.chars() {
            match char {
                '\n' => multiline = true,
                _ => special |= !is_printable(char),
            }
        }
        let space_at_edge = matches!(bytes.first(), Some(b' ')) || matches!(bytes.last(), Some(b' '));
        let first = match bytes {
            [] => false,
            [b'-' | b'?' | b':', after @ ..] => !matches!(after.first(), None | Some(b' ')),
            [b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>', ..] => false,
            [b'\'' | b'"' | b'%' | b'@' | b'`', ..] => false,
            _ => true,
        };
        let marker = text.starts_with("---") || text.starts_with("...");
        let inside = bytes.windows(2).any(|pair| pair == b": " || pair == b" #") || text.ends_with(':');
        let plain = first && !space_at_edge && !marker && !inside && !special && !multiline;
        // A line that ends with a space would be unreadable in a block.
        let block = multiline && !special && !text.contains(" \n") && !text.ends_with(' ');
        Self { multiline, special, plain, block }
    }
}

/// Writes a string as a value. `indent` is the column of its entry.
pub(super) fn write(text: &str, indent: usize, out: &mut Vec<u8>) {
    let shape = Shape::of(text);
    if shape.block {
        write_literal(text, indent + 2, out);
    } else {
        write_line(text, &shape, out);
    }
}

fn write_line(text: &str, shape: &Shape, out: &mut Vec<u8>) {
    let typed = looks_like_other_type(text.as_bytes());
    if shape.plain && !typed {
        out.extend_from_slice(text.as_bytes());
    } else if typed || shape.special || shape.multiline || text.is_empty() {
        write_double_quoted(text, out);
    } else {
        out.push(b'\'');
        out.extend_from_slice(text.replace('\'', "''").as_bytes());
        out.push(b'\'');
    }
}

/// Maximum length of a simple key: readers search at most 1024 characters for its colon. Longer keys need `?`.
const SHORT_KEY: usize = 1000;

/// Writes a key and its colon.
pub(super) fn write_key(key: &str, indent: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write_line(key, &Shape::of(key), out);
    if out.len() - start > SHORT_KEY {
        let key = out.split_off(start);
        out.extend_from_slice(b"? ");
        out.extend_from_slice(&key);
        out.push(b'\n');
        out.resize(out.len() + indent, b' ');
    }
    out.push(b':');
}

pub(super) fn write_flow_key(key: &str, out: &mut Vec<u8>) {
    let start = out.len();
    write_double_quoted(key, out);
    if out.len() - start > SHORT_KEY {
        let key = out.split_off(start);
        out.extend_from_slice(b"? ");
        out.extend_from_slice(&key);
        out.push(b' ');
    }
    out.extend_from_slice(b": ");
}

pub(super) fn write_double_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            _ if is_printable(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => write_escape(char, out),
        }
    }
    out.push(b'"');
}

/// Writes a literal block, without the line feed after its last line.
fn write_literal(text: &str, indent: usize, out: &mut Vec<u8>) {
    out.push(b'|');
    // An indentation indicator is needed if the first line cannot show the indentation.
    if text.starts_with([' ', '\n']) {
        out.push(b'2');
    }
    let content = text.strip_suffix('\n');
    match content {
        None => out.push(b'-'),
        Some(content) if content.is_empty() || content.ends_with('\n') => out.push(b'+'),
        Some(_) => {}
    }
    for line in content.unwrap_or(text).split('\n') {
        out.push(b'\n');
        if !line.is_empty() {
            out.resize(out.len() + indent, b' ');
            out.extend_from_slice(line.as_bytes());
        }
    }
}
