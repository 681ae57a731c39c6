//! `fields`: field selectors.

use std::fmt;

use crate::selector::InvalidSelector;

/// `fields.Requirement`: condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The field's name, such as `metadata.name`.
    pub field: String,
    /// Whether the value must be equal or different.
    pub is_equal: bool,
    /// The value.
    pub value: String,
}

/// Formats the requirement as in a selector.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(if self.is_equal { "=" } else { "!=" })?;
        for char in self.value.chars() {
            if matches!(char, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{char}")?;
        }
        Ok(())
    }
}

/// Parses a selector as `fields.ParseSelector`. Requirements are sorted.
///
/// ```
/// use settled_apimachinery::fields;
///
/// let selector = fields::parse("status.phase!=Running,metadata.name==web")?;
/// let texts: Vec<String> = selector.iter().map(ToString::to_string).collect();
/// assert_eq!(texts, ["metadata.name=web", "status.phase!=Running"]);
/// # Ok::<(), settled_apimachinery::InvalidSelector>(())
/// ```
///
/// # Errors
/// The selector is invalid; the message is upstream's.
pub fn parse(text: &str) -> Result<Vec<Requirement>, InvalidSelector> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.sort_unstable();

    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let unknown =
            || InvalidSelector::new(format!("invalid selector: '{text}'; can't understand '{part}'"));
        let operator = part.bytes().zip(part.bytes().skip(1).chain([0])).position(|pair| match pair {
            (b'!', next) => next == b'=',
            (byte, _) => byte == b'=',
        });
        let (label, rest) = part.split_at(operator.ok_or_else(unknown)?);
        let (is_equal, value) = match rest.strip_prefix("!=") {
            Some(value) => (false, value),
            None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or_default()),
        };
        let value = unescape(value)?;
        // Upstream drops terms that are only an operator.
        if !label.is_empty() || !value.is_empty() {
            terms.push(Requirement { field: label.to_owned(), is_equal, value });
        }
    }
    Ok(terms)
}

/// `UnescapeValue`.
fn unescape(text: &str) -> Result<String, InvalidSelector> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    let message = format!("invalid field selector: invalid escape sequence: {sequence}");
                    return Err(InvalidSelector::new(message));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                let message = format!("invalid field selector: unescaped character in value: {code}");
                return Err(InvalidSelector::new(message));
            }
            c => value.push(c),
        }
    }
    Ok(value)
}
