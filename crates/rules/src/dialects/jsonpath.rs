//! JSONPath as CEL, as far as tools use it for a status: `{.status.conditions[?(@.type=="Ready")].status}`.
//!
//! - Of several values the first one counts, as in Krane and Pulumi.
//! - Kubernetes' notation is <https://kubernetes.io/docs/reference/kubectl/jsonpath/>, RFC 9535 the standard.
//! - `..`, slices, unions, functions and the keys of a map by `*` have no counterpart here: they are errors.

use std::fmt::Write as _;

use crate::template::outside_quotes;

/// A path of an object, from its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    /// The first element for which all of the terms hold.
    First(Vec<Term>),
}

/// `@.type == "Ready"`; without an operator whether the field is there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    keys: Vec<String>,
    compare: Option<(&'static str, Literal)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    Text(String),
    /// A number or a boolean, as it is written.
    Word(String),
}

/// Maximum number of steps in a path.
const MAX_STEPS: usize = 32;
const OPERATORS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

impl Path {
    /// Reads a path, with a `$` before it or not, without `{}` around it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unsupported = |what: &str| format!("`{text}`: {what} cannot be converted; write the rule in CEL");
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return Err(format!("`{text}`: a path of more than {MAX_STEPS} steps"));
            }
            let (step, after) = if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after).ok_or_else(|| format!("`{text}`: `[` without its `]`"))?;
                let (inside, after) = after.split_at(end);
                (bracket(inside.trim()).ok_or_else(|| unsupported(&format!("`[{inside}]`")))?, after.get(1..))
            } else if rest.starts_with("..") || rest.starts_with(".*") {
                return Err(unsupported(rest.get(..2).unwrap_or(rest)));
            } else {
                // Without a dot only at the beginning, as `kubectl` allows.
                let may_begin = rest.starts_with('.') || (steps.is_empty() && !text.starts_with('$'));
                let (key, after) = key(rest.strip_prefix('.').unwrap_or(rest));
                if key.is_empty() || !may_begin {
                    return Err(format!("`{text}`: expected a path such as `.status.phase`"));
                }
                (Step::Key(key), Some(after))
            };
            steps.push(step);
            rest = after.unwrap_or_default();
        }
        match steps.as_slice() {
            [Step::Key(_), ..] => {}
            _ => return Err(format!("`{text}`: expected a path such as `.status.phase`")),
        }
        match steps.last() {
            Some(Step::First(terms)) if terms.is_empty() => Err(unsupported("`[*]` at the end")),
            _ => Ok(Self(steps)),
        }
    }

    /// The same path below `status`.
    pub(crate) fn in_status(mut self) -> Self {
        self.0.insert(0, Step::Key("status".to_owned()));
        self
    }

    pub(crate) fn is_in_status(&self) -> bool {
        self.0.first() == Some(&Step::Key("status".to_owned())) && self.0.len() > 1
    }

    /// The expression for the value; absent where there is none.
    pub(crate) fn cel(&self) -> String {
        let mut text = String::new();
        let mut steps = self.0.as_slice();
        if let [Step::Key(status), Step::Key(conditions), Step::First(terms), rest @ ..] = steps
            && let ("status", "conditions", [Term { keys, compare: Some(("==", Literal::Text(type_))) }]) =
                (&**status, &**conditions, terms.as_slice())
            && *keys == ["type"]
        {
            text = format!("condition({})", quoted(type_));
            steps = rest;
        }
        for step in steps {
            match step {
                Step::Key(key) if text.is_empty() => text = root(key),
                Step::Key(key) => text = member(&text, key),
                Step::Index(index) => text = format!("{text}[{index}]"),
                Step::First(terms) if terms.is_empty() => text = format!("{text}[0]"),
                Step::First(terms) => {
                    let terms: Vec<String> = terms.iter().map(Term::cel).collect();
                    text = format!("{text}.filter(x, {})[0]", terms.join(" && "));
                }
            }
        }
        text
    }

    /// The expression for whether there is a value.
    pub(crate) fn exists(&self) -> String {
        let Some((last, before)) = self.0.split_last() else { return "true".to_owned() };
        match last {
            Step::Key(key) if before.is_empty() => has("self", key),
            Step::Key(key) => has(&Self(before.to_vec()).cel(), key),
            Step::Index(_) | Step::First(_) => {
                let text = self.cel();
                match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
                    Some((of, index)) => format!("{of}[?{index}].hasValue()"),
                    None => format!("has({text}.type)"),
                }
            }
        }
    }

    /// The expression for whether the value, written out, is this text.
    pub(crate) fn is_text(&self, text: &str) -> String {
        let may_be_no_text = text.parse::<f64>().is_ok() || matches!(text, "true" | "false");
        match may_be_no_text {
            true => format!("string({}) == {}", self.cel(), quoted(text)),
            false => format!("{} == {}", self.cel(), quoted(text)),
        }
    }
}

