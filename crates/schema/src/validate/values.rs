//! Validation of strings, numbers and enumerations: upstream's `values.go`.

use std::borrow::Cow;

use serde_json::Value;
use settled_apimachinery::field::Error as FieldError;
use settled_go::{self as go, Num};

use super::report::{At, Checker, Outcome, Report, report};
use super::types::{Types, go_int, is_whole};
use crate::node::{Limits, Type};

pub(super) fn text(
    checker: &Checker<'_>,
    limits: &Limits,
    text: &str,
    at: &At<'_>,
    sink: &mut Report<'_>,
    result: &mut Outcome,
) {
    if limits.max_length.is_some() || limits.min_length.is_some() {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = limits.max_length
            && length > most
        {
            report(sink, result, || FieldError::too_long(checker.field(&at.text()), most));
            return;
        }
        if let Some(least) = limits.min_length
            && length < least
        {
            let said = format!("should be at least {least} chars long");
            report(sink, result, || checker.invalid(at, text.into(), &said));
            return;
        }
    }
    if let Some(pattern) = &limits.pattern {
        let source = pattern.source();
        match pattern.matches(text) {
            Some(true) => {}
            Some(false) => {
                report(sink, result, || checker.invalid(at, text.into(), &format!("should match '{source}'")))
            }
            None => report(sink, result, || {
                let why = crate::pattern::error(source)
                    .map_or_else(|| "it is too large".to_owned(), |error| error.to_string());
                checker.invalid(
                    at,
                    text.into(),
                    &format!("should match '{source}, but pattern is invalid: {why}'"),
                )
            }),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "all parts of one check")]
pub(super) fn number(
    checker: &Checker<'_>,
    limits: Option<&Limits>,
    types: &Types,
    format: Option<&str>,
    number: Num,
    at: &At<'_>,
    sink: &mut Report<'_>,
    result: &mut Outcome,
) {
    let range = match (types.only(), format) {
        (Some(Type::Integer), Some(format @ ("int32" | "int64"))) => Range { kind: "integer", format },
        (Some(Type::Integer), _) => Range { kind: "integer", format: "" },
        (Some(Type::Number), Some(format @ ("float" | "double"))) => Range { kind: "number", format },
        (Some(Type::Number), _) => Range { kind: "number", format: "" },
        _ => Range { kind: "", format: "" },
    };
    let mut within = |number: Num, what: &str, sink: &mut Report<'_>| {
        let within = range.holds(number);
        if !within {
            report(sink, result, || {
                let Range { kind, format } = range;
                let at = at.text();
                checker.plain(if format.is_empty() {
                    format!("{what} value must be of type {kind} (default format) in {at}")
                } else {
                    format!("{what} value must be of type {kind} with format {format} in {at}")
                })
            });
        }
        within
    };
    within(number, "Checked", sink);
    let Some(limits) = limits else { return };
    // A limit that fits the type is compared as the value's own type.
    if let Some(factor) = limits.multiple_of {
        let native = within(Num::Float(factor), "MultipleOf", sink);
        if let Some(error) = multiple(checker, comparable(number, native), factor, at) {
            report(sink, result, || error);
        }
    }
    let mut bound = |limit: f64, exclusive: bool, lower: bool, what: &str| {
        let mut outcome = Outcome { valid: true, matches: 0 };
        let native = range.holds(Num::Float(limit));
        if !native {
            let Range { kind, format } = range;
            report(sink, &mut outcome, || {
                let at = at.text();
                checker.plain(if format.is_empty() {
                    format!("{what} value must be of type {kind} (default format) in {at}")
                } else {
                    format!("{what} value must be of type {kind} with format {format} in {at}")
                })
            });
        }
        let (beyond, shown) = match comparable(number, native) {
            Num::Int(value) => {
                let limit = go_int(limit);
                let (first, second) = if lower { (limit, value) } else { (value, limit) };
                (first > second || (exclusive && first == second), limit.to_string())
            }
            Num::Float(value) => {
                let (first, second) = if lower { (limit, value) } else { (value, limit) };
                (first > second || (exclusive && first >= second), Num::Float(limit).to_string())
            }
        };
        if beyond {
            let words = match (lower, exclusive) {
                (true, false) => "greater than or equal to",
                (true, true) => "greater than",
                (false, false) => "less than or equal to",
                (false, true) => "less than",
            };
            report(sink, &mut outcome, || {
                checker.invalid(
                    at,
                    value_of(comparable(number, native)),
                    &format!("should be {words} {shown}"),
                )
            });
        }
        outcome
    };
    if let Some(least) = limits.minimum {
        let outcome = bound(least, limits.exclusive_minimum, true, "Minimum boundary");
        result.merge(outcome);
    }
    if let Some(most) = limits.maximum {
        let outcome = bound(most, limits.exclusive_maximum, false, "Maximum boundary");
        result.merge(outcome);
    }
}

