//! The grammar of `--for`: conditions from texts, and as texts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use settled_jsonpath::JsonPath;
use settled_rules::Expression;

use super::fold::fold_equal;
use super::{ConditionError, WaitCondition};

/// No longer text is read, and none whose `any(…)` and `all(…)` are nested deeper.
const MAX_LENGTH: usize = 64 * 1024;
const MAX_DEPTH: usize = 16;

/// A [`ConditionError`] with the byte of the whole text at which it begins.
struct SyntaxError {
    message: String,
    at: usize,
    /// The byte at which the expression begins, if one is wrong.
    expression: Option<usize>,
}

fn syntax_error<T>(at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError { message: message.into(), at, expression: None })
}

impl FromStr for WaitCondition {
    type Err = ConditionError;

    /// Reads one `--for`.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        if text.len() > MAX_LENGTH {
            let message = format!("the condition is longer than {MAX_LENGTH} bytes");
            return Err(ConditionError { message, column: 1, cel_column: None });
        }
        parse(text, 0, 0).map_err(|SyntaxError { message, at, expression }| {
            let chars_before = |at: usize| text.char_indices().take_while(|(index, _)| *index < at).count();
            let column = chars_before(at) + 1;
            ConditionError {
                message,
                column,
                cel_column: expression.map(|begins| column - chars_before(begins)),
            }
        })
    }
}

impl WaitCondition {
    /// Reads the texts of several `--for`, in the order in which they are waited for: as written, but `create` first.
    /// None at all is [`WaitCondition::Ready`]. See [`met_in_order`](Self::met_in_order).
    ///
    /// # Errors
    /// The first text that names nothing to wait for.
    ///
    /// ```
    /// use settled_tracker::WaitCondition;
    /// let order = WaitCondition::parse_all(["condition=Complete", "delete", "create"])?;
    /// let order: Vec<_> = order.iter().map(WaitCondition::to_string).collect();
    /// assert_eq!(order, ["create", "condition=Complete", "delete"]);
    /// # Ok::<(), settled_tracker::request::ConditionError>(())
    /// ```
    pub fn parse_all<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Vec<Self>, ConditionError> {
        let mut list: Vec<Self> =
            texts.into_iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>()?;
        list.sort_by_key(|wanted| !matches!(wanted, Self::Create));
        if list.is_empty() {
            list.push(Self::Ready);
        }
        Ok(list)
    }
}

/// As it may be written.
impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, list) = match self {
            Self::Ready => return f.write_str("ready"),
            Self::Current => return f.write_str("current"),
            Self::Failed => return f.write_str("failed"),
            Self::Delete => return f.write_str("delete"),
            Self::Create => return f.write_str("create"),
            Self::Condition { name, value } if fold_equal(value, "true") => {
                return write!(f, "condition={name}");
            }
            Self::Condition { name, value } => return write!(f, "condition={name}={value}"),
            Self::JsonPath { text, value: None, .. } => return write!(f, "jsonpath={{{text}}}"),
            Self::JsonPath { text, value: Some(value), .. } => {
                return write!(f, "jsonpath={{{text}}}='{value}'");
            }
            Self::Cel(expression) => return write!(f, "cel={expression}"),
            Self::Any(list) => ("any", list),
            Self::All(list) => ("all", list),
        };
        write!(f, "{word}(")?;
        for (index, wanted) in list.iter().enumerate() {
            write!(f, "{}{wanted}", if index > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

/// `at` is the byte of the whole text at which this one begins.
fn parse(text: &str, at: usize, depth: usize) -> Result<WaitCondition, SyntaxError> {
    const WORDS: [(&str, WaitCondition); 5] = [
        ("ready", WaitCondition::Ready),
        ("current", WaitCondition::Current),
        ("failed", WaitCondition::Failed),
        ("create", WaitCondition::Create),
        ("delete", WaitCondition::Delete),
    ];
    if let Some((_, wanted)) = WORDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)) {
        return Ok(wanted.clone());
    }
    if let Some(rest) = text.strip_prefix("condition=") {
        let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
        if name.is_empty() {
            return syntax_error(
                at,
                "a condition has a name: write condition=Ready or condition=Ready=False",
            );
        }
        return Ok(WaitCondition::Condition { name: name.into(), value: value.into() });
    }
    if let Some(rest) = text.strip_prefix("jsonpath=") {
        return parse_json_path(rest, at + "jsonpath=".len());
    }
    if let Some(rest) = text.strip_prefix("cel=") {
        let begins = at + "cel=".len();
        return match Expression::compile(rest) {
            Ok(expression) => Ok(WaitCondition::Cel(Arc::new(expression))),
            Err(error) => Err(SyntaxError {
                message: error.message,
                at: begins + error.at.unwrap_or(0),
                expression: Some(begins),
            }),
        };
    }
    for (word, make) in [
        ("any(", WaitCondition::Any as fn(Arc<[WaitCondition]>) -> WaitCondition),
        ("all(", WaitCondition::All),
    ] {
        if let Some(rest) = text.strip_prefix(word) {
            if depth >= MAX_DEPTH {
                return syntax_error(
                    at,
                    format!("any(…) and all(…) are nested deeper than {MAX_DEPTH} levels"),
                );
            }
            return Ok(make(parse_list(rest, at + word.len(), depth + 1)?.into()));
        }
    }
    let quoted = settled_go::strconv::quote(text);
    let is_name = !text.is_empty()
        && !["condition", "jsonpath", "cel"].contains(&text)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let hint = if is_name {
        format!("for the condition of this name write condition={text}")
    } else {
        "write ready, current, failed, create, delete, condition=NAME[=VALUE], jsonpath=PATH[=VALUE], cel=EXPRESSION, \
         any(A, B) or all(A, B)"
            .to_owned()
    };
    syntax_error(at, format!("unrecognized condition: {quoted}; {hint}"))
}

