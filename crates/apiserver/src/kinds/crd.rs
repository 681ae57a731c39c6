//! CustomResourceDefinitions: validation, status conditions, and the definitions that they add to the catalog.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use settled_cel::Validator;
use settled_store::Resource;

use crate::error::{ApiError, Cause};
use crate::kinds::conversion::Conversion;
use crate::kinds::custom::{Custom, Lazy, OpenApi, causes};
use crate::kinds::definition::Definition;
use crate::kinds::model::Model;
use crate::kinds::names::{Names, Subresource, api_version, stored_as, version_rank};
use crate::kinds::scale_paths::ScalePaths;
use crate::kinds::table::Columns;
use crate::object::{member_mut, text};
use crate::pem;
use crate::selector::SelectableFields;

/// What keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// All verbs: custom resources have no other.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Where definitions are in the store.
pub(crate) fn resource() -> Result<Resource, ApiError> {
    stored_as(GROUP, PLURAL).map_err(ApiError::internal)
}

/// Is this the definition of definitions?
pub(crate) fn is_crd(definition: &Definition) -> bool {
    definition.group == GROUP && definition.plural == PLURAL
}

fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The `jsonPath`s of selectable fields.
fn paths(fields: Option<&Value>) -> Vec<String> {
    let fields = fields.and_then(Value::as_array).into_iter().flatten();
    fields.map(|field| text(field, "jsonPath").to_owned()).collect()
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// The definitions of all served versions of a custom resource, under the names that were accepted.
pub(crate) fn definitions(crd: &Value, revision: u64) -> Result<Vec<Definition>, ApiError> {
    let null = Value::Null;
    let spec = crd.get("spec").unwrap_or(&null);
    let names = crd.pointer("/status/acceptedNames").unwrap_or(&null);
    let group = text(spec, "group");
    let plural = text(names, "plural");
    let resource = stored_as(group, plural).map_err(ApiError::internal)?;
    let namespaced = text(spec, "scope") == "Namespaced";
    let preserve_unknown = spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true);
    let terminating = crate::object::is_terminating(crd);
    let served = |version: &&Value| version.get("served").and_then(Value::as_bool) == Some(true);
    // Versions that are alike share one text.
    let mut all: Vec<(String, OpenApi)> = Vec::new();
    for version in versions(crd) {
        let own = OpenApi::new(version.pointer("/schema/openAPIV3Schema"));
        let same = all.iter().find(|(_, other)| *other == own).map(|(_, other)| other.clone());
        all.push((api_version(group, text(version, "name")), same.unwrap_or(own)));
    }
    let all: Arc<[(String, OpenApi)]> = all.into();

    // A field that any version selects by is kept for all.
    let mut fields: Vec<Value> = Vec::new();
    for field in versions(crd).filter_map(|version| version.get("selectableFields")?.as_array()).flatten() {
        if !fields.contains(field) {
            fields.push(field.clone());
        }
    }
    let mut found = Vec::new();
    for (version, (_, open_api)) in versions(crd).zip(all.iter()).filter(|(version, _)| served(version)) {
        let name = text(version, "name");
        let own = |list: &str| text(names, list).to_owned();
        let mut subresources = Vec::new();
        let sub = version.get("subresources").unwrap_or(&null);
        if sub.get("status").is_some_and(|status| !status.is_null()) {
            subresources.push(Subresource {
                name: "status".to_owned(),
                kind: own("kind"),
                group_version: None,
                verbs: PART_VERBS.to_vec(),
            });
        }
        let scale = sub.get("scale").and_then(ScalePaths::custom);
        if scale.is_some() {
            subresources.push(Subresource {
                name: "scale".to_owned(),
                kind: "Scale".to_owned(),
                group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
                verbs: PART_VERBS.to_vec(),
            });
        }
        let deprecated = version.get("deprecated").and_then(Value::as_bool) == Some(true);
        let deprecation = deprecated.then(|| match text(version, "deprecationWarning") {
            "" => deprecation_warning(crd, group, name, text(names, "kind")),
            text => text.to_owned(),
        });
        let columns = version.get("additionalPrinterColumns").unwrap_or(&null);
        let storage_version = versions(crd)
            .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
            .map_or_else(String::new, |version| text(version, "name").to_owned());
        let first_stored = crd.pointer("/status/storedVersions/0").and_then(Value::as_str);
        let first_stored = first_stored.unwrap_or(&storage_version).to_owned();
        let conversion = match crd.pointer("/spec/conversion/strategy").and_then(Value::as_str) {
            Some("Webhook") => Conversion::Webhook,
            _ => Conversion::None,
        };
        let custom = Custom {
            kind: own("kind"),
            open_api: open_api.clone(),
            preserve_unknown,
            selectable_paths: paths(version.get("selectableFields")),
            versions: all.clone(),
            changed: revision,
            several: all.windows(2).any(|pair| pair[0].1 != pair[1].1)
                || storage_version != first_stored
                || conversion == Conversion::Webhook && all.len() > 1,
            conversion,
            storage_version,
            first_stored,
            generation: crd.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            names: names.clone(),
            terminating,
            lazy: Lazy::default(),
        };
        found.push(Definition::new(
            Names {
                group: group.to_owned(),
                version: name.to_owned(),
                kind: own("kind"),
                list_kind: own("listKind"),
                plural: plural.to_owned(),
                singular: own("singular"),
                short_names: texts(names.get("shortNames")),
                categories: texts(names.get("categories")),
            },
            resource.clone(),
            namespaced,
            VERBS.to_vec(),
            subresources,
            deprecation,
            SelectableFields::custom(&json!(fields), namespaced),
            Columns::custom(columns),
            scale,
            Model::Custom(Box::new(custom)),
        ));
    }
    Ok(found)
}

