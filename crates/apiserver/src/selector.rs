//! Label and field selectors: their grammar, what they say about an object, and the little of an object that they read.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
use settled_go as go;
use settled_jsonpath::JsonPath;

use crate::ApiError;

/// Why a selector is not one. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(String);

impl From<InvalidSelector> for ApiError {
    fn from(error: InvalidSelector) -> Self {
        Self::bad_request(error.0)
    }
}

/// Which objects are meant, by their labels: `app=web,tier in (front, back),!legacy`.
///
/// All requirements must hold; none means every object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None`: no object matches, which no query can say.
    requirements: Option<Vec<Requirement>>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// The operators between a key and values, as an error lists them.
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

/// The labels of an object, wherever they are kept.
pub(crate) trait Labels {
    /// The value of a label, if it is there.
    fn label(&self, key: &str) -> Option<&str>;
}

/// The labels under `metadata.labels` of an object.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get("metadata")?.get("labels")?.get(key)?.as_str()
    }
}

impl LabelSelector {
    /// Every object.
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Reads what a query or a scale's status has, as `labels.Parse` does.
    ///
    /// # Errors
    /// With upstream's text.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut parser = Parser { tokens: scan(text), position: 0 };
        let mut requirements = parser.requirements().map_err(InvalidSelector)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Reads the `LabelSelector` of an object's field: `matchLabels` and `matchExpressions`.
    ///
    /// A selector that is absent or null matches nothing, an empty one everything.
    ///
    /// # Errors
    /// With upstream's text.
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
                    return Err(InvalidSelector(message));
                }
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
            requirements.push(Requirement::new(text("key").to_owned(), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object with these labels is meant.
    pub(crate) fn matches(&self, labels: &impl Labels) -> bool {
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
    fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, InvalidSelector> {
        let mut errors = Vec::new();
        let mut invalid = |field: String, value: String, why: &str| {
            let error = format!("{field}: Invalid value: {value}: {why}");
            if !errors.contains(&error) {
                errors.push(error);
            }
        };
        let problems = key_problems(&key);
        if !problems.is_empty() {
            invalid("key".to_owned(), go::strconv::quote(&key), &problems.join("; "));
        }
        let list = || go::json::to_string(&values.iter().map(String::as_str).collect::<Value>());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                // Where the list is nil, as it is for objects, JSON has null.
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
            let problems = value_problems(value);
            if !problems.is_empty() {
                invalid(format!("values[{index}][{key}]"), go::strconv::quote(value), &problems.join("; "));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key, operator, values }),
            [only] => Err(InvalidSelector(only.clone())),
            several => Err(InvalidSelector(format!("[{}]", several.join(", ")))),
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

/// An integer as `strconv.ParseInt` reads it.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

const NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN_REGEX: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
    })
}

/// What is wrong with a label's key, in upstream's words.
pub(crate) fn key_problems(key: &str) -> Vec<String> {
    let consists = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character";
    let regex = format!(
        "{consists} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME_REGEX}')"
    );
    let mut problems = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {regex} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    problems.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain(prefix) {
                    problems.push(format!(
                        "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                         characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                         'example.com', regex used for validation is '{SUBDOMAIN_REGEX}')"
                    ));
                }
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(format!("name part {regex}"));
    }
    problems
}

/// What is wrong with a label's value, in upstream's words.
pub(crate) fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({NAME_REGEX})?')"
        ));
    }
    problems
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

