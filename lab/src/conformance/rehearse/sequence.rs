//! Sequences of what happened to the objects of a namespace, as lines that are equal if two runs did the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// An event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

static TIMES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z").ok());
/// Names of Pods that were refused: nobody has seen them.
static REFUSED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(-<\d+>)-[a-z0-9]{5}\b").ok());
static ADDRESSES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b10\.\d+\.\d+\.\d+\b").ok());

/// Fields that differ between any two runs, or that kwok sets. Among Nodes that suit alike, the scheduler takes any.
const IGNORED: [&str; 23] = [
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastSuccessfulTime",
    "startTime",
    "completionTime",
    "startedAt",
    "finishedAt",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "uid",
    "resourceVersion",
    "containerID",
    "imageID",
    "collisionCount",
    "nominatedNodeName",
    "observedGeneration",
    "nodeName",
    "zone",
    "topology.kubernetes.io/zone",
];

impl Recorded {
    pub(super) fn version(&self) -> u64 {
        self.text("/metadata/resourceVersion").parse().unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn key(&self) -> (String, String) {
        (self.text("/kind").to_owned(), self.text("/metadata/name").to_owned())
    }
}

/// Names as they would be in any run: those of ReplicaSets and Pods by their owners.
struct Names {
    plain: BTreeMap<(String, String), String>,
    /// The longest first: a name may begin with another one.
    texts: Vec<(String, String)>,
}

impl Names {
    fn new(recorded: &[&Recorded]) -> Self {
        let mut plain: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for event in recorded.iter().filter(|event| event.text("/kind") != "Event") {
            let key = event.key();
            if plain.contains_key(&key) {
                continue;
            }
            let owner = event.object.pointer("/metadata/ownerReferences/0").map(|owner| {
                let text = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
                (text("kind"), text("name"))
            });
            let base =
                owner.as_ref().map(|owner| plain.get(owner).cloned().unwrap_or_else(|| owner.1.clone()));
            let name = match (&*key.0, owner.as_ref().map(|(kind, _)| &**kind), base) {
                ("ReplicaSet" | "ControllerRevision", _, Some(base)) => {
                    let count = counts.entry((key.0.clone(), base.clone())).or_default();
                    *count += 1;
                    format!("{base}-<{count}>")
                }
                // Pods of a StatefulSet have names of their own.
                ("Pod", Some("StatefulSet"), _) => key.1.clone(),
                ("Pod" | "EndpointSlice" | "Job", Some(_), Some(base)) => format!("{base}-*"),
                _ => key.1.clone(),
            };
            plain.insert(key, name);
        }
        let differ = plain.iter().filter(|((_, name), plain)| name != *plain);
        let mut texts: Vec<(String, String)> =
            differ.map(|((_, name), plain)| (name.clone(), plain.clone())).collect();
        texts.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        texts.dedup();
        Self { plain, texts }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, plain) in &self.texts {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), plain);
            }
        }
        for (pattern, word) in [(&TIMES, "<time>"), (&ADDRESSES, "<address>"), (&REFUSED, "$1-*")] {
            if let Some(pattern) = pattern.as_ref() {
                text = pattern.replace_all(&text, word).into_owned();
            }
        }
        text
    }

    fn of(&self, kind: &str, name: &str) -> String {
        let plain = self.plain.get(&(kind.to_owned(), name.to_owned()));
        format!("{kind} {}", plain.cloned().unwrap_or_else(|| self.text(name)))
    }
}

/// What happened in a namespace.
pub(super) fn lines(recorded: &[Recorded], namespace: &str) -> Vec<String> {
    let of: Vec<&Recorded> =
        recorded.iter().filter(|event| event.text("/metadata/namespace") == namespace).collect();
    let names = Names::new(&of);
    let mut objects: BTreeMap<(String, String, String), Vec<&Recorded>> = BTreeMap::new();
    let mut events = BTreeSet::new();
    for event in of {
        if event.text("/kind") == "Event" {
            events.extend(of_event(event, &names));
            continue;
        }
        let (kind, name) = event.key();
        objects.entry((kind, name, event.text("/metadata/uid").to_owned())).or_default().push(event);
    }
    let mut lines: Vec<String> = events.into_iter().collect();
    for ((kind, name, _), history) in &objects {
        let name = names.of(kind, name);
        let Some(last) = history.last() else { continue };
        for (type_, mut states) in conditions(history, &names) {
            // Whether these are seen on the way depends on how many Pods become ready at once.
            let last = states.len().saturating_sub(1);
            let mut number = 0;
            states.retain(|state| {
                let is_passed =
                    ["NewReplicaSetCreated", "ReplicaSetUpdated"].iter().any(|on_way| state.contains(on_way));
                number += 1;
                !is_passed || number > last
            });
            lines.push(format!("{name} | condition {type_}: {}", states.join(" > ")));
        }
        if last.kind == "DELETED" {
            let line = format!("{name} | deleted");
            // kwok may delete a Pod of a StatefulSet again that it has just seen created.
            let is_again = kind == "Pod" && lines.contains(&line) && !line.contains('*');
            lines.extend((!is_again).then_some(line));
            continue;
        }
        let mut state = last.object.get("status").cloned().unwrap_or_default();
        strip(&mut state, &names);
        if let Some(map) = state.as_object_mut() {
            map.remove("conditions");
        }
        lines.push(format!("{name} | status {state}"));
        for (label, pointer) in [
            ("annotations", "/metadata/annotations"),
            ("labels", "/metadata/labels"),
            ("finalizers", "/metadata/finalizers"),
            ("endpoints", "/endpoints"),
            ("subsets", "/subsets"),
            ("ports", "/ports"),
            ("replicas", "/spec/replicas"),
            ("volume", "/spec/volumeName"),
        ] {
            let Some(mut value) = last.object.pointer(pointer).cloned() else { continue };
            strip(&mut value, &names);
            if label == "volume" {
                value = "<volume>".into();
            }
            lines.push(format!("{name} | {label} {value}"));
        }
    }
    lines
}

