//! Jobs.

use serde_json::{Map, Value, json};
use settled_apimachinery::unstructured::{field, given, integer, string};
use settled_apimachinery::validation;

use crate::human;
use crate::kinds::behavior::{Behavior, Dependents};
use crate::kinds::check::{Check, join, matches, same, validate_label_selector};
use crate::kinds::core::pod::spec::{same_template, template_labels, validate_pod_template_spec};
use crate::kinds::fields::object_of;
use crate::kinds::printers::{Read as _, Row, cells, format_label_selector, layout_container_cells};
use crate::kinds::strategy::{Requester, Strategy};
use crate::metadata::shown;
use crate::object::text;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, dependents: Dependents::Orphan, ..Behavior::BUILTIN },
    field_selectors: FieldSelectors::of_jobs(&[("status.successful", Source::Number("/status/succeeded"))]),
    prepare_for_create,
    validate: validate_new_job,
    validate_update: Some(validate_job_update),
    orphan_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
         or set propagationPolicy=Orphan to suppress this warning",
    ),
    print: Some(print_job),
    ..Strategy::DEFAULT
};

/// A Job gets its selector, and its Pods the labels that it selects by, unless `manualSelector` is set.
fn prepare_for_create(job: &mut Value, _requester: &Requester<'_>) {
    if job.is_object() {
        generate_selector(job);
        set_labels(job);
    }
}

fn generate_selector(object: &mut Value) {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let [name, uid] = ["name", "uid"].map(|field| text(metadata, field).to_owned());
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let added = |labels: &mut Map<String, Value>, key: &str, value: &str| {
        labels.entry(key).or_insert_with(|| json!(value));
    };
    if let Some(labels) = spec
        .get_mut("template")
        .and_then(Value::as_object_mut)
        .and_then(|template| object_of(template, "metadata"))
        .and_then(|metadata| object_of(metadata, "labels"))
    {
        for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
            added(labels, key, &uid);
        }
        for key in ["batch.kubernetes.io/job-name", "job-name"] {
            added(labels, key, &name);
        }
    }
    if let Some(labels) = object_of(spec, "selector").and_then(|selector| object_of(selector, "matchLabels"))
    {
        added(labels, "batch.kubernetes.io/controller-uid", &uid);
    }
}

/// A Job without labels has its template's: upstream's defaults, which see what [`generate_selector`] has added as soon as it is read.
fn set_labels(object: &mut Value) {
    let Some(Value::Object(labels)) = object.pointer("/spec/template/metadata/labels").cloned() else {
        return;
    };
    let metadata = object.as_object_mut().and_then(|fields| object_of(fields, "metadata"));
    if let Some(metadata) = metadata
        && !labels.is_empty()
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
}

/// What of a Job's spec never changes, besides its template and completions.
const FIXED: [&str; 5] =
    ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

fn validate_new_job(check: &mut Check, new: &Value) {
    validate_generated_selector(check, new);
    validate_job(check, new);
    let spec = field(new, "spec");
    let completions = integer(spec, "completions");
    if string(spec, "completionMode") == "Indexed"
        && let Some(last) = completions.filter(|completions| *completions > 0)
    {
        let name = string(field(new, "metadata"), "name");
        let host = format!("{name}-{}", last - 1);
        if !validation::is_dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            check.invalid("metadata.name", &name.into(), &detail);
        }
    }
}

fn validate_job(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    validate_job_spec(check, spec, "spec");
    let chosen = field(spec, "selector");
    if chosen.is_null() {
        check.required("spec.selector", "");
    } else {
        validate_label_selector(check, "spec.selector", chosen);
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
}

fn validate_job_update(check: &mut Check, new: &Value, old: &Value) {
    validate_job(check, new);
    let (spec, before) = (field(new, "spec"), field(old, "spec"));
    let completions = integer(spec, "completions");
    if string(spec, "completionMode") != "Indexed" {
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
fn validate_generated_selector(check: &mut Check, job: &Value) {
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
    let expected = json!({
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

pub(crate) fn validate_job_spec(check: &mut Check, spec: &Value, at: &str) {
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
    validate_pod_template_spec(check, field(spec, "template"), &join(at, "template"));
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

fn print_job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.int("/status/succeeded");
    let completions = match (row.at("/spec/completions"), row.int("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |pointer: &str| human::parse(row.text(pointer));
    let duration = match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human::duration(end.unwrap_or(row.now).as_nanosecond() - start.as_nanosecond()),
    };
    // The first condition of a type counts.
    let holds = |kind: &str| {
        let mut conditions = row.list("/status/conditions").iter();
        let condition = conditions.find(|condition| condition.text("/type") == kind);
        condition.is_some_and(|condition| condition.text("/status") == "True")
    };
    let statuses = [
        (holds("Complete"), "Complete"),
        (holds("Failed"), "Failed"),
        (row.deleted(), "Terminating"),
        (holds("Suspended"), "Suspended"),
        (holds("FailureTarget"), "FailureTarget"),
        (holds("SuccessCriteriaMet"), "SuccessCriteriaMet"),
    ];
    let status = statuses.into_iter().find(|(holds, _)| *holds).map_or("Running", |(_, status)| status);
    let [names, images] = layout_container_cells(row.list("/spec/template/spec/containers"));
    cells![
        row.name(),
        status,
        completions,
        duration,
        row.age(),
        names,
        images,
        format_label_selector(row.at("/spec/selector"))
    ]
}
