//! What a failed or succeeded Pod means for a Job: Pod failure policy, success policy, backoff.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes::Indexes;
use crate::meta;
use crate::pod;

/// The backoff after the first failure, and the longest one.
const BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(10 * 60);

/// What the Pod failure policy says of a failed Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts towards the backoff limit.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The Job has failed, for this reason.
    FailJob(String),
}

/// `matchPodFailurePolicy`: the first rule that matches decides.
pub(super) fn verdict(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Verdict {
    for (index, rule) in policy.into_iter().flat_map(|policy| &policy.rules).enumerate() {
        let (namespace, name) = (meta::namespace(pod), meta::name(pod));
        let message = if let Some(requirement) = &rule.on_exit_codes {
            failed_container(pod, requirement).map(|(container, code)| {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
            })
        } else {
            let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut matching = conditions.filter(|condition| {
                let is_met =
                    |wanted: &k8s_openapi::api::batch::v1::PodFailurePolicyOnPodConditionsPattern| {
                        wanted.type_ == condition.type_
                            && wanted.status.as_deref().unwrap_or("True") == condition.status
                    };
                patterns.iter().any(is_met)
            });
            matching
                .next()
                .map(|condition| format!("Pod {namespace}/{name} has condition {}", condition.type_))
        };
        let Some(message) = message else { continue };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "FailIndex" => return Verdict::FailIndex,
            "Count" => return Verdict::Count,
            "FailJob" => {
                return Verdict::FailJob(format!("{message} matching FailJob rule at index {index}"));
            }
            _ => {}
        }
    }
    Verdict::Count
}

/// The container whose exit code a rule is about.
fn failed_container<'p>(
    pod: &'p Pod,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'p str, i32)> {
    let status = pod.status.as_ref()?;
    let all =
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let mut failed = all.filter_map(|container| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        let is_named = wanted.container_name.as_ref().is_none_or(|name| *name == container.name);
        let is_listed = wanted.values.contains(&code);
        let matches = match wanted.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        (is_named && code != 0 && matches).then_some((&*container.name, code))
    });
    failed.next()
}

/// The message if the success policy is met: `matchSuccessPolicy`.
pub(super) fn success(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    succeeded: &Indexes,
) -> Option<String> {
    if succeeded.total() == 0 {
        return None;
    }
    let rules = policy.into_iter().flat_map(|policy| &policy.rules).enumerate();
    for (index, rule) in rules {
        let is_met = match (&rule.succeeded_indexes, rule.succeeded_count) {
            (Some(wanted), count) => {
                let wanted = Indexes::parse(wanted, completions);
                let shared = wanted.shared(succeeded);
                wanted.total() > 0 && (shared == wanted.total() || count.is_some_and(|count| shared >= count))
            }
            (None, Some(count)) => succeeded.total() >= count,
            (None, None) => false,
        };
        if is_met {
            return Some(format!("Matched rules at index {index}"));
        }
    }
    None
}

/// Are Pods replaced only after they have failed for good, not already when they are being deleted?
pub(super) fn replaces_only_failed(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| {
        spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
    })
}

/// Has a Pod failed, as far as the Job is concerned?
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    let phase = pod::phase(pod);
    phase == "Failed" || (!replaces_only_failed(job) && meta::is_deleting(pod) && phase != "Succeeded")
}

/// Failures since the last success, and when the last one was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: i32,
    pub(super) last: Option<Timestamp>,
}

impl Failures {
    /// Of all Pods that have succeeded and failed. Upstream counts them as they come and forgets with a restart.
    pub(super) fn since_success<'p>(
        succeeded: impl Iterator<Item = &'p Pod>,
        failed: impl Iterator<Item = &'p Pod>,
    ) -> Self {
        let success = succeeded.filter_map(finished_at).max();
        let after =
            failed.filter_map(finished_at).filter(|time| success.is_none_or(|success| *time > success));
        let mut failures = Self::default();
        for time in after {
            failures.count += 1;
            failures.last = failures.last.max(Some(time));
        }
        failures
    }

    /// How long until a new Pod may be created.
    pub(super) fn remaining(self, now: Timestamp) -> Option<Duration> {
        let last = self.last.filter(|_| self.count > 0)?;
        let doublings = u32::try_from(self.count - 1).unwrap_or_default().min(20);
        let backoff = BACKOFF.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        let backoff = SignedDuration::try_from(backoff).unwrap_or(SignedDuration::MAX);
        let left = backoff - last.duration_until(now);
        left.is_positive().then(|| left.unsigned_abs())
    }
}

/// When a Pod has finished: `getFinishedTime`.
pub(super) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let from_condition = || {
        let condition = pod::condition(pod, "Ready").filter(|condition| condition.status == "False")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    let from_deletion = || {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
        pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    containers_finished_at(pod).or_else(from_condition).or_else(from_deletion).or_else(created)
}

/// When the last container has ended, if all have.
fn containers_finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| &*container.name)
        .collect();
    let is_sidecar = |container: &&ContainerStatus| sidecars.contains(&&*container.name);
    let sidecars = status.init_container_statuses.iter().flatten().filter(is_sidecar);
    let all = status.container_statuses.iter().flatten().chain(sidecars);
    let times: Option<Vec<Timestamp>> = all
        .map(|container| Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0))
        .collect();
    times?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(code: i32, conditions: Value) -> Pod {
        let state = json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:10Z"}});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default"},
            "status": {"phase": "Failed", "conditions": conditions, "containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
            ]},
        });
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}},
        ]});
        let policy: PodFailurePolicy = serde_json::from_value(policy).expect("a policy");
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let message =
            "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 1";
        for (code, conditions, expected) in [
            (1, json!([]), Verdict::Count),
            (42, json!([]), Verdict::FailJob(message.to_owned())),
            (42, disrupted, Verdict::Ignore),
            (3, json!([]), Verdict::FailIndex),
        ] {
            assert_eq!(verdict(Some(&policy), &pod(code, conditions)), expected);
        }
        assert_eq!(verdict(None, &pod(42, json!([]))), Verdict::Count);
    }

    #[test]
    fn success_policies_count_indexes() {
        let policy = |rules: Value| -> SuccessPolicy {
            serde_json::from_value(json!({"rules": rules})).expect("a policy")
        };
        let succeeded = Indexes::parse("0,2-4", 10);
        for (rules, expected) in [
            (json!([{"succeededIndexes": "0,2"}]), Some("Matched rules at index 0")),
            (json!([{"succeededIndexes": "0-2"}]), None),
            (json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), Some("Matched rules at index 0")),
            (json!([{"succeededCount": 5}, {"succeededCount": 4}]), Some("Matched rules at index 1")),
        ] {
            assert_eq!(success(Some(&policy(rules.clone())), 10, &succeeded).as_deref(), expected, "{rules}");
        }
    }

    #[test]
    fn backoff_doubles_from_ten_seconds() {
        let at = |seconds: i64| Timestamp::from_second(1_767_225_600 + seconds).expect("a time");
        let wait =
            |count, now| Failures { count, last: Some(at(0)) }.remaining(at(now)).map(|wait| wait.as_secs());
        assert_eq!((wait(0, 0), wait(1, 0), wait(1, 4), wait(1, 10)), (None, Some(10), Some(6), None));
        assert_eq!(
            (wait(2, 0), wait(3, 0), wait(7, 0), wait(30, 0)),
            (Some(20), Some(40), Some(600), Some(600))
        );
        let failed = pod(1, json!([]));
        let failures = Failures::since_success(std::iter::empty(), [&failed, &failed].into_iter());
        assert_eq!(failures, Failures { count: 2, last: Some(at(10)) });
    }
}
