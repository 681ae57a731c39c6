//! Events of Kubernetes as data, read from their JSON.

use jiff::Timestamp;
use kstatus::Node;
use serde::Serialize;

use crate::id::ObjectId;

/// An event of Kubernetes (`events.k8s.io` or core), as far as people read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventNote {
    /// What it is about.
    pub object: ObjectId,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Why, in one word.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: u64,
    /// When it happened first.
    pub first: Option<Timestamp>,
    /// When it happened last.
    pub last: Option<Timestamp>,
    /// Which component says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Reads an Event, of the core group or of `events.k8s.io`.
pub(crate) fn read(event: Node<'_>) -> Option<EventNote> {
    let about = event.get("involvedObject").or_else(|| event.get("regarding"))?;
    let text = |node: Node<'_>, key: &str| {
        node.get(key).and_then(|value| value.as_str()).unwrap_or_default().into_owned()
    };
    let time = |node: Node<'_>, key: &str| -> Option<Timestamp> { node.get(key)?.as_str()?.parse().ok() };
    let version = text(about, "apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let object = ObjectId::new(group, text(about, "kind"), text(about, "namespace"), text(about, "name"));
    let series = event.get("series");
    let count =
        |node: Node<'_>, key: &str| node.get(key).and_then(Node::as_int).and_then(|n| u64::try_from(n).ok());
    let either = |old: &str, new: &str| match text(event, old) {
        empty if empty.is_empty() => text(event, new),
        found => found,
    };
    let source = match event.get("source").map(|source| text(source, "component")) {
        Some(component) if !component.is_empty() => component,
        _ => either("reportingComponent", "reportingController"),
    };
    let created = || time(event.get("metadata")?, "creationTimestamp");
    let first = time(event, "firstTimestamp")
        .or_else(|| time(event, "deprecatedFirstTimestamp"))
        .or_else(|| time(event, "eventTime"))
        .or_else(created);
    let last = series
        .and_then(|series| time(series, "lastObservedTime"))
        .or_else(|| time(event, "lastTimestamp"))
        .or_else(|| time(event, "deprecatedLastTimestamp"))
        .or(first);
    let times = series.and_then(|series| count(series, "count"));
    let times = times.or_else(|| count(event, "count")).or_else(|| count(event, "deprecatedCount"));
    Some(EventNote {
        object,
        type_: text(event, "type"),
        reason: text(event, "reason"),
        message: either("message", "note").trim().to_owned(),
        count: times.unwrap_or(1).max(1),
        first,
        last,
        source,
    })
}