impl Term {
    fn cel(&self) -> String {
        let Some((last, before)) = self.keys.split_last() else { return "true".to_owned() };
        let of = before.iter().fold("x".to_owned(), |text, key| member(&text, key));
        let mut text = has(&of, last);
        if let Some((operator, literal)) = &self.compare {
            let value = match literal {
                Literal::Text(text) => quoted(text),
                Literal::Word(word) => word.clone(),
            };
            // Writing to a text can't fail.
            let _ = write!(text, " && {} {operator} {value}", member(&of, last));
        }
        text
    }
}

/// A key up to the next `.` or `[`; `\.` is a dot of its own.
fn key(text: &str) -> (String, &str) {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => key.extend(chars.next().map(|(_, char)| char)),
            '.' | '[' => return (key, text.get(at..).unwrap_or_default()),
            // Not in a key that is written without quotes.
            ' ' | '*' | '?' | '@' | '$' | ']' | '{' | '}' | '(' | ')' | '\'' | '"' | '=' => {
                return (String::new(), text);
            }
            char => key.push(char),
        }
    }
    (key, "")
}

/// Parses the text between `[` and `]`.
fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::First(Vec::new()));
    }
    if let Some(key) = unquoted(text) {
        return Some(Step::Key(key));
    }
    if let Some(filter) = text.strip_prefix('?') {
        let filter = filter.trim();
        let filter = filter.strip_prefix('(').and_then(|filter| filter.strip_suffix(')')).unwrap_or(filter);
        let terms: Option<Vec<Term>> = split(filter, "&&").into_iter().map(term).collect();
        return terms.map(Step::First);
    }
    text.parse().ok().map(Step::Index)
}

fn term(text: &str) -> Option<Term> {
    let operator = OPERATORS.iter().find_map(|operator| match split(text, operator).as_slice() {
        [left, right] => Some((left.trim(), *operator, right.trim())),
        _ => None,
    });
    let (path, compare) = match operator {
        None => (text.trim(), None),
        Some((path, operator, value)) => {
            let literal = match unquoted(value) {
                Some(text) => Literal::Text(text),
                None if value.parse::<i64>().is_ok() || matches!(value, "true" | "false") => {
                    Literal::Word(value.to_owned())
                }
                None => return None,
            };
            (path, Some((operator, literal)))
        }
    };
    let Path(steps) = Path::parse(path.strip_prefix('@')?).ok()?;
    let keys: Option<Vec<String>> =
        steps.into_iter().map(|step| if let Step::Key(key) = step { Some(key) } else { None }).collect();
    Some(Term { keys: keys?, compare })
}

/// The inside of a quoted text that is all of `text`.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut plain = String::new();
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => plain.push(chars.next()?),
            char if char == quote => return None,
            char => plain.push(char),
        }
    }
    Some(plain)
}

/// Position of the closing bracket.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    outside_quotes(text, |_, char| match char {
        ']' if depth == 0 => true,
        ']' => {
            depth -= 1;
            false
        }
        '[' => {
            depth += 1;
            false
        }
        _ => false,
    })
}

/// The parts between separators outside of quotes.
fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) =
        outside_quotes(rest, |at, _| rest.get(at..).is_some_and(|rest| rest.starts_with(separator)))
    {
        parts.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + separator.len()..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

/// Splits `{path} rest` into the path and the rest.
pub(crate) fn braces(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim().strip_prefix('{')?;
    let end = outside_quotes(inside, |_, char| char == '}')?;
    Some((inside.get(..end)?, inside.get(end + 1..)?.trim()))
}

/// A text as CEL writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for char in text.chars() {
        match char {
            '\\' | '\'' => quoted.extend(['\\', char]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            char => quoted.push(char),
        }
    }
    quoted.push('\'');
    quoted
}

/// Whether CEL reads this as a field after a dot.
fn is_word(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !matches!(key, "in" | "true" | "false" | "null")
}

