//! Augmentation: writes the standard conditions of a verdict into `status.conditions`.
//!
//! The bytes of the object are spliced: all but the conditions stays as it is, to the byte.

use serde_json::Value;

use crate::fields::Field;
use crate::node::{Kind, Node};
use crate::object::{Found, Object, ParseError};
use crate::options::{Options, Profile};
use crate::settled::{self, CustomRule, Evidence};
use crate::upstream;
use crate::verdict::{Basis, Condition, RECONCILING, STALLED, Status, Verdict};

/// Why an object cannot be augmented. The object stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    /// The bytes are not one JSON object.
    #[error("the object cannot be read")]
    Parse(#[from] ParseError),
    /// The fields that the verdict needs cannot be read. In the profile `kstatus` the text is upstream's error.
    #[error("{0}")]
    Malformed(String),
}

/// The object with `status.conditions` amended; everything else stays as it is, to the byte.
///
/// - Profile `kstatus`: as upstream's `Augment`. Conditions are updated or added, never taken away, and the list is
///   written even when it is empty.
/// - Profile `settled`: a `Reconciling` or `Stalled` that the verdict does not stand for is taken away, an object with
///   nothing to amend stays untouched, and augmenting twice gives the same as augmenting once. On kinds that this
///   library has a rule for, these two conditions are an earlier verdict and no evidence; on other kinds they are the
///   controller's own word and stay while they decide.
///
/// ```
/// use kstatus::{augment, Options};
/// let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
/// let claim = br#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","status":{"phase":"Pending"}}"#;
/// let augmented = String::from_utf8(augment(claim, &options)?).unwrap();
/// assert!(augmented.contains(r#""conditions":[{"type":"Reconciling","status":"True","reason":"NotBound""#));
/// # Ok::<(), kstatus::AugmentError>(())
/// ```
///
/// # Errors
/// When the object cannot be read, or (profile `kstatus`) upstream's `Augment` fails.
pub fn augment(json: &[u8], options: &Options) -> Result<Vec<u8>, AugmentError> {
    let object = Object::parse(json)?;
    augment_object(json, &object, options, None)
}

/// As [`augment`], where `rule` is asked first in the profile `settled`.
///
/// # Errors
/// As [`augment`].
pub fn augment_by(json: &[u8], options: &Options, rule: &dyn CustomRule) -> Result<Vec<u8>, AugmentError> {
    let object = Object::parse(json)?;
    augment_object(json, &object, options, Some(rule))
}

fn augment_object(
    json: &[u8],
    object: &Object<'_>,
    options: &Options,
    rule: Option<&dyn CustomRule>,
) -> Result<Vec<u8>, AugmentError> {
    let Some(list) = amended(object, options, rule)? else { return Ok(json.to_vec()) };
    let list = join(&list);
    // Position of the list, and the text around it.
    let (start, end, before, after) = if let Some((start, end)) = object.span(Field::Conditions) {
        (start, end, "", "")
    } else {
        match object.get(Field::Status).map(Node::kind) {
            Some(Kind::Map) => {
                let end = object.span(Field::Status).map_or(0, |(_, end)| end - 1);
                let is_empty =
                    object.get(Field::Status).is_some_and(|status| status.members().next().is_none());
                (end, end, if is_empty { "\"conditions\":" } else { ",\"conditions\":" }, "")
            }
            Some(_) => {
                let (start, end) = object.span(Field::Status).unwrap_or_default();
                (start, end, "{\"conditions\":", "}")
            }
            None => {
                let end = json.iter().rposition(|&byte| byte == b'}').unwrap_or_default();
                let is_empty = Node::Text(json.trim_ascii()).members().next().is_none();
                (
                    end,
                    end,
                    if is_empty { "\"status\":{\"conditions\":" } else { ",\"status\":{\"conditions\":" },
                    "}",
                )
            }
        }
    };
    let mut augmented = Vec::with_capacity(json.len() + list.len() + before.len() + after.len());
    augmented.extend_from_slice(json.get(..start).unwrap_or_default());
    augmented.extend_from_slice(before.as_bytes());
    augmented.extend_from_slice(list.as_bytes());
    augmented.extend_from_slice(after.as_bytes());
    augmented.extend_from_slice(json.get(end..).unwrap_or_default());
    Ok(augmented)
}

