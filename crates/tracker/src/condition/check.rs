//! Checks of objects against wait conditions.

use std::cell::OnceCell;

use jiff::Timestamp;
use kstatus::{Known, Member, Node, NodeKind, Object, Status, Verdict};
use serde_json::Value;
use settled_jsonpath::JsonPath;
use settled_rules::{Expression, Outcome};

use super::fold::fold_equal;
use super::{ConditionResult, WaitCondition};

/// Not more fields that an expression saw are named.
const MAX_SEEN: usize = 4;

impl WaitCondition {
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
