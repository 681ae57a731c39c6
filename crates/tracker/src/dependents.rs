//! The table of dependents: which kinds are watched when an object of a kind isn't done.

use crate::id::{ObjectId, POLICY_REPORT_GROUP, POLICY_REPORT_KIND};
use crate::record::Record;

/// How to find what belongs to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It carries the labels that the object selects.
    Selector,
    /// It carries this label, with the object's name.
    Label(&'static str),
    /// It is somewhere in the object's namespace.
    Namespace,
    /// It is an Event that something could not be made.
    Refusal,
}

/// A kind that belongs to another.
pub(crate) struct Child {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) by: By,
}

const fn child(group: &'static str, kind: &'static str, by: By) -> Child {
    Child { group, kind, by }
}

const POD: Child = child("", "Pod", By::Selector);
const REFUSAL: Child = child("", "Event", By::Refusal);

/// Kinds whose children are known.
const KINDS: &[(&str, &str, &[Child])] = &[
    ("apps", "Deployment", &[child("apps", "ReplicaSet", By::Selector), POD]),
    ("apps", "ReplicaSet", &[POD]),
    ("", "ReplicationController", &[child("", "Pod", By::Namespace)]),
    ("apps", "StatefulSet", &[POD, REFUSAL]),
    ("apps", "DaemonSet", &[POD, REFUSAL]),
    ("batch", "CronJob", &[child("batch", "Job", By::Namespace)]),
    ("batch", "Job", &[child("", "Pod", By::Label("batch.kubernetes.io/job-name")), REFUSAL]),
    (
        "",
        "Service",
        &[child("discovery.k8s.io", "EndpointSlice", By::Label("kubernetes.io/service-name")), POD],
    ),
    // It has the conditions where the API server has no field for them.
    ("networking.k8s.io", "NetworkPolicy", &[child(POLICY_REPORT_GROUP, POLICY_REPORT_KIND, By::Namespace)]),
    // Who uses the claim.
    ("", "PersistentVolumeClaim", &[child("", "Pod", By::Namespace)]),
];

/// What a custom resource may be made of, besides other kinds of its group.
const OF_CUSTOM: &[Child] = &[
    child("apps", "Deployment", By::Namespace),
    child("apps", "ReplicaSet", By::Namespace),
    child("apps", "StatefulSet", By::Namespace),
    child("apps", "DaemonSet", By::Namespace),
    child("batch", "Job", By::Namespace),
    child("", "Pod", By::Namespace),
    child("", "PersistentVolumeClaim", By::Namespace),
];

/// The kinds that belong to an object. None where nothing does.
pub(crate) fn children(record: &Record) -> &'static [Child] {
    let known = KINDS.iter().find(|(group, kind, _)| record.id.is(group, kind));
    match known {
        Some((_, _, children)) => children,
        None if is_custom(&record.id) => OF_CUSTOM,
        None => &[],
    }
}

/// Whether it is no kind of Kubernetes' own: their groups have no dots in them, or end in `.k8s.io`.
pub(crate) fn is_custom(id: &ObjectId) -> bool {
    id.group.contains('.') && !id.group.ends_with(".k8s.io")
}

/// The label selector that finds them.
pub(crate) fn selector(record: &Record, by: By) -> Option<String> {
    match by {
        By::Selector => {
            let labels = record.facts.as_ref()?.selector()?;
            let terms: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Some(terms.join(","))
        }
        // A label's value has 63 characters at most; a longer name is not found so.
        By::Label(label) => (record.id.name.len() <= 63).then(|| format!("{label}={}", record.id.name)),
        By::Namespace | By::Refusal => None,
    }
}

/// The resources that keep a namespace from being gone, as the namespace controller counts them: `certificates.cert-manager.io has 1
/// resource instances`.
pub(crate) fn remaining(message: &str) -> Vec<&str> {
    let before = message.split(" has ").zip(message.split(" has ").skip(1));
    let counted = before.filter(|(_, after)| {
        let count = after.split_once(" resource instances").map_or("", |(count, _)| count);
        !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
    });
    let mut names: Vec<&str> = counted
        .filter_map(|(before, _)| before.rsplit([' ', ':', ',']).next())
        // `pods.` is of the core group.
        .map(|name| name.trim_end_matches('.'))
        .filter(|name| !name.is_empty())
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_read_off_the_condition() {
        let message = "being deleted for 19h: Some content in the namespace has finalizers remaining: example.com/x in 1 resource \
                       instances; Some resources are remaining: certificates.cert-manager.io has 1 resource instances, pods. has 2 \
                       resource instances";
        assert_eq!(remaining(message), ["certificates.cert-manager.io", "pods"]);
        assert!(remaining("nothing").is_empty());
    }

    #[test]
    fn kinds_have_children() {
        let evaluator = crate::evaluator::Evaluator::new(settled_rules::RuleSet::default(), Vec::new());
        let found = |json: &str| {
            let record = evaluator.record(json.as_bytes(), jiff::Timestamp::UNIX_EPOCH, false).unwrap();
            let one = |child: &Child| {
                let selector = selector(&record, child.by);
                format!("{}{}", child.kind, selector.map_or_else(String::new, |s| format!(" {s}")))
            };
            children(&record).iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let name = "n".repeat(64);
        let cases = [
            (
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"app":"web","tier":"x"}}}}"#.to_owned(),
                "ReplicaSet app=web,tier=x, Pod app=web,tier=x",
            ),
            (
                r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"}}"#.to_owned(),
                "Pod batch.kubernetes.io/job-name=a, Event",
            ),
            // A label's value cannot be as long as that.
            (format!(r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{name}"}}}}"#), "Pod, Event"),
            (
                r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"selector":{"app":"web"}}}"#.to_owned(),
                "EndpointSlice kubernetes.io/service-name=a, Pod app=web",
            ),
            (
                r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"a"}}"#.to_owned(),
                "NetworkPolicyReport",
            ),
            (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#.to_owned(), ""),
            (r#"{"apiVersion":"gateway.networking.k8s.io/v1","kind":"Gateway","metadata":{"name":"a"}}"#.to_owned(), ""),
            (
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}"#.to_owned(),
                "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, Pod, PersistentVolumeClaim",
            ),
        ];
        for (json, wanted) in cases {
            assert_eq!(found(&json), wanted, "{json}");
        }
    }
}
