//! CustomResourceDefinitions: defaulting, validation and status conditions. What they add to the catalog is in `kinds::crd`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apimachinery::field::Error as FieldError;
use settled_cel::Validator;
use settled_schema::v1::CustomResourceDefinition;
use settled_schema::{InternalCrd, Schema};

use crate::error::Cause;
use crate::kinds::behavior::{Behavior, StatusUpdatePreserves};
use crate::kinds::fields::{Fields, field_at, set_absent};
use crate::kinds::names::Part;
use crate::kinds::strategy::{DeleteStep, Strategy};
use crate::object::{is_terminating, member_mut, metadata_mut, text};
use crate::pem;

const NOT_ENFORCED: &str =
    "this server does not call conversion webhooks: objects are accessible at their stored version only";

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior {
        generation: true,
        unconditional_update: false,
        status_update_preserves: StatusUpdatePreserves::All,
        ..Behavior::BUILTIN
    },
    set_defaults: settled_schema::default_definition,
    prepare_for_create: |crd, _requester| remember_stored_version(crd),
    prepare_for_update: |new, _old, context| {
        if context.part == Part::Main {
            remember_stored_version(new);
        }
    },
    validate: |check, crd| check.causes.extend(validate_definition(crd, None)),
    validates_metadata: true,
    validate_update: Some(|check, new, old| check.causes.extend(validate_definition(new, Some(old)))),
    not_enforced: Some(|crd| {
        let strategy = crd.pointer("/spec/conversion/strategy").and_then(Value::as_str);
        (strategy == Some("Webhook")).then_some(NOT_ENFORCED)
    }),
    begin_delete,
    ..Strategy::DEFAULT
};

/// What keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The names that a definition may leave out, its conversion, and its first stored version.
pub(crate) fn set_names_and_conversion(definition: &mut Fields) {
    let stored = definition
        .get("spec")
        .and_then(|spec| spec.get("versions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name"))
        .cloned();
    let kind = field_at(definition, "spec.names.kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        set_absent(definition, "spec.names.singular", &kind.to_lowercase().into());
        set_absent(definition, "spec.names.listKind", &format!("{kind}List").into());
    }
    if field_at(definition, "spec.conversion").is_none() {
        set_absent(definition, "spec.conversion.strategy", &"None".into());
    }
    if let Some(stored) = stored {
        set_absent(definition, "status.storedVersions", &json!([stored]));
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

pub(crate) fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// A condition of a definition; nothing if it isn't there.
pub(crate) fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| text(condition, "type") == kind)
}

/// Is a condition true?
pub(crate) fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|condition| text(condition, "status") == "True")
}

/// Sets a condition. The time changes with the status only.
pub(crate) fn set_condition(
    crd: &mut Value,
    (kind, status, reason, message): (&str, &str, &str, &str),
    now: Timestamp,
) {
    let time = match condition(crd, kind) {
        Some(before) if text(before, "status") == status => {
            before.get("lastTransitionTime").cloned().unwrap_or_else(|| crate::object::time(now))
        }
        _ => crate::object::time(now),
    };
    let new = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    });
    let conditions = member_mut(crd, "status").entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| text(condition, "type") == kind) {
        Some(place) => *place = new,
        None => conditions.push(new),
    }
}

