//! Bounded replacements for library functions. Each returns true and its results, or false and an argument error, which the
//! prelude raises with the line of the script.

use std::rc::Rc;

use memchr::memmem;
use mlua::{Lua, LuaString, MultiValue, Nil, Table, Value};

use crate::budget::{Budget, Limit};
use crate::lua_error::{is_memory, kind, spent};
use crate::pattern::{Capture, Matcher, Stop};

/// Reason why a function has no result.
enum Failure {
    /// Raised as an error in the script.
    Script(String),
    /// Ends the run.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Malformed(what) => Self::Script(what.to_owned()),
            Stop::Spent => Self::Lua(spent()),
        }
    }
}

type Results = Result<Vec<Value>, Failure>;

/// The function table used by the prelude.
pub(crate) fn functions(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let table = lua.create_table()?;

    let shared = Rc::clone(budget);
    let find =
        lua.create_function(move |lua, (text, pattern, init, plain): (Value, Value, Value, Value)| {
            answer(lua, &shared, || {
                let (text, pattern) = (string(lua, &text, 1, "find")?, string(lua, &pattern, 2, "find")?);
                let init = start(lua, &init, text.as_bytes().len(), "find")?;
                let plain = !matches!(plain, Nil | Value::Boolean(false));
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                find(lua, &shared, &text, &pattern, init, plain)
            })
        })?;
    table.raw_set("find", find)?;

    let shared = Rc::clone(budget);
    let matching = lua.create_function(move |lua, (text, pattern, init): (Value, Value, Value)| {
        answer(lua, &shared, || {
            let (text, pattern) = (string(lua, &text, 1, "match")?, string(lua, &pattern, 2, "match")?);
            let init = start(lua, &init, text.as_bytes().len(), "match")?;
            let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
            let (pattern, anchored) = anchor(&pattern);
            let mut matcher = Matcher::new(&text, pattern, &shared);
            match matcher.search(init, anchored)? {
                None => Ok(vec![Nil]),
                Some((from, to)) => captures(lua, &matcher, from, to, usize::MAX),
            }
        })
    })?;
    table.raw_set("match", matching)?;

    // One match for `gmatch` and `gsub`: start, end and captures, or only the first capture.
    let shared = Rc::clone(budget);
    let next = lua.create_function(
        move |lua, (name, text, pattern, at, anchored, first): (LuaString, Value, Value, f64, bool, bool)| {
            answer(lua, &shared, || {
                let name = name.to_string_lossy();
                let (text, pattern) = (string(lua, &text, 1, &name)?, string(lua, &pattern, 2, &name)?);
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                // With infinity only the arguments are checked.
                if at > text.len() as f64 + 1.0 {
                    return Ok(vec![Nil]);
                }
                let pattern = if anchored { anchor(&pattern).0 } else { &pattern };
                let mut matcher = Matcher::new(&text, pattern, &shared);
                let Some((from, to)) = matcher.search(at as usize - 1, anchored)? else {
                    return Ok(vec![Nil]);
                };
                let mut results = vec![Value::Number((from + 1) as f64), Value::Number((to + 1) as f64)];
                let most = if first { 1 } else { usize::MAX };
                results.extend(captures(lua, &matcher, from, to, most)?);
                Ok(results)
            })
        },
    )?;
    table.raw_set("next", next)?;

    let shared = Rc::clone(budget);
    let gsub =
        lua.create_function(move |lua, (text, pattern, replacement, most): (Value, Value, Value, Value)| {
            answer(lua, &shared, || {
                let (text, pattern) = (string(lua, &text, 1, "gsub")?, string(lua, &pattern, 2, "gsub")?);
                let replacement = lua.coerce_string(replacement.clone())?.ok_or_else(|| {
                    let got = kind(&replacement);
                    Failure::Script(format!(
                        "bad argument #3 to 'gsub' (string/function/table expected, got {got})"
                    ))
                })?;
                let most = match most {
                    Nil => usize::MAX,
                    most => number(lua, &most, 4, "gsub")? as usize,
                };
                let (text, pattern, replacement) =
                    (text.as_bytes(), pattern.as_bytes(), replacement.as_bytes());
                gsub(lua, &shared, &text, &pattern, &replacement, most)
            })
        })?;
    table.raw_set("gsub", gsub)?;

    let shared = Rc::clone(budget);
    let rep = lua.create_function(move |lua, (text, count): (Value, Value)| {
        answer(lua, &shared, || {
            let text = string(lua, &text, 1, "rep")?;
            let count = number(lua, &count, 2, "rep")? as usize;
            let text = text.as_bytes();
            // An empty string stays empty, whatever the count.
            let size = if text.is_empty() { Some(0) } else { text.len().checked_mul(count) };
            match size {
                Some(0) => Ok(vec![Value::String(lua.create_string("")?)]),
                Some(size) if size <= shared.memory() => {
                    Ok(vec![Value::String(lua.create_string(text.repeat(count))?)])
                }
                _ => Err(out_of_memory(&shared)),
            }
        })
    })?;
    table.raw_set("rep", rep)?;

    let shared = Rc::clone(budget);
    let tripped = lua.create_function(move |_, error: Value| Ok(tripped(&shared, &error)))?;
    table.raw_set("tripped", tripped)?;
    Ok(table)
}

/// Whether an error, caught by the script or final, reports an exceeded limit.
fn tripped(budget: &Budget, error: &Value) -> bool {
    match error {
        // Lua's own message. A script that raises the same message is treated the same.
        Value::String(text) if *text == "not enough memory" => budget.reach(Limit::Memory),
        Value::Error(error) if is_memory(error) => budget.reach(Limit::Memory),
        _ => {}
    }
    budget.error().is_some()
}

