//! `labels`: label selectors, from text and from `metav1.LabelSelector` (`LabelSelectorAsSelector`).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use settled_go as go;

use crate::selector::InvalidSelector;
use crate::validation::{is_qualified_name, is_valid_label_value};

/// Label selector: `app=web,tier in (front, back),!legacy`.
///
/// All requirements must match; none matches every object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `labels.Nothing`: matches no object, and has no text form.
    requirements: Option<Vec<Requirement>>,
}

/// Requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// How a requirement compares a label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label has the value: `=`, and `matchLabels`.
    Equals,
    /// The label has the value: `==`.
    DoubleEquals,
    /// The label is absent or has another value.
    NotEquals,
    /// The label is a larger integer.
    GreaterThan,
    /// The label is a smaller integer.
    LessThan,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// Operators after a key, as listed in errors.
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

/// Access to the labels of an object.
pub trait Labels {
    /// The value of a label, if it exists.
    fn label(&self, key: &str) -> Option<&str>;
}

/// `metadata.labels` of an object.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get("metadata")?.get("labels")?.get(key)?.as_str()
    }
}

/// Labels alone.
impl<K: Borrow<str> + Ord, V: AsRef<str>> Labels for BTreeMap<K, V> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(AsRef::as_ref)
    }
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Parses the text form of queries and of `status.selector` of a Scale, as `labels.Parse`.
    ///
    /// # Errors
    /// The selector is invalid; the message is upstream's.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut parser = Parser { tokens: scan(text), position: 0 };
        let mut requirements = parser.requirements().map_err(InvalidSelector::new)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Converts a `metav1.LabelSelector`: `matchLabels` and `matchExpressions`.
    ///
    /// An absent or null selector matches nothing, an empty one everything.
    ///
    /// # Errors
    /// The selector is invalid; the message is upstream's.
    pub fn from_object(selector: &Value) -> Result<Self, InvalidSelector> {
        if selector.is_null() {
            return Ok(Self { requirements: None });
        }
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                let values = vec![value.as_str().unwrap_or_default().to_owned()];
                requirements.push(Requirement::new(key.clone(), Operator::Equals, values)?);
            }
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message =
                        format!("{} is not a valid label selector operator", go::strconv::quote(other));
                    return Err(InvalidSelector::new(message));
                }
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
            requirements.push(Requirement::new(text("key").to_owned(), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, sorted by key. Empty for selectors of every object and of none.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether it matches these labels.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl Requirement {
    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What the label is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, InvalidSelector> {
        let mut errors = Vec::new();
        let mut invalid = |field: String, value: String, why: &str| {
            let error = format!("{field}: Invalid value: {value}: {why}");
            if !errors.contains(&error) {
                errors.push(error);
            }
        };
        let problems = is_qualified_name(&key);
        if !problems.is_empty() {
            invalid("key".to_owned(), go::strconv::quote(&key), &problems.join("; "));
        }
        let list = || go::json::to_string(&values.iter().map(String::as_str).collect::<Value>());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                // A nil list is null in JSON.
                invalid(
                    "values".to_owned(),
                    "null".to_owned(),
                    "for 'in', 'notin' operators, values set can't be empty",
                );
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let why = "values set must be empty for exists and does not exist";
                invalid("values".to_owned(), list(), why);
            }
            Operator::GreaterThan | Operator::LessThan => {
                for (index, value) in values.iter().enumerate() {
                    if integer(value).is_none() {
                        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                        invalid(format!("values[{index}]"), go::strconv::quote(value), why);
                    }
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let problems = is_valid_label_value(value);
            if !problems.is_empty() {
                invalid(format!("values[{index}][{key}]"), go::strconv::quote(value), &problems.join("; "));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key, operator, values }),
            [only] => Err(InvalidSelector::new(only.clone())),
            several => Err(InvalidSelector::new(format!("[{}]", several.join(", ")))),
        }
    }

    fn matches(&self, labels: &impl Labels) -> bool {
        let value = labels.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|bound| integer(bound));
                match (value.and_then(integer), bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::GreaterThan => value > bound,
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let mut sorted: Vec<&str> = values.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let values = sorted.join(",");
        match operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

/// Parses an integer as `strconv.ParseInt`.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Closed,
    Comma,
    Not,
    Operator(Operator),
    Word,
    Open,
}

/// Tokenizes a selector. The last token is the end.
fn scan(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let special = |byte: u8| matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<');
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let mut tokens = Vec::new();
    let mut position = 0;
    loop {
        while bytes.get(position).copied().is_some_and(space) {
            position += 1;
        }
        let start = position;
        // Upstream treats NUL as the end of input.
        let Some(&first) = bytes.get(position).filter(|&&byte| byte != 0) else { break };
        let token = if special(first) {
            position += if matches!(&bytes[position..], [b'=' | b'!', b'=', ..]) { 2 } else { 1 };
            match &bytes[start..position] {
                b"=" => Token::Operator(Operator::Equals),
                b"==" => Token::Operator(Operator::DoubleEquals),
                b"!=" => Token::Operator(Operator::NotEquals),
                b">" => Token::Operator(Operator::GreaterThan),
                b"<" => Token::Operator(Operator::LessThan),
                b"!" => Token::Not,
                b"(" => Token::Open,
                b")" => Token::Closed,
                _ => Token::Comma,
            }
        } else {
            let ends = |&byte: &u8| special(byte) || space(byte) || byte == 0;
            position += bytes[position..].iter().position(ends).unwrap_or(bytes.len() - position);
            match &bytes[start..position] {
                b"in" => Token::Operator(Operator::In),
                b"notin" => Token::Operator(Operator::NotIn),
                _ => Token::Word,
            }
        };
        tokens.push((token, &text[start..position]));
        // A NUL directly after a token is skipped.
        if bytes.get(position) == Some(&0) {
            position += 1;
        }
    }
    tokens.push((Token::End, ""));
    tokens
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

impl<'a> Parser<'a> {
    /// The next token, as an operator if possible.
    fn raw(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    /// The next token; `in` and `notin` are names.
    fn peek(&self) -> (Token, &'a str) {
        match self.raw() {
            (Token::Operator(Operator::In | Operator::NotIn), text) => (Token::Word, text),
            other => other,
        }
    }

    fn take(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Word | Token::Not, _) => {}
                (Token::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match self.take() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, text) = self.peek();
                    if !matches!(token, Token::Word | Token::Not) {
                        return Err(format!("found '{text}', expected: identifier after ','"));
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.take();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take();
        }
        if token != Token::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = is_qualified_name(key);
        if !problems.is_empty() {
            return Err(format!(
                "<nil>: Invalid value: {}: {}",
                go::strconv::quote(key),
                problems.join("; ")
            ));
        }
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek().0, Token::End | Token::Comma) {
            (Operator::Exists, Vec::new())
        } else {
            let (token, text) = self.raw();
            self.position += 1;
            let Token::Operator(operator) = token else {
                return Err(format!("found '{text}', expected: {BINARY}"));
            };
            let mut values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => vec![self.value()?],
            };
            values.sort_unstable();
            values.dedup();
            (operator, values)
        };
        let values = values.into_iter().map(str::to_owned).collect();
        Requirement::new(key.to_owned(), operator, values).map_err(|error| error.to_string())
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.take() {
            (Token::Word, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        let (token, text) = self.take();
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.peek() {
            (Token::Word | Token::Comma, _) => {}
            (Token::Closed, _) => {
                self.position += 1;
                return Ok(vec![""]);
            }
            (_, text) => return Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.take() {
                (Token::Word, text) => {
                    values.push(text);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Closed, _) => break,
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek().0 {
                        Token::Closed => {
                            values.push("");
                            break;
                        }
                        Token::Comma => values.push(""),
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
        // The closing parenthesis.
        self.position += 1;
        Ok(values)
    }
}
