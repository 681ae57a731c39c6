//! Wait conditions: the grammar of `--for`, and whether an object meets it.
//!
//! | written | met when |
//! |---|---|
//! | `ready` | the object is Current, or an annotation asks that nobody waits for it |
//! | `current` | the object is Current |
//! | `failed` | the object is Failed |
//! | `create` | the object is there |
//! | `delete` | the object is not there |
//! | `condition=NAME[=VALUE]` | that element of `status.conditions` has this status (`true` unless said otherwise), at the latest generation |
//! | `jsonpath=PATH[=VALUE]` | the path leads to one value, and it is this one |
//! | `cel=EXPRESSION` | the expression, in the language of rules, holds |
//! | `any(A, B)` | one of them is met |
//! | `all(A, B)` | all of them are met |
//!
//! `create`, `delete`, `condition=` and `jsonpath=` are those of `kubectl wait`, to the letter. What kubectl takes but never finds met is an
//! error here: a condition without a name, a path that begins with something other than a field.

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use kstatus::{Known, Member, Node, NodeKind, Object, Status, Verdict};
use serde_json::Value;
use settled_jsonpath::JsonPath;
use settled_rules::{Expression, Outcome};

/// No longer text is read, and none whose `any(…)` and `all(…)` are nested deeper.
const MAX_LENGTH: usize = 64 * 1024;
const MAX_DEPTH: usize = 16;
/// Not more fields that an expression saw are named.
const MAX_SEEN: usize = 4;

/// What is waited for, ready to be asked of any number of objects. Cloning copies references.
///
/// ```
/// use kstatus::{compute, Object, Options};
/// use settled_tracker::request::ConditionResult;
/// use settled_tracker::WaitCondition;
///
/// let wanted: WaitCondition = "any(condition=Ready, jsonpath={.status.phase}=Running)".parse()?;
/// let json = br#"{"kind":"Pod","metadata":{"name":"web"},"status":{"phase":"Pending"}}"#;
/// let object = Object::parse(json).unwrap();
/// let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
/// let met = wanted.evaluate(Some(&object), &object.verdict(&options), options.now);
/// assert_eq!(met, ConditionResult::No("condition Ready is not there; .status.phase is Pending, wanted Running".to_owned()));
/// # Ok::<(), settled_tracker::request::ConditionError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub enum WaitCondition {
    /// Current, or not to be waited for.
    #[default]
    Ready,
    /// Current.
    Current,
    /// Failed.
    Failed,
    /// Not there any more. Whoever takes an object of another uid for a new one passes none.
    Delete,
    /// There.
    Create,
    /// An element of `status.conditions`. Both texts are compared without regard to case.
    Condition {
        /// The condition's type.
        name: Arc<str>,
        /// Its status.
        value: Arc<str>,
    },
    /// What a path leads to.
    JsonPath {
        /// The path.
        path: Arc<JsonPath>,
        /// The path as it was written, without braces.
        text: Arc<str>,
        /// The value as it is printed; none where any will do.
        value: Option<Arc<str>>,
    },
    /// An expression in the language of rules.
    Cel(Arc<Expression>),
    /// One of these.
    Any(Arc<[Self]>),
    /// All of these, at the same time.
    All(Arc<[Self]>),
}

/// Whether an object meets what is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConditionResult {
    /// It does.
    Yes,
    /// It does not, because of this: `condition Ready is False (ContainersNotReady)`.
    No(String),
    /// It cannot be evaluated: the object is not what the condition speaks of. `kubectl wait` gives up here.
    Error(String),
}

