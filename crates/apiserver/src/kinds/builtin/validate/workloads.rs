//! Validation of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

use std::collections::HashSet;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::validation;

use super::check::{
    Check, amount, at_most_all, join, matches, positive_or_percent, same, selector, selects_all,
};
use super::pod::{same_template, template, template_labels};
use super::schedule;
use crate::metadata::shown;

/// The selector has to be there, to be narrow, and to fit the template.
/// False where upstream looks no further.
fn fits(check: &mut Check, spec: &Value, kind: &str, empty: &str) -> bool {
    let chosen = field(spec, "selector");
    let daemon = kind == "DaemonSet";
    let mut valid = true;
    if chosen.is_null() {
        if !daemon {
            check.required("spec.selector", "");
        }
    } else {
        valid = selector(check, "spec.selector", chosen);
        if !daemon && selects_all(chosen) {
            check.invalid("spec.selector", chosen, empty);
        }
    }
    let all = chosen.is_object() && selects_all(chosen);
    if valid {
        if !all && !matches(chosen, template_labels(spec)) {
            let labels = template_labels(spec)
                .map_or_else(|| "null".to_owned(), |labels| shown(&labels.clone().into()));
            let detail = "`selector` does not match template `labels`";
            check.invalid_shown("spec.template.metadata.labels", &labels, detail);
        }
    } else if !daemon {
        check.invalid(
            "spec.selector",
            chosen,
            if kind == "StatefulSet" { "" } else { "invalid label selector" },
        );
    }
    if daemon && all {
        check.invalid("spec.selector", chosen, empty);
    }
    valid
}

/// Pods of these are always restarted, and have no deadline.
fn always(check: &mut Check, spec: &Value, kind: &str) {
    let pod = field(field(spec, "template"), "spec");
    let policy = string(pod, "restartPolicy");
    if policy != "Always" {
        check.not_supported("spec.template.spec.restartPolicy", &policy.into(), &["Always"]);
    }
    if given(pod, "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        check.forbidden("spec.template.spec.activeDeadlineSeconds", &detail);
    }
}

fn fixed_selector(check: &mut Check, new: &Value, old: Option<&Value>) {
    if let Some(old) = old {
        check.immutable("spec.selector", given(new, "selector"), given(field(old, "spec"), "selector"));
    }
}

pub(super) fn deployment(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "replicas");
    if fits(check, spec, "Deployment", "empty selector is invalid for deployment") {
        template(check, field(spec, "template"), "spec.template");
        always(check, spec, "ReplicaSet");
    }
    let strategy = field(spec, "strategy");
    match string(strategy, "type") {
        "Recreate" => {
            if given(strategy, "rollingUpdate").is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                check.forbidden("spec.strategy.rollingUpdate", detail);
            }
        }
        "RollingUpdate" => {
            let rolling = field(strategy, "rollingUpdate");
            let at = "spec.strategy.rollingUpdate";
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| field(rolling, name));
            positive_or_percent(check, &join(at, "maxUnavailable"), unavailable);
            positive_or_percent(check, &join(at, "maxSurge"), surge);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                check.invalid(join(at, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(check, &join(at, "maxUnavailable"), unavailable);
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let message =
                format!("Unsupported value: {shown}: supported values: \"Recreate\", \"RollingUpdate\"");
            check.push("FieldValueNotSupported", "spec.strategy", message);
        }
    }
    for name in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        check.not_negative("spec", spec, name);
    }
    let ready = integer(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) = integer(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        check.invalid(
            "spec.progressDeadlineSeconds",
            &deadline.into(),
            "must be greater than minReadySeconds",
        );
    }
    fixed_selector(check, spec, old);
}

pub(super) fn replica_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "replicas");
    check.not_negative("spec", spec, "minReadySeconds");
    if fits(check, spec, "ReplicaSet", "empty selector is invalid for deployment") {
        template(check, field(spec, "template"), "spec.template");
        always(check, spec, "ReplicaSet");
    }
    fixed_selector(check, spec, old);
}

