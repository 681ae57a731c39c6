//! Parser: client-go's, including its quirks.

use crate::{Node, PathError};

/// Maximum nesting of filters.
const MAX_DEPTH: usize = 16;

fn syntax(text: impl Into<String>) -> PathError {
    PathError::Syntax(text.into())
}

/// Parses a text that begins with `{`, and returns the content of its first braces.
pub(crate) fn action(text: &str, depth: usize) -> Result<Vec<Node>, PathError> {
    if depth > MAX_DEPTH {
        return Err(syntax("filters are nested too deeply"));
    }
    let mut parser = Parser { text, position: 0, depth };
    let mut first = None;
    // Text after the first braces does not affect the result, but must be valid.
    while let Some(start) = text[parser.position..].find('{') {
        parser.position += start + 1;
        let nodes = parser.inside()?;
        first.get_or_insert(nodes);
    }
    first.ok_or_else(|| syntax("unclosed action"))
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Parses up to and including the closing brace.
    fn inside(&mut self) -> Result<Vec<Node>, PathError> {
        let mut nodes = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.position += 1;
                return Ok(nodes);
            }
            if rest.starts_with("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if rest.starts_with("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return Err(syntax("invalid multiple recursive descent"));
                }
                self.position += 2;
                nodes.push(Node::Recursive);
                if let Some(c) = self.peek().filter(|&c| is_word(c)) {
                    // As upstream: the first character is skipped as if it were the dot, and kept.
                    let start = self.position;
                    self.position += c.len_utf8();
                    nodes.push(self.field(start));
                }
                continue;
            }
            match self.next() {
                None | Some('\r' | '\n') => return Err(syntax("unclosed action")),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.brackets(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
                Some('.') => {
                    let start = self.position;
                    nodes.push(self.field(start));
                }
                Some(c) if c == '+' || c == '-' || c.is_numeric() => {
                    self.position -= c.len_utf8();
                    nodes.push(self.number()?);
                }
                Some(c) if is_word(c) => {
                    let start = self.position - c.len_utf8();
                    let end = self.rest().find(is_terminator).ok_or_else(|| syntax("unclosed action"))?;
                    self.position += end;
                    nodes.push(match &self.text[start..self.position] {
                        "true" => Node::Literal(true.into()),
                        "false" => Node::Literal(false.into()),
                        "range" => Node::Range,
                        word => Node::Word(word.to_owned()),
                    });
                }
                Some(c) => {
                    return Err(syntax(format!(
                        "unrecognized character in action: U+{:04X} '{c}'",
                        u32::from(c)
                    )));
                }
            }
        }
    }

    /// A field name that begins at `start`.
    fn field(&mut self, start: usize) -> Node {
        while let Some(c) = self.peek() {
            if is_terminator(c) {
                break;
            }
            self.position += c.len_utf8();
            if c == '\\' {
                self.next();
            }
        }
        match &self.text[start..self.position] {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    fn number(&mut self) -> Result<Node, PathError> {
        let start = self.position;
        if matches!(self.peek(), Some('+' | '-')) {
            self.position += 1;
        }
        let end =
            self.rest().find(|c: char| c != '.' && !c.is_numeric()).unwrap_or_else(|| self.rest().len());
        self.position += end;
        let text = &self.text[start..self.position];
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Node::Literal(number.into()));
        }
        match text.parse::<f64>() {
            Ok(number) => Ok(Node::Literal(number.into())),
            Err(_) => Err(syntax(format!("cannot parse number {text}"))),
        }
    }

    /// The rest of a quoted text, after the opening quote.
    fn quoted(&mut self, quote: char) -> Result<Node, PathError> {
        let start = self.position;
        loop {
            match self.next() {
                None | Some('\n') => return Err(syntax("unterminated quoted string")),
                Some(c) if c == quote && self.text.as_bytes()[self.position - 2] != b'\\' => break,
                Some(_) => {}
            }
        }
        Ok(Node::Literal(unquote(&self.text[start..self.position - 1], quote)?.into()))
    }

    /// The rest of `[…]`, after the opening bracket.
    fn brackets(&mut self, nodes: &mut Vec<Node>) -> Result<(), PathError> {
        let end = self.rest().find([']', '\n']).ok_or_else(|| syntax("unterminated array"))?;
        let text = &self.rest()[..end];
        self.position += end + 1;
        if self.text.as_bytes()[self.position - 1] == b'\n' {
            return Err(syntax("unterminated array"));
        }
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let part = format!("{{[{}]}}", part.trim_matches(' '));
                action(&part, self.depth + 1)
            });
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''))
            && !key.contains('\'')
        {
            nodes.extend(action(&format!("{{.{key}}}"), self.depth + 1)?);
            return Ok(());
        }
        nodes.push(slice(text)?);
        Ok(())
    }

    fn filter(&mut self) -> Result<Node, PathError> {
        self.position += "[?(".len();
        let start = self.position;
        let (mut begin, mut end, mut pair) = (false, false, '"');
        loop {
            match self.next() {
                None | Some('\n') => return Err(syntax("unterminated filter")),
                Some(c @ ('"' | '\'')) if !begin => (begin, pair) = (true, c),
                Some(c @ ('"' | '\'')) => {
                    end |= self.text.as_bytes()[self.position - 2] != b'\\' && c == pair;
                }
                Some(')') if begin == end => break,
                Some(_) => {}
            }
        }
        let text = &self.text[start..self.position - 1];
        if self.next() != Some(']') {
            return Err(syntax("unclosed array expect ]"));
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let parse = |text: &str| action(&format!("{{{text}}}"), self.depth + 1);
        if let Some(at) = text.find(is_operator).filter(|&at| at > 0) {
            let (left, rest) = text.split_at(at);
            let mut end = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            if end == rest.len() {
                // The right-hand side cannot be empty.
                end -= 1;
            }
            if end > 0 {
                let (operator, right) = rest.split_at(end);
                return Ok(Node::Filter(parse(left)?, operator.to_owned(), parse(right)?));
            }
        }
        Ok(Node::Filter(parse(text)?, "exists".to_owned(), Vec::new()))
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// `1`, `-1`, `1:3`, `::2`.
fn slice(text: &str) -> Result<Node, PathError> {
    let invalid = || syntax(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(invalid());
    }
    let mut numbers = [None; 3];
    for (number, part) in numbers.iter_mut().zip(&parts) {
        let digits = part.strip_prefix('-').unwrap_or(part);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        if !part.is_empty() {
            let value = part.parse().map_err(|_| syntax(format!("array index {part} is not a number")))?;
            *number = Some(value);
        }
    }
    let derived = parts.len() < 2;
    if derived {
        numbers[1] = Some(numbers[0].map_or(1, |start: i64| start.saturating_add(1)));
    }
    Ok(Node::Slice(numbers, derived))
}

/// Unquotes a text and resolves its escapes as Go.
fn unquote(text: &str, quote: char) -> Result<String, PathError> {
    let invalid = || syntax(format!("unquote string {text} error invalid syntax"));
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return Err(invalid());
        }
        if c != '\\' {
            result.push(c);
            continue;
        }
        let escape = match chars.next().ok_or_else(invalid)? {
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            '\\' => Some('\\'),
            'x' => code(&mut chars, 2),
            'u' => code(&mut chars, 4),
            'U' => code(&mut chars, 8),
            c => (c == quote).then_some(c),
        };
        result.push(escape.ok_or_else(invalid)?);
    }
    Ok(result)
}

/// The character of an escape with this many hexadecimal digits.
fn code(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let text: String = chars.by_ref().take(digits).collect();
    let complete = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if complete { u32::from_str_radix(&text, 16).ok().and_then(char::from_u32) } else { None }
}
