//! Summaries: the useful end of a verdict's message, for one row of a screen.

use std::borrow::Cow;

use kstatus::{FailureClass, Status};

use crate::facts::KindFacts;
use crate::record::Record;

/// Summarizes why an object is as it is: `cannot pull "nginx:1.29-typo": manifest unknown`. The verdict's message is the full text.
#[must_use]
pub fn summary(record: &Record) -> String {
    let verdict = &*record.verdict;
    let message = verdict.message.trim();
    let specific = match verdict.failure.map(|failure| failure.class) {
        Some(FailureClass::Image) => image(&verdict.reason, message),
        Some(FailureClass::Crash) => crash(message),
        Some(FailureClass::Quota) => quota(message),
        Some(FailureClass::Configuration) => configuration(message),
        Some(FailureClass::Scheduling) => scheduling(record, message),
        Some(FailureClass::Probe) => probe(message),
        Some(FailureClass::Job | FailureClass::Deadline) => ended(record, &verdict.reason),
        _ => None,
    };
    let several =
        record.facts.as_ref().and_then(|facts| facts.pod()).is_some_and(|pod| pod.several_containers);
    match (specific, container(message)) {
        (Some(specific), Some(part)) if several && !specific.contains("container ") => {
            format!("{part}: {specific}")
        }
        (Some(specific), _) => specific,
        (None, _) => plain(&verdict.reason, message, verdict.status),
    }
}

/// A message without what the reason says already, and without the layers of gRPC.
fn plain(reason: &str, message: &str, status: Status) -> String {
    let message = match message.strip_prefix(reason).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) if !rest.is_empty() => rest,
        _ => message,
    };
    let message = match message.split_once("rpc error: code = ") {
        Some((before, rest)) => {
            let rest = rest.split_once(" desc = ").map_or(rest, |(_, rest)| rest);
            Cow::Owned(format!("{before}{rest}"))
        }
        None => Cow::Borrowed(message),
    };
    if status == Status::Current && message.is_empty() {
        return String::new();
    }
    message.into_owned()
}

/// What stands in quotes first after a marker.
fn quoted_after<'t>(text: &'t str, marker: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(marker)?;
    let (quoted, _) = rest.split_once('"')?;
    Some(quoted).filter(|quoted| !quoted.is_empty())
}

/// `container app` of `init container app: ErrImagePull: …`.
pub(super) fn container(message: &str) -> Option<&str> {
    let (part, _) = message.split_once(':')?;
    (part.contains("container ") && part.len() < 80).then_some(part)
}

/// Why an image cannot be pulled, in the words of registries and runtimes; the first that occurs.
const PULL_ERRORS: &[(&str, &str)] = &[
    ("manifest unknown", "manifest unknown"),
    ("no match for platform", "no image for the node's platform"),
    ("toomanyrequests", "too many requests to the registry"),
    ("pull access denied", "access denied, or no such repository"),
    ("insufficient_scope", "access denied"),
    ("authentication required", "authentication required"),
    ("unauthorized", "unauthorized"),
    ("401 Unauthorized", "unauthorized"),
    ("403 Forbidden", "access denied"),
    ("no such host", "registry not found: no such host"),
    ("connection refused", "registry unreachable: connection refused"),
    ("i/o timeout", "registry unreachable: timeout"),
    ("deadline exceeded", "registry unreachable: timeout"),
    ("x509:", "certificate of the registry not trusted"),
    (": not found", "not found"),
];

fn image(reason: &str, message: &str) -> Option<String> {
    let name = ["image tag \"", "image \"", "reference \"", "reference name \""]
        .iter()
        .find_map(|marker| quoted_after(message, marker));
    // The kubelet names it without quotes in some messages.
    let name = name.or_else(|| message.split_once("image name \"")?.1.split('"').next());
    match reason {
        "InvalidImageName" => return Some(format!("invalid image name {:?}", name?)),
        "ErrImageNeverPull" => {
            return Some(format!("image {:?} is not on the node (pull policy Never)", name?));
        }
        _ => {}
    }
    let why = PULL_ERRORS.iter().find(|(marker, _)| message.contains(marker)).map(|(_, why)| *why);
    Some(match (name, why) {
        (Some(name), Some(why)) => format!("cannot pull {name:?}: {why}"),
        (Some(name), None) => format!("cannot pull {name:?}"),
        (None, Some(why)) => format!("cannot pull the image of {}: {why}", container(message)?),
        (None, None) => format!("cannot pull the image of {}", container(message)?),
    })
}

