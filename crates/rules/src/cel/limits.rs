//! Limits of single calls, so that none takes more than a few milliseconds.

use settled_cel::{Budget, Fault, Function};

use super::bytes::Val;

/// Whether a function of a library may be called with these arguments.
pub(crate) fn check(function: Function, args: &[Val<'_>], budget: &Budget) -> Result<(), Fault> {
    const MAX_BYTES: usize = 256 * 1024;
    const PRODUCT: usize = 4 << 20;
    const ELEMENTS: usize = 1000;
    use Function as F;
    let too_large = |what: &str| Err(Fault::error(format!("{}: {what}", function.name())));
    match function {
        F::Size => {
            let size = args.first().and_then(Val::size).unwrap_or_default();
            return budget.step(size / 16);
        }
        // Each step of these is counted, or they take no time.
        F::Add
        | F::Subtract
        | F::Multiply
        | F::Divide
        | F::Remainder
        | F::Less
        | F::LessOrEqual
        | F::Greater
        | F::GreaterOrEqual
        | F::Not
        | F::Negate
        | F::In
        | F::Contains
        | F::StartsWith
        | F::EndsWith
        | F::Matches
        | F::LowerAscii
        | F::Join
        | F::String
        | F::Int
        | F::Double
        | F::Type
        | F::Dyn
        | F::OptionalOf
        | F::OptionalNone
        | F::OptionalOfNonZeroValue
        | F::HasValue
        | F::Value => {
            let length = |arg: &Val<'_>| if let Val::Text(text) = arg { text.len() as u64 } else { 0 };
            return budget.step(args.first().map_or(0, length) / 64);
        }
        _ => {}
    }
    let (mut longest, mut second) = (0, 0);
    for arg in args {
        let size = match arg {
            Val::Text(text) => text.len(),
            Val::Bytes(bytes) => bytes.len(),
            Val::List(_) | Val::Map(_) => {
                let elements = arg.size().unwrap_or_default() as usize;
                if elements > ELEMENTS {
                    return too_large("a list or map of more than 1000 elements");
                }
                elements
            }
            _ => 1,
        };
        if size > longest {
            (longest, second) = (size, longest);
        } else {
            second = second.max(size);
        }
    }
    if longest > MAX_BYTES || longest.saturating_mul(second) > PRODUCT {
        return too_large("the texts are too long");
    }
    budget.step((20 + longest / 16 + longest * second / 256) as u64)?;
    match (function, args) {
        (F::ListsRange, [Val::Int(count)]) if *count > ELEMENTS as i64 => {
            too_large("a list of more than 1000 elements")
        }
        // Each element is compared with each other one.
        (F::Distinct | F::Sort | F::SortByKeys, _) => budget.step((longest * longest / 16) as u64),
        (F::Format, [Val::Text(text), ..]) => {
            // `%.999999999f` would write as many digits.
            let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or_default();
            if digits > 3 { too_large("a precision of more than 3 digits") } else { Ok(()) }
        }
        _ => Ok(()),
    }
}
