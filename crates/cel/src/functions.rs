//! The functions of CEL and of Kubernetes' libraries, and what their calls cost.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;

use crate::format;
use crate::names;
use crate::net::{self, Url};
use crate::pattern;
use crate::quantity::Quantity;
use crate::semver::Semver;
use crate::time::{self, Timestamp};
use crate::value::{Fault, Key, List, Map, Meter, Result, Text, Val, double_text};

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
/// No longer text is made: going over it would cost more than an expression may.
const MAX_TEXT: usize = 48 << 20;

fn wrong<T>(text: impl Into<Arc<str>>) -> Result<T> {
    Err(Fault::error(text))
}

/// That a call has no overload for these types.
fn mismatch(function: &str, args: &[Val<'_>]) -> Fault {
    let has_trait = |val: &Val<'_>| match function {
        "_+_" => {
            matches!(
                val,
                Val::Bytes(_)
                    | Val::Double(_)
                    | Val::Duration(_)
                    | Val::Int(_)
                    | Val::List(_)
                    | Val::Text(_)
                    | Val::Timestamp(_)
                    | Val::Uint(_)
            )
        }
        "_-_" => {
            matches!(val, Val::Double(_) | Val::Duration(_) | Val::Int(_) | Val::Timestamp(_) | Val::Uint(_))
        }
        "_*_" | "_/_" => matches!(val, Val::Double(_) | Val::Int(_) | Val::Uint(_)),
        "_%_" => matches!(val, Val::Int(_) | Val::Uint(_)),
        "_<_" | "_<=_" | "_>_" | "_>=_" => val.order(val).is_ok(),
        "@in" => true,
        _ => false,
    };
    let receives = |val: &Val<'_>| matches!(val, Val::Text(_) | Val::Duration(_) | Val::Timestamp(_));
    match function {
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in" | "!_" | "-_"
        | "size" => {
            if args.first().is_some_and(|first| has_trait(first) || receives(first)) {
                Fault::no_overload()
            } else {
                Fault::error(format!("no such overload: {function}"))
            }
        }
        "contains" | "startsWith" | "endsWith" | "matches" => Fault::no_overload(),
        _ => {
            let types: Vec<&str> = args.iter().map(Val::type_name).collect();
            Fault::error(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}

fn size(value: &Result<Val<'_>>) -> u64 {
    match value {
        Ok(Val::Optional(Some(inner))) => size(&Ok((**inner).clone())),
        Ok(value) => value.size().unwrap_or(1),
        Err(_) => 1,
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// What a call costs at least, where that is known before it is done: so that what costs too much takes no time and
/// no room.
pub(crate) fn known_cost(function: &str, overload: &str, args: &[Val<'_>]) -> u64 {
    let length = |at: usize| args.get(at).and_then(Val::size).unwrap_or(1);
    match function {
        "lists.range" => match args.first() {
            Some(Val::Int(count)) => ((*count).max(0) as u64).saturating_add(11),
            _ => 0,
        },
        "distinct" | "sort" => length(0).saturating_mul(length(0)).saturating_mul(2),
        "@sortByAssociatedKeys" => length(1).saturating_mul(length(1)).saturating_mul(2),
        "sets.contains" | "sets.intersects" | "sets.equivalent" => length(0).saturating_mul(length(1)),
        "matches" | "find" | "findAll" if overload != "matches" => {
            scaled(length(0), TRAVERSAL).saturating_mul(scaled(length(1), REGEX))
        }
        _ => 0,
    }
}

/// What a call costs.
pub(crate) fn cost(
    function: &str,
    overload: &str,
    args: &[Result<Val<'_>>],
    result: &Result<Val<'_>>,
    meter: &Meter,
) -> Result<u64> {
    let of = |at: usize| args.get(at).map_or(1, size);
    // As upstream: a depth below zero wraps around.
    let list_call = |factor: f64, size: u64| ((size as f64 * factor) as i64 as u64).wrapping_add(11);
    let compared = |at: usize| {
        let size = of(at);
        let first = match args.get(at) {
            Some(Ok(Val::List(list))) => list.get(0).and_then(Result::ok),
            _ => None,
        };
        let factor = if matches!(first, Some(Val::Text(_) | Val::Bytes(_))) { 2.0 + TRAVERSAL } else { 2.0 };
        list_call(factor, size.saturating_mul(size))
    };
    let is_error = args.iter().any(Result::is_err);
    match overload {
        "list_slice" | "lists_range" | "list_reverse" => return Ok(list_call(1.0, size(result))),
        "list_flatten" => return Ok(list_call(1.0, of(0))),
        "list_flatten_int" => {
            let depth = match args.get(1) {
                Some(Ok(Val::Int(depth))) => *depth as f64,
                _ => 1.0,
            };
            return Ok(list_call(depth, of(0)));
        }
        _ if is_error && !overload.starts_with("list_sets_") => {}
        "list_distinct" => return Ok(compared(0)),
        "list_sets_contains_list" | "list_sets_intersects_list" => return Ok(1 + of(0).saturating_mul(of(1))),
        "list_sets_equivalent_list" => return Ok(1 + of(0).saturating_mul(of(1)).saturating_mul(2)),
        overload if overload.ends_with("_sort") => return Ok(compared(0)),
        overload if overload.ends_with("AssociatedKeys") => return Ok(compared(1)),
        _ => {}
    }
    Ok(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(Ok(value)) => value.traversal(meter)?,
            _ => 1,
        },
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => scaled(of(0), TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => scaled(of(0), 2.0 * TRAVERSAL),
        "join" => scaled(size(result), 2.0 * TRAVERSAL),
        "find" | "findAll" => {
            let text = ((1.0 + of(0) as f64) * TRAVERSAL).ceil() as u64;
            text.saturating_mul(scaled(of(1), REGEX))
        }
        "ip" if overload == "cidr_ip" => 1,
        "ip" => scaled(of(0), TRAVERSAL),
        "containsIP" | "containsCIDR" => {
            let mut cost = scaled(2 * of(0), TRAVERSAL);
            if function == "containsCIDR" {
                cost += scaled(of(0), TRAVERSAL) + 1;
            }
            if overload.ends_with("_string") {
                cost += scaled(of(1), TRAVERSAL);
            }
            cost
        }
        "validate" => match args.first() {
            Some(Ok(Val::Format(format))) => {
                let text = ((1.0 + of(1) as f64) * TRAVERSAL).ceil() as u64;
                text.saturating_mul(scaled(format.pattern, REGEX))
            }
            _ => 1,
        },
        "_==_"
            if matches!(
                args.first(),
                Some(Ok(Val::Quantity(_)
                    | Val::Ip(_)
                    | Val::Cidr(..)
                    | Val::Format(_)
                    | Val::Url(_)
                    | Val::Semver(_)))
            ) =>
        {
            1
        }
        _ => match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => scaled(of(0), TRAVERSAL),
            "in_list" => of(1),
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => scaled(of(0).min(of(1)), TRAVERSAL),
            "add_string" | "add_bytes" => scaled(of(0).saturating_add(of(1)), TRAVERSAL),
            "matches_string" => {
                let text = ((1.0 + of(0) as f64) * TRAVERSAL).ceil() as u64;
                text.saturating_mul(scaled(of(1), REGEX))
            }
            "contains_string" => scaled(of(0), TRAVERSAL).saturating_mul(scaled(of(1), TRAVERSAL)),
            _ => 1,
        },
    })
}

fn int(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| wrong("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint(value: Option<u64>) -> Result<Val<'static>> {
    value.map_or_else(|| wrong("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

fn duration(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| wrong("duration overflow"), |value| Ok(Val::Duration(value)))
}

fn instant(value: Option<Timestamp>) -> Result<Val<'static>> {
    value.map_or_else(|| wrong("timestamp overflow"), |value| Ok(Val::Timestamp(value)))
}

fn text_of(text: String) -> Result<Val<'static>> {
    if text.len() > MAX_TEXT { Err(Fault::Limit) } else { Ok(Val::text(text)) }
}

fn arithmetic<'a>(function: &str, a: &Val<'a>, b: &Val<'a>, meter: &Meter) -> Result<Val<'a>> {
    let other = || Err(mismatch(function, &[a.clone(), b.clone()]));
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => match function {
            "_+_" => int(a.checked_add(*b)),
            "_-_" => int(a.checked_sub(*b)),
            "_*_" => int(a.checked_mul(*b)),
            "_/_" if *b == 0 => wrong("division by zero"),
            "_/_" => int(a.checked_div(*b)),
            _ if *b == 0 => wrong("modulus by zero"),
            _ => int(a.checked_rem(*b)),
        },
        (Val::Uint(a), Val::Uint(b)) => match function {
            "_+_" => uint(a.checked_add(*b)),
            "_-_" => uint(a.checked_sub(*b)),
            "_*_" => uint(a.checked_mul(*b)),
            "_/_" if *b == 0 => wrong("division by zero"),
            "_/_" => uint(a.checked_div(*b)),
            _ if *b == 0 => wrong("modulus by zero"),
            _ => uint(a.checked_rem(*b)),
        },
        (Val::Double(x), Val::Double(y)) => Ok(Val::Double(match function {
            "_+_" => x + y,
            "_-_" => x - y,
            "_*_" => x * y,
            "_/_" => x / y,
            _ => return other(),
        })),
        (Val::Duration(a), Val::Duration(b)) => match function {
            "_+_" => duration(a.checked_add(*b)),
            "_-_" => duration(a.checked_sub(*b)),
            _ => other(),
        },
        (Val::Timestamp(time), Val::Duration(by)) => match function {
            "_+_" => instant(time.plus(i128::from(*by))),
            "_-_" => instant(time.plus(-i128::from(*by))),
            _ => other(),
        },
        (Val::Duration(by), Val::Timestamp(time)) if function == "_+_" => instant(time.plus(i128::from(*by))),
        (Val::Timestamp(a), Val::Timestamp(b)) if function == "_-_" => duration(a.minus(b)),
        (Val::Text(a), Val::Text(b)) if function == "_+_" => {
            if a.len() + b.len() > MAX_TEXT {
                return Err(Fault::Limit);
            }
            Ok(Val::text([&**a, &**b].concat()))
        }
        (Val::Bytes(a), Val::Bytes(b)) if function == "_+_" => {
            if a.len() + b.len() > MAX_TEXT {
                return Err(Fault::Limit);
            }
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        (Val::List(a), Val::List(b)) if function == "_+_" => a.plus(b, meter).map(Val::List),
        _ => other(),
    }
}

fn conversion_error(value: &Val<'_>, to: &str) -> Fault {
    Fault::error(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn double_to_int(value: f64) -> Option<i64> {
    (value > -9_223_372_036_854_775_808.0 && value < 9_223_372_036_854_775_807.0).then_some(value as i64)
}

pub(crate) fn convert<'a>(to: &str, value: &Val<'a>) -> Result<Val<'a>> {
    let failed = |name: &str| Err(conversion_error(value, name));
    Ok(match (to, value) {
        ("dyn", value) => value.clone(),
        ("bool", Val::Bool(_))
        | ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("duration", Val::Duration(_))
        | ("timestamp", Val::Timestamp(_)) => value.clone(),
        ("bool", Val::Text(text)) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Val::Bool(true),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Val::Bool(false),
            _ => return failed("bool"),
        },
        ("int", Val::Uint(value)) => return int(i64::try_from(*value).ok()),
        ("int", Val::Double(value)) => return int(double_to_int(*value)),
        ("int", Val::Text(text)) => match text.parse() {
            Ok(value) => Val::Int(value),
            Err(_) => return failed("int"),
        },
        ("int", Val::Duration(nanos)) => Val::Int(*nanos),
        ("int", Val::Timestamp(time)) => Val::Int(time.seconds),
        ("uint", Val::Int(value)) => return uint(u64::try_from(*value).ok()),
        ("uint", Val::Double(value)) => {
            return uint((*value >= 0.0 && *value < 18_446_744_073_709_551_615.0).then_some(*value as u64));
        }
        ("uint", Val::Text(text)) => match text.parse() {
            Ok(value) if !text.starts_with('+') => Val::Uint(value),
            _ => return failed("uint"),
        },
        ("double", Val::Int(value)) => Val::Double(*value as f64),
        ("double", Val::Uint(value)) => Val::Double(*value as f64),
        ("double", Val::Text(text)) => match text.parse::<f64>() {
            Ok(value) if value.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit()) => {
                Val::Double(value)
            }
            _ => return failed("double"),
        },
        ("bytes", Val::Text(text)) => Val::Bytes(text.as_bytes().into()),
        ("duration", Val::Text(text)) => match settled_go::duration::parse(text) {
            Ok(duration) => Val::Duration(duration),
            Err(_) => return failed("google.protobuf.Duration"),
        },
        ("timestamp", Val::Int(seconds)) => return instant(Timestamp::of(*seconds)),
        ("timestamp", Val::Text(text)) => match time::parse_timestamp(text) {
            Some(time) => Val::Timestamp(time),
            None => return failed("google.protobuf.Timestamp"),
        },
        ("string", value) => match plain_text(value)? {
            Some(text) => Val::text(text),
            None => return failed("string"),
        },
        ("duration", _) => return failed("google.protobuf.Duration"),
        ("timestamp", _) => return failed("google.protobuf.Timestamp"),
        (to, _) => return failed(to),
    })
}

/// Seconds, as Go writes them without an exponent.
pub(crate) fn duration_text(nanos: i64) -> String {
    format!("{}s", (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9)
}

/// A value as `string()` writes it; None for what it does not write.
pub(crate) fn plain_text(value: &Val<'_>) -> Result<Option<String>> {
    Ok(Some(match value {
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => double_text(*value, 6),
        Val::Text(text) => text.to_string(),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return wrong("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Val::Duration(nanos) => duration_text(*nanos),
        Val::Timestamp(time) => time.text(),
        Val::Ip(address) => address.to_string(),
        Val::Cidr(address, bits) => format!("{address}/{bits}"),
        Val::Type(name) => name.to_string(),
        _ => return Ok(None),
    }))
}

/// The place of a part in a text, in characters.
fn find(text: &str, part: &str, from: i64) -> Result<i64> {
    if part.is_empty() {
        return Ok(from);
    }
    let Ok(start) = usize::try_from(from) else { return wrong(format!("index out of range: {from}")) };
    let Some((byte, _)) = text.char_indices().nth(start) else { return Ok(-1) };
    let rest = text.get(byte..).unwrap_or_default();
    Ok(rest.find(part).map_or(-1, |at| (start + rest.get(..at).unwrap_or_default().chars().count()) as i64))
}

fn find_last(text: &str, part: &str, from: Option<i64>) -> Result<i64> {
    let count = text.chars().count() as i64;
    let from = match from {
        None if part.is_empty() => return Ok(count),
        None if text.len() < part.len() => return Ok(-1),
        None => count - 1,
        Some(from) if part.is_empty() => return Ok(from),
        Some(from) => from,
    };
    if from < 0 {
        return wrong(format!("index out of range: {from}"));
    }
    if from >= count {
        return Ok(-1);
    }
    let last = from.min(count - part.chars().count() as i64);
    if last < 0 {
        return Ok(-1);
    }
    let start = text.char_indices().nth(last as usize).map_or(text.len(), |(at, _)| at);
    let end = (start + part.len()).min(text.len());
    let head = text.get(..end).unwrap_or_default();
    Ok(head.rfind(part).map_or(-1, |at| head.get(..at).unwrap_or_default().chars().count() as i64))
}

fn substring(text: &str, start: i64, end: Option<i64>) -> Result<Val<'static>> {
    let length = text.chars().count() as i64;
    if let Some(end) = end
        && start > end
    {
        return wrong(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let end = end.unwrap_or(length);
    for at in [start, end] {
        if !(0..=length).contains(&at) {
            return wrong(format!("index out of range: {at}"));
        }
    }
    Ok(Val::text(text.chars().skip(start as usize).take((end - start) as usize).collect::<String>()))
}

fn split(text: &str, separator: &str, most: i64) -> Vec<Val<'static>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Vec::new();
    }
    let parts: Vec<String> = if separator.is_empty() {
        let mut chars = text.chars();
        let mut parts = Vec::new();
        while parts.len() + 1 < most {
            match chars.next() {
                Some(char) => parts.push(char.to_string()),
                None => break,
            }
        }
        if !chars.as_str().is_empty() {
            parts.push(chars.as_str().to_owned());
        }
        parts
    } else {
        text.splitn(most, separator).map(str::to_owned).collect()
    };
    parts.into_iter().map(Val::text).collect()
}

fn replace(text: &str, from: &str, to: &str, most: i64) -> Result<Val<'static>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() };
    let longer = count.min(most).saturating_mul(to.len());
    if longer.saturating_add(text.len()) > MAX_TEXT {
        return Err(Fault::Limit);
    }
    Ok(Val::text(text.replacen(from, to, most)))
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

fn join(list: &List<'_>, separator: &str) -> Result<Val<'static>> {
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        match item? {
            Val::Text(text) => out.push_str(&text),
            other => return wrong(format!("join: invalid input: {other}")),
        }
        if out.len() > MAX_TEXT {
            return Err(Fault::Limit);
        }
    }
    Ok(Val::text(out))
}

fn extreme<'a>(list: &List<'a>, name: &str, wanted: Ordering) -> Result<Val<'a>> {
    let mut best: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        item.order(&item)?;
        best = Some(match best {
            Some(best) if best.order(&item).ok() != Some(wanted) => best,
            _ => item,
        });
    }
    best.map_or_else(|| wrong(format!("{name} called on empty list")), Ok)
}

fn flatten<'a>(list: &List<'a>, depth: i64, into: &mut Vec<Val<'a>>, meter: &Meter) -> Result<()> {
    for item in list.iter() {
        meter.step(1)?;
        match item? {
            Val::List(inner) if depth > 0 => flatten(&inner, depth - 1, into, meter)?,
            other => into.push(other),
        }
    }
    Ok(())
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Val<'a>> {
    if list.len() != keys.len() {
        return wrong(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        ));
    }
    let keys: Vec<Val<'a>> = keys.iter().collect::<Result<_>>()?;
    let Some(first) = keys.first() else { return Ok(Val::List(list.clone())) };
    if first.order(first).is_err() && !matches!(first, Val::Double(_)) {
        return wrong("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return wrong("list elements must have the same type");
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| match (keys.get(*a), keys.get(*b)) {
        (Some(a), Some(b)) => a.order(b).unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    });
    order.into_iter().filter_map(|at| list.get(at)).collect::<Result<Vec<_>>>().map(Val::list)
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Result<Val<'a>> {
    let length = list.len() as i64;
    if start < 0 || end < 0 {
        return wrong(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return wrong(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        ));
    }
    if length < end {
        return wrong(format!("cannot slice({start}, {end}), list is length {length}"));
    }
    (start..end).filter_map(|at| list.get(at as usize)).collect::<Result<Vec<_>>>().map(Val::list)
}

fn contains_all<'a>(list: &List<'a>, part: &List<'a>, meter: &Meter) -> Result<bool> {
    for item in part.iter() {
        if !list.contains(&item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn texts(found: impl IntoIterator<Item = String>) -> Val<'static> {
    Val::list(found.into_iter().map(Val::text).collect())
}

fn regex<'r>(known: Option<&'r Regex>, text: &str) -> Result<std::borrow::Cow<'r, Regex>, String> {
    match known {
        Some(known) => Ok(std::borrow::Cow::Borrowed(known)),
        None => pattern::compile(text).map(std::borrow::Cow::Owned),
    }
}