/// `container app: exit code 1, 6 restarts`.
fn crash(message: &str) -> Option<String> {
    let part = container(message)?;
    let rest = message[part.len()..].strip_prefix(": ")?;
    // `CrashLoopBackOff, last exit code 1, restarted 5 times: back-off …`, or `exit code 2, restarted 1 time`.
    let head = rest.split_once(": ").map_or(rest, |(head, _)| head);
    let mut exit = None;
    let mut restarts = None;
    for word in head.split(", ") {
        let word = word
            .split_once(" (")
            .filter(|(_, more)| more.ends_with("more container fails)"))
            .map_or(word, |(word, _)| word);
        if let Some(last) = word.strip_prefix("last ") {
            exit = Some(last);
        } else if let Some(times) = word.strip_prefix("restarted ") {
            restarts = times.split(' ').next().and_then(|times| times.parse::<u64>().ok());
        } else if exit.is_none() && !word.starts_with("CrashLoopBackOff") {
            exit = Some(word);
        }
    }
    let exit = match exit.unwrap_or("CrashLoopBackOff") {
        oom if oom.starts_with("OOMKilled") => "OOM-killed",
        exit => exit,
    };
    let restarts = match restarts {
        None | Some(0) => String::new(),
        Some(1) => ", 1 restart".to_owned(),
        Some(restarts) => format!(", {restarts} restarts"),
    };
    Some(format!("{part}: {exit}{restarts}"))
}

/// `exceeded quota small: pods 1/1`, of `exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`.
fn quota(message: &str) -> Option<String> {
    if let Some((_, rest)) = message.split_once("failed quota: ") {
        return Some(match rest.split_once(": ") {
            Some((name, why)) => format!("quota {name}: {why}"),
            None => format!("failed quota {rest}"),
        });
    }
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (name, rest) = rest.split_once(", requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    let value = |list: &str, key: &str| {
        list.split(',').find_map(|pair| {
            Some(pair.split_once('=')?.1.trim().to_owned()).filter(|_| pair.starts_with(&format!("{key}=")))
        })
    };
    let parts: Vec<String> = requested
        .split(',')
        .filter_map(|pair| {
            let (key, asked) = pair.split_once('=')?;
            let (used, limit) = (value(used, key)?, value(limited, key)?);
            let asked = if asked == "1" { String::new() } else { format!(", {asked} more requested") };
            Some(format!("{key} {used}/{limit}{asked}"))
        })
        .collect();
    Some(format!("exceeded quota {name}: {}", parts.join(", ")))
}

/// What an object refers to and does not exist, or who refuses it.
fn configuration(message: &str) -> Option<String> {
    for (word, kind) in
        [("configmap \"", "ConfigMap"), ("secret \"", "Secret"), ("serviceaccount \"", "ServiceAccount")]
    {
        if let Some(name) = quoted_after(message, word)
            && message.contains("not found")
        {
            // `secret "shop/tls" not found` in some messages.
            let name = name.rsplit('/').next().unwrap_or(name);
            return Some(format!("{kind} {name:?} not found"));
        }
    }
    if let Some((_, rest)) = message.split_once("couldn't find key ") {
        let (key, rest) = rest.split_once(" in ")?;
        let (kind, name) = rest.split_once(' ')?;
        let name = name.rsplit('/').next().unwrap_or(name);
        return Some(format!("key {key:?} not found in {kind} {name:?}"));
    }
    if let Some(at) = message.find("admission webhook ") {
        return Some(message[at..].to_owned());
    }
    if let Some((_, why)) = message.split_once(" is forbidden: ") {
        return Some(why.to_owned());
    }
    if let Some((_, why)) = message.split_once(" is invalid: ") {
        return Some(format!("invalid: {why}"));
    }
    // `container app: CreateContainerError: why`.
    let part = container(message)?;
    let rest = message[part.len()..].strip_prefix(": ")?;
    let (_, why) = rest.split_once(": ")?;
    Some(format!("{part}: {why}"))
}

