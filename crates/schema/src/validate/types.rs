//! Type validation: upstream's `type.go`.

use serde_json::Value;
use settled_go::Num;

use super::report::{At, Checker, Outcome, Report, report};
use crate::node::{Limits, Node, Type};

/// Types allowed by a schema.
pub(super) enum Types {
    None,
    One(Type),
    IntOrString,
}

impl Types {
    pub(super) fn of(node: &Node, structural: bool) -> Self {
        if node.int_or_string && !structural {
            return Self::IntOrString;
        }
        node.kind.map_or(Self::None, Self::One)
    }

    pub(super) fn any(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(super) fn has(&self, kind: Type) -> bool {
        match self {
            Self::None => false,
            Self::One(own) => *own == kind,
            Self::IntOrString => matches!(kind, Type::Integer | Type::String),
        }
    }

    pub(super) fn only(&self) -> Option<Type> {
        match self {
            Self::One(own) => Some(*own),
            _ => None,
        }
    }

    pub(super) fn names(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::One(own) => own.as_str().to_owned(),
            Self::IntOrString => "integer,string".to_owned(),
        }
    }
}

/// The format, unless it does not apply to the type.
pub(super) fn format<'l>(checker: &Checker<'_>, limits: &'l Limits, types: &Types) -> Option<&'l str> {
    let format = &*limits.format;
    if format.is_empty() {
        return None;
    }
    let counts = checker.structural
        || match types.only() {
            None | Some(Type::String) => limits.known_format.is_some(),
            Some(Type::Integer) => matches!(format, "int32" | "int64"),
            Some(Type::Number) => matches!(format, "float" | "double"),
            Some(_) => false,
        };
    counts.then_some(format)
}

#[expect(clippy::too_many_arguments, reason = "all parts of one check")]
pub(super) fn types(
    checker: &Checker<'_>,
    types: &Types,
    format: &str,
    node: &Node,
    value: &Value,
    at: &At<'_>,
    sink: &mut Report<'_>,
    result: &mut Outcome,
) {
    let (kind, kind_format) = match value {
        Value::Null => {
            if types.any() && !node.nullable {
                report(sink, result, || checker.wrong_type(at, &types.names(), "null"));
            } else {
                result.matches += 1;
            }
            return;
        }
        Value::Bool(_) => (Type::Boolean, ""),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => (Type::Integer, "int64"),
            Num::Float(_) => (Type::Number, "float64"),
        },
    };
    let fits = types.has(kind)
        || (kind == Type::Integer && types.has(Type::Number))
        || (kind == Type::Number && types.has(Type::Integer) && value.as_f64().is_some_and(is_whole));
    let listed = matches!(kind, Type::String | Type::Array);
    if !listed && !format.is_empty() && !fits && kind_format != format {
        report(sink, result, || checker.wrong_type(at, format, kind_format));
        return;
    }
    let numeric = types.has(Type::Number) || types.has(Type::Integer);
    if fits || (listed && !numeric && !format.is_empty()) {
        result.matches += 1;
        return;
    }
    report(sink, result, || checker.wrong_type(at, &types.names(), kind.as_str()));
}

/// Go's conversion of a float on amd64.
pub(super) fn go_int(number: f64) -> i64 {
    if (-(2_f64.powi(63))..2_f64.powi(63)).contains(&number) { number as i64 } else { i64::MIN }
}

/// `swag.IsFloat64AJSONInteger`.
pub(super) fn is_whole(number: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !(-MAX..=MAX).contains(&number) {
        return false;
    }
    if number.fract() == 0.0 {
        return true;
    }
    let near = go_int(number) as u64 as f64;
    if near == 0.0 {
        return false;
    }
    let difference = (number - near).abs();
    difference / (number.abs() + near.abs()) < 1e-9
}
