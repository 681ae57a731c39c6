//! Values formatted for messages and explanations.

use std::fmt::{self, Write as _};

use settled_cel::value::Map;

use super::bytes::Val;

/// Maximum nesting of formatted values.
const MAX_DEPTH: usize = 64;

/// Maximum number of formatted elements of a list or map.
const MAX_ELEMENTS: usize = 32;

/// As in a message: text without quotes, lists with commas, everything else as in an expression.
pub(crate) struct Plain<'v, 'a>(pub(crate) &'v Val<'a>);

impl fmt::Display for Plain<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Val::Text(text) => f.write_str(text),
            Val::Optional(None) => Ok(()),
            Val::Optional(Some(value)) => Plain(value).fmt(f),
            Val::List(list) => comma(f, list.iter().flatten(), |f, value| match value {
                Val::Text(text) => f.write_str(&text),
                value => Quoted(&value, 0).fmt(f),
            }),
            value => Quoted(value, 0).fmt(f),
        }
    }
}

fn comma<T>(
    f: &mut fmt::Formatter<'_>,
    values: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, value) in values.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        if index == MAX_ELEMENTS {
            return f.write_str("...");
        }
        write(f, value)?;
    }
    Ok(())
}

/// As in an explanation: text in quotes, so that it differs from a number. With how deep it lies.
pub(crate) struct Quoted<'v, 'a>(pub(crate) &'v Val<'a>, pub(crate) usize);

impl fmt::Display for Quoted<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deeper = self.1 + 1;
        match self.0 {
            Val::Null => f.write_str("null"),
            Val::Uint(value) => write!(f, "{value}u"),
            Val::Double(value) => write!(f, "{value:?}"),
            Val::Text(text) => {
                f.write_char('\'')?;
                for char in text.chars() {
                    match char {
                        '\'' => f.write_str("\\'")?,
                        '\n' => f.write_str("\\n")?,
                        char if char.is_control() => write!(f, "{}", char.escape_unicode())?,
                        char => f.write_char(char)?,
                    }
                }
                f.write_char('\'')
            }
            Val::Optional(None) => f.write_str("optional.none()"),
            Val::Optional(Some(value)) => write!(f, "optional.of({})", Quoted(value, deeper)),
            Val::List(_) | Val::Map(_) if deeper > MAX_DEPTH => f.write_str("..."),
            Val::List(list) => {
                f.write_char('[')?;
                comma(f, list.iter().flatten(), |f, value| Quoted(&value, deeper).fmt(f))?;
                f.write_char(']')
            }
            Val::Map(map) => {
                f.write_char('{')?;
                members(f, map, deeper)?;
                f.write_char('}')
            }
            // Times, quantities, addresses and so on.
            value => match value.shown() {
                Some(text) => f.write_str(&text),
                None => f.write_str(value.type_name()),
            },
        }
    }
}

fn members(f: &mut fmt::Formatter<'_>, map: &Map<'_, super::bytes::Bytes<'_>>, deeper: usize) -> fmt::Result {
    let members = map.iter().take(MAX_ELEMENTS + 1).flatten();
    comma(f, members, |f, (key, value)| write!(f, "{}: {}", Quoted(&key, deeper), Quoted(&value, deeper)))
}
