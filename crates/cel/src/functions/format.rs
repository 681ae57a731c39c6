//! `'%s has %d'.format([...])`.

use std::fmt::Write;

use settled_go::strconv::atoi;

use crate::budget::{Budget, Fault, Result};
use crate::types::Type;
use crate::value::{Data, List, Val};

/// Maximum precision.
const MAX_PRECISION: usize = 1000;
const MAX_LENGTH: usize = 48 << 20;

const STRING: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
                                 types, durations, and timestamps, was given ";

fn fail<T>(text: String) -> Result<T> {
    Err(Fault::error(text))
}

fn clause_error<T>(text: &str) -> Result<T> {
    fail(format!("error during formatting: {text}"))
}

pub(crate) fn format<'a, D: Data<'a>>(template: &str, args: &List<'a, D>, budget: &Budget) -> Result<String> {
    let mut out = String::with_capacity(template.len());
    let mut next = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let Some(arg) = args.get(next) else { return fail(format!("index {next} out of range")) };
        let arg = arg?;
        next += 1;
        if rest.is_empty() {
            return fail("unexpected end of string".to_owned());
        }
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = after.split_at(digits);
            if tail.is_empty() {
                let text = "could not parse formatting clause: error while parsing precision: could not find end of \
                            precision specifier";
                return fail(text.to_owned());
            }
            let number = match atoi(number) {
                Ok(number) => usize::try_from(number).unwrap_or(MAX_PRECISION),
                Err(error) => {
                    return fail(format!(
                        "could not parse formatting clause: error while parsing precision: error while converting \
                         precision to integer: {error}"
                    ));
                }
            };
            precision = Some(number.min(MAX_PRECISION));
            rest = tail;
        }
        let mut chars = rest.chars();
        let Some(clause) = chars.next() else { return fail("unexpected end of string".to_owned()) };
        rest = chars.as_str();
        directive(&mut out, clause, precision, &arg, budget)?;
        if out.len() > MAX_LENGTH {
            return Err(Fault::Limit);
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Checks a literal format string against the argument types; errors have the index of the argument.
pub(crate) fn check(template: &str, types: &[&Type]) -> std::result::Result<(), (Option<usize>, String)> {
    let mut next = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        let Some(type_) = types.get(next) else { return Err((None, format!("index {next} out of range"))) };
        next += 1;
        rest = rest
            .strip_prefix('.')
            .map_or(rest, |digits| digits.trim_start_matches(|char: char| char.is_ascii_digit()));
        let mut chars = rest.chars();
        let clause = chars.next().unwrap_or(' ');
        rest = chars.as_str();
        let number = matches!(type_, Type::Int | Type::Uint);
        let (fits, message) = match clause {
            's' => {
                let known = matches!(
                    type_,
                    Type::List(_)
                        | Type::Map(..)
                        | Type::Int
                        | Type::Uint
                        | Type::Double
                        | Type::Bool
                        | Type::String
                        | Type::Timestamp
                        | Type::Bytes
                        | Type::Duration
                        | Type::Kind(_)
                        | Type::Null
                );
                (known, STRING)
            }
            'd' => (number, "decimal clause can only be used on integers, was given "),
            'f' => {
                let known = matches!(type_, Type::Double | Type::String);
                (known, "fixed-point clause can only be used on doubles, was given ")
            }
            'e' => {
                let known = matches!(type_, Type::Double | Type::String);
                (known, "scientific clause can only be used on doubles, was given ")
            }
            'b' => {
                let known = number || **type_ == Type::Bool;
                (known, "only integers and bools can be formatted as binary, was given ")
            }
            'x' | 'X' => {
                let known = number || matches!(type_, Type::String | Type::Bytes);
                (known, "only integers, byte buffers, and strings can be formatted as hex, was given ")
            }
            'o' => (number, "octal clause can only be used on integers, was given "),
            other => {
                let message =
                    format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
                return Err((None, message));
            }
        };
        if !fits && **type_ != Type::Dyn {
            let name = type_.to_string();
            let name = name.split('(').next().unwrap_or_default();
            return Err((Some(next - 1), format!("error during formatting: {message}{name}")));
        }
    }
    if types.len() > next {
        let message =
            format!("too many arguments supplied to string.format (expected {next}, got {})", types.len());
        return Err((None, message));
    }
    Ok(())
}

