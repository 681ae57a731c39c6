//! Compilation of expressions: limits and error messages.

use settled_cel::{CompileError, Program};

use super::paths::{Paths, ROOT};

/// No longer expression is read.
pub(crate) const MAX_LENGTH: usize = 4096;
/// No deeper nesting of brackets is read, and no more operators.
const MAX_BRACKETS: usize = 32;
const MAX_OPERATORS: usize = 400;
/// Each `a ? b : c` in the last place of another one is as deep as a bracket.
const MAX_CHOICES: usize = 60;

/// Variables of expressions besides `self`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// `metadata`, `spec`, `status` and so on: a misspelt name is an error.
    Known,
    /// Any top-level field, as Flux has it.
    Any,
    /// The known ones, in an expression of the built-in pack: a test compiles them all, so it is not checked again.
    Builtin,
}

const KNOWN: [&str; 6] = ["apiVersion", "kind", "metadata", "spec", "status", "data"];

/// Compiles an expression; the fields that it names are added to `paths`.
pub(crate) fn compile(source: &str, names: Names, paths: &mut Paths) -> Result<Program, CompileError> {
    let mut fields = Fields { names, paths };
    let compiled = if names == Names::Builtin {
        Program::compile_known(source, &mut fields)
    } else {
        check_size(source)?;
        Program::compile(source, &mut fields)
    };
    compiled.map_err(|error| {
        let message = unexpected(&error.message, source, error.at).unwrap_or_else(|| tidy(&error.message));
        CompileError { message, ..error }
    })
}

struct Fields<'p> {
    names: Names,
    paths: &'p mut Paths,
}

impl settled_cel::Names for Fields<'_> {
    fn variable(&mut self, name: &str) -> Option<u32> {
        if name == "self" {
            return Some(ROOT);
        }
        let is_field = self.names == Names::Any || KNOWN.contains(&name);
        is_field.then(|| self.paths.add(None, name))
    }

    fn field(&mut self, variable: u32, name: &str) -> Option<u32> {
        Some(self.paths.add(Some(variable).filter(|variable| *variable != ROOT), name))
    }

    fn unknown(&self, name: &str) -> String {
        let known = KNOWN.join(", ");
        format!(
            "unknown name `{name}`; known are self, {known}; write `self.{name}` for another field of the object"
        )
    }
}

fn error(message: impl Into<String>, at: Option<usize>) -> CompileError {
    CompileError { message: message.into(), at }
}

/// The lexer's message on a character with which no token begins: `unexpected "=" after "=="`.
fn unexpected(message: &str, source: &str, at: Option<usize>) -> Option<String> {
    let rest = message.strip_prefix("Syntax error: ").unwrap_or(message);
    let char = rest.strip_prefix("token recognition error at: '")?.chars().next()?;
    if matches!(char, '\'' | '"') {
        return Some(format!("the quote {char} is not closed"));
    }
    let before = source.get(..at?).unwrap_or_default();
    let operator = before.trim_end_matches(|char: char| "=!<>&|".contains(char)).len();
    let char = char.escape_debug();
    Some(match before.get(operator..) {
        Some(operator) if !operator.is_empty() => format!("unexpected \"{char}\" after \"{operator}\""),
        _ => format!("unexpected \"{char}\""),
    })
}

/// The parser's messages, in the words of this crate.
fn tidy(message: &str) -> String {
    if message == "invalid argument to has() macro" {
        return "has() takes a field, such as has(status.phase) or has(self.status); for a key with other characters, \
                write 'key' in map"
            .to_owned();
    }
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    // It lists every token that might follow.
    let short = message.split(" expecting ").next().unwrap_or(message);
    short.replace("'<EOF>'", "the end of the expression").replace("<EOF>", "the end of the expression")
}