/// Why the scheduler finds no node, without its counting where all nodes share one reason.
fn scheduling(record: &Record, message: &str) -> Option<String> {
    if let Some(name) = quoted_after(message, "persistentvolumeclaim \"") {
        let why = if message.contains("not found") { "not found" } else { "not usable" };
        return Some(format!("PersistentVolumeClaim {name:?} {why}"));
    }
    if message.contains("no nodes available to schedule pods") {
        return Some("the cluster has no nodes".to_owned());
    }
    let (nodes, rest) = message.split_once(" nodes are available: ")?;
    let rest = rest.split_once(" preemption: ").map_or(rest, |(why, _)| why);
    let rest = rest.trim().trim_end_matches('.');
    if rest.contains("pod has unbound immediate PersistentVolumeClaims") {
        return Some("a PersistentVolumeClaim is not bound".to_owned());
    }
    let reasons: Vec<&str> = split_reasons(rest);
    let selector = || {
        let pod = record.facts.as_ref()?.pod()?;
        let labels: Vec<String> =
            pod.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        (!labels.is_empty()).then(|| labels.join(","))
    };
    let affinity = |reason: &str| reason.contains("didn't match Pod's node affinity/selector");
    if let [only] = reasons.as_slice() {
        if affinity(only) {
            return Some(match selector() {
                Some(labels) => format!("no node matches nodeSelector {labels}"),
                None => "no node matches the Pod's node affinity".to_owned(),
            });
        }
        return Some(format!("{nodes} nodes available: {}", tidy(only, false)));
    }
    let mut parts: Vec<String> = Vec::new();
    for reason in reasons {
        parts.push(match selector().filter(|_| affinity(reason)) {
            Some(labels) => {
                let count = reason.split(' ').next().unwrap_or_default();
                format!("{count} without {labels}")
            }
            None => tidy(reason, true),
        });
    }
    Some(format!("{nodes} nodes available: {}", parts.join(", ")))
}