/// What the use of a version is answered with, and which one to use instead.
fn deprecation_warning(crd: &Value, group: &str, name: &str, kind: &str) -> String {
    let is = |version: &Value, what: &str| version.get(what).and_then(Value::as_bool) == Some(true);
    let better = versions(crd)
        .filter(|version| is(version, "served") && !is(version, "deprecated"))
        .map(|version| text(version, "name"))
        .filter(|other| version_rank(other) < version_rank(name))
        .min_by_key(|other| version_rank(other));
    let instead = better.map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    format!("{group}/{name} {kind} is deprecated{instead}")
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
    now: jiff::Timestamp,
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
pub(crate) fn remember_stored_version(crd: &mut Value) {
    let stored = |version: &&Value| version.get("storage").and_then(Value::as_bool) == Some(true);
    let Some(name) = versions(crd).find(stored).map(|version| text(version, "name").to_owned()) else {
        return;
    };
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

/// Groups of Kubernetes' own need its approval: says whether there is one.
pub(crate) fn report_approval(crd: &mut Value, now: jiff::Timestamp) {
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
pub(crate) fn accept_names(crd: &mut Value, others: &[Value], now: jiff::Timestamp) {
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
pub(crate) fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = causes(&settled_schema::validate_definition(new, old));
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
        let schemas = |crd| -> Vec<Value> {
            versions(crd)
                .map(|version| version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default())
                .collect()
        };
        let (after, before) = (schemas(new), old.map(schemas).unwrap_or_default());
        // What all versions have alike is one schema, and errors name it so.
        let alike = after.windows(2).all(|pair| pair[0] == pair[1]);
        for (at, schema) in after.iter().enumerate().take(if alike { 1 } else { after.len() }) {
            // Compiling takes its time; what is stored has been compiled.
            if before.contains(schema) {
                continue;
            }
            let path = match alike {
                true => "spec.validation.openAPIV3Schema".to_owned(),
                false => format!("spec.versions[{at}].schema.openAPIV3Schema"),
            };
            let found = self::causes(&Validator::compile(schema, &path).1);
            // What is wrong with the form of a rule, both say.
            causes.retain(|cause| !found.iter().any(|other| other.field == cause.field));
            causes.extend(found);
        }
    }
    causes
}