fn unwrapped<'a>(list: &List<'a>) -> Result<Val<'a>> {
    let mut found = Vec::new();
    for item in list.iter() {
        match item? {
            Val::Optional(inner) => found.extend(inner.map(|inner| (*inner).clone())),
            other => return wrong(format!("value {other} is not optional")),
        }
    }
    Ok(Val::list(found))
}

fn version(text: &str, tolerant: bool) -> Result<Semver, String> {
    if tolerant { Semver::parse_tolerant(text) } else { Semver::parse(text) }
}

/// What a function says of its arguments.
pub(crate) fn call<'a>(
    function: &str,
    args: &[Val<'a>],
    pattern: Option<&Regex>,
    meter: &Meter,
) -> Result<Val<'a>> {
    use Val as V;
    let other = || Err(mismatch(function, args));
    Ok(match (function, args) {
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => return arithmetic(function, a, b, meter),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            let order = match a.order(b) {
                Ok(order) => order,
                Err(Fault::Error(text)) if &*text == "no such overload" => return other(),
                Err(fault) => return Err(fault),
            };
            V::Bool(match function {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            })
        }
        ("!_", [V::Bool(value)]) => V::Bool(!value),
        ("-_", [V::Int(value)]) => return int(value.checked_neg()),
        ("-_", [V::Double(value)]) => V::Double(-value),
        ("@in", [value, V::List(list)]) => V::Bool(list.contains(value, meter)?),
        ("@in", [key, V::Map(map)]) => V::Bool(map.find(key)?.is_some()),
        ("size", [value @ (V::Text(_) | V::Bytes(_) | V::List(_) | V::Map(_) | V::Ip(_) | V::Cidr(..))]) => {
            V::Int(value.size().unwrap_or_default() as i64)
        }
        ("contains", [V::Text(text), V::Text(part)]) => V::Bool(text.contains(&**part)),
        ("startsWith", [V::Text(text), V::Text(part)]) => V::Bool(text.starts_with(&**part)),
        ("endsWith", [V::Text(text), V::Text(part)]) => V::Bool(text.ends_with(&**part)),
        ("matches", [V::Text(text), V::Text(source)]) => {
            V::Bool(regex(pattern, source).map_err(Fault::error)?.is_match(text))
        }
        ("type", [value]) => V::Type(value.type_name().into()),
        ("string", [V::Ip(_) | V::Cidr(..)]) => {
            args.first().map_or_else(other, |value| convert("string", value))?
        }
        (
            "bool" | "bytes" | "double" | "dyn" | "duration" | "int" | "string" | "timestamp" | "uint",
            [value],
        ) => return convert(function, value),

        ("optional.of", [value]) => V::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) if value.is_empty() => V::Optional(None),
        ("optional.ofNonZeroValue", [value]) => V::some(value.clone()),
        ("optional.none", []) => V::Optional(None),
        ("hasValue", [V::Optional(value)]) => V::Bool(value.is_some()),
        ("value", [V::Optional(value)]) => match value {
            Some(value) => (**value).clone(),
            None => return wrong("optional.none() dereference"),
        },
        ("unwrapOpt" | "optional.unwrap", [V::List(list)]) => return unwrapped(list),

        ("charAt", [V::Text(text), V::Int(at)]) => {
            let count = text.chars().count() as i64;
            if !(0..=count).contains(at) {
                return wrong(format!("index out of range: {at}"));
            }
            V::text(text.chars().nth(*at as usize).map(String::from).unwrap_or_default())
        }
        ("indexOf", [V::Text(text), V::Text(part)]) => V::Int(find(text, part, 0)?),
        ("indexOf", [V::Text(text), V::Text(part), V::Int(from)]) => V::Int(find(text, part, *from)?),
        ("lastIndexOf", [V::Text(text), V::Text(part)]) => V::Int(find_last(text, part, None)?),
        ("lastIndexOf", [V::Text(text), V::Text(part), V::Int(from)]) => {
            V::Int(find_last(text, part, Some(*from))?)
        }
        ("lowerAscii", [V::Text(text)]) => V::text(text.to_ascii_lowercase()),
        ("upperAscii", [V::Text(text)]) => V::text(text.to_ascii_uppercase()),
        ("trim", [V::Text(text)]) => V::text(text.trim()),
        ("replace", [V::Text(text), V::Text(from), V::Text(to)]) => return replace(text, from, to, -1),
        ("replace", [V::Text(text), V::Text(from), V::Text(to), V::Int(most)]) => {
            return replace(text, from, to, *most);
        }
        ("split", [V::Text(text), V::Text(by)]) => V::list(split(text, by, -1)),
        ("split", [V::Text(text), V::Text(by), V::Int(most)]) => V::list(split(text, by, *most)),
        ("substring", [V::Text(text), V::Int(start)]) => return substring(text, *start, None),
        ("substring", [V::Text(text), V::Int(start), V::Int(end)]) => {
            return substring(text, *start, Some(*end));
        }
        ("join", [V::List(list)]) => return join(list, ""),
        ("join", [V::List(list), V::Text(by)]) => return join(list, by),
        ("strings.quote", [V::Text(text)]) => return text_of(quote(text)),
        ("format", [V::Text(text), V::List(list)]) => {
            return text_of(format::format(text, list, meter)?);
        }

        ("isSorted", [V::List(list)]) => {
            let mut last: Option<Val<'_>> = None;
            for item in list.iter() {
                let item = item?;
                item.order(&item).or_else(|fault| match item {
                    V::Double(_) => Ok(Ordering::Equal),
                    _ => Err(fault),
                })?;
                if last.is_some_and(|last| last.order(&item).ok() == Some(Ordering::Greater)) {
                    return Ok(V::Bool(false));
                }
                last = Some(item);
            }
            V::Bool(true)
        }
        ("sum", [V::List(list)]) => {
            let mut items = list.iter();
            let Some(first) = items.next() else { return Ok(V::Int(0)) };
            let mut sum = first?;
            for item in items {
                sum = arithmetic("_+_", &sum, &item?, meter)?;
            }
            sum
        }
        ("min", [V::List(list)]) => return extreme(list, "min", Ordering::Greater),
        ("max", [V::List(list)]) => return extreme(list, "max", Ordering::Less),
        ("indexOf", [V::List(list), value]) => {
            for (at, item) in list.iter().enumerate() {
                if item.and_then(|item| item.equals(value, meter)) == Ok(true) {
                    return Ok(V::Int(at as i64));
                }
            }
            V::Int(-1)
        }
        ("lastIndexOf", [V::List(list), value]) => {
            for at in (0..list.len()).rev() {
                let item = list.get(at).map(|item| item.and_then(|item| item.equals(value, meter)));
                if item == Some(Ok(true)) {
                    return Ok(V::Int(at as i64));
                }
            }
            V::Int(-1)
        }
        ("first", [V::List(list)]) => V::Optional(list.get(0).transpose()?.map(Arc::new)),
        ("last", [V::List(list)]) => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last));
            V::Optional(last.transpose()?.map(Arc::new))
        }
        ("slice", [V::List(list), V::Int(start), V::Int(end)]) => return slice(list, *start, *end),
        ("flatten", [V::List(list)]) => {
            let mut items = Vec::new();
            flatten(list, 1, &mut items, meter)?;
            V::list(items)
        }
        ("flatten", [V::List(_), V::Int(depth)]) if *depth < 0 => return wrong("level must be non-negative"),
        ("flatten", [V::List(list), V::Int(depth)]) => {
            let mut items = Vec::new();
            flatten(list, *depth, &mut items, meter)?;
            V::list(items)
        }
        ("reverse", [V::List(list)]) => {
            let mut items = list.iter().collect::<Result<Vec<_>>>()?;
            items.reverse();
            V::list(items)
        }
        ("distinct", [V::List(list)]) => {
            let mut items: Vec<Val<'a>> = Vec::new();
            for item in list.iter() {
                let item = item?;
                let mut is_known = false;
                for known in &items {
                    is_known |= match item.equals(known, meter) {
                        Err(Fault::Limit) => return Err(Fault::Limit),
                        found => found == Ok(true),
                    };
                }
                if !is_known {
                    items.push(item);
                }
            }
            V::list(items)
        }
        ("sort", [V::List(list)]) => return sorted(list, list),
        ("@sortByAssociatedKeys", [V::List(list), V::List(keys)]) => return sorted(list, keys),
        ("lists.range", [V::Int(count)]) => V::list((0..*count).map(V::Int).collect()),
        ("sets.contains", [V::List(list), V::List(part)]) => V::Bool(contains_all(list, part, meter)?),
        ("sets.equivalent", [V::List(a), V::List(b)]) => {
            V::Bool(contains_all(a, b, meter)? && contains_all(b, a, meter)?)
        }
        ("sets.intersects", [V::List(a), V::List(b)]) => {
            for item in a.iter() {
                match item.and_then(|item| b.contains(&item, meter)) {
                    Ok(true) => return Ok(V::Bool(true)),
                    Err(Fault::Limit) => return Err(Fault::Limit),
                    _ => {}
                }
            }
            V::Bool(false)
        }
        ("cel.@mapInsert", [V::Map(map), key, value]) => {
            return inserted(map, [(key.clone(), value.clone())]);
        }
        ("cel.@mapInsert", [V::Map(map), V::Map(more)]) => {
            let mut entries = Vec::new();
            for key in more.keys() {
                if let Some(value) = more.find(&key)? {
                    entries.push((key, value));
                }
            }
            return inserted(map, entries);
        }

        ("find", [V::Text(text), V::Text(source)]) => {
            let regex =
                regex(pattern, source).map_err(|error| Fault::error(format!("Illegal regex: {error}")))?;
            V::text(regex.find(text).map(|found| found.as_str()).unwrap_or_default())
        }
        ("findAll", [V::Text(text), V::Text(source), rest @ ..]) => {
            let most = match rest {
                [] => usize::MAX,
                [V::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => return other(),
            };
            let regex =
                regex(pattern, source).map_err(|error| Fault::error(format!("Illegal regex: {error}")))?;
            texts(regex.find_iter(text).take(most).map(|found| found.as_str().to_owned()))
        }

        ("quantity", [V::Text(text)]) => V::Quantity(Quantity::parse(text).map_err(Fault::error)?),
        ("isQuantity", [V::Text(text)]) => V::Bool(Quantity::parse(text).is_ok()),
        ("sign", [V::Quantity(amount)]) => V::Int(amount.sign()),
        ("isInteger", [V::Quantity(amount)]) => V::Bool(amount.integer().is_some()),
        ("asInteger", [V::Quantity(amount)]) => match amount.integer() {
            Some(value) => V::Int(value),
            None => return wrong("cannot convert value to integer"),
        },
        ("asApproximateFloat", [V::Quantity(amount)]) => V::Double(amount.float()),
        ("add", [V::Quantity(a), V::Quantity(b)]) => V::Quantity(a.plus(*b)),
        ("add", [V::Quantity(a), V::Int(b)]) => V::Quantity(a.plus(Quantity::of(*b))),
        ("sub", [V::Quantity(a), V::Quantity(b)]) => V::Quantity(a.plus(b.negated())),
        ("sub", [V::Quantity(a), V::Int(b)]) => V::Quantity(a.plus(Quantity::of(*b).negated())),
        ("isGreaterThan" | "isLessThan" | "compareTo", [a, b]) => {
            let order = match (a, b) {
                (V::Quantity(a), V::Quantity(b)) => a.order(*b),
                (V::Semver(a), V::Semver(b)) => a.order(b),
                _ => return other(),
            };
            match function {
                "isGreaterThan" => V::Bool(order.is_gt()),
                "isLessThan" => V::Bool(order.is_lt()),
                _ => V::Int(order as i64),
            }
        }
        ("semver", [V::Text(text), rest @ ..]) | ("isSemver", [V::Text(text), rest @ ..]) => {
            let tolerant = matches!(rest, [V::Bool(true)]);
            let parsed = version(text, tolerant);
            if function == "isSemver" {
                V::Bool(parsed.is_ok())
            } else {
                V::Semver(Arc::new(parsed.map_err(Fault::error)?))
            }
        }
        ("major", [V::Semver(version)]) => V::Int(version.major as i64),
        ("minor", [V::Semver(version)]) => V::Int(version.minor as i64),
        ("patch", [V::Semver(version)]) => V::Int(version.patch as i64),

        ("ip", [V::Text(text)]) => V::Ip(net::parse_ip(text).map_err(Fault::error)?),
        ("ip", [V::Cidr(address, _)]) => V::Ip(*address),
        ("isIP", [V::Text(text)]) => V::Bool(net::parse_ip(text).is_ok()),
        ("ip.isCanonical", [V::Text(text)]) => {
            V::Bool(net::parse_ip(text).map_err(Fault::error)?.to_string() == **text)
        }
        ("family", [V::Ip(address)]) => V::Int(if address.is_ipv4() { 4 } else { 6 }),
        (
            "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast",
            [V::Ip(address)],
        ) => V::Bool(net::is(*address, function)),
        ("cidr", [V::Text(text)]) => {
            let (address, bits) = net::parse_cidr(text).map_err(|error| {
                Fault::error(format!("network address parse error during conversion from string: {error}"))
            })?;
            V::Cidr(address, bits)
        }
        ("isCIDR", [V::Text(text)]) => V::Bool(net::parse_cidr(text).is_ok()),
        ("prefixLength", [V::Cidr(_, bits)]) => V::Int(i64::from(*bits)),
        ("masked", [V::Cidr(address, bits)]) => V::Cidr(net::masked(*address, *bits), *bits),
        ("containsIP", [V::Cidr(address, bits), inner]) => {
            let inner = match inner {
                V::Ip(inner) => *inner,
                V::Text(text) => net::parse_ip(text).map_err(|_| Fault::no_overload())?,
                _ => return other(),
            };
            V::Bool(net::contains((*address, *bits), inner))
        }
        ("containsCIDR", [V::Cidr(address, bits), inner]) => {
            let (inner, length) = match inner {
                V::Cidr(inner, length) => (*inner, *length),
                V::Text(text) => net::parse_cidr(text).map_err(|error| {
                    Fault::error(format!(
                        "network address parse error during conversion from string: {error}"
                    ))
                })?,
                _ => return other(),
            };
            V::Bool(*bits <= length && net::contains((*address, *bits), inner))
        }

        ("url", [V::Text(text)]) => {
            let url = Url::parse(text).map_err(|error| {
                Fault::error(format!("URL parse error during conversion from string: {error}"))
            })?;
            V::Url(Arc::new(url))
        }
        ("isURL", [V::Text(text)]) => V::Bool(settled_go::url::parse_request_uri(text).is_ok()),
        ("getScheme", [V::Url(url)]) => V::text(url.scheme.as_str()),
        ("getHost", [V::Url(url)]) => V::text(url.host.as_str()),
        ("getHostname", [V::Url(url)]) => V::text(url.hostname()),
        ("getPort", [V::Url(url)]) => V::text(url.port()),
        ("getEscapedPath", [V::Url(url)]) => V::text(url.escaped_path()),
        ("getQuery", [V::Url(url)]) => {
            let query = url.query_values().into_iter().map(|(key, values)| {
                let key: Arc<str> = key.into();
                (Key::Text(Arc::clone(&key)), (Val::text(key), texts(values)))
            });
            V::Map(Map::Made(Arc::new(query.collect())))
        }

        ("format.named", [V::Text(name)]) => {
            V::Optional(names::named(name).map(|found| Arc::new(V::Format(found))))
        }
        ("validate", [V::Format(known), V::Text(text)]) => {
            let errors = known.check(text);
            if errors.is_empty() { V::Optional(None) } else { V::some(texts(errors)) }
        }
        (name, []) if name.starts_with("format.") => {
            match names::named(name.strip_prefix("format.").unwrap_or_default()) {
                Some(found) => V::Format(found),
                None => return other(),
            }
        }

        ("getHours" | "getMinutes" | "getSeconds" | "getMilliseconds", [V::Duration(nanos)]) => {
            V::Int(match function {
                "getHours" => nanos / 3_600_000_000_000,
                "getMinutes" => nanos / 60_000_000_000,
                "getSeconds" => nanos / 1_000_000_000,
                _ => nanos / 1_000_000,
            })
        }
        (_, [V::Timestamp(time)]) => match time.part(function, 0) {
            Some(part) => V::Int(part),
            None => return other(),
        },
        (_, [V::Timestamp(time), V::Text(zone)]) => {
            let Some(east) = time::zone(zone) else { return wrong(format!("unknown time zone {}", &**zone)) };
            match time.part(function, east) {
                Some(part) => V::Int(part),
                None => return other(),
            }
        }
        _ => return other(),
    })
}

fn inserted<'a>(map: &Map<'a>, entries: impl IntoIterator<Item = (Val<'a>, Val<'a>)>) -> Result<Val<'a>> {
    let mut made = match map {
        Map::Made(made) => (**made).clone(),
        raw @ Map::Raw(..) => {
            let mut made = BTreeMap::new();
            for key in raw.keys() {
                if let (Some(known), Some(value)) = (Key::of(&key), raw.find(&key)?) {
                    made.insert(known, (key, value));
                }
            }
            made
        }
    };
    for (key, value) in entries {
        let Some(known) = Key::of(&key) else {
            return wrong(format!("unsupported key type: {}", key.type_name()));
        };
        if made.contains_key(&known) {
            return wrong(format!("insert failed: key {key} already exists"));
        }
        made.insert(known, (key, value));
    }
    Ok(Val::Map(Map::Made(Arc::new(made))))
}

/// Spares callers the difference between borrowed and shared texts.
impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        (*text).to_owned()
    }
}