pub(super) fn daemon_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    fixed_selector(check, spec, old);
    fits(check, spec, "DaemonSet", "empty selector is invalid for daemonset");
    template(check, field(spec, "template"), "spec.template");
    always(check, spec, "DaemonSet");
    check.not_negative("spec", spec, "minReadySeconds");
    let strategy = field(spec, "updateStrategy");
    match string(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let at = "spec.updateStrategy.rollingUpdate";
            let rolling = field(strategy, "rollingUpdate");
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|name| field(rolling, name));
            positive_or_percent(check, &join(at, "maxUnavailable"), unavailable);
            positive_or_percent(check, &join(at, "maxSurge"), surge);
            match (amount(unavailable), amount(surge)) {
                (0, 0) => check.required(join(at, "maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                (u, s) if u != 0 && s != 0 => {
                    check.invalid(
                        join(at, "maxSurge"),
                        surge,
                        "may not be set when maxUnavailable is non-zero",
                    );
                }
                _ => {}
            }
            at_most_all(check, &join(at, "maxUnavailable"), unavailable);
            at_most_all(check, &join(at, "maxSurge"), surge);
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let message =
                format!("Unsupported value: {shown}: supported values: \"RollingUpdate\", \"OnDelete\"");
            check.push("FieldValueNotSupported", "spec.updateStrategy", message);
        }
    }
    check.not_negative("spec", spec, "revisionHistoryLimit");
}

/// What of a StatefulSet may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn stateful_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    let policy = string(spec, "podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        check.invalid("spec.podManagementPolicy", &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = field(spec, "updateStrategy");
    match string(strategy, "type") {
        "RollingUpdate" => {
            let partition = field(strategy, "rollingUpdate");
            check.not_negative("spec.updateStrategy.rollingUpdate", partition, "partition");
        }
        "OnDelete" => {
            if let Some(rolling) = given(strategy, "rollingUpdate") {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let [partition, most] = ["partition", "maxUnavailable"].map(|name| field(rolling, name));
                let shown = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{most}}}");
                check.invalid_shown("spec.updateStrategy.rollingUpdate", &shown, detail);
            }
        }
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            check.invalid_shown("spec.updateStrategy", &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    let retention = field(spec, "persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let word = string(retention, name);
        if !["Retain", "Delete"].contains(&word) {
            let at = format!("spec.persistentVolumeClaimRetentionPolicy.{name}");
            check.not_supported(at, &word.into(), &["Delete", "Retain"]);
        }
    }
    check.not_negative("spec", spec, "replicas");
    check.not_negative("spec", spec, "minReadySeconds");
    check.not_negative("spec.ordinals", field(spec, "ordinals"), "start");
    let service = string(spec, "serviceName");
    if old.is_none() && !service.is_empty() {
        check.form("spec.serviceName", service, validation::is_dns1123_label);
    }
    fits(check, spec, "StatefulSet", "empty selector is invalid for statefulset");
    // Claims become volumes of the same names; the names of Pods are the controller's.
    let mut pods = field(spec, "template").clone();
    if let Some(Value::Object(pod)) = pods.get_mut("spec") {
        pod.remove("hostname");
        pod.remove("subdomain");
        let claims: Vec<Value> = items(spec, "volumeClaimTemplates")
            .iter()
            .filter_map(|claim| given(field(claim, "metadata"), "name"))
            .map(|name| serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        if !claims.is_empty() {
            let mut volumes = claims;
            let own = pod.remove("volumes").unwrap_or_default();
            let mut taken: HashSet<String> =
                volumes.iter().map(|volume| field(volume, "name").to_string()).collect();
            for volume in own.as_array().into_iter().flatten() {
                if taken.insert(field(volume, "name").to_string()) {
                    volumes.push(volume.clone());
                }
            }
            pod.insert("volumes".into(), volumes.into());
        }
    }
    template(check, &pods, "spec.template");
    always(check, spec, "StatefulSet");
    if let Some(old) = old {
        let without = |spec: &Value| {
            let mut spec = spec.clone();
            if let Value::Object(fields) = &mut spec {
                fields.retain(|name, value| !CHANGEABLE.contains(&name.as_str()) && !value.is_null());
            }
            spec
        };
        if without(spec) != without(field(old, "spec")) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            check.forbidden("spec", detail);
        }
    }
}

pub(super) fn replication_controller(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    check.not_negative("spec", spec, "minReadySeconds");
    let chosen = field(spec, "selector").as_object();
    if chosen.is_none_or(serde_json::Map::is_empty) {
        check.required("spec.selector", "");
    }
    check.not_negative("spec", spec, "replicas");
    let Some(pods) = given(spec, "template") else {
        check.required("spec.template", "");
        return;
    };
    let labels = template_labels(spec);
    let fits = chosen
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    if !fits {
        let labels = labels.map_or_else(|| "null".to_owned(), |labels| shown(&labels.clone().into()));
        check.invalid_shown(
            "spec.template.metadata.labels",
            &labels,
            "`selector` does not match template `labels`",
        );
    }
    template(check, pods, "spec.template");
    always(check, spec, "ReplicationController");
}

