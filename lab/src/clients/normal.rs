//! Normalization of client output and component logs, and log errors that do not occur in each run.

use regex::Regex;
use serde_json::Value;

use crate::Outcome;

/// Errors in component logs about an object that another component has written or deleted: they also occur on
/// kube-apiserver, but not in each run. Each pattern names the components and a message that was observed; the kind of
/// object may be another.
pub(super) const RACES: [&str; 6] = [
    // A cache lags behind the controller's own writes (`StaleControllerConsistency`).
    r#"^kube-controller-manager: E [a-z_]+\.go:N\] .*read version: N is not as new as written version: N for group resource [a-z.]+"$"#,
    // Another controller has written the object's status.
    r#"^kube-controller-manager: E [a-z_]+\.go:N\] .*Operation cannot be fulfilled on [a-z.]+ X: the object has been modified; please apply your changes to the latest version and try again"( [A-Za-z]+="X")*$"#,
    // A script, a controller or the namespace's deletion has removed an object before this component observed it. The
    // ConfigMap kube-apiserver-legacy-service-account-token-tracking never existed: settled does not track tokens of
    // Secrets.
    r#"^kube-(controller-manager|scheduler): E [a-z_]+\.go:N\] .*[ "][a-z.]+ X not found"( [A-Za-z]+="[A-Za-z0-9-]+")*$"#,
    // settled and the real controller manager both write kube-root-ca.crt.
    r#"^kube-controller-manager: E publisher\.go:N\] "Unhandled Error" err="syncing X failed: configmaps X already exists"$"#,
    // The pod was deleted by its controller.
    r"^kwok: failed to apply stage: failed to (delete|patch) resource for step (N: )?failed to (delete|patch) pod [A-Za-z0-9-]+: pods X not found$",
    // The pod was deleted by its controller between the decision and the binding; the message is upstream's.
    r#"^kube-scheduler: E (framework|schedule_one)\.go:N\] .*Operation cannot be fulfilled on X X: pod X+ is being deleted, cannot be assigned to a host"$"#,
];

/// Errors about a write that was stored, but not acknowledged, before the server was killed: the component repeats it.
pub(super) const LOST_ANSWERS: [&str; 2] = [
    // The scheduler binds the Pod again before it observes its own binding, or observes it while it reverts the failed
    // one.
    r#"^kube-scheduler: E schedule_one\.go:N\] "ForgetPod failed" err="pod UID\(X\) wasn't assumed so cannot be forgotten"$"#,
    r#"^kube-scheduler: E (framework|schedule_one)\.go:N\] .*Operation cannot be fulfilled on X X: pod X+ is already assigned to node X"$"#,
];