/// As [`augment`], for a value that is already parsed.
///
/// # Errors
/// As [`augment`]; the value stays as it is.
pub fn augment_value(value: &mut Value, options: &Options) -> Result<(), AugmentError> {
    let list = amended(&Object::from_value(value)?, options, None)?;
    let Some(list) = list else { return Ok(()) };
    let list: Value =
        serde_json::from_str(&join(&list)).map_err(|error| AugmentError::Malformed(error.to_string()))?;
    if let Some(object) = value.as_object_mut() {
        let status = object.entry("status").or_insert(Value::Null);
        if !status.is_object() {
            *status = Value::Object(serde_json::Map::new());
        }
        if let Some(status) = status.as_object_mut() {
            status.insert("conditions".to_owned(), list);
        }
    }
    Ok(())
}

/// The new list, an element each; none where nothing is to be written.
fn amended(
    object: &Object<'_>,
    options: &Options,
    rule: Option<&dyn CustomRule>,
) -> Result<Option<Vec<String>>, AugmentError> {
    let now = jiff::Timestamp::from_second(options.now.as_second()).unwrap_or(options.now).to_string();
    match options.profile {
        Profile::Kstatus => as_upstream(object, options, &now).map(Some).map_err(AugmentError::Malformed),
        Profile::Settled => as_settled(object, options, &now, rule),
    }
}

fn as_upstream(object: &Object<'_>, options: &Options, now: &str) -> Result<Vec<String>, String> {
    let verdict = upstream::compute(object, options.now)?;
    let list = upstream::conditions_list(object)?;
    let mut elements = Vec::new();
    let condition = verdict.condition();
    let mut present = false;
    for element in list.iter().flat_map(|list| list.elements()) {
        let Some(condition) = &condition else {
            elements.push(json_text(element));
            continue;
        };
        if element.kind() != Kind::Map {
            return Err("condition does not have the expected structure".to_owned());
        }
        let Some(type_) = element.get("type").filter(|type_| type_.kind() == Kind::String) else {
            return Err("condition type does not have the expected type".to_owned());
        };
        if !type_.is(condition.type_) {
            elements.push(json_text(element));
            continue;
        }
        let Some(status) = element.get("status").filter(|status| status.kind() == Kind::String) else {
            return Err("condition status does not have the expected type".to_owned());
        };
        elements.push(updated(element, condition, status.is(condition.status), None, now));
        present = true;
    }
    if let Some(condition) = condition.filter(|_| !present) {
        elements.push(added(&condition, now));
    }
    match object.get(Field::Status) {
        Some(status) if status.kind() != Kind::Map => {
            Err("value cannot be set because .status is not a map[string]interface{}".to_owned())
        }
        _ => Ok(elements),
    }
}