/// Cuts a selector into tokens. The last one is the end.
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
        // Upstream takes a NUL for the end.
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
        // A NUL right behind a token is swallowed.
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
    /// The next token, where an operator is meant if there is one.
    fn raw(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    /// The next token, where `in` and `notin` are words.
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
        let problems = key_problems(key);
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
        Requirement::new(key.to_owned(), operator, values).map_err(|error| error.0)
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

/// Which fields the objects of a kind can be selected by.
#[derive(Clone, Debug)]
pub(crate) struct SelectableFields {
    fields: Vec<Field>,
    name_only: bool,
    refusal: Refusal,
}

#[derive(Clone, Debug)]
struct Field {
    /// What selectors call it. Empty: the field is kept for another version's sake.
    label: Cow<'static, str>,
    source: Source,
}

/// Where the value of a field comes from.
#[derive(Clone, Debug)]
enum Source {
    /// The first of these JSON pointers that leads to a text, else nothing.
    Text(&'static [&'static str]),
    /// A number, 0 if absent.
    Number(&'static str),
    /// true or false, false if absent.
    Flag(&'static str),
    /// Nothing, in any object: accepted, and never kept.
    Nothing,
    /// A path of a custom resource.
    Path(Option<JsonPath>),
}

/// How a field that is not there is refused.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// Of kinds that have a say.
    NotSupported,
    /// Of all others.
    Unknown,
    /// Of Jobs.
    Job,
    /// Of ResourceSlices.
    ResourceSlice,
}

/// A name for a field, and the field.
type Row = (&'static str, Source);

const PODS: &[Row] = &[
    ("spec.nodeName", Source::Text(&["/spec/nodeName"])),
    ("spec.restartPolicy", Source::Text(&["/spec/restartPolicy"])),
    ("spec.schedulerName", Source::Text(&["/spec/schedulerName"])),
    ("spec.serviceAccountName", Source::Text(&["/spec/serviceAccountName"])),
    ("spec.hostNetwork", Source::Flag("/spec/hostNetwork")),
    ("status.phase", Source::Text(&["/status/phase"])),
    ("status.podIP", Source::Text(&["/status/podIPs/0/ip", "/status/podIP"])),
    ("status.nominatedNodeName", Source::Text(&["/status/nominatedNodeName"])),
    ("status.podIPs", Source::Nothing),
];

/// Events are kept once, and asked for by the names of two groups: the fields are the same, in the same order.
const EVENTS: &[Row] = &[
    ("involvedObject.kind", Source::Text(&["/involvedObject/kind", "/regarding/kind"])),
    ("involvedObject.namespace", Source::Text(&["/involvedObject/namespace", "/regarding/namespace"])),
    ("involvedObject.name", Source::Text(&["/involvedObject/name", "/regarding/name"])),
    ("involvedObject.uid", Source::Text(&["/involvedObject/uid", "/regarding/uid"])),
    ("involvedObject.apiVersion", Source::Text(&["/involvedObject/apiVersion", "/regarding/apiVersion"])),
    (
        "involvedObject.resourceVersion",
        Source::Text(&["/involvedObject/resourceVersion", "/regarding/resourceVersion"]),
    ),
    ("involvedObject.fieldPath", Source::Text(&["/involvedObject/fieldPath", "/regarding/fieldPath"])),
    ("reason", Source::Text(&["/reason"])),
    ("reportingComponent", Source::Text(&["/reportingComponent", "/reportingController"])),
    (
        "source",
        Source::Text(&[
            "/source/component",
            "/deprecatedSource/component",
            "/reportingComponent",
            "/reportingController",
        ]),
    ),
    ("type", Source::Text(&["/type"])),
];

const SIGNER: &[Row] = &[("spec.signerName", Source::Text(&["/spec/signerName"]))];

/// What the conversions of upstream accept, and what its stores answer.
fn builtin_fields(group: &str, kind: &str) -> (&'static [Row], Refusal, bool) {
    let rows: (&[Row], bool) = match (group, kind) {
        ("", "Pod") => (PODS, false),
        ("" | "events.k8s.io", "Event") => (EVENTS, false),
        ("", "Node") => (&[("spec.unschedulable", Source::Flag("/spec/unschedulable"))], true),
        ("", "Namespace") => (&[("status.phase", Source::Text(&["/status/phase"]))], true),
        ("", "Secret") => (&[("type", Source::Text(&["/type"]))], false),
        ("", "Service") => {
            let fields = &[
                ("spec.clusterIP", Source::Text(&["/spec/clusterIP"])),
                ("spec.type", Source::Text(&["/spec/type"])),
            ];
            (fields, false)
        }
        ("", "ReplicationController") => (&[("status.replicas", Source::Number("/status/replicas"))], false),
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => (SIGNER, true),
        ("certificates.k8s.io", "PodCertificateRequest") => {
            let fields = &[
                ("spec.signerName", Source::Text(&["/spec/signerName"])),
                ("spec.podName", Source::Text(&["/spec/podName"])),
                ("spec.nodeName", Source::Text(&["/spec/nodeName"])),
            ];
            (fields, true)
        }
        ("batch", "Job") => {
            return (&[("status.successful", Source::Number("/status/succeeded"))], Refusal::Job, false);
        }
        ("resource.k8s.io", "ResourceSlice") => {
            let fields = &[
                ("spec.nodeName", Source::Text(&["/spec/nodeName"])),
                ("spec.driver", Source::Text(&["/spec/driver"])),
            ];
            return (fields, Refusal::ResourceSlice, true);
        }
        _ => return (&[], Refusal::Unknown, false),
    };
    (rows.0, Refusal::NotSupported, rows.1)
}

impl SelectableFields {
    /// The fields of a built-in kind.
    pub(crate) fn builtin(group: &str, kind: &str) -> Self {
        let (rows, refusal, name_only) = builtin_fields(group, kind);
        let renamed = |label: &'static str| match label {
            _ if group != "events.k8s.io" => Cow::Borrowed(label),
            // Only the older group can be asked for it.
            "source" => Cow::Borrowed(""),
            "reportingComponent" => Cow::Borrowed("reportingController"),
            label => match label.strip_prefix("involvedObject.") {
                Some(field) => Cow::Owned(format!("regarding.{field}")),
                None => Cow::Borrowed(label),
            },
        };
        let field = |(label, source): &Row| Field { label: renamed(label), source: source.clone() };
        Self { fields: rows.iter().map(field).collect(), name_only, refusal }
    }

    /// The fields of a version of a custom resource, from its `selectableFields`.
    pub(crate) fn custom(selectable_fields: &Value, namespaced: bool) -> Self {
        let paths = selectable_fields.as_array().into_iter().flatten();
        let paths = paths.filter_map(|field| field.get("jsonPath")?.as_str());
        let field = |path: &str| Field {
            label: Cow::Owned(path.strip_prefix('.').unwrap_or(path).to_owned()),
            source: Source::Path(JsonPath::parse(path).ok()),
        };
        Self { fields: paths.map(field).collect(), name_only: !namespaced, refusal: Refusal::NotSupported }
    }

    /// What is kept of an object to answer selectors.
    pub(crate) fn data(&self, object: &Value) -> SelectorData {
        let mut packed = String::new();
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            // Neither is valid in a label; here they would end it.
            if !key.contains('\0') && !value.contains('\0') {
                packed.extend([key, "\0", value, "\0"]);
            }
        }
        let labels = u32::try_from(packed.len()).unwrap_or(u32::MAX);
        for field in &self.fields {
            packed.push_str(&field.source.value(object).replace('\0', "\u{fffd}"));
            packed.push('\0');
        }
        SelectorData { packed: packed.into_boxed_str(), labels }
    }

    fn refuse(&self, label: &str) -> InvalidSelector {
        InvalidSelector(match self.refusal {
            Refusal::NotSupported => format!("field label not supported: {label}"),
            Refusal::Unknown => {
                let label = go::strconv::quote(label);
                format!(
                    r#"{label} is not a known field selector: only "metadata.name", "metadata.namespace""#
                )
            }
            Refusal::Job => format!("field label {} not supported for Job", go::strconv::quote(label)),
            Refusal::ResourceSlice => {
                format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
            }
        })
    }

    fn target(&self, label: &str) -> Result<Target, InvalidSelector> {
        match label {
            "metadata.name" => return Ok(Target::Name),
            "metadata.namespace" if !self.name_only => return Ok(Target::Namespace),
            // What old clients send.
            "spec.host" if self.fields.first().is_some_and(|field| field.label == "spec.nodeName") => {
                return self.target("spec.nodeName");
            }
            _ => {}
        }
        let found = self.fields.iter().position(|field| !field.label.is_empty() && field.label == label);
        found.map(Target::Field).ok_or_else(|| self.refuse(label))
    }
}