/// Adds the storage version to `status.storedVersions`: what was ever stored is remembered.
fn remember_stored_version(crd: &mut Value) {
    let storage_version = CustomResourceDefinition::read(crd).spec.storage_version();
    let Some(name) = storage_version.map(str::to_owned) else { return };
    let list = member_mut(crd, "status").entry("storedVersions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|version| *version == name)
    {
        list.push(name.into());
    }
}

/// A definition stays until its objects are gone.
fn begin_delete(old: &Value, now: Timestamp) -> Option<DeleteStep> {
    if is_terminating(old) {
        return None;
    }
    let mut new = old.clone();
    let metadata = metadata_mut(&mut new);
    metadata.insert("deletionTimestamp".to_owned(), crate::object::time(now));
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == CLEANUP)
    {
        list.push(CLEANUP.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut new, ("Terminating", "True", "InstanceDeletionPending", message), now);
    Some(DeleteStep::Mark(Box::new(new)))
}

/// Groups of Kubernetes' own need its approval: says whether there is one.
pub(crate) fn report_approval(crd: &mut Value, now: Timestamp) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    if !["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}"))) {
        return;
    }
    let annotation = crd["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default().to_owned();
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let needed = format!("protected groups must have approval annotation {ANNOTATION:?}");
    let url = annotation.parse::<http::Uri>().is_ok_and(|url| url.scheme().is_some() && url.host().is_some());
    let (status, reason, message) = if annotation.is_empty() {
        ("False", "MissingAnnotation", format!("{needed}, {see}"))
    } else if annotation.starts_with("unapproved") {
        ("False", "UnapprovedAnnotation", format!("not approved: {annotation:?}"))
    } else if url {
        ("True", "ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let either = "with either a URL or a reason starting with \"unapproved\"";
        ("False", "InvalidAnnotation", format!("{needed} {either}, {see}"))
    };
    set_condition(crd, (KIND, status, reason, &message), now);
}

/// The names that a definition may have, given those that others in its group have, and what is to be said about it
/// (`naming_controller.go` upstream).
pub(crate) fn accept_names(crd: &mut Value, others: &[Value], now: Timestamp) {
    let null = Value::Null;
    let wanted = crd.pointer("/spec/names").cloned().unwrap_or_default();
    let accepted = crd.pointer("/status/acceptedNames").cloned().unwrap_or_default();
    let mut resources: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for other in others {
        let names = other.pointer("/status/acceptedNames").unwrap_or(&null);
        resources.extend([text(names, "plural").to_owned(), text(names, "singular").to_owned()]);
        resources.extend(texts(names.get("shortNames")));
        kinds.extend([text(names, "kind").to_owned(), text(names, "listKind").to_owned()]);
    }
    let taken = |name: &str, before: &str, used: &[String]| -> Option<String> {
        (name != before && used.iter().any(|used| used == name))
            .then(|| format!("{name:?} is already in use"))
    };
    let mut new = accepted.clone();
    let mut problem: Option<(&str, String)> = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let conflict = if field == "shortNames" {
            let before = texts(accepted.get(field));
            let wanted = texts(wanted.get(field));
            let conflicts: Vec<String> = wanted
                .iter()
                .filter(|name| !before.contains(name))
                .filter_map(|name| taken(name, "", used))
                .collect();
            match conflicts.len() {
                0 => None,
                1 => conflicts.into_iter().next(),
                _ => Some(format!("[{}]", conflicts.join(", "))),
            }
        } else {
            taken(text(&wanted, field), text(&accepted, field), used)
        };
        match conflict {
            Some(message) => problem = Some((reason, message)),
            None => copy(&mut new, &wanted, field),
        }
    }
    copy(&mut new, &wanted, "categories");
    crd["status"]["acceptedNames"] = new;
    match &problem {
        Some((reason, message)) => {
            set_condition(crd, ("NamesAccepted", "False", reason, message), now);
            if condition(crd, "Established").is_none() {
                let not = ("Established", "False", "NotAccepted", "not all names are accepted");
                set_condition(crd, not, now);
            }
        }
        None => {
            set_condition(crd, ("NamesAccepted", "True", "NoConflicts", "no conflicts found"), now);
            if !is_true(crd, "Established") && wrong_ca_bundle(crd).is_some() {
                let message = "The conversion webhook CABundle is invalid";
                set_condition(crd, ("Established", "False", "InvalidCABundle", message), now);
            } else if !is_true(crd, "Established") {
                let message = "the initial names have been accepted";
                set_condition(crd, ("Established", "True", "InitialNamesAccepted", message), now);
            }
        }
    }
}

/// Why the certificates for the conversion webhook cannot be used (`ValidateCABundle` upstream).
fn wrong_ca_bundle(crd: &Value) -> Option<String> {
    let bundle = crd.pointer("/spec/conversion/webhook/clientConfig/caBundle")?.as_str()?;
    let bundle = BASE64_STANDARD.decode(bundle).unwrap_or_default();
    let error = if bundle.is_empty() { None } else { pem::check_roots(&bundle).err() };
    error.map(|error| format!("unable to load root certificates: {error}"))
}

fn copy(to: &mut Value, from: &Value, name: &str) {
    if !to.is_object() {
        *to = json!({});
    }
    let Some(map) = to.as_object_mut() else { return };
    match from.get(name) {
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
}

/// What is wrong with a definition.
fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let crd = match InternalCrd::read(new) {
        Ok(crd) => crd,
        Err(errors) => return causes_of(&errors),
    };
    let old_crd = old.and_then(|old| InternalCrd::read(old).ok());
    let mut causes = causes_of(&crd.validate(old_crd.as_ref()));
    // The schema crate knows no certificates: what it took for some, is looked at here.
    if old.is_some_and(|old| is_true(old, "Established") && wrong_ca_bundle(old).is_none())
        && let Some(detail) = wrong_ca_bundle(new)
        && !causes.iter().any(|cause| cause.field.ends_with(".caBundle"))
    {
        let shown = &new["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"];
        let field = "spec.conversion.webhookClientConfig.caBundle";
        causes.push(crate::metadata::invalid(field, shown, &detail));
    }
    let of_rules = |cause: &Cause| cause.field.contains("x-kubernetes-validations");
    if causes.iter().all(of_rules) {
        for (path, schema) in crd.schemas() {
            // Compiling takes its time; what is stored has been compiled.
            if old_crd.as_ref().is_some_and(|old| old.schemas().any(|(_, old)| old == schema)) {
                continue;
            }
            let Ok(structural) = Schema::new_structural(schema) else { continue };
            let found = causes_of(&Validator::compile(&structural, &path).1);
            // What is wrong with the form of a rule, both say.
            causes.retain(|cause| !found.iter().any(|other| other.field == cause.field));
            causes.extend(found);
        }
    }
    causes
}

fn causes_of(errors: &[FieldError]) -> Vec<Cause> {
    errors.iter().map(Cause::from).collect()
}