/// The scheduler's reasons, which are separated by commas, some of which stand inside of braces.
fn split_reasons(text: &str) -> Vec<&str> {
    let mut reasons = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, char) in text.char_indices() {
        match char {
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            // Each begins with a number.
            ',' if depth == 0 && text[at + 1..].trim_start().starts_with(|c: char| c.is_ascii_digit()) => {
                reasons.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    reasons.push(text[start..].trim());
    reasons
}

/// `2 node(s) had untolerated taint {x: }` as `2 untolerated taint x`.
fn tidy(reason: &str, counted: bool) -> String {
    let (count, what) = reason.split_once(' ').unwrap_or(("", reason));
    let what = what.strip_prefix("node(s) ").unwrap_or(what);
    let what = what.strip_prefix("had ").unwrap_or(what);
    let what = what.strip_prefix("were ").unwrap_or(what);
    let what = what.replace(": }", "}");
    if counted && !count.is_empty() { format!("{count} {what}") } else { what }
}

/// `container app: readiness probe fails`.
fn probe(message: &str) -> Option<String> {
    let (part, rest) = message.split_once(" runs; its ")?;
    let probe = rest.split_once(" probe").map(|(which, _)| which)?;
    let verb = if rest.contains("does not pass") { "fails" } else { "has not passed yet" };
    Some(format!("{part}: {probe} probe {verb}"))
}

/// Why a workload is given up by its controller.
fn ended(record: &Record, reason: &str) -> Option<String> {
    let limit = match record.facts.as_ref().map(|facts| &facts.of_kind) {
        Some(KindFacts::Job { backoff_limit, .. }) => *backoff_limit,
        _ => None,
    };
    match reason {
        "BackoffLimitExceeded" => Some(match limit {
            Some(limit) => format!("the Job has used up its retries (backoffLimit {limit})"),
            None => "the Job has used up its retries".to_owned(),
        }),
        "DeadlineExceeded" if record.id.is("batch", "Job") => {
            Some("the Job ran past its activeDeadlineSeconds".to_owned())
        }
        "ProgressDeadlineExceeded" => Some("no progress within progressDeadlineSeconds".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use settled_rules::RuleSet;

    use super::*;
    use crate::evaluator::Evaluator;

    /// The summary of a Pod with one container in this state.
    fn of_pod(spec: &str, status: &str) -> String {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"x","namespace":"a","uid":"1","resourceVersion":"1"}},"spec":{spec},"status":{status}}}"#
        );
        let evaluator = Evaluator::new(RuleSet::default(), Vec::new());
        summary(&evaluator.record(json.as_bytes(), Timestamp::UNIX_EPOCH, false).unwrap())
    }

    fn waiting(reason: &str, message: &str) -> String {
        let status = serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "app", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}}]});
        of_pod("{}", &status.to_string())
    }

    #[test]
    fn images_are_named_with_the_cause() {
        let cases = [
            (
                "ImagePullBackOff",
                r#"Back-off pulling image "nginx:1.29-typo": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.29-typo": manifest unknown"#,
                r#"cannot pull "nginx:1.29-typo": manifest unknown"#,
            ),
            ("ImagePullBackOff", r#"Back-off pulling image "web:2""#, r#"cannot pull "web:2""#),
            (
                "ErrImagePull",
                r#"rpc error: code = Unknown desc = failed to pull and unpack image "r.example.com/x:1": failed to resolve reference "r.example.com/x:1": failed to do request: Head "https://r.example.com/v2/x/manifests/1": dial tcp: lookup r.example.com: no such host"#,
                r#"cannot pull "r.example.com/x:1": registry not found: no such host"#,
            ),
            (
                "ErrImagePull",
                r#"failed to pull image "docker.io/library/x:1": failed to resolve reference "docker.io/library/x:1": docker.io/library/x:1: not found"#,
                r#"cannot pull "docker.io/library/x:1": not found"#,
            ),
            (
                "InvalidImageName",
                r#"Failed to apply default image tag "Web:1": couldn't parse image name "Web:1": invalid reference format"#,
                r#"invalid image name "Web:1""#,
            ),
            (
                "ErrImageNeverPull",
                r#"Container image "x:1" is not present with pull policy of Never"#,
                r#"image "x:1" is not on the node (pull policy Never)"#,
            ),
            ("ErrImagePull", "boom", "cannot pull the image of container app"),
        ];
        for (reason, message, wanted) in cases {
            assert_eq!(waiting(reason, message), wanted, "{message}");
        }
    }

    #[test]
    fn configuration_names_what_is_missing() {
        let cases = [
            (r#"configmap "settings" not found"#, r#"ConfigMap "settings" not found"#),
            (r#"secret "shop/tls" not found"#, r#"Secret "tls" not found"#),
            (
                "couldn't find key port in ConfigMap shop/settings",
                r#"key "port" not found in ConfigMap "settings""#,
            ),
            (
                "container has runAsNonRoot and image will run as root",
                "container app: container has runAsNonRoot and image will run as root",
            ),
        ];
        for (message, wanted) in cases {
            assert_eq!(waiting("CreateContainerConfigError", message), wanted, "{message}");
        }
    }

    #[test]
    fn crashes_have_their_exit_code_and_restarts() {
        let crash = |state: &str, last: &str, restarts: u32| {
            let last = if last.is_empty() {
                String::new()
            } else {
                format!(r#","lastState":{{"terminated":{last}}}"#)
            };
            of_pod(
                "{}",
                &format!(
                    r#"{{"phase":"Running","containerStatuses":[{{"name":"app","ready":false,"restartCount":{restarts},"state":{state}{last}}}]}}"#
                ),
            )
        };
        let waits = r#"{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s restarting failed container=app pod=x"}}"#;
        assert_eq!(
            crash(waits, r#"{"exitCode":1,"reason":"Error"}"#, 6),
            "container app: exit code 1, 6 restarts"
        );
        assert_eq!(
            crash(waits, r#"{"exitCode":137,"reason":"OOMKilled"}"#, 1),
            "container app: OOM-killed, 1 restart"
        );
        assert_eq!(
            crash(r#"{"terminated":{"exitCode":2,"reason":"Error"}}"#, "", 0),
            "container app: exit code 2"
        );
        assert_eq!(crash(waits, "", 3), "container app: CrashLoopBackOff, 3 restarts");
    }

    #[test]
    fn quotas_have_their_numbers() {
        let cases = [
            (
                r#"pods "big-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"#,
                "exceeded quota small: pods 1/1",
            ),
            (
                r#"pods "a" is forbidden: exceeded quota: mem, requested: limits.memory=2Gi,pods=1, used: limits.memory=3Gi,pods=4, limited: limits.memory=4Gi,pods=4"#,
                "exceeded quota mem: limits.memory 3Gi/4Gi, 2Gi more requested, pods 4/4",
            ),
            (
                r#"pods "a" is forbidden: failed quota: cpu: must specify limits.cpu for: app"#,
                "quota cpu: must specify limits.cpu for: app",
            ),
        ];
        for (message, wanted) in cases {
            assert_eq!(quota(message).as_deref(), Some(wanted), "{message}");
        }
    }

    #[test]
    fn scheduling_names_the_label_or_the_resource() {
        let unschedulable = |spec: &str, message: &str| {
            let status = serde_json::json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": message}]});
            of_pod(spec, &status.to_string())
        };
        let ssd = r#"{"nodeSelector":{"disktype":"ssd"}}"#;
        let cases = [
            (
                ssd,
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
                "no node matches nodeSelector disktype=ssd",
            ),
            (
                "{}",
                "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
                "0/3 nodes available: Insufficient cpu",
            ),
            (
                ssd,
                "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 node(s) didn't match Pod's node affinity/selector.",
                "0/3 nodes available: 1 untolerated taint {node-role.kubernetes.io/control-plane}, 2 without disktype=ssd",
            ),
            ("{}", "no nodes available to schedule pods", "the cluster has no nodes"),
            (
                "{}",
                r#"0/1 nodes are available: persistentvolumeclaim "data" not found. not found"#,
                r#"PersistentVolumeClaim "data" not found"#,
            ),
            (
                "{}",
                "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
                "a PersistentVolumeClaim is not bound",
            ),
            ("{}", "gone fishing", "gone fishing"),
        ];
        for (spec, message, wanted) in cases {
            assert_eq!(unschedulable(spec, message), wanted, "{message}");
        }
    }

    #[test]
    fn one_of_several_containers_is_named() {
        let status = r#"{"phase":"Pending","containerStatuses":[{"name":"app","ready":true,"state":{"running":{}}},
            {"name":"proxy","ready":false,"restartCount":0,"state":{"waiting":{"reason":"REASON","message":"MESSAGE"}}}]}"#;
        let of = |spec: &str, reason: &str, message: &str| {
            of_pod(spec, &status.replace("REASON", reason).replace("MESSAGE", message))
        };
        let two = r#"{"containers":[{"name":"app"},{"name":"proxy"}]}"#;
        let image = r#"Back-off pulling image \"envoy:9\": ErrImagePull: manifest unknown"#;
        let cases = [
            (two, "ImagePullBackOff", image, r#"container proxy: cannot pull "envoy:9": manifest unknown"#),
            (
                r#"{"initContainers":[{"name":"app"}],"containers":[{"name":"proxy"}]}"#,
                "ImagePullBackOff",
                image,
                r#"container proxy: cannot pull "envoy:9": manifest unknown"#,
            ),
            (
                r#"{"containers":[{"name":"proxy"}]}"#,
                "ImagePullBackOff",
                image,
                r#"cannot pull "envoy:9": manifest unknown"#,
            ),
            (
                two,
                "CreateContainerConfigError",
                r#"configmap \"mesh\" not found"#,
                r#"container proxy: ConfigMap "mesh" not found"#,
            ),
        ];
        for (spec, reason, message, wanted) in cases {
            assert_eq!(of(spec, reason, message), wanted, "{spec} {reason}");
        }
    }

    #[test]
    fn probes_are_named() {
        let probe = |started: &str| {
            of_pod(
                "{}",
                &format!(
                    r#"{{"phase":"Running","containerStatuses":[{{"name":"app","ready":false,"started":{started},"state":{{"running":{{}}}}}}]}}"#
                ),
            )
        };
        assert_eq!(probe("true"), "container app: readiness probe fails");
        assert_eq!(probe("false"), "container app: startup probe has not passed yet");
    }
}