impl Source {
    fn value(&self, object: &Value) -> String {
        match self {
            Self::Text(pointers) => {
                let mut texts = pointers.iter().filter_map(|pointer| object.pointer(pointer)?.as_str());
                texts.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
            }
            Self::Number(pointer) => {
                object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default().to_string()
            }
            Self::Flag(pointer) => {
                object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default().to_string()
            }
            Self::Nothing => String::new(),
            Self::Path(path) => {
                let results = path.as_ref().and_then(|path| path.find(object).ok()).unwrap_or_default();
                match results.first() {
                    Some(value) if !value.is_null() => settled_jsonpath::shown(value),
                    _ => String::new(),
                }
            }
        }
    }
}

/// The labels and selectable fields of an object: what is kept beside each stored object.
///
/// One allocation holds them all, and there is none where there is nothing to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectorData {
    /// Keys and values of the labels, then values of the fields, each ended by a NUL.
    packed: Box<str>,
    /// Where the labels end.
    labels: u32,
}

impl SelectorData {
    fn split(&self) -> (&str, &str) {
        let at = usize::try_from(self.labels).unwrap_or(usize::MAX);
        self.packed.split_at_checked(at).unwrap_or((&self.packed, ""))
    }

    fn field(&self, index: usize) -> &str {
        self.split().1.split_terminator('\0').nth(index).unwrap_or_default()
    }
}

impl Labels for SelectorData {
    fn label(&self, key: &str) -> Option<&str> {
        let mut texts = self.split().0.split_terminator('\0');
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            if name == key {
                return Some(value);
            }
        }
        None
    }
}