impl ConditionResult {
    /// Whether it is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// A text that names nothing to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// At which character of the text it begins, counted from 1.
    pub column: usize,
    /// At which character of the CEL expression, if it is one that is wrong.
    pub cel_column: Option<usize>,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.cel_column {
            return write!(f, "CEL: {} (column {column})", self.message);
        }
        f.write_str(&self.message)?;
        if self.column > 1 {
            write!(f, " (at character {})", self.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConditionError {}

/// The same, with the byte of the whole text at which it begins.
struct Wrong {
    message: String,
    at: usize,
    /// The byte at which the expression begins, if one is wrong.
    expression: Option<usize>,
}

fn wrong<T>(at: usize, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { message: message.into(), at, expression: None })
}

impl FromStr for WaitCondition {
    type Err = ConditionError;

    /// Reads one `--for`.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        if text.len() > MAX_LENGTH {
            let message = format!("the condition is longer than {MAX_LENGTH} bytes");
            return Err(ConditionError { message, column: 1, cel_column: None });
        }
        parse(text, 0, 0).map_err(|Wrong { message, at, expression }| {
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

    /// Whether an object meets a list of conditions, each once and in their order, as kubectl has it: `condition=Complete` and then
    /// `delete`. `passed` says how many it has met before; it begins with 0 and belongs to the caller.
    pub fn met_in_order(
        list: &[Self],
        passed: &mut usize,
        object: Option<&Object<'_>>,
        verdict: &Verdict,
        now: Timestamp,
    ) -> ConditionResult {
        while let Some(wanted) = list.get(*passed) {
            match wanted.evaluate(object, verdict, now) {
                ConditionResult::Yes => *passed += 1,
                not_yet => return not_yet,
            }
        }
        ConditionResult::Yes
    }

    /// Whether an object (none: it is not there) with this verdict meets it at a time.
    #[must_use]
    pub fn evaluate(
        &self,
        object: Option<&Object<'_>>,
        verdict: &Verdict,
        now: Timestamp,
    ) -> ConditionResult {
        self.meets(&Seen { object, verdict, now, value: OnceCell::new() })
    }

    /// Whether it can be met by an object that is not there.
    #[must_use]
    pub fn waits_for_absence(&self) -> bool {
        match self {
            Self::Delete => true,
            Self::Any(list) | Self::All(list) => list.iter().any(Self::waits_for_absence),
            _ => false,
        }
    }

    /// Whether a failure can meet it.
    #[must_use]
    pub fn waits_for_failure(&self) -> bool {
        match self {
            Self::Failed => true,
            Self::Any(list) | Self::All(list) => list.iter().any(Self::waits_for_failure),
            _ => false,
        }
    }

    fn meets(&self, seen: &Seen<'_, '_>) -> ConditionResult {
        match self {
            Self::Any(list) => return any(list, seen),
            Self::All(list) => return all(list, seen),
            Self::Delete => {
                return match seen.object {
                    None => ConditionResult::Yes,
                    Some(_) if seen.verdict.status == Status::Terminating => {
                        ConditionResult::No(seen.verdict.message.to_string())
                    }
                    Some(_) => ConditionResult::No("it is still there".to_owned()),
                };
            }
            _ => {}
        }
        let Some(object) = seen.object else { return ConditionResult::No("it does not exist".to_owned()) };
        let status = seen.verdict.status;
        let has_status = |wanted: bool| match wanted {
            true => ConditionResult::Yes,
            false => ConditionResult::No(format!("it is {status} ({})", seen.verdict.reason)),
        };
        match self {
            Self::Ready => has_status(status == Status::Current || !seen.verdict.blocking),
            Self::Current => has_status(status == Status::Current),
            Self::Failed => has_status(status == Status::Failed),
            Self::Condition { name, value } => condition(object, name, value),
            Self::JsonPath { path, text, value } => json_path(seen, path, text, value.as_deref()),
            Self::Cel(expression) => cel(object, expression, seen.now),
            Self::Create | Self::Delete | Self::Any(_) | Self::All(_) => ConditionResult::Yes,
        }
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

// Reading.

/// `at` is the byte of the whole text at which this one begins.
fn parse(text: &str, at: usize, depth: usize) -> Result<WaitCondition, Wrong> {
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
            return wrong(at, "a condition has a name: write condition=Ready or condition=Ready=False");
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
            Err(error) => Err(Wrong {
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
                return wrong(at, format!("any(…) and all(…) are nested deeper than {MAX_DEPTH} levels"));
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
    wrong(at, format!("unrecognized condition: {quoted}; {hint}"))
}

/// The conditions of a list up to its closing parenthesis, which must be the last character.
fn parse_list(text: &str, at: usize, depth: usize) -> Result<Vec<WaitCondition>, Wrong> {
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
                    return wrong(at + rest, "nothing may follow the closing parenthesis");
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
                    return wrong(at + index, format!("expected `{wanted}`, found `{char}`"));
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
        (Some((char, index)), _) => wrong(at + index, format!("the quote {char} is not closed")),
        (None, Some((char, index))) => wrong(at + index, format!("the bracket {char} is not closed")),
        (None, None) => wrong(at + text.len(), "`)` is missing at the end"),
    }
}

fn parse_element(
    text: &str,
    start: usize,
    end: usize,
    at: usize,
    depth: usize,
    list: &mut Vec<WaitCondition>,
) -> Result<(), Wrong> {
    let whole = text.get(start..end).unwrap_or_default();
    let element = whole.trim_start();
    let begins = at + start + (whole.len() - element.len());
    let element = element.trim_end();
    if element.is_empty() {
        return wrong(at + start, "a condition is missing here");
    }
    list.push(parse(element, begins, depth)?);
    Ok(())
}

/// `PATH` or `PATH=VALUE`, as upstream splits, relaxes and unquotes them, with its texts for what is wrong.
fn parse_json_path(text: &str, at: usize) -> Result<WaitCondition, Wrong> {
    let parts = split(text);
    let (path, value) = match parts.as_slice() {
        [path] => (path, None),
        [path, value] => (path, Some(value)),
        _ => {
            return wrong(
                at,
                "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or \
                 --for=jsonpath='{.status.readyReplicas}'; an `=` of the value or of a key can't be written",
            );
        }
    };
    let value = match value {
        None => None,
        Some(value) => match value.trim_matches(['\'', '"']) {
            "" => {
                return wrong(
                    at + path.len() + 1,
                    "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
                );
            }
            value => Some(Arc::from(value)),
        },
    };
    if path.is_empty() {
        return wrong(at, "jsonpath expression cannot be empty; write jsonpath={.status.phase}=Running");
    }
    let inner = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
    let first = inner.strip_prefix('.').unwrap_or(inner).chars().next();
    if let Some(first) = first.filter(|first| matches!(first, '$' | '@' | '[' | ']' | ',' | ' ' | '\t')) {
        return wrong(
            at,
            format!(
                "the path begins with {first:?} and would find nothing: begin with a field, as {{.status.phase}}"
            ),
        );
    }
    let parsed = JsonPath::relaxed(path).or_else(|error| wrong(at, error.to_string()))?;
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

// Asking.

/// One object, looked at.
struct Seen<'s, 'o> {
    object: Option<&'s Object<'o>>,
    verdict: &'s Verdict,
    now: Timestamp,
    /// The object as a tree, once a path asks for it.
    value: OnceCell<Result<Value, String>>,
}

fn any(list: &[WaitCondition], seen: &Seen<'_, '_>) -> ConditionResult {
    let (mut reasons, mut errors) = (Vec::new(), Vec::new());
    for wanted in list {
        match wanted.meets(seen) {
            ConditionResult::Yes => return ConditionResult::Yes,
            ConditionResult::No(reason) => push_new(&mut reasons, reason),
            ConditionResult::Error(error) => push_new(&mut errors, error),
        }
    }
    // Another one may be met yet.
    if reasons.is_empty() {
        ConditionResult::Error(errors.join("; "))
    } else {
        ConditionResult::No(reasons.join("; "))
    }
}

fn all(list: &[WaitCondition], seen: &Seen<'_, '_>) -> ConditionResult {
    let (mut reasons, mut errors) = (Vec::new(), Vec::new());
    for wanted in list {
        match wanted.meets(seen) {
            ConditionResult::Yes => {}
            ConditionResult::No(reason) => push_new(&mut reasons, reason),
            ConditionResult::Error(error) => push_new(&mut errors, error),
        }
    }
    match (errors.is_empty(), reasons.is_empty()) {
        (false, _) => ConditionResult::Error(errors.join("; ")),
        (true, false) => ConditionResult::No(reasons.join("; ")),
        (true, true) => ConditionResult::Yes,
    }
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// kubectl's rule: the first condition of this type that has a status decides; what it said about an older generation does
/// not count.
fn condition(object: &Object<'_>, name: &str, value: &str) -> ConditionResult {
    let known = |parent, key| Known::find(parent, key).and_then(|known| object.known(known));
    let not_there = || ConditionResult::No(format!("condition {name} is not there"));
    for (path, node, is_right) in [
        (".status", known("", "status"), NodeKind::Map),
        (".status.conditions", known("status", "conditions"), NodeKind::List),
    ] {
        match node.map(Node::kind) {
            Some(kind) if kind == is_right => {}
            None | Some(NodeKind::Null) => return not_there(),
            Some(kind) => {
                return ConditionResult::Error(format!("{path} is {}, not {}", kind.name(), is_right.name()));
            }
        }
    }
    for condition in object.conditions() {
        let text = |member| condition.member(member).and_then(Node::as_str);
        let (Some(type_), Some(status)) = (text(Member::Type), text(Member::Status)) else { continue };
        if !fold_equal(&type_, name) {
            continue;
        }
        let observed = condition
            .member(Member::ObservedGeneration)
            .and_then(Node::as_int)
            .or_else(|| known("status", "observedGeneration")?.as_int());
        if let (Some(generation), Some(observed)) =
            (known("metadata", "generation").and_then(Node::as_int), observed)
            && observed < generation
        {
            return ConditionResult::No(format!(
                "condition {type_} is {status} at generation {observed}, the latest is {generation}"
            ));
        }
        if fold_equal(&status, value) {
            return ConditionResult::Yes;
        }
        let reason = text(Member::Reason).filter(|reason| !reason.is_empty());
        let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        return ConditionResult::No(format!("condition {type_} is {status}{reason}"));
    }
    not_there()
}

/// kubectl's rule: no result is not met, one is compared as it is printed, more are an error, as is a list or a map that
/// is to be compared.
fn json_path(seen: &Seen<'_, '_>, path: &JsonPath, text: &str, wanted: Option<&str>) -> ConditionResult {
    let Some(object) = seen.object else { return ConditionResult::No("it does not exist".to_owned()) };
    let tree = match object.root() {
        Node::Value(value) => Ok(value),
        Node::Text(json) => {
            let parsed =
                seen.value.get_or_init(|| serde_json::from_slice(json).map_err(|error| error.to_string()));
            parsed.as_ref()
        }
    };
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return ConditionResult::Error(format!("cannot read the object: {error}")),
    };
    let found = match path.find(tree) {
        Ok(found) => found,
        Err(error) => return ConditionResult::Error(format!("{text}: {error}")),
    };
    let value = match found.as_slice() {
        [] => return ConditionResult::No(format!("{text} is not there")),
        [value] => value,
        _ => {
            let many = found.len();
            return ConditionResult::Error(format!(
                "given jsonpath expression matches more than one value: {text} finds {many}, narrow it with an index or a filter"
            ));
        }
    };
    let Some(wanted) = wanted else { return ConditionResult::Yes };
    if value.is_array() || value.is_object() {
        return ConditionResult::Error(format!(
            "jsonpath leads to a nested object or list which is not supported: {text} is not one text or number"
        ));
    }
    let is = settled_go::fmt::plain(value);
    if is.trim() == wanted.trim() {
        return ConditionResult::Yes;
    }
    let mut shown: String = is.chars().take(100).collect();
    if shown.len() < is.len() {
        shown.push('…');
    }
    ConditionResult::No(format!("{text} is {shown}, wanted {wanted}"))
}

fn cel(object: &Object<'_>, expression: &Expression, now: Timestamp) -> ConditionResult {
    let evaluation = expression.evaluate(object, now);
    match evaluation.outcome {
        Outcome::True => ConditionResult::Yes,
        Outcome::Absent(field) => ConditionResult::No(format!("{field} is not there")),
        Outcome::Error(error) => ConditionResult::Error(format!("{expression}: {error}")),
        Outcome::False => {
            let seen = evaluation.seen.iter().take(MAX_SEEN);
            let seen: Vec<String> = seen.map(|(what, value)| format!("{what} is {value}")).collect();
            ConditionResult::No(if seen.is_empty() {
                format!("{expression} is false")
            } else {
                seen.join(", ")
            })
        }
    }
}

/// Whether two texts are the same under Unicode's simple case folding, as Go's `strings.EqualFold`.
fn fold_equal(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.chars().map(fold).eq(b.chars().map(fold)))
}

/// A character that all of the same folding have in common.
fn fold(char: char) -> char {
    // It has an upper case, and yet folds to itself.
    if char == 'ı' {
        return char;
    }
    let single = |mut chars: &mut dyn Iterator<Item = char>| match (chars.next(), (&mut chars).next()) {
        (Some(mapped), None) => Some(mapped),
        _ => None,
    };
    let upper = single(&mut char.to_uppercase()).unwrap_or(char);
    single(&mut upper.to_lowercase()).unwrap_or(upper)
}