pub(super) fn controller_revision(check: &mut Check, new: &Value, old: Option<&Value>) {
    if given(new, "data").is_none() {
        check.required("data", "data is mandatory");
    }
    check.not_negative("", new, "revision");
    if let Some(old) = old {
        check.immutable("data", given(new, "data"), given(old, "data"));
    }
}

/// What of a Job's spec never changes, besides its template and completions.
const FIXED: [&str; 5] =
    ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

pub(super) fn job(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    if old.is_none() {
        generated(check, new);
    }
    job_spec(check, spec, "spec");
    let chosen = field(spec, "selector");
    if chosen.is_null() {
        check.required("spec.selector", "");
    } else {
        selector(check, "spec.selector", chosen);
    }
    if !matches(chosen, template_labels(spec)) {
        let labels =
            template_labels(spec).map_or_else(|| "null".to_owned(), |labels| shown(&labels.clone().into()));
        check.invalid_shown(
            "spec.template.metadata.labels",
            &labels,
            "`selector` does not match template `labels`",
        );
    }
    let indexed = string(spec, "completionMode") == "Indexed";
    let completions = integer(spec, "completions");
    let Some(old) = old else {
        if indexed && let Some(last) = completions.filter(|completions| *completions > 0) {
            let name = string(field(new, "metadata"), "name");
            let host = format!("{name}-{}", last - 1);
            if !validation::is_dns1123_label(&host).is_empty() {
                let detail = format!("will not able to create pod with invalid DNS label: {host}");
                check.invalid("metadata.name", &name.into(), &detail);
            }
        }
        return;
    };
    let before = field(old, "spec");
    if !indexed {
        check.immutable("spec.completions", given(spec, "completions"), given(before, "completions"));
    } else if !same(given(spec, "completions"), given(before, "completions"))
        && completions.is_some()
        && completions != integer(spec, "parallelism")
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        check.invalid("spec.completions", field(spec, "completions"), detail);
    }
    check.immutable("spec.selector", given(spec, "selector"), given(before, "selector"));
    if !same_template(spec, before) && !suspended_change(old, spec, before) {
        // Upstream shows the template in the form that it has inside.
        check.immutable("spec.template", given(spec, "template"), given(before, "template"));
    }
    for name in FIXED {
        check.immutable(&join("spec", name), given(spec, name), given(before, name));
    }
}

/// A selector that is not the user's has to be the generated one.
fn generated(check: &mut Check, job: &Value) {
    let spec = field(job, "spec");
    if field(spec, "manualSelector") == &Value::Bool(true) || given(spec, "selector").is_none() {
        return;
    }
    let metadata = field(job, "metadata");
    let [name, uid] = ["name", "uid"].map(|field| string(metadata, field));
    let labels = template_labels(spec);
    for (key, wanted) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let at = "spec.template.metadata.labels";
        match labels.and_then(|labels| labels.get(key)).and_then(Value::as_str) {
            Some(found) if found == wanted => {}
            Some(_) => {
                let labels = labels.map_or(Value::Null, |labels| labels.clone().into());
                check.invalid(format!("{at}[{key}]"), &labels, &format!("must be '{wanted}'"));
            }
            None => check.required(format!("{at}[{key}]"), &format!("must be '{wanted}'")),
        }
    }
    let chosen = field(spec, "selector");
    let expected = serde_json::json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name,
    });
    if !matches(chosen, expected.as_object()) {
        check.invalid("spec.selector", chosen, "`selector` not auto-generated");
    }
}

/// Whether a change of a template is one that a Job allows that is suspended and has not started: where its Pods go, and
/// what they need.
fn suspended_change(old: &Value, new: &Value, before: &Value) -> bool {
    let suspended = field(before, "suspend") == &Value::Bool(true);
    let idle = integer(field(old, "status"), "active").unwrap_or_default() == 0;
    if !suspended || !idle {
        return false;
    }
    let without = |spec: &Value| {
        let mut template = field(spec, "template").clone();
        if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
            metadata.remove("labels");
            metadata.remove("annotations");
        }
        if let Some(Value::Object(pod)) = template.get_mut("spec") {
            for name in ["affinity", "nodeSelector", "tolerations", "schedulingGates"] {
                pod.remove(name);
            }
            for list in ["containers", "initContainers"] {
                for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::Object(container) = container {
                        container.remove("resources");
                    }
                }
            }
        }
        template
    };
    without(new) == without(before)
}