/// Normalizes values that change from run to run.
pub(super) struct Normaliser {
    rules: Vec<(Regex, &'static str)>,
    /// For log errors, which may be about any object.
    names: Vec<(Regex, &'static str)>,
    texts: Vec<(String, &'static str)>,
}

impl Normaliser {
    pub(super) fn new(texts: Vec<(String, &'static str)>) -> Outcome<Self> {
        let rules = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
            // The second may change between two writes.
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} UTC|[+-]\d\d:\d\d)?", "TIME"),
            (r"[A-Z][a-z]{2},? [A-Z0-9][a-z0-9]{1,2} [A-Za-z0-9]{2,3} [0-9: ]{13}( [+-]\d{4})?", "TIME"),
            // Go omits trailing zeros of fractions, and Helm pads the column.
            (r"TIME +\t", "TIME\t"),
            (r"\b([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "$1 "),
            (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-XXXXX"),
            (r"\b\d+m\d+s\b|\b\d+s\b|\b0 seconds ago\b|<unknown>|<invalid>", "AGE"),
            // The age of an Event with a fixed time increases every day.
            (r"(?m)^\d{2,}d\b", "AGE"),
            (r"( ago)? \(x\d+ over AGE\)", "$1"),
            (r#"(resourceVersion"?: ?"?|resourceVersion:)\d+"#, "${1}RV"),
            (r"(Resource Version:? +)\d+", "${1}RV"),
            // Ranges of kube-apiserver and settled.
            (r"\b10\.(0|9[6-9]|10\d|11[01])\.\d{1,3}\.\d{1,3}\b", "CLUSTER-IP"),
            (r"\b10\.(244|[1-9]\d*)\.\d{1,3}\.\d{1,3}\b", "POD-IP"),
            (r"127\.0\.0\.1:\d+", "HOST"),
            (r"\bnodePort: 3\d{4}\b", "nodePort: PORT"),
            (r"([: ])3\d{4}/(TCP|UDP)", "${1}PORT/$2"),
            // Columns are as wide as their widest value.
            (r"(\S) {2,}", "$1  "),
            (r"(?m) +$", ""),
        ];
        let rules = rules.into_iter().map(|(rule, with)| Ok((Regex::new(rule)?, with)));
        let names = [
            // The garbage collector prints its whole node, including locks.
            (r"&garbagecollector\.node\{.*\}: ", "X: "),
            (r#"\\"[^"]*\\""#, "X"),
            (r#" event=".*"#, ""),
            (r#" (logger|pod|node|plugin|key|job|cronjob|id)="[^"]*""#, ""),
            (r"[A-Za-z0-9-]+(/[A-Za-z0-9.-]+)+", "X"),
            (r"\b(pod|node) [a-z0-9-]+", "$1 X"),
            (r"\d+", "N"),
        ];
        let names = names.into_iter().map(|(rule, with)| Ok((Regex::new(rule)?, with)));
        Ok(Self {
            rules: rules.collect::<Result<_, regex::Error>>()?,
            names: names.collect::<Result<_, regex::Error>>()?,
            texts,
        })
    }

    /// The error in a log line, without object names: klog's `E1121 …`, or an error in JSON.
    pub(super) fn complaint(&self, line: &str) -> Option<String> {
        let klog = line.strip_prefix('E').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let mut text = if klog {
            self.apply(line)
        } else {
            let line: Value = serde_json::from_str(line).ok()?;
            let text = |key: &str| line.get(key).and_then(Value::as_str);
            if text("level") != Some("ERROR") {
                return None;
            }
            let message = format!("{}: {}", text("msg")?, text("err").unwrap_or_default());
            self.apply(&message.replace('"', "\\\""))
        };
        // Errors while the server is down are expected.
        if [" tcp ", "EOF", "http2: client connection force closed"].iter().any(|gone| text.contains(gone)) {
            return None;
        }
        for (rule, with) in &self.names {
            text = rule.replace_all(&text, *with).into_owned();
        }
        Some(text.trim().to_owned())
    }

    pub(super) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, with) in &self.texts {
            text = text.replace(from, with);
        }
        for (rule, with) in &self.rules {
            if let std::borrow::Cow::Owned(new) = rule.replace_all(&text, *with) {
                text = new;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use regex::RegexSet;

    use super::*;

    #[test]
    fn races_are_of_a_component_and_a_message() {
        let races = RegexSet::new(RACES).expect("they are patterns");
        for (complaint, wanted) in [
            (
                r#"kube-controller-manager: E replica_set.go:N] "Unhandled Error" err="sync X failed with read version: N is not as new as written version: N for group resource replicasets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E daemon_controller.go:N] "Unhandled Error" err="X failed with : read version: N is not as new as written version: N for group resource daemonsets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E stateful_set.go:N] "Error syncing StatefulSet, requeuing" err="read version: N is not as new as written version: N for group resource statefulsets.apps""#,
                true,
            ),
            (
                r#"kube-controller-manager: E replica_set.go:N] "Unhandled Error" err="sync X failed with replicasets.apps X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E horizontal.go:N] "Unhandled Error" err="failed to query scale subresource for X: deployments.apps X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E resource_quota_controller.go:N] "Error processing resource quota work item" err="Operation cannot be fulfilled on resourcequotas X: the object has been modified; please apply your changes to the latest version and try again" queueKey="X""#,
                true,
            ),
            (
                r#"kube-controller-manager: E resource_quota_controller.go:N] "Error processing resource quota work item" err="resourcequotas X not found" queueKey="X""#,
                true,
            ),
            (
                r#"kube-scheduler: E schedule_one.go:N] "Error scheduling pod; retrying" err="running Bind plugin X: pods X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E event.go:N] "Server rejected event (will not retry!)" err="namespaces X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E pvc_protection_controller.go:N] "Error removing protection finalizer from PVC" err="persistentvolumeclaims X not found" PVC="X""#,
                true,
            ),
            (
                r#"kube-controller-manager: E pvc_protection_controller.go:N] "Unhandled Error" err="PVC X failed with: persistentvolumeclaims X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E publisher.go:N] "Unhandled Error" err="syncing X failed: configmaps X already exists""#,
                true,
            ),
            (
                r#"kube-controller-manager: E legacy_serviceaccount_token_cleaner.go:N] "Getting lastest possible tracked_since time" err="configmaps X not found""#,
                true,
            ),
            (
                "kwok: failed to apply stage: failed to delete resource for step N: failed to delete pod web-Nb-XXXXX: pods X not found",
                true,
            ),
            (
                r#"kube-controller-manager: E pv_protection_controller.go:N] "Unhandled Error" err="PV volume failed with : persistentvolumes X not found""#,
                true,
            ),
            (
                r#"kube-controller-manager: E serviceaccounts_controller.go:N] "Service account work item failed" err="namespaces X not found" item="garbage-other""#,
                true,
            ),
            // Messages that the patterns alone would accept.
            (r#"kube-scheduler: E schedule_one.go:N] "Error scheduling pod" err="not found""#, false),
            (
                r#"kube-controller-manager: E garbagecollector.go:N] "Unhandled Error" err="the server could not find the requested resource: not found""#,
                false,
            ),
            (
                r#"kube-controller-manager: E job_controller.go:N] "Unhandled Error" err="pods X already exists""#,
                false,
            ),
            (
                "kwok: failed to apply stage: failed to patch resource for step failed to patch pod web-Nb-XXXXX: pods X not found",
                true,
            ),
            ("kwok: failed to apply stage: failed to patch resource: the object has been modified", false),
        ] {
            assert_eq!(races.is_match(complaint), wanted, "{complaint}");
        }
    }

    #[test]
    fn repeated_writes_are_races_where_the_server_was_killed() {
        let normaliser = Normaliser::new(Vec::new()).expect("they are patterns");
        let line = r#"E1122 18:10:01.123456   12345 framework.go:1350] "Plugin Failed" err="Operation cannot be fulfilled on pods/binding \"web-6b7d-x2vbn\": pod web-6b7d-x2vbn is already assigned to node \"crash-node\"" plugin="DefaultBinder""#;
        let complaint = format!("kube-scheduler: {}", normaliser.complaint(line).expect("it is an error"));
        let set = |patterns: &[&str]| RegexSet::new(patterns).expect("they are patterns");
        assert!(set(&LOST_ANSWERS).is_match(&complaint), "{complaint}");
        assert!(!set(&RACES).is_match(&complaint), "{complaint}");
        let deleted =
            complaint.replace("already assigned to node X", "being deleted, cannot be assigned to a host");
        assert!(deleted != complaint && set(&RACES).is_match(&deleted), "{deleted}");
    }

    #[test]
    fn the_garbage_collectors_nodes_are_left_out() {
        let normaliser = Normaliser::new(Vec::new()).expect("they are patterns");
        let line = r#"E1122 18:10:01.123456   12345 garbagecollector.go:360] "Unhandled Error" err="error syncing item &garbagecollector.node{identity:garbagecollector.objectReference{OwnerReference:v1.OwnerReference{Kind:\"ReplicaSet\", UID:\"u\"}, Namespace:\"a\"}, owners:[]v1.OwnerReference{}}: replicasets.apps \"web-1\" not found""#;
        let complaint = normaliser.complaint(line).expect("it is an error");
        let wanted = r#"E garbagecollector.go:N] "Unhandled Error" err="error syncing item X: replicasets.apps X not found""#;
        assert_eq!(complaint, wanted);
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let normaliser = Normaliser::new(vec![("/place".to_owned(), "DIR")]).expect("the rules are right");
        for (text, wanted) in [
            (
                "web-7c6cf4cb88-x2v9d   1/1     Running   0          12s",
                "web-7c6cf4cb88-XXXXX  1/1  Running  0  AGE",
            ),
            ("at 2026-11-21T10:34:25Z in /place/a", "at TIME in DIR/a"),
            ("4\t2026-11-21 10:34:25.12345678 +0000 UTC \tdeployed", "4\tTIME\tdeployed"),
            ("  resourceVersion: \"123\"", "  resourceVersion: \"RV\""),
            ("cpu: 100m", "cpu: 100m"),
        ] {
            assert_eq!(normaliser.apply(text), wanted);
        }
        let line =
            "E1121 10:34:25.123456   17 a.go:9] \"Failed\" err=\"pods \\\"a\\\" not found\" pod=\"b/c\"";
        let complaint = "E a.go:N] \"Failed\" err=\"pods X not found\"";
        assert_eq!(normaliser.complaint(line).as_deref(), Some(complaint));
        assert_eq!(normaliser.complaint("I1121 all is well"), None);
    }
}
