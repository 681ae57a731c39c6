//! Compiled form of one item of `x-kubernetes-validations`.

use crate::ast::show;
use crate::checker::{self, Scope};
use crate::cost;
use crate::plan::{self, Program};
use crate::rule::Rule;
use crate::schema::{Declared, MAX_REQUEST, Schema};
use crate::types::Type;

/// A compiled rule, or its error.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) rule: Rule,
    /// `None` for an empty rule, and after an error.
    pub(crate) program: Option<Program>,
    pub(crate) error: Option<String>,
    pub(crate) uses_old: bool,
    pub(crate) max_cost: u64,
    pub(crate) message: Option<Program>,
    pub(crate) message_error: Option<String>,
    pub(crate) message_cost: u64,
    /// The rule's field path as a suffix of error paths.
    pub(crate) path: Option<String>,
}

/// Maximum number of values of this size in one request.
pub(crate) fn cardinality(min_size: i64) -> u64 {
    (MAX_REQUEST / (min_size + 1)) as u64
}

struct Expression {
    program: Program,
    uses_old: bool,
    cost: u64,
}

fn compile(
    source: &str,
    declared: &Declared,
    named: &Declared,
    optional_old: bool,
    of_rule: bool,
) -> Result<Expression, String> {
    let what = if of_rule { "" } else { "messageExpression " };
    let checked = checker::check(source, &Scope { self_: named, optional_old })
        .map_err(|mut issues| format!("{what}compilation failed: {}", show(source, &mut issues)))?;
    let wanted = if of_rule { Type::Bool } else { Type::String };
    if *checked.type_of(checked.ast.root) != wanted {
        return Err(if of_rule {
            "cel expression must evaluate to a bool".to_owned()
        } else {
            "messageExpression must evaluate to a string".to_owned()
        });
    }
    let program = plan::plan(&checked).map_err(|error| {
        let what = if of_rule { "program" } else { "messageExpression" };
        format!("{what} instantiation failed: {error}")
    })?;
    let cost = cost::estimate(&checked, declared).max;
    Ok(Expression { program, uses_old: checked.uses_old_self, cost })
}

impl Compiled {
    pub(crate) fn new(rule: &Rule, schema: &Schema, declared: &Declared, named: &Declared) -> Self {
        let mut compiled = Self {
            rule: rule.clone(),
            program: None,
            error: None,
            uses_old: false,
            max_cost: 0,
            message: None,
            message_error: None,
            message_cost: 0,
            path: None,
        };
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let optional_old = rule.optional_old_self == Some(true);
        match compile(&rule.rule, declared, named, optional_old, true) {
            Ok(Expression { program, uses_old, cost }) => {
                compiled.program = Some(program);
                compiled.uses_old = uses_old;
                compiled.max_cost = cost;
            }
            Err(error) => {
                compiled.error = Some(error);
                return compiled;
            }
        }
        if !rule.message_expression.is_empty() {
            match compile(&rule.message_expression, declared, named, optional_old, false) {
                Ok(Expression { program, cost, .. }) => {
                    compiled.message = Some(program);
                    compiled.message_cost = cost;
                }
                Err(error) => {
                    compiled.message_error = Some(error);
                    return compiled;
                }
            }
        }
        if !rule.field_path.is_empty() {
            compiled.path = field_path(&rule.field_path, schema).ok();
        }
        compiled
    }
}

/// Parses a field path to the form of error paths.
pub(crate) fn field_path(path: &str, schema: &Schema) -> Result<String, String> {
    const WRONG: &str = "does not refer to a valid field";
    let mut found = String::new();
    let mut schema = schema;
    let mut tokens = path_tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or("unexpected end of JSON path")?.to_owned(),
            "[" => {
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unquote(inner)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
                name
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if let Some(properties) = &schema.properties {
            if !found.is_empty() {
                found.push('.');
            }
            found.push_str(&name);
            schema = properties.get(&name).ok_or(WRONG)?;
        } else if let Some(values) = &schema.additional {
            found.push('[');
            found.push_str(&name);
            found.push(']');
            schema = values;
        } else {
            return Err(WRONG.to_owned());
        }
    }
    Ok(found)
}

fn path_tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let end = (1..bytes.len())
                    .find(|at| bytes.get(*at) == Some(&b'\'') && bytes.get(*at - 1) != Some(&b'\\'));
                end.map_or(rest.len(), |end| end + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(length);
        tokens.push(token);
        rest = tail;
    }
    tokens
}

fn unquote(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}
