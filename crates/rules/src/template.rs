//! Text templates with expressions: `Ready: ${status.ready}/${spec.replicas}`.

use std::fmt::Write as _;

use settled_cel::{CompileError, Program};

use crate::cel::bytes::Val;
use crate::cel::paths::Paths;
use crate::cel::scope::Scope;
use crate::cel::shown::Plain;
use crate::cel::source::{Names, compile};

/// Maximum length of a text, the limit of a condition's message.
const MAX_TEXT_BYTES: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Expression(Program),
}

impl Template {
    pub(crate) fn compile(source: &str, names: Names, paths: &mut Paths) -> Result<Self, CompileError> {
        let mut parts = Vec::new();
        let (mut rest, mut at) = (source, 0);
        while let Some(open) = rest.find("${") {
            let (before, _) = rest.split_at(open);
            // `$${` stands for `${`.
            if let Some(before) = before.strip_suffix('$') {
                parts.push(Part::Text([before, "${"].concat().into()));
                (rest, at) = (rest.get(open + 2..).unwrap_or_default(), at + open + 2);
                continue;
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            let inside = rest.get(open + 2..).unwrap_or_default();
            let end = closing(inside).ok_or_else(|| CompileError {
                message: "`${` without the `}` that ends it; write `$${` for the characters themselves"
                    .to_owned(),
                at: Some(at + open),
            })?;
            let expression = inside.get(..end).unwrap_or_default();
            let begins = at + open + 2;
            let program = compile(expression, names, paths)
                .map_err(|error| CompileError { at: Some(begins + error.at.unwrap_or(0)), ..error })?;
            parts.push(Part::Expression(program));
            (rest, at) = (inside.get(end + 1..).unwrap_or_default(), begins + end + 1);
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(Self(parts))
    }

    /// The text that it gives for each object, if it has no expression.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Text(text)] if text.len() <= MAX_TEXT_BYTES => Some(trimmed(text)),
            _ => None,
        }
    }

    /// The text for an object; what is absent is left out.
    pub(crate) fn render<'e>(&'e self, scope: &Scope<'e>) -> String {
        if let Some(text) = self.as_text() {
            return text.to_owned();
        }
        // Most are one field.
        let mut text = match self.0.as_slice() {
            [Part::Expression(program)] => match scope.evaluate(program) {
                Ok(Val::Text(text)) if text.len() <= MAX_TEXT_BYTES => return trimmed(&text).to_owned(),
                Err(_) => return String::new(),
                Ok(value) => return rendered(&value),
            },
            parts => String::with_capacity(32 * parts.len()),
        };
        for part in &self.0 {
            let mut out = Bounded { text: &mut text };
            let written = match part {
                Part::Text(part) => out.write_str(part),
                Part::Expression(program) => match scope.evaluate(program) {
                    Ok(Val::Text(value)) => out.write_str(&value),
                    Ok(value) => write!(out, "{}", Plain(&value)),
                    Err(_) => Ok(()),
                },
            };
            // The text is full.
            if written.is_err() {
                break;
            }
        }
        if trimmed(&text).len() == text.len() { text } else { trimmed(&text).to_owned() }
    }
}

fn rendered(value: &Val<'_>) -> String {
    let mut text = String::new();
    // The text may be full.
    let _ = match value {
        Val::Text(value) => Bounded { text: &mut text }.write_str(value),
        value => write!(Bounded { text: &mut text }, "{}", Plain(value)),
    };
    trimmed(&text).to_owned()
}

/// As `trim`, which costs more than the text where it is plain.
fn trimmed(text: &str) -> &str {
    let is_plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_graphic);
    let bytes = text.as_bytes();
    if is_plain(bytes.first()) && is_plain(bytes.last()) { text } else { text.trim() }
}

/// Position of the closing bracket, after nested ones and quotes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    outside_quotes(text, |_, char| {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ => {}
        }
        false
    })
}

/// Calls back with each character outside of quotes; gives the place where it says so.
pub(crate) fn outside_quotes(text: &str, mut found: impl FnMut(usize, char) -> bool) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(end), char) if char == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(char),
            (None, char) if found(at, char) => return Some(at),
            _ => {}
        }
    }
    None
}

struct Bounded<'t> {
    text: &'t mut String,
}

impl std::fmt::Write for Bounded<'_> {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        let room = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        let end = (0..=room).rev().find(|at| more.is_char_boundary(*at)).unwrap_or(0);
        self.text.push_str(more.get(..end).unwrap_or_default());
        Err(std::fmt::Error)
    }
}