fn special<'a, D: Data<'a>>(value: &Val<'a, D>) -> Option<f64> {
    match value {
        Val::Double(value) => Some(*value),
        Val::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn directive<'a, D: Data<'a>>(
    out: &mut String,
    clause: char,
    precision: Option<usize>,
    arg: &Val<'a, D>,
    budget: &Budget,
) -> Result<()> {
    let type_ = arg.type_name();
    let _ = match (clause, arg) {
        ('s', value) => return text(out, value, budget, 0),
        ('d', Val::Int(value)) => write!(out, "{value}"),
        ('d', Val::Uint(value)) => write!(out, "{value}"),
        ('d', _) => {
            return clause_error(&format!("decimal clause can only be used on integers, was given {type_}"));
        }
        ('f', value) => match special(value) {
            Some(value) => {
                out.push_str(&grouped(value, precision.unwrap_or(6)));
                Ok(())
            }
            None => {
                return clause_error(&format!(
                    "fixed-point clause can only be used on doubles, was given {type_}"
                ));
            }
        },
        ('e', value) => match special(value) {
            Some(value) => {
                out.push_str(&scientific(value, precision.unwrap_or(6)));
                Ok(())
            }
            None => {
                return clause_error(&format!(
                    "scientific clause can only be used on doubles, was given {type_}"
                ));
            }
        },
        ('b', Val::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            write!(out, "{sign}{:b}", value.unsigned_abs())
        }
        ('b', Val::Uint(value)) => write!(out, "{value:b}"),
        ('b', Val::Bool(value)) => write!(out, "{}", u8::from(*value)),
        ('b', _) => {
            return clause_error(&format!(
                "only integers and bools can be formatted as binary, was given {type_}"
            ));
        }
        ('o', Val::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            write!(out, "{sign}{:o}", value.unsigned_abs())
        }
        ('o', Val::Uint(value)) => write!(out, "{value:o}"),
        ('o', _) => {
            return clause_error(&format!("octal clause can only be used on integers, was given {type_}"));
        }
        ('x' | 'X', value) => {
            let hex = match value {
                Val::Int(value) => {
                    let sign = if *value < 0 { "-" } else { "" };
                    format!("{sign}{:x}", value.unsigned_abs())
                }
                Val::Uint(value) => format!("{value:x}"),
                Val::Text(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => {
                    return clause_error(&format!(
                        "only integers, byte buffers, and strings can be formatted as hex, was given {type_}"
                    ));
                }
            };
            out.push_str(&if clause == 'X' { hex.to_uppercase() } else { hex });
            Ok(())
        }
        (clause, _) => {
            return fail(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            ));
        }
    };
    Ok(())
}

/// Thousands separators, as in English.
fn grouped(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-\u{221e}" } else { "\u{221e}" }.to_owned();
    }
    let plain = format!("{value:.precision$}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, part)| (whole, Some(part)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// As the English printer of `golang.org/x/text`.
fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return grouped(value, 0);
    }
    let plain = format!("{value:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let small: String = format!("{:02}", exponent.abs());
    let up: String = small
        .chars()
        .map(|digit| match digit {
            '1' => '\u{b9}',
            '2' => '\u{b2}',
            '3' => '\u{b3}',
            digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or_default()).unwrap_or(digit),
        })
        .collect();
    let sign = if exponent < 0 { "\u{207b}" } else { "" };
    format!("{digits}\u{d7}10{sign}{up}")
}

fn text<'a, D: Data<'a>>(out: &mut String, value: &Val<'a, D>, budget: &Budget, depth: usize) -> Result<()> {
    budget.step(1)?;
    if out.len() > MAX_LENGTH || depth > 200 {
        return Err(Fault::Limit);
    }
    match value {
        Val::Null => out.push_str("null"),
        Val::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                member(out, &item?, budget, depth + 1)?;
            }
            out.push(']');
        }
        Val::Map(map) => {
            let mut parts = Vec::new();
            for key in map.keys() {
                let mut name = String::new();
                match &key {
                    Val::Text(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => {
                        member(&mut name, &key, budget, depth + 1)?
                    }
                    other => {
                        let message =
                            format!("no formatting function for map key of type {}", other.type_name());
                        return clause_error(&message);
                    }
                }
                let mut shown = String::new();
                if let Some(value) = map.find(&key)? {
                    member(&mut shown, &value, budget, depth + 1)?;
                }
                parts.push((name, shown));
            }
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            let _ = write!(out, "{{{}}}", parts.join(", "));
        }
        value => match value.plain_text()?.filter(|_| !matches!(value, Val::Ip(_) | Val::Cidr(..))) {
            Some(plain) => out.push_str(&plain),
            None => return clause_error(&format!("{STRING}{}", value.type_name())),
        },
    }
    Ok(())
}

/// Formats elements of lists and maps: strings are quoted.
fn member<'a, D: Data<'a>>(
    out: &mut String,
    value: &Val<'a, D>,
    budget: &Budget,
    depth: usize,
) -> Result<()> {
    let _ = match value {
        Val::Text(text) => write!(out, "{:?}", &**text),
        Val::Bytes(bytes) => write!(out, "b{:?}", String::from_utf8_lossy(bytes)),
        Val::Double(value) if !value.is_finite() => write!(out, "{:?}", grouped(*value, 6)),
        Val::Double(value) => write!(out, "{value:.6}"),
        Val::Duration(_) | Val::Timestamp(_) => {
            let name = if matches!(value, Val::Duration(_)) { "duration" } else { "timestamp" };
            write!(out, "{name}({:?})", value.plain_text()?.unwrap_or_default())
        }
        Val::Optional(_)
        | Val::Quantity(_)
        | Val::Ip(_)
        | Val::Cidr(..)
        | Val::Url(_)
        | Val::Semver(_)
        | Val::Format(_)
        | Val::Unknown(_) => {
            return clause_error(&format!("no formatting function for {}", value.type_name()));
        }
        value => return text(out, value, budget, depth),
    };
    Ok(())
}