/// Bounds what the parser gets to see: it recurses. The bounds of texts and comments must be exact, else
/// brackets could hide in them.
fn check_size(source: &str) -> Result<(), CompileError> {
    if source.len() > MAX_LENGTH {
        return Err(error(format!("the expression is longer than {MAX_LENGTH} bytes"), None));
    }
    if source.trim().is_empty() {
        return Err(error("the expression is empty", None));
    }
    let (mut open, mut operators, mut choices) = (Vec::new(), 0, 0);
    // The character just before, white space apart.
    let mut last: Option<char> = None;
    let mut after_sign = false;
    let mut at = 0;
    while let Some(char) = source.get(at..).and_then(|rest| rest.chars().next()) {
        let wrong = |message: String| Err(CompileError { message, at: Some(at) });
        let rest = source.get(at..).unwrap_or_default();
        let mut length = char.len_utf8();
        match char {
            '\'' | '"' => length = text_length(source, at)?,
            '/' if rest.starts_with("//") => length = rest.find('\n').unwrap_or(rest.len()),
            '(' | '[' | '{' => {
                open.push((char, at));
                if open.len() > MAX_BRACKETS {
                    return wrong("brackets are nested deeper than 32 levels".to_owned());
                }
            }
            ')' | ']' | '}' => {
                let wanted = match open.pop() {
                    Some(('(', _)) => ')',
                    Some(('[', _)) => ']',
                    Some(_) => '}',
                    None => return wrong(format!("`{char}` without a bracket that it closes")),
                };
                if char != wanted {
                    return wrong(format!("expected `{wanted}`, found `{char}`"));
                }
            }
            _ => {}
        }
        // A chain of indexes or of `in` is as deep a tree as one of other operators.
        let is_in = rest.strip_prefix("in").is_some_and(|after| !after.starts_with(is_of_word));
        if is_in
            || matches!(
                char,
                '[' | '.' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '?' | ':'
            )
        {
            operators += 1;
            if operators > MAX_OPERATORS {
                return wrong(format!("the expression has more than {MAX_OPERATORS} operators"));
            }
        }
        // `a.?b`, `a[?0]`, `[?a, ?b]` and `{?'a': b}` are no choices.
        if char == '?' && !matches!(last, Some('.' | '[' | ',' | '{')) {
            choices += 1;
            if choices > MAX_CHOICES {
                return wrong(format!("the expression has more than {MAX_CHOICES} choices `a ? b : c`"));
            }
        }
        // The parser reads two of them as one; but `2 - -1` is a difference.
        let is_sign = matches!(char, '!' | '-') && !last.is_some_and(ends_value);
        if is_sign && after_sign && last == Some(char) {
            return wrong("write `!` and `-` once: two of them cancel out".to_owned());
        }
        if !char.is_whitespace() {
            (last, after_sign) = (Some(char), is_sign);
        }
        at += length;
    }
    match open.pop() {
        None => Ok(()),
        Some((bracket, at)) => Err(CompileError {
            message: format!("`{bracket}` without the bracket that closes it"),
            at: Some(at),
        }),
    }
}

/// Whether a value may end with this character.
fn ends_value(char: char) -> bool {
    is_of_word(char) || matches!(char, ')' | ']' | '}' | '\'' | '"' | '`')
}

fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// The bytes that a literal text occupies, from its quote on. What the lexer would not take is an error: it would go
/// on somewhere inside of the text.
fn text_length(source: &str, at: usize) -> Result<usize, CompileError> {
    let (before, rest) = source.split_at(at);
    let wrong = |message: String, at: usize| Err(CompileError { message, at: Some(at) });
    let word = before.len() - before.trim_end_matches(is_of_word).len();
    let prefix = before.get(at - word..).unwrap_or_default().to_ascii_lowercase();
    let is_raw = match &*prefix {
        "" | "b" => false,
        "r" | "br" => true,
        _ => return wrong("an operator is missing before this text".to_owned(), at),
    };
    let quote = rest.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let (end, is_block) = if rest.starts_with(&triple) { (&*triple, true) } else { (quote, false) };
    let mut length = end.len();
    loop {
        let inside = rest.get(length..).unwrap_or_default();
        if inside.starts_with(end) {
            return Ok(length + end.len());
        }
        let Some(char) = inside.chars().next().filter(|char| is_block || !matches!(char, '\n' | '\r')) else {
            return wrong(format!("the text is not ended: `{end}` is missing"), at);
        };
        length += match char {
            '\\' if !is_raw => match escape_length(inside) {
                Some(length) => length,
                None => {
                    let shown: String = inside.chars().take(2).collect();
                    let message = format!(
                        "there is no escape `{shown}`; write `\\{shown}`, or r'...' for the whole text"
                    );
                    return wrong(message, at + length);
                }
            },
            char => char.len_utf8(),
        };
    }
}

/// The bytes of the escape that a text begins with.
fn escape_length(text: &str) -> Option<usize> {
    let escape = text.as_bytes();
    let digits = |count: usize, is_digit: fn(&u8) -> bool| {
        let digits = escape.get(2..2 + count).filter(|digits| digits.iter().all(is_digit));
        digits.map(|_| 2 + count)
    };
    match escape.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => digits(2, u8::is_ascii_hexdigit),
        b'u' => digits(4, u8::is_ascii_hexdigit),
        b'U' => digits(8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => digits(2, |digit| matches!(digit, b'0'..=b'7')),
        _ => None,
    }
}
