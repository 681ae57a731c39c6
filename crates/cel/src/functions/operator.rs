//! Operators, conversions and optionals.

use super::text::allocate;
use super::{Context, Function, fail, no_matching_overload};
use crate::budget::{Budget, Fault, Result};
use crate::time::{self, Timestamp};
use crate::value::{Data, List, Val};

/// Applies an operator; `None` if no overload matches.
pub(super) fn call<'a, D: Data<'a>>(context: Context<'_>, args: &[Val<'a, D>]) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    let Context { function, budget, .. } = context;
    Ok(Some(match (function, args) {
        (F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual, [a, b]) => {
            let order = match a.order(b) {
                Ok(order) => order,
                Err(Fault::Error(text)) if &*text == "no such overload" => return Ok(None),
                Err(fault) => return Err(fault),
            };
            V::Bool(match function {
                F::Less => order.is_lt(),
                F::LessOrEqual => order.is_le(),
                F::Greater => order.is_gt(),
                _ => order.is_ge(),
            })
        }
        (F::Not, [V::Bool(value)]) => V::Bool(!value),
        (F::Negate, [V::Int(value)]) => return int(value.checked_neg()).map(Some),
        (F::Negate, [V::Double(value)]) => V::Double(-value),
        (F::In, [value, V::List(list)]) => V::Bool(list.contains(value, budget)?),
        (F::In, [key, V::Map(map)]) => V::Bool(map.find(key)?.is_some()),
        (F::Size, [value @ (V::Text(_) | V::Bytes(_) | V::List(_) | V::Map(_) | V::Ip(_) | V::Cidr(..))]) => {
            V::Int(value.size().unwrap_or_default() as i64)
        }
        _ => return Ok(None),
    }))
}

/// Functions of optionals.
pub(super) fn optional<'a, D: Data<'a>>(
    function: Function,
    args: &[Val<'a, D>],
) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    Ok(Some(match (function, args) {
        (F::OptionalOf, [value]) => V::some(value.clone()),
        (F::OptionalOfNonZeroValue, [value]) if value.is_empty() => V::Optional(None),
        (F::OptionalOfNonZeroValue, [value]) => V::some(value.clone()),
        (F::OptionalNone, []) => V::Optional(None),
        (F::HasValue, [V::Optional(value)]) => V::Bool(value.is_some()),
        (F::Value, [V::Optional(value)]) => match value {
            Some(value) => (**value).clone(),
            None => return fail("optional.none() dereference"),
        },
        (F::UnwrapOpt | F::OptionalUnwrap, [V::List(list)]) => unwrapped(list)?,
        _ => return Ok(None),
    }))
}

