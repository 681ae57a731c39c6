//! Functions of verdict rules that CRD rules do not have: mathematics, base64 and `reverse`, as in cel-go's extensions.

use settled_go::base64;

use super::{Function, fail};
use crate::budget::Result;
use crate::value::{Data, List, Val};

/// Calls the function; `None` if no overload matches.
pub(super) fn call<'a, D: Data<'a>>(function: Function, args: &[Val<'a, D>]) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    Ok(Some(match (function, args) {
        (F::Reverse, [V::Text(text)]) => V::text(text.chars().rev().collect::<String>()),
        (F::Base64Encode, [V::Bytes(bytes)]) => V::text(base64::STANDARD.encode(bytes)),
        (F::Base64Decode, [V::Text(text)]) => match base64::STANDARD.decode(&**text) {
            Ok(bytes) => V::Bytes(bytes.into()),
            Err(error) => return fail(error.to_string()),
        },
        (F::MathAbs, [V::Int(value)]) => match value.checked_abs() {
            Some(value) => V::Int(value),
            None => return fail("integer overflow"),
        },
        (F::MathAbs, [V::Uint(value)]) => V::Uint(*value),
        (F::MathAbs, [V::Double(value)]) => V::Double(value.abs()),
        (F::MathSign, [V::Int(value)]) => V::Int(value.signum()),
        (F::MathSign, [V::Uint(value)]) => V::Uint(u64::from(*value > 0)),
        (F::MathSign, [V::Double(value)]) if value.is_nan() || *value == 0.0 => V::Double(*value),
        (F::MathSign, [V::Double(value)]) => V::Double(value.signum()),
        (F::MathCeil, [V::Double(value)]) => V::Double(value.ceil()),
        (F::MathFloor, [V::Double(value)]) => V::Double(value.floor()),
        (F::MathRound, [V::Double(value)]) => V::Double(value.round()),
        (F::MathTrunc, [V::Double(value)]) => V::Double(value.trunc()),
        (F::MathSqrt, [V::Double(value)]) => V::Double(value.sqrt()),
        (F::MathSqrt, [V::Int(value)]) => V::Double((*value as f64).sqrt()),
        (F::MathSqrt, [V::Uint(value)]) => V::Double((*value as f64).sqrt()),
        (F::MathIsFinite, [V::Double(value)]) => V::Bool(value.is_finite()),
        (F::MathIsInf, [V::Double(value)]) => V::Bool(value.is_infinite()),
        (F::MathIsNan, [V::Double(value)]) => V::Bool(value.is_nan()),
        (F::MathGreatest | F::MathLeast, [V::List(list)]) => return min_or_max(function, list),
        (F::MathGreatest | F::MathLeast, values) => {
            return min_or_max(function, &List::made(values.to_vec()));
        }
        _ => return Ok(None),
    }))
}

fn min_or_max<'a, D: Data<'a>>(function: Function, list: &List<'a, D>) -> Result<Option<Val<'a, D>>> {
    let mut best: Option<Val<'a, D>> = None;
    for value in list.iter() {
        let value = value?;
        if !matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_)) {
            return Ok(None);
        }
        let is_better = match &best {
            None => true,
            Some(best) => {
                let order = value.order(best)?;
                if function == Function::MathGreatest { order.is_gt() } else { order.is_lt() }
            }
        };
        if is_better {
            best = Some(value);
        }
    }
    match best {
        Some(best) => Ok(Some(best)),
        None => fail(format!("{}(list) argument must not be empty", function.name())),
    }
}
