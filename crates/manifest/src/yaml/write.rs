//! Encoding of YAML scalars as JSON.

use super::YamlError;
use super::parse::Tag;
use super::resolve::{Resolved, float_key, resolve, write_float};

type Result<T> = std::result::Result<T, YamlError>;

/// Type of a scalar after resolving its tag and quotes.
enum Scalar {
    /// The text itself.
    Text,
    /// The bytes of `!!binary`, with invalid UTF-8 replaced.
    Binary(String),
    Other(Resolved),
}

/// `implicit`: plain, without a tag.
fn interpret(text: &[u8], tag: Tag, implicit: bool, at: usize) -> Result<Scalar> {
    match tag {
        Tag::None if !implicit => return Ok(Scalar::Text),
        Tag::Str | Tag::NonSpecific | Tag::Merge | Tag::Other => return Ok(Scalar::Text),
        Tag::Binary => {
            return match settled_go::base64::STANDARD.decode(text) {
                Ok(bytes) => Ok(Scalar::Binary(String::from_utf8_lossy(&bytes).into_owned())),
                Err(_) => Err(YamlError::new("!!binary value contains invalid base64 data", at)),
            };
        }
        Tag::None => {
            let resolved = resolve(text);
            return Ok(if resolved == Resolved::Str { Scalar::Text } else { Scalar::Other(resolved) });
        }
        Tag::Bool | Tag::Int | Tag::Float | Tag::Null | Tag::Timestamp => {}
    }
    let resolved = resolve(text);
    let (found, fits) = match &resolved {
        Resolved::Null => ("null", tag == Tag::Null),
        Resolved::Bool(_) => ("bool", tag == Tag::Bool),
        Resolved::Int(value) => {
            ("int", tag == Tag::Int || (tag == Tag::Float && i64::try_from(*value).is_ok()))
        }
        Resolved::Float(_) | Resolved::Digits(_) => ("float", tag == Tag::Float),
        Resolved::Str if super::timestamp::is_timestamp(text) => ("timestamp", tag == Tag::Timestamp),
        Resolved::Str => ("str", false),
    };
    if !fits {
        let wanted = match tag {
            Tag::Bool => "bool",
            Tag::Int => "int",
            Tag::Float => "float",
            Tag::Null => "null",
            _ => "timestamp",
        };
        let shown = String::from_utf8_lossy(text);
        return Err(YamlError::new(format!("cannot decode !!{found} `{shown}` as a !!{wanted}"), at));
    }
    Ok(match resolved {
        Resolved::Str => Scalar::Text,
        Resolved::Int(value) if tag == Tag::Float => Scalar::Other(Resolved::Float(value as f64)),
        other => Scalar::Other(other),
    })
}

/// Writes a scalar as a value.
pub(super) fn write_value(text: &[u8], tag: Tag, implicit: bool, at: usize, out: &mut Vec<u8>) -> Result<()> {
    match interpret(text, tag, implicit, at)? {
        Scalar::Text | Scalar::Other(Resolved::Str) => write_string(text, out),
        Scalar::Binary(text) => write_string(text.as_bytes(), out),
        Scalar::Other(Resolved::Null) => out.extend_from_slice(b"null"),
        Scalar::Other(Resolved::Bool(true)) => out.extend_from_slice(b"true"),
        Scalar::Other(Resolved::Bool(false)) => out.extend_from_slice(b"false"),
        Scalar::Other(Resolved::Int(_)) if is_canonical(text) => out.extend_from_slice(text),
        Scalar::Other(Resolved::Int(value)) => out.extend_from_slice(value.to_string().as_bytes()),
        Scalar::Other(Resolved::Float(value)) if value.is_finite() => write_float(value, out),
        Scalar::Other(Resolved::Float(_)) => {
            let shown = String::from_utf8_lossy(text);
            return Err(YamlError::new(format!("{shown} cannot be a number in JSON"), at));
        }
        Scalar::Other(Resolved::Digits(digits)) => out.extend_from_slice(digits.as_bytes()),
    }
    Ok(())
}

/// Writes an integer as JSON.
fn is_canonical(text: &[u8]) -> bool {
    match text {
        [b'0'] => true,
        [b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Writes a scalar as a key: the string that Go converts it to.
pub(super) fn write_key(text: &[u8], tag: Tag, implicit: bool, at: usize, out: &mut Vec<u8>) -> Result<()> {
    match interpret(text, tag, implicit, at)? {
        Scalar::Text | Scalar::Other(Resolved::Str) => write_string(text, out),
        Scalar::Binary(text) => write_string(text.as_bytes(), out),
        Scalar::Other(Resolved::Null) => return Err(YamlError::new("unsupported map key: null", at)),
        Scalar::Other(Resolved::Bool(value)) => write_string(if value { b"true" } else { b"false" }, out),
        Scalar::Other(Resolved::Int(value)) if i64::try_from(value).is_err() => {
            return Err(YamlError::new(format!("unsupported map key: {value} has more than 63 bits"), at));
        }
        Scalar::Other(Resolved::Int(value)) => write_string(value.to_string().as_bytes(), out),
        Scalar::Other(Resolved::Float(value)) => write_string(float_key(value).as_bytes(), out),
        Scalar::Other(Resolved::Digits(digits)) => {
            write_string(float_key(digits.parse().unwrap_or(f64::INFINITY)).as_bytes(), out);
        }
    }
    Ok(())
}

/// Writes a JSON string. `text` is UTF-8.
pub(crate) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut from = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[from..]);
    out.push(b'"');
}