fn as_settled(
    object: &Object<'_>,
    options: &Options,
    now: &str,
    rule: Option<&dyn CustomRule>,
) -> Result<Option<Vec<String>>, AugmentError> {
    let (group, kind) = object.group_kind();
    let is_evidence = !settled::has_own_rule(&group, &kind);
    let verdict = settled::compute(object, options, Evidence::WithoutEarlierVerdicts, rule);
    if verdict.status == Status::Unknown && verdict.reason == "Malformed" {
        return Err(AugmentError::Malformed(verdict.message.into_owned()));
    }
    let list = match object.find(Field::Conditions) {
        Found::Value(list) if list.kind() == Kind::List => Some(list),
        Found::Value(list) if !list.is_null() => {
            return Err(AugmentError::Malformed(".status.conditions: expected a list".to_owned()));
        }
        Found::BadParent(_) => return Err(AugmentError::Malformed(".status: expected a map".to_owned())),
        _ => None,
    };
    let condition = verdict.condition();
    let mut elements = Vec::new();
    let (mut present, mut changed) = (false, false);
    for element in list.iter().flat_map(|list| list.elements()) {
        let is = |key: &str, word: &str| element.get(key).is_some_and(|value| value.is(word));
        if let Some(condition) = condition.as_ref().filter(|condition| is("type", condition.type_)) {
            present = true;
            let decided = verdict.basis == Basis::StandardCondition && is("status", "True");
            let says_so =
                is("status", "True") && is("reason", condition.reason) && is("message", condition.message);
            if decided || says_so {
                elements.push(json_text(element));
            } else {
                elements.push(updated(
                    element,
                    condition,
                    is("status", condition.status),
                    verdict.generation,
                    now,
                ));
                changed = true;
            }
        } else if is_stale(element, &verdict, is_evidence) {
            changed = true;
        } else {
            elements.push(json_text(element));
        }
    }
    if let Some(condition) = condition.filter(|_| !present) {
        elements.push(added(&condition, now));
        changed = true;
    }
    Ok(changed.then_some(elements))
}

/// A standard condition that is True and that the verdict does not stand for. Where the controller's own word is
/// evidence, one that speaks of an older generation is the controller's to clear.
fn is_stale(element: Node<'_>, verdict: &Verdict, is_evidence: bool) -> bool {
    let is = |key: &str, word: &str| element.get(key).is_some_and(|value| value.is(word));
    let is_standard = (is("type", RECONCILING) || is("type", STALLED)) && is("status", "True");
    let observed = element.get("observedGeneration").and_then(settled::generation_number);
    let lags = matches!((observed, verdict.generation), (Some(observed), Some(latest)) if observed < latest);
    is_standard && !(is_evidence && lags)
}

/// The element with the condition's words in place of its own.
fn updated(
    element: Node<'_>,
    condition: &Condition<'_>,
    same_status: bool,
    generation: Option<i64>,
    now: &str,
) -> String {
    let mut news = vec![
        ("status", quoted(condition.status)),
        ("lastUpdateTime", quoted(now)),
        ("reason", quoted(condition.reason)),
        ("message", quoted(condition.message)),
    ];
    if !same_status {
        news.push(("lastTransitionTime", quoted(now)));
    }
    // A condition that names its generation speaks of this one from now on.
    if let Some(generation) = generation.filter(|_| element.get("observedGeneration").is_some()) {
        news.push(("observedGeneration", generation.to_string()));
    }
    // A key that stands twice stays so, with the new value both times: looking for it would take long in a hostile map.
    let mut members: Vec<(String, String)> = Vec::new();
    let mut missing = news.clone();
    for (key, value) in element.members() {
        missing.retain(|(new, _)| *new != key);
        let value = match news.iter().find(|(new, _)| *new == key) {
            Some((_, new)) => new.clone(),
            None => json_text(value),
        };
        members.push((key.into_owned(), value));
    }
    members.extend(missing.into_iter().map(|(key, value)| (key.to_owned(), value)));
    object_text(members.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

fn added(condition: &Condition<'_>, now: &str) -> String {
    let now = quoted(now);
    let members = [
        ("type", quoted(condition.type_)),
        ("status", quoted(condition.status)),
        ("reason", quoted(condition.reason)),
        ("message", quoted(condition.message)),
        ("lastTransitionTime", now.clone()),
        ("lastUpdateTime", now),
    ];
    object_text(members.iter().map(|(key, value)| (*key, value.as_str())))
}

fn object_text<'m>(members: impl Iterator<Item = (&'m str, &'m str)>) -> String {
    let members: Vec<String> = members.map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn join(elements: &[String]) -> String {
    format!("[{}]", elements.join(","))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value as JSON: its own bytes where it was read from bytes.
fn json_text(node: Node<'_>) -> String {
    match node {
        Node::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Node::Value(value) => value.to_string(),
    }
}