fn answer(lua: &Lua, budget: &Budget, function: impl FnOnce() -> Results) -> mlua::Result<MultiValue> {
    match function() {
        Ok(results) => Ok(std::iter::once(Value::Boolean(true)).chain(results).collect()),
        Err(Failure::Script(what)) => {
            Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(lua.create_string(what)?)]))
        }
        Err(Failure::Lua(error)) => {
            if is_memory(&error) {
                budget.reach(Limit::Memory);
            }
            if budget.error().is_some() {
                return Err(error);
            }
            // The stack is full, and reporting that needs some of it.
            let what = lua.create_string("stack overflow")?;
            Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(what)]))
        }
    }
}

fn find(lua: &Lua, budget: &Budget, text: &[u8], pattern: &[u8], init: usize, plain: bool) -> Results {
    if plain || !pattern.iter().any(|character| b"^$*+?.([%-".contains(character)) {
        budget.charge((text.len() as u64 - init as u64) / 64).map_err(Stop::from)?;
        return Ok(match memmem::find(&text[init..], pattern) {
            None => vec![Nil],
            Some(at) => bounds(init + at, init + at + pattern.len()),
        });
    }
    let (pattern, anchored) = anchor(pattern);
    let mut matcher = Matcher::new(text, pattern, budget);
    let Some((from, to)) = matcher.search(init, anchored)? else {
        return Ok(vec![Nil]);
    };
    let mut results = bounds(from, to);
    if matcher.has_captures() {
        results.extend(captures(lua, &matcher, from, to, usize::MAX)?);
    }
    Ok(results)
}

/// Start and end of a match as Lua counts: from 1, inclusive.
fn bounds(from: usize, to: usize) -> Vec<Value> {
    vec![Value::Number((from + 1) as f64), Value::Number(to as f64)]
}

fn captures(lua: &Lua, matcher: &Matcher<'_>, from: usize, to: usize, most: usize) -> Results {
    let capture = |index| match matcher.capture(index, from, to)? {
        Capture::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        Capture::Position(position) => Ok(Value::Number(position as f64)),
    };
    (0..matcher.captures().min(most)).map(capture).collect()
}

fn gsub(lua: &Lua, budget: &Budget, text: &[u8], pattern: &[u8], replacement: &[u8], most: usize) -> Results {
    let (pattern, anchored) = anchor(pattern);
    let mut matcher = Matcher::new(text, pattern, budget);
    let (mut result, mut at, mut count) = (Vec::new(), 0, 0_usize);
    while count < most {
        let Some((from, to)) = matcher.search(at, anchored)? else {
            break;
        };
        count += 1;
        result.extend_from_slice(&text[at..from]);
        budget.charge(1 + replacement.len() as u64 / 16).map_err(Stop::from)?;
        replace(&mut result, budget, &matcher, replacement, from, to)?;
        at = to;
        // Without a match the character is copied; otherwise the next match would begin here again.
        if from == to {
            match text.get(to) {
                Some(&character) => result.push(character),
                None => break,
            }
            at += 1;
        }
        if anchored {
            break;
        }
    }
    result.extend_from_slice(&text[at..]);
    Ok(vec![Value::String(lua.create_string(&result)?), Value::Number(count as f64)])
}

/// Writes the replacement and expands `%0` to `%9`.
fn replace(
    result: &mut Vec<u8>,
    budget: &Budget,
    matcher: &Matcher<'_>,
    replacement: &[u8],
    from: usize,
    to: usize,
) -> Result<(), Failure> {
    let mut rest = replacement;
    while let Some(percent) = memchr::memchr(b'%', rest) {
        result.extend_from_slice(&rest[..percent]);
        let Some(&next) = rest.get(percent + 1) else {
            return Err(Failure::Script("invalid use of '%' in replacement string".to_owned()));
        };
        match next {
            b'0' => result.extend_from_slice(matcher.whole(from, to)),
            b'1'..=b'9' => match matcher.capture(usize::from(next - b'1'), from, to)? {
                Capture::Text(text) => result.extend_from_slice(text),
                Capture::Position(position) => result.extend_from_slice(position.to_string().as_bytes()),
            },
            other => result.push(other),
        }
        if result.len() > budget.memory() {
            return Err(out_of_memory(budget));
        }
        rest = &rest[percent + 2..];
    }
    result.extend_from_slice(rest);
    if result.len() > budget.memory() { Err(out_of_memory(budget)) } else { Ok(()) }
}

/// The pattern without its `^`, and whether it had one.
fn anchor(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    }
}

fn out_of_memory(budget: &Budget) -> Failure {
    budget.reach(Limit::Memory);
    Failure::Lua(spent())
}

fn string(lua: &Lua, value: &Value, index: u32, name: &str) -> Result<LuaString, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => lua.coerce_string(other.clone())?.ok_or_else(|| bad_argument(value, index, name, "string")),
    }
}

fn number(lua: &Lua, value: &Value, index: u32, name: &str) -> Result<f64, Failure> {
    lua.coerce_number(value.clone())?.ok_or_else(|| bad_argument(value, index, name, "number"))
}

fn bad_argument(value: &Value, index: u32, name: &str, expected: &str) -> Failure {
    let got = kind(value);
    Failure::Script(format!("bad argument #{index} to '{name}' ({expected} expected, got {got})"))
}

/// Start position: from 1, or from the end if negative, at most the end.
fn start(lua: &Lua, init: &Value, length: usize, name: &str) -> Result<usize, Failure> {
    let init = match init {
        Nil => return Ok(0),
        // The cast saturates.
        init => number(lua, init, 3, name)? as i64,
    };
    let before = usize::try_from(init.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(if init < 0 { length.saturating_sub(before) } else { before.saturating_sub(1).min(length) })
}
