//! Functions of strings.

use std::borrow::Cow;

use super::{Context, Function, fail, format};
use crate::budget::{Budget, Fault, Result};
use crate::pattern::{Limits, Pattern};
use crate::value::{Data, List, Val};

/// Maximum length of a result: traversing a longer one would exceed the cost limit.
const MAX_TEXT: usize = 48 << 20;

/// Calls a string function; `None` if no overload matches.
pub(super) fn call<'a, D: Data<'a>>(context: Context<'_>, args: &[Val<'a, D>]) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    let Context { function, budget, .. } = context;
    Ok(Some(match (function, args) {
        (F::Contains, [V::Text(text), V::Text(part)]) => V::Bool(text.contains(&**part)),
        (F::StartsWith, [V::Text(text), V::Text(part)]) => V::Bool(text.starts_with(&**part)),
        (F::EndsWith, [V::Text(text), V::Text(part)]) => V::Bool(text.ends_with(&**part)),
        (F::Matches, [V::Text(text), V::Text(source)]) => {
            V::Bool(pattern::<D>(context, text, source)?.map_err(Fault::error)?.is_match(text))
        }
        (F::CharAt, [V::Text(text), V::Int(at)]) => {
            let count = text.chars().count() as i64;
            if !(0..=count).contains(at) {
                return fail(format!("index out of range: {at}"));
            }
            V::text(text.chars().nth(*at as usize).map(String::from).unwrap_or_default())
        }
        (F::IndexOf, [V::Text(text), V::Text(part)]) => V::Int(find(text, part, 0)?),
        (F::IndexOf, [V::Text(text), V::Text(part), V::Int(from)]) => V::Int(find(text, part, *from)?),
        (F::LastIndexOf, [V::Text(text), V::Text(part)]) => V::Int(find_last(text, part, None)?),
        (F::LastIndexOf, [V::Text(text), V::Text(part), V::Int(from)]) => {
            V::Int(find_last(text, part, Some(*from))?)
        }
        (F::LowerAscii, [V::Text(text)]) => V::text(text.to_ascii_lowercase()),
        (F::UpperAscii, [V::Text(text)]) => V::text(text.to_ascii_uppercase()),
        (F::Trim, [V::Text(text)]) => V::text(text.trim()),
        (F::Replace, [V::Text(text), V::Text(from), V::Text(to)]) => replace(text, from, to, -1, budget)?,
        (F::Replace, [V::Text(text), V::Text(from), V::Text(to), V::Int(most)]) => {
            replace(text, from, to, *most, budget)?
        }
        (F::Split, [V::Text(text), V::Text(by)]) => V::list(split(text, by, -1)),
        (F::Split, [V::Text(text), V::Text(by), V::Int(most)]) => V::list(split(text, by, *most)),
        (F::Substring, [V::Text(text), V::Int(start)]) => substring(text, *start, None)?,
        (F::Substring, [V::Text(text), V::Int(start), V::Int(end)]) => substring(text, *start, Some(*end))?,
        (F::Join, [V::List(list)]) => return join(list, "", budget),
        (F::Join, [V::List(list), V::Text(by)]) => return join(list, by, budget),
        (F::StringsQuote, [V::Text(text)]) => text_of(quote(text), budget)?,
        (F::Format, [V::Text(text), V::List(list)]) => text_of(format::format(text, list, budget)?, budget)?,

        (F::Find, [V::Text(text), V::Text(source)]) => {
            let pattern = pattern::<D>(context, text, source)?
                .map_err(|error| Fault::error(format!("Illegal regex: {error}")))?;
            let found = pattern.regex().and_then(|regex| regex.find(text));
            V::text(found.map(|found| found.as_str()).unwrap_or_default())
        }
        (F::FindAll, [V::Text(text), V::Text(source), rest @ ..]) => {
            let most = match rest {
                [] => usize::MAX,
                [V::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => return Ok(None),
            };
            let pattern = pattern::<D>(context, text, source)?
                .map_err(|error| Fault::error(format!("Illegal regex: {error}")))?;
            let found = pattern.regex().into_iter().flat_map(|regex| regex.find_iter(text));
            texts(found.take(most).map(|found| found.as_str().to_owned()))
        }
        _ => return Ok(None),
    }))
}

/// Consumes the memory of a new string.
pub(super) fn allocate(length: usize, budget: &Budget) -> Result<()> {
    if length > MAX_TEXT {
        return Err(Fault::Limit);
    }
    budget.allocate(length)
}

fn text_of<'a, D: Data<'a>>(text: String, budget: &Budget) -> Result<Val<'a, D>> {
    allocate(text.len(), budget)?;
    Ok(Val::text(text))
}

/// Index of a substring, in characters.
fn find(text: &str, part: &str, from: i64) -> Result<i64> {
    if part.is_empty() {
        return Ok(from);
    }
    let Ok(start) = usize::try_from(from) else { return fail(format!("index out of range: {from}")) };
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
        return fail(format!("index out of range: {from}"));
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

fn substring<'a, D: Data<'a>>(text: &str, start: i64, end: Option<i64>) -> Result<Val<'a, D>> {
    let length = text.chars().count() as i64;
    if let Some(end) = end
        && start > end
    {
        return fail(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let end = end.unwrap_or(length);
    for at in [start, end] {
        if !(0..=length).contains(&at) {
            return fail(format!("index out of range: {at}"));
        }
    }
    Ok(Val::text(text.chars().skip(start as usize).take((end - start) as usize).collect::<String>()))
}

fn split<'a, D: Data<'a>>(text: &str, separator: &str, most: i64) -> Vec<Val<'a, D>> {
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

fn replace<'a, D: Data<'a>>(
    text: &str,
    from: &str,
    to: &str,
    most: i64,
    budget: &Budget,
) -> Result<Val<'a, D>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() };
    let longer = count.min(most).saturating_mul(to.len());
    allocate(longer.saturating_add(text.len()), budget)?;
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

fn join<'a, D: Data<'a>>(list: &List<'a, D>, separator: &str, budget: &Budget) -> Result<Option<Val<'a, D>>> {
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        match item? {
            Val::Text(text) => {
                budget.allocate(text.len() + separator.len() + 64)?;
                if out.len() > MAX_TEXT {
                    return Err(Fault::Limit);
                }
                out.push_str(&text);
            }
            _ if !D::IS_TYPED => return Ok(None),
            other => return fail(format!("join: invalid input: {other}")),
        }
    }
    Ok(Some(Val::text(out)))
}

pub(super) fn texts<'a, D: Data<'a>>(found: impl IntoIterator<Item = String>) -> Val<'a, D> {
    Val::list(found.into_iter().map(Val::text).collect())
}

/// The pattern of a call. With a step limit, consumes the steps to compile it and to match the string.
fn pattern<'c, 'a, D: Data<'a>>(
    context: Context<'c>,
    text: &str,
    source: &str,
) -> Result<Result<Cow<'c, Pattern>, String>> {
    let limits = if D::IS_TYPED { Limits::Costs } else { Limits::Steps };
    let pattern = match context.pattern {
        Some(known) => Cow::Borrowed(known),
        None => {
            if limits == Limits::Steps {
                context.budget.step(2000)?;
            }
            match Pattern::new(source, limits) {
                Ok(pattern) => Cow::Owned(pattern),
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    if limits == Limits::Steps {
        context.budget.step(pattern.steps(text))?;
    }
    Ok(Ok(pattern))
}