/// The states of each condition, in order.
fn conditions(history: &[&Recorded], names: &Names) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in history {
        let conditions = event.object.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            let state = format!("{} {} {:?}", text("status"), text("reason"), names.text(text("message")));
            let states = all.entry(text("type").to_owned()).or_default();
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
    }
    all
}

/// An Event of a component, not of kwok's kubelets.
fn of_event(event: &Recorded, names: &Names) -> Option<String> {
    let component = [event.text("/reportingComponent"), event.text("/source/component")];
    let component = component.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    if component.contains("kwok") || component.contains("kubelet") {
        return None;
    }
    let about = names.of(event.text("/involvedObject/kind"), event.text("/involvedObject/name"));
    let message = names.text(event.text("/message"));
    let message = match message.rsplit_once(" to ") {
        Some((assigned, _)) if event.text("/reason") == "Scheduled" => format!("{assigned} to <node>"),
        _ => message,
    };
    Some(format!(
        "{about} | event {} {} {message:?} by {component}",
        event.text("/type"),
        event.text("/reason")
    ))
}

/// Removes what differs between any two runs.
fn strip(value: &mut Value, names: &Names) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !IGNORED.contains(&&**key) && !key.contains("last-applied-configuration"));
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "pod-template-hash"
                    | "controller-revision-hash"
                    | "currentRevision"
                    | "updateRevision"
                    | "controller-uid"
                    | "batch.kubernetes.io/controller-uid" => *value = "<hash>".into(),
                    "addresses" => *value = "<addresses>".into(),
                    _ => strip(value, names),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| strip(item, names));
            items.sort_by_key(Value::to_string);
        }
        Value::String(text) => *text = names.text(text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recorded(version: u64, mut object: Value) -> Recorded {
        object["metadata"]["namespace"] = "n".into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        Recorded { kind: "MODIFIED".to_owned(), object }
    }

    #[test]
    fn names_and_times_do_not_matter() {
        let run = |hash: &str, suffix: &str, time: &str| {
            let set = format!("web-{hash}");
            let pod = format!("{set}-{suffix}");
            let created = json!({
                "type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated",
                "message": format!("Created new replica set \"{set}\""), "lastUpdateTime": time,
            });
            let events = [
                recorded(
                    1,
                    json!({"kind": "Deployment", "metadata": {"name": "web"}, "status": {"conditions": [created]}}),
                ),
                recorded(
                    2,
                    json!({
                        "kind": "ReplicaSet",
                        "metadata": {"name": set, "ownerReferences": [{"kind": "Deployment", "name": "web"}]},
                    }),
                ),
                recorded(
                    3,
                    json!({
                        "kind": "Pod",
                        "metadata": {
                            "name": pod, "labels": {"pod-template-hash": hash},
                            "ownerReferences": [{"kind": "ReplicaSet", "name": set}],
                        },
                        "status": {"phase": "Running", "startTime": time},
                    }),
                ),
                recorded(
                    4,
                    json!({
                        "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "ReplicaSet", "name": set},
                        "type": "Normal", "reason": "SuccessfulCreate", "message": format!("Created pod: {pod}"),
                        "source": {"component": "replicaset-controller"},
                    }),
                ),
            ];
            lines(&events, "n")
        };
        let one = run("abc", "xyz", "2026-01-01T00:00:00Z");
        assert_eq!(one, run("def", "uvw", "2026-02-02T00:00:01Z"));
        let has = |line: &str| assert!(one.iter().any(|one| one == line), "{line}: {one:?}");
        has(
            "ReplicaSet web-<1> | event Normal SuccessfulCreate \"Created pod: web-<1>-*\" by replicaset-controller",
        );
        has(
            "Deployment web | condition Progressing: True NewReplicaSetCreated \"Created new replica set \\\"web-<1>\\\"\"",
        );
    }
}
