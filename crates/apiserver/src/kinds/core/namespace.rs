//! Namespaces.

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apimachinery::unstructured::{field, items};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::fields::Fields;
use crate::kinds::names::Part;
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::strategy::{DeleteStep, Requester, Strategy, UpdateContext};
use crate::metadata::NameRule;
use crate::object::{self, finalizers, is_terminating, member_mut, metadata_mut, set_deletion};
use crate::selector::{FieldSelectors, Source};

/// Namespaces that cannot be deleted (NamespaceLifecycle upstream).
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, whole_metadata: true, ..Behavior::BUILTIN },
    name_rule: NameRule::Label,
    field_selectors: FieldSelectors::of(&[("status.phase", Source::Text(&["/status/phase"]))]).of_cluster(),
    prepare_for_create,
    prepare_for_update,
    canonicalize,
    validate: validate_namespace,
    begin_delete: |namespace, now| Some(begin_delete(namespace, now)),
    may_be_removed,
    protected_names: &PROTECTED,
    print: Some(print_namespace),
    ..Strategy::DEFAULT
};

/// Sets the label that names the namespace, whatever the client sent.
pub(crate) fn set_name_label(namespace: &mut Fields) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else { return };
    let Some(name) =
        metadata.get("name").filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned()
    else {
        return;
    };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

fn prepare_for_create(namespace: &mut Value, _requester: &Requester<'_>) {
    if let Some(map) = namespace.as_object_mut() {
        map.insert("status".to_owned(), json!({"phase": "Active"}));
    }
    let finalizers = member_mut(namespace, "spec").entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == "kubernetes")
    {
        list.push("kubernetes".into());
    }
}

fn prepare_for_update(new: &mut Value, old: &Value, context: &UpdateContext<'_>) {
    match context.part {
        Part::Finalize => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            let metadata = new.get("metadata").cloned();
            *new = old.clone();
            set_finalizers(new, finalizers);
            if let (Some(map), Some(metadata)) = (new.as_object_mut(), metadata) {
                map.insert("metadata".to_owned(), metadata);
            }
        }
        Part::Main => set_finalizers(new, old.pointer("/spec/finalizers").cloned()),
        _ => {}
    }
}

/// Sets the finalizers of the spec, which are written by the subresource `finalize` only.
fn set_finalizers(namespace: &mut Value, finalizers: Option<Value>) {
    let spec = member_mut(namespace, "spec");
    match finalizers {
        Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
        None => spec.remove("finalizers"),
    };
}

fn canonicalize(namespace: &mut Value) {
    let name = Value::from(object::meta(namespace, "name"));
    let labels = metadata_mut(namespace).entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = name;
}

fn validate_namespace(check: &mut Check, namespace: &Value) {
    for finalizer in items(field(namespace, "spec"), "finalizers") {
        check.form("spec.finalizers", finalizer.as_str().unwrap_or_default(), validation::is_qualified_name);
        check.standard_finalizer("spec.finalizers", finalizer);
    }
}

/// Are the finalizers of the spec gone?
fn may_be_removed(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// A namespace is emptied first; its controller takes the finalizer off its spec then.
fn begin_delete(old: &Value, now: Timestamp) -> DeleteStep {
    if !is_terminating(old) {
        let mut new = old.clone();
        set_deletion(&mut new, now, 0);
        metadata_mut(&mut new).remove("deletionGracePeriodSeconds");
        new["status"]["phase"] = json!("Terminating");
        return DeleteStep::Mark(Box::new(new));
    }
    if may_be_removed(old) && finalizers(old).is_empty() { DeleteStep::Remove } else { DeleteStep::Nothing }
}

fn print_namespace(row: Row<'_>) -> Vec<Value> {
    cells![row.name(), row.text("/status/phase"), row.age()]
}