fn unwrapped<'a, D: Data<'a>>(list: &List<'a, D>) -> Result<Val<'a, D>> {
    let mut found = Vec::new();
    for item in list.iter() {
        match item? {
            Val::Optional(inner) => found.extend(inner.map(|inner| (*inner).clone())),
            other => return fail(format!("value {other} is not optional")),
        }
    }
    Ok(Val::list(found))
}

fn int<'a, D: Data<'a>>(value: Option<i64>) -> Result<Val<'a, D>> {
    value.map_or_else(|| fail("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint<'a, D: Data<'a>>(value: Option<u64>) -> Result<Val<'a, D>> {
    value.map_or_else(|| fail("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

fn duration<'a, D: Data<'a>>(value: Option<i64>) -> Result<Val<'a, D>> {
    value.map_or_else(|| fail("duration overflow"), |value| Ok(Val::Duration(value)))
}

fn instant<'a, D: Data<'a>>(value: Option<Timestamp>) -> Result<Val<'a, D>> {
    value.map_or_else(|| fail("timestamp overflow"), |value| Ok(Val::Timestamp(value)))
}

pub(crate) fn arithmetic<'a, D: Data<'a>>(
    function: Function,
    a: &Val<'a, D>,
    b: &Val<'a, D>,
    budget: &Budget,
) -> Result<Val<'a, D>> {
    use Function as F;
    let other = || Err(no_matching_overload(function, &[a.clone(), b.clone()]));
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => match function {
            F::Add => int(a.checked_add(*b)),
            F::Subtract => int(a.checked_sub(*b)),
            F::Multiply => int(a.checked_mul(*b)),
            F::Divide if *b == 0 => fail("division by zero"),
            F::Divide => int(a.checked_div(*b)),
            _ if *b == 0 => fail("modulus by zero"),
            _ => int(a.checked_rem(*b)),
        },
        (Val::Uint(a), Val::Uint(b)) => match function {
            F::Add => uint(a.checked_add(*b)),
            F::Subtract => uint(a.checked_sub(*b)),
            F::Multiply => uint(a.checked_mul(*b)),
            F::Divide if *b == 0 => fail("division by zero"),
            F::Divide => uint(a.checked_div(*b)),
            _ if *b == 0 => fail("modulus by zero"),
            _ => uint(a.checked_rem(*b)),
        },
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(match function {
            F::Add => x + y,
            F::Subtract => x - y,
            F::Multiply => x * y,
            F::Divide => x / y,
            _ => return other(),
        })),
        (Val::Duration(a), Val::Duration(b)) => match function {
            F::Add => duration(a.checked_add(*b)),
            F::Subtract => duration(a.checked_sub(*b)),
            _ => other(),
        },
        (Val::Timestamp(time), Val::Duration(by)) => match function {
            F::Add => instant(time.plus(i128::from(*by))),
            F::Subtract => instant(time.plus(-i128::from(*by))),
            _ => other(),
        },
        (Val::Duration(by), Val::Timestamp(time)) if function == F::Add => {
            instant(time.plus(i128::from(*by)))
        }
        (Val::Timestamp(a), Val::Timestamp(b)) if function == F::Subtract => duration(a.minus(b)),
        (Val::Text(a), Val::Text(b)) if function == F::Add => {
            allocate(a.len() + b.len(), budget)?;
            Ok(Val::text([&**a, &**b].concat()))
        }
        (Val::Bytes(a), Val::Bytes(b)) if function == F::Add => {
            allocate(a.len() + b.len(), budget)?;
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        (Val::List(a), Val::List(b)) if function == F::Add => a.plus(b, budget).map(Val::List),
        _ => other(),
    }
}

fn conversion_error<'a, D: Data<'a>>(value: &Val<'a, D>, to: &str) -> Fault {
    Fault::error(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn double_to_int(value: f64) -> Option<i64> {
    (value > -9_223_372_036_854_775_808.0 && value < 9_223_372_036_854_775_807.0).then_some(value as i64)
}

pub(super) fn convert<'a, D: Data<'a>>(to: Function, value: &Val<'a, D>) -> Result<Val<'a, D>> {
    use Function as F;
    let failed = |name: &str| Err(conversion_error(value, name));
    Ok(match (to, value) {
        (F::Type, value) => Val::Type(value.type_name().into()),
        (F::Dyn, value) => value.clone(),
        (F::Bool, Val::Bool(_))
        | (F::Int, Val::Int(_))
        | (F::Uint, Val::Uint(_))
        | (F::Double, Val::Double(_))
        | (F::String, Val::Text(_))
        | (F::Bytes, Val::Bytes(_))
        | (F::Duration, Val::Duration(_))
        | (F::Timestamp, Val::Timestamp(_)) => value.clone(),
        (F::Bool, Val::Text(text)) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Val::Bool(true),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Val::Bool(false),
            _ => return failed("bool"),
        },
        (F::Int, Val::Uint(value)) => return int(i64::try_from(*value).ok()),
        (F::Int, Val::Double(value)) => return int(double_to_int(*value)),
        (F::Int, Val::Text(text)) => match text.parse() {
            Ok(value) => Val::Int(value),
            Err(_) => return failed("int"),
        },
        (F::Int, Val::Duration(nanos)) => Val::Int(*nanos),
        (F::Int, Val::Timestamp(time)) => Val::Int(time.seconds),
        (F::Uint, Val::Int(value)) => return uint(u64::try_from(*value).ok()),
        (F::Uint, Val::Double(value)) => {
            return uint((*value >= 0.0 && *value < 18_446_744_073_709_551_615.0).then_some(*value as u64));
        }
        (F::Uint, Val::Text(text)) => match text.parse() {
            Ok(value) if !text.starts_with('+') => Val::Uint(value),
            _ => return failed("uint"),
        },
        (F::Double, Val::Int(value)) => Val::Double(*value as f64),
        (F::Double, Val::Uint(value)) => Val::Double(*value as f64),
        (F::Double, Val::Text(text)) => match text.parse::<f64>() {
            Ok(value) if value.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit()) => {
                Val::Double(value)
            }
            _ => return failed("double"),
        },
        (F::Bytes, Val::Text(text)) => Val::Bytes(text.as_bytes().into()),
        (F::Duration, Val::Text(text)) => match settled_go::duration::parse(text) {
            Ok(duration) => Val::Duration(duration),
            Err(_) => return failed("google.protobuf.Duration"),
        },
        (F::Timestamp, Val::Int(seconds)) => return instant(Timestamp::of(*seconds)),
        (F::Timestamp, Val::Text(text)) => match time::parse_timestamp(text) {
            Some(time) => Val::Timestamp(time),
            None => return failed("google.protobuf.Timestamp"),
        },
        (F::String, value) => match value.plain_text()? {
            Some(text) => Val::text(text),
            None => return failed("string"),
        },
        (F::Duration, _) => return failed("google.protobuf.Duration"),
        (F::Timestamp, _) => return failed("google.protobuf.Timestamp"),
        (to, _) => return failed(to.name()),
    })
}
