//! Events: what users are told that is worth more than a condition, which has no history. Nothing that 10,000 healthy Machines would repeat.

use kube::runtime::events::{Event, EventType};
use serde_json::Value;

use crate::plan::{Decision, Progress};
use crate::types::{MachineStatus, PROVIDER_FAILED, UpdateDecision};

/// Longest note that the API takes.
const MAX_NOTE: usize = 1024;

/// An Event.
pub(super) fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    let note = note.char_indices().take_while(|(index, letter)| index + letter.len_utf8() <= MAX_NOTE);
    Event {
        type_,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note: Some(note.map(|(_, letter)| letter).collect()),
        secondary: None,
    }
}

/// Reason and message of `Stalled`, while it is true.
pub(super) fn stalled(status: &Value) -> Option<(&str, &str)> {
    let conditions = status.get("conditions")?.as_array()?;
    let is_stalled = |condition: &&Value| condition["type"] == "Stalled" && condition["status"] == "True";
    let condition = conditions.iter().find(is_stalled)?;
    Some((condition["reason"].as_str()?, condition["message"].as_str()?))
}

/// What a decision begins that was not under way before: type, reason, action and note.
pub(super) fn begun(
    before: Option<&MachineStatus>,
    decision: &Decision,
) -> Vec<(EventType, &'static str, &'static str, String)> {
    let Some(status) = &decision.status else { return Vec::new() };
    let mut begun = Vec::new();
    let decided = |status: &MachineStatus| {
        status.update.as_ref().map(|update| (update.observed_generation, update.decision))
    };
    if let Some(update) = &status.update
        && decided(status) != before.and_then(decided)
    {
        let reason = match update.decision {
            UpdateDecision::InPlace => Some("UpdatingInPlace"),
            UpdateDecision::Replace => Some("Replacing"),
            // `Stalled` reports it.
            UpdateDecision::Unsupported => None,
        };
        begun.extend(reason.map(|reason| (EventType::Normal, reason, "Update", update.reason.clone())));
    }
    let before = before.cloned().unwrap_or_default();
    if status.drain.is_some() && before.drain.is_none() {
        let note = "the Node is drained".to_owned();
        begun.push((EventType::Normal, "Draining", "Drain", note));
    }
    if status.drain.as_ref().is_some_and(|drain| drain.timed_out)
        && !before.drain.as_ref().is_some_and(|drain| drain.timed_out)
    {
        let note = "Pods were left when the time was over".to_owned();
        begun.push((EventType::Warning, "DrainTimedOut", "Drain", note));
    }
    if let Progress::Reconciling(PROVIDER_FAILED, message) = &decision.progress
        && !before.conditions.iter().any(|condition| condition.reason == PROVIDER_FAILED)
    {
        begun.push((EventType::Warning, PROVIDER_FAILED, "Reconcile", message.clone()));
    }
    begun
}