/// The conditions of a list up to its closing parenthesis, which must be the last character.
fn parse_list(text: &str, at: usize, depth: usize) -> Result<Vec<WaitCondition>, SyntaxError> {
    let mut list = Vec::new();
    // Brackets and quotes belong to the inner text.
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut quote: Option<(char, usize)> = None;
    let mut start = 0;
    let mut chars = text.char_indices();
    while let Some((index, char)) = chars.next() {
        match (char, quote) {
            ('\\', _) => {
                chars.next();
            }
            (_, Some((end, _))) if char == end => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some((char, index)),
            ('(' | '[' | '{', None) => open.push((char, index)),
            (')', None) if open.is_empty() => {
                parse_element(text, start, index, at, depth, &mut list)?;
                let rest = index + 1;
                if text.get(rest..).is_some_and(|rest| !rest.trim().is_empty()) {
                    return syntax_error(at + rest, "nothing may follow the closing parenthesis");
                }
                return Ok(list);
            }
            (')' | ']' | '}', None) => {
                let wanted = match open.pop() {
                    Some(('(', _)) => ')',
                    Some(('[', _)) => ']',
                    _ => '}',
                };
                if char != wanted {
                    return syntax_error(at + index, format!("expected `{wanted}`, found `{char}`"));
                }
            }
            (',', None) if open.is_empty() => {
                parse_element(text, start, index, at, depth, &mut list)?;
                start = index + 1;
            }
            _ => {}
        }
    }
    match (quote, open.pop()) {
        (Some((char, index)), _) => syntax_error(at + index, format!("the quote {char} is not closed")),
        (None, Some((char, index))) => syntax_error(at + index, format!("the bracket {char} is not closed")),
        (None, None) => syntax_error(at + text.len(), "`)` is missing at the end"),
    }
}

fn parse_element(
    text: &str,
    start: usize,
    end: usize,
    at: usize,
    depth: usize,
    list: &mut Vec<WaitCondition>,
) -> Result<(), SyntaxError> {
    let whole = text.get(start..end).unwrap_or_default();
    let element = whole.trim_start();
    let begins = at + start + (whole.len() - element.len());
    let element = element.trim_end();
    if element.is_empty() {
        return syntax_error(at + start, "a condition is missing here");
    }
    list.push(parse(element, begins, depth)?);
    Ok(())
}

/// `PATH` or `PATH=VALUE`, as upstream splits, relaxes and unquotes them, with its texts for what is wrong.
fn parse_json_path(text: &str, at: usize) -> Result<WaitCondition, SyntaxError> {
    let parts = split(text);
    let (path, value) = match parts.as_slice() {
        [path] => (path, None),
        [path, value] => (path, Some(value)),
        _ => {
            return syntax_error(
                at,
                "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or \
                 --for=jsonpath='{.status.readyReplicas}'; an `=` of the value or of a key cannot be written",
            );
        }
    };
    let value = match value {
        None => None,
        Some(value) => match value.trim_matches(['\'', '"']) {
            "" => {
                return syntax_error(
                    at + path.len() + 1,
                    "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
                );
            }
            value => Some(Arc::from(value)),
        },
    };
    if path.is_empty() {
        return syntax_error(
            at,
            "jsonpath expression cannot be empty; write jsonpath={.status.phase}=Running",
        );
    }
    let inner = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
    let first = inner.strip_prefix('.').unwrap_or(inner).chars().next();
    if let Some(first) = first.filter(|first| matches!(first, '$' | '@' | '[' | ']' | ',' | ' ' | '\t')) {
        return syntax_error(
            at,
            format!(
                "the path begins with {first:?} and would find nothing: begin with a field, as {{.status.phase}}"
            ),
        );
    }
    let parsed = JsonPath::relaxed(path).or_else(|error| syntax_error(at, error.to_string()))?;
    let text = if inner.starts_with('.') { inner.to_owned() } else { format!(".{inner}") };
    Ok(WaitCondition::JsonPath { path: Arc::new(parsed), text: text.into(), value })
}

/// Splits on each `=` that is not one of two.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        rest = after;
        let Some(part) = parts.last_mut() else { break };
        part.push_str(before);
        match after.strip_prefix('=') {
            Some(after) => {
                part.push_str("==");
                rest = after;
            }
            None => parts.push(String::new()),
        }
    }
    if let Some(part) = parts.last_mut() {
        part.push_str(rest);
    }
    parts
}