fn job_spec(check: &mut Check, spec: &Value, at: &str) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check.not_negative(at, spec, name);
    }
    let per_index = given(spec, "backoffLimitPerIndex");
    let most = given(spec, "maxFailedIndexes");
    if most.is_some() && per_index.is_none() {
        check.required(join(at, "backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    match string(spec, "completionMode") {
        "Indexed" => {
            let completions = integer(spec, "completions");
            if completions.is_none() {
                check.required(join(at, "completions"), "when completion mode is Indexed");
            }
            if let Some(parallelism) =
                integer(spec, "parallelism").filter(|parallelism| *parallelism > 100_000)
            {
                let detail = "must be less than or equal to 100000 when completion mode is Indexed";
                check.invalid(join(at, "parallelism"), &parallelism.into(), detail);
            }
            if let (Some(completions), Some(most)) = (completions, most.and_then(Value::as_i64))
                && most > completions
            {
                check.invalid(
                    join(at, "maxFailedIndexes"),
                    &most.into(),
                    "must be less than or equal to completions",
                );
            }
        }
        "" | "NonIndexed" => {
            for (name, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", most)] {
                if let Some(value) = value {
                    check.invalid(join(at, name), value, "requires indexed completion mode");
                }
            }
        }
        other => check.not_supported(join(at, "completionMode"), &other.into(), &["NonIndexed", "Indexed"]),
    }
    template(check, field(spec, "template"), &join(at, "template"));
    let path = join(at, "template.spec.restartPolicy");
    match string(field(field(spec, "template"), "spec"), "restartPolicy") {
        "" | "Always" => check.required(path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if given(spec, "podFailurePolicy").is_some() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                check.invalid(path, &"OnFailure".into(), detail);
            }
        }
        other => check.not_supported(path, &other.into(), &["OnFailure", "Never"]),
    }
}

pub(super) fn cron_job(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    let schedule = string(spec, "schedule");
    if schedule.is_empty() {
        check.required("spec.schedule", "");
    } else {
        if let Err(why) = schedule::schedule(schedule) {
            check.invalid("spec.schedule", &schedule.into(), &why);
        }
        let allowed = old.is_some_and(|old| string(field(old, "spec"), "schedule").contains("TZ"));
        if schedule.contains("TZ") {
            if !allowed {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                check.invalid("spec.schedule", &schedule.into(), detail);
            } else if given(spec, "timeZone").is_some() {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                check.invalid("spec.schedule", &schedule.into(), detail);
            }
        }
    }
    check.not_negative("spec", spec, "startingDeadlineSeconds");
    if let Some(zone) = given(spec, "timeZone").and_then(Value::as_str) {
        let unknown = format!("unknown time zone {zone}");
        if zone.is_empty() {
            check.invalid("spec.timeZone", &zone.into(), "timeZone must be nil or non-empty string");
        } else if !zone.split('/').all(schedule::part_of_zone) {
            check.invalid("spec.timeZone", &zone.into(), &unknown);
        } else {
            if zone.eq_ignore_ascii_case("local") {
                let detail =
                    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
                check.invalid("spec.timeZone", &zone.into(), detail);
            }
            if !schedule::is_zone(zone) {
                check.invalid("spec.timeZone", &zone.into(), &unknown);
            }
        }
    }
    check.word("spec.concurrencyPolicy", string(spec, "concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = field(field(spec, "jobTemplate"), "spec");
    job_spec(check, job, "spec.jobTemplate.spec");
    if field(job, "manualSelector") == &Value::Bool(true) {
        check.not_supported("spec.jobTemplate.spec.manualSelector", &true.into(), &["nil", "false"]);
    }
    check.not_negative("spec", spec, "successfulJobsHistoryLimit");
    check.not_negative("spec", spec, "failedJobsHistoryLimit");
    let name = string(field(new, "metadata"), "name");
    if old.is_none() && name.len() > 52 {
        check.invalid("metadata.name", &name.into(), "must be no more than 52 characters");
    }
}