fn multiple(checker: &Checker<'_>, number: Num, factor: f64, at: &At<'_>) -> Option<FieldError> {
    let (positive, multiple, shown, shown_value) = match number {
        Num::Int(value) => {
            let factor = go_int(factor);
            (factor > 0, factor > 0 && value % factor == 0, factor.to_string(), Value::from(factor))
        }
        Num::Float(value) => {
            let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            (factor > 0.0, is_whole(quotient), Num::Float(factor).to_string(), Value::from(factor))
        }
    };
    if !positive {
        let at = at.text();
        let detail = format!("factor MultipleOf declared for {at} must be positive: {shown}");
        return Some(FieldError::invalid(checker.field(&at), shown_value, detail));
    }
    (!multiple).then(|| checker.invalid(at, value_of(number), &format!("should be a multiple of {shown}")))
}

pub(super) fn enumeration(
    checker: &Checker<'_>,
    limits: &Limits,
    value: &Value,
    at: &At<'_>,
    sink: &mut Report<'_>,
    result: &mut Outcome,
) {
    if limits.enumeration.is_empty() || limits.enumeration.iter().any(|allowed| converts_to(value, allowed)) {
        return;
    }
    report(sink, result, || {
        let shown: Vec<Cow<'_, str>> = limits
            .enumeration
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| go::json::to_string(allowed).into(), Cow::from))
            .collect();
        FieldError::not_supported(
            checker.field(&at.text()),
            value.clone(),
            shown.iter().map(|allowed| &**allowed),
        )
    });
}

#[derive(Clone, Copy)]
struct Range<'f> {
    kind: &'f str,
    format: &'f str,
}

impl Range<'_> {
    /// Whether the type can represent a number.
    fn holds(self, number: Num) -> bool {
        match (self.kind, number) {
            ("integer", Num::Int(number)) => self.format != "int32" || i32::try_from(number).is_ok(),
            ("integer", Num::Float(number)) => {
                let most = if self.format == "int32" { 2_f64.powi(31) } else { 2_f64.powi(63) };
                number.fract() == 0.0 && (-most..most).contains(&number)
            }
            (_, Num::Float(number)) if self.format == "float" => {
                // Half of the last place beyond the largest float32 is rounded to infinity.
                number.abs() < f64::from(f32::MAX) + 2_f64.powi(102)
            }
            _ => true,
        }
    }
}

fn comparable(number: Num, native: bool) -> Num {
    if native { number } else { Num::Float(number.as_f64()) }
}

fn value_of(number: Num) -> Value {
    match number {
        Num::Int(number) => number.into(),
        Num::Float(number) => number.into(),
    }
}

/// Whether Go's reflection converts a value to one that equals the other.
fn converts_to(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Number(value), Value::Number(other)) => match (Num::of(value), Num::of(other)) {
            (Num::Int(value), Num::Int(other)) => value == other,
            (Num::Float(value), Num::Float(other)) => value == other,
            (value @ Num::Int(_), Num::Float(other)) => value.as_f64() == other,
            (Num::Float(value), Num::Int(other)) => go_int(value) == other,
        },
        // An integer is converted to the text with that code point.
        (Value::Number(value), Value::String(other)) => value.as_i64().is_some_and(|value| {
            let point = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            let mut bytes = [0; 4];
            point.encode_utf8(&mut bytes) == other
        }),
        (Value::Null, _) => false,
        (value, other) => value == other,
    }
}