fn root(key: &str) -> String {
    match key {
        "apiVersion" | "kind" | "metadata" | "spec" | "status" | "data" => key.to_owned(),
        key => member("self", key),
    }
}

fn member(of: &str, key: &str) -> String {
    if is_word(key) { format!("{of}.{key}") } else { format!("{of}[{}]", quoted(key)) }
}

fn has(of: &str, key: &str) -> String {
    if is_word(key) { format!("has({of}.{key})") } else { format!("{of}[?{}].hasValue()", quoted(key)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::paths::Paths;
    use crate::cel::source::{Names, compile};

    #[test]
    fn paths_become_cel() {
        for (path, cel) in [
            ("$.status.phase", "status.phase"),
            (".status.phase", "status.phase"),
            ("status.phase", "status.phase"),
            ("$['status']['load-balancer']", "status['load-balancer']"),
            (r".metadata.annotations.example\.com/up", "metadata.annotations['example.com/up']"),
            (".webhooks[*].clientConfig.caBundle", "self.webhooks[0].clientConfig.caBundle"),
            (".status.parents[1].controllerName", "status.parents[1].controllerName"),
            (r#"$.status.conditions[?(@.type == "Ready")].status"#, "condition('Ready').status"),
            ("$.status.conditions[?@.type=='Ready'].status", "condition('Ready').status"),
            (
                "$.status.conditions[?(@.type == 'Ready' && @.status != 'False')].reason",
                "status.conditions.filter(x, has(x.type) && x.type == 'Ready' && has(x.status) && x.status != 'False')[0].reason",
            ),
            (
                "$.status.shards[?(@.spec['a-b'] >= 2)].name",
                "status.shards.filter(x, x.spec[?'a-b'].hasValue() && x.spec['a-b'] >= 2)[0].name",
            ),
            (".status.conditions[?(@.type=='it\\'s ]')].status", r"condition('it\'s ]').status"),
        ] {
            let found = Path::parse(path).map(|path| path.cel());
            assert_eq!(found.as_deref(), Ok(cel), "{path}");
            assert!(compile(cel, Names::Known, &mut Paths::default()).is_ok(), "{cel}");
        }
    }

    #[test]
    fn existence() {
        for (path, cel) in [
            (".status", "has(self.status)"),
            (".status.phase", "has(status.phase)"),
            (".data['tls.crt']", "data[?'tls.crt'].hasValue()"),
            (".status.loadBalancer.ingress[0]", "status.loadBalancer.ingress[?0].hasValue()"),
            (".status.conditions[?(@.type=='Ready')]", "has(condition('Ready').type)"),
        ] {
            let found = Path::parse(path).map(|path| path.exists());
            assert_eq!(found.as_deref(), Ok(cel), "{path}");
            assert!(compile(cel, Names::Known, &mut Paths::default()).is_ok(), "{cel}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        for (path, what) in [
            ("$..phase", ".."),
            ("$.status.*", ".*"),
            ("$.status.items[1:2]", "[1:2]"),
            ("$.status.items[-1]", "[-1]"),
            ("$.status.items[?(@.a || @.b)]", "[?(@.a || @.b)]"),
            ("$.status.items[*]", "`[*]` at the end"),
            ("$.status.items[?(@.a =~ /x/)].b", "=~"),
            ("$.status.items[0", "without its"),
            ("", "expected a path"),
            ("$", "expected a path"),
            ("$status", "expected a path"),
            ("status phase", "expected a path"),
            ("[0].a", "expected a path"),
        ] {
            let found = Path::parse(path);
            assert!(found.as_ref().is_err_and(|error| error.contains(what)), "{path}: {found:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_is_cel(path in r#"\$?(\.[a-z-]{1,3}|\[[0-9*'a]{1,3}\]|\[\?\(@\.[a-z]{1,2}( ?[=<]{1,2} ?['"a-z0-9\\]{1,4})?\)\]){0,4}"#) {
            if let Ok(path) = Path::parse(&path) {
                for cel in [path.cel(), path.exists(), path.is_text("1"), path.is_text("it's")] {
                    let compiled = compile(&cel, Names::Known, &mut Paths::default());
                    proptest::prop_assert!(compiled.is_ok(), "{cel}: {compiled:?}");
                }
            }
        }
    }

    #[test]
    fn braces_end_outside_of_quotes() {
        assert_eq!(braces("{.a['}']} == 1"), Some((".a['}']", "== 1")));
        assert_eq!(braces("{.a"), None);
        assert_eq!(braces(".a"), None);
    }
}