/// Which objects are meant, by their fields: `metadata.name=web,status.phase!=Running`.
///
/// It belongs to the kind that it was read for: fields have no other names in it than their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    label: String,
    target: Target,
    equal: bool,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Name,
    Namespace,
    Field(usize),
}

impl FieldSelector {
    /// Reads what a query has, for objects with these fields.
    pub(crate) fn parse(text: &str, fields: &SelectableFields) -> Result<Self, InvalidSelector> {
        let mut terms = Vec::new();
        for (label, equal, value) in split_fields(text)? {
            let target = fields.target(label)?;
            terms.push(Term { label: label.to_owned(), target, equal, value });
        }
        Ok(Self { terms })
    }

    /// Reads a selector without asking whether its fields are there, for comparisons with upstream's parser.
    pub(crate) fn parse_any(text: &str) -> Result<Self, InvalidSelector> {
        let term = |(label, equal, value): (&str, bool, String)| Term {
            label: label.to_owned(),
            target: Target::Name,
            equal,
            value,
        };
        Ok(Self { terms: split_fields(text)?.into_iter().map(term).collect() })
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that a field must have, if the selector says so: with `metadata.name` it means one object.
    pub(crate) fn required(&self, label: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.label == label).map(|term| term.value.as_str())
    }

    /// Whether the object of this name and namespace is meant.
    pub(crate) fn matches(&self, name: &str, namespace: &str, data: &SelectorData) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.target {
                Target::Name => name,
                Target::Namespace => namespace,
                Target::Field(index) => data.field(index),
            };
            (value == term.value) == term.equal
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Term { label, equal, value, .. }) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{label}{operator}")?;
            for c in value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// The terms of a field selector, sorted: label, whether it must be equal, value.
fn split_fields(text: &str) -> Result<Vec<(&str, bool, String)>, InvalidSelector> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.sort_unstable();

    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let unknown = || InvalidSelector(format!("invalid selector: '{text}'; can't understand '{part}'"));
        let operator = part.bytes().zip(part.bytes().skip(1).chain([0])).position(|pair| match pair {
            (b'!', next) => next == b'=',
            (byte, _) => byte == b'=',
        });
        let (label, rest) = part.split_at(operator.ok_or_else(unknown)?);
        let (equal, value) = match rest.strip_prefix("!=") {
            Some(value) => (false, value),
            None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or_default()),
        };
        let value = unescape(value)?;
        // Upstream drops a term that is nothing but an operator.
        if !label.is_empty() || !value.is_empty() {
            terms.push((label, equal, value));
        }
    }
    Ok(terms)
}

fn unescape(text: &str) -> Result<String, InvalidSelector> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    let message = format!("invalid field selector: invalid escape sequence: {sequence}");
                    return Err(InvalidSelector(message));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                let message = format!("invalid field selector: unescaped character in value: {code}");
                return Err(InvalidSelector(message));
            }
            c => value.push(c),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_labels_costs_next_to_nothing() {
        assert!(size_of::<SelectorData>() <= 24);
        let data = SelectableFields::builtin("", "ConfigMap").data(&json!({"metadata": {"name": "a"}}));
        assert_eq!((data.packed.len(), data.labels), (0, 0));
        assert_eq!(data.label(""), None);
    }

    #[test]
    fn a_required_name_means_one_object() {
        let pods = SelectableFields::builtin("", "Pod");
        let required = |text: &str, label: &str| {
            let selector = FieldSelector::parse(text, &pods).expect("a selector");
            selector.required(label).map(str::to_owned)
        };
        assert_eq!(required("metadata.name=a", "metadata.name").as_deref(), Some("a"));
        assert_eq!(required("spec.host=n,metadata.name==a", "metadata.name").as_deref(), Some("a"));
        assert_eq!(required("metadata.name!=a", "metadata.name"), None);
        assert_eq!(required("", "metadata.name"), None);
    }

    #[test]
    fn fields_of_custom_resources_are_kept_as_texts() {
        let paths =
            json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}]);
        let fields = SelectableFields::custom(&paths, true);
        let object = json!({"spec": {"size": 5, "on": true}, "metadata": {"labels": {"a": "b"}}});
        let data = fields.data(&object);
        for (text, expected) in [
            ("spec.color=", true),
            ("spec.size=5,spec.on=true", true),
            ("spec.color=red", false),
            ("metadata.name=web,metadata.namespace!=other", true),
        ] {
            let selector = FieldSelector::parse(text, &fields).expect("a selector");
            assert_eq!(selector.matches("web", "default", &data), expected, "{text}");
        }
    }
}
