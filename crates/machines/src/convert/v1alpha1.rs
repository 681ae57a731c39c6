//! Manifests of `cluster.k8s.io/v1alpha1` (Cluster API v0.1 and its descendants), in both directions, without loss.
//!
//! What has no field here is kept in an annotation, and reported.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use settled_schema::Schema;

use super::rest::Rest;
use crate::crds::definitions;
use crate::inventory::{Kind, text};
use crate::types::{CLUSTER_LABEL, GROUP, VERSION};

/// The version that is imported.
const FOREIGN: &str = "cluster.k8s.io/v1alpha1";
/// Label of its objects: the name of their Cluster.
const FOREIGN_CLUSTER_LABEL: &str = "cluster.k8s.io/cluster-name";
/// Annotation of imported objects: what has no field here, as JSON.
pub const ORIGINAL_ANNOTATION: &str = "cluster.settled.dev/imported";
/// Type of configurations that have none.
const UNTYPED: (&str, &str) = ("imported.cluster.settled.dev/v1alpha1", "ProviderSpec");
/// Kinds that are imported.
const KINDS: [Kind; 5] =
    [Kind::Cluster, Kind::Machine, Kind::MachineSet, Kind::MachineDeployment, Kind::MachineClass];
/// What of the metadata is imported.
const METADATA: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

/// Something that is not carried out here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// `Kind/name`.
    pub object: String,
    /// The field, with dots.
    pub field: String,
    /// What becomes of it.
    pub message: String,
}

/// An imported object.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The object.
    pub object: Value,
    /// What of the original is kept and not carried out.
    pub notes: Vec<Note>,
}

/// Whether an object is of the imported version.
#[must_use]
pub fn is_v1alpha1(object: &Value) -> bool {
    text(object, "/apiVersion") == FOREIGN && kind(object).is_some()
}

fn kind(object: &Value) -> Option<Kind> {
    let name = text(object, "/kind");
    KINDS.into_iter().find(|kind| kind.as_str() == name)
}

static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    let schema = |definition: &Value| {
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
        Some((text(definition, "/spec/names/kind").to_owned(), Schema::parse(schema).ok()?))
    };
    definitions(&[]).iter().filter_map(|definition| schema(&json!(definition))).collect()
});

/// Imports an object; `None` if it is not of `cluster.k8s.io/v1alpha1`.
#[must_use]
pub fn import_v1alpha1(original: &Value) -> Option<Imported> {
    let kind = kind(original).filter(|_| is_v1alpha1(original))?;
    let mut object = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind.as_str()});
    let metadata = original.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter(|(name, value)| METADATA.contains(&name.as_str()) && !value.is_null());
    object["metadata"] =
        metadata.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into();
    match kind {
        Kind::MachineClass => object["spec"] = json!({"providerSpec": original.get("providerSpec")}),
        _ => object["spec"] = original.get("spec").cloned().unwrap_or_else(|| json!({})),
    }
    match kind {
        Kind::Cluster => cluster(&mut object["spec"]),
        Kind::MachineClass => typed(object.pointer_mut("/spec/providerSpec")),
        Kind::Machine => {
            let name = take_cluster(&mut object, "/metadata/labels");
            machine(&mut object["spec"], name);
        }
        _ => {
            let own = take_cluster(&mut object, "/metadata/labels");
            let name = take_cluster(&mut object, "/spec/template/metadata/labels").or(own);
            // Its own label is in the selector, too, in most of the published manifests.
            if let Some(labels) =
                object.pointer_mut("/spec/selector/matchLabels").and_then(Value::as_object_mut)
                && let Some(value) = labels.remove(FOREIGN_CLUSTER_LABEL)
            {
                labels.insert(CLUSTER_LABEL.to_owned(), value.clone());
                object["spec"]["template"]["metadata"]["labels"][CLUSTER_LABEL] = value;
            }
            if let Some(spec) = object.pointer_mut("/spec/template/spec") {
                machine(spec, name);
            }
        }
    }
    if let Some(schema) = SCHEMAS.get(kind.as_str()) {
        without_nulls(&mut object);
        schema.prune(&mut object, true);
    }
    let rest = Rest::between(&foreign(&object), original);
    let notes = notes(kind, original, &rest);
    if !rest.is_empty() {
        object["metadata"]["annotations"][ORIGINAL_ANNOTATION] = rest.text().into();
    }
    Some(Imported { object, notes })
}

/// Takes the label that names the Cluster.
fn take_cluster(object: &mut Value, labels: &str) -> Option<String> {
    let map = object.pointer_mut(labels)?.as_object_mut()?;
    let name = map.remove(FOREIGN_CLUSTER_LABEL)?;
    name.as_str().map(str::to_owned)
}

fn cluster(spec: &mut Value) {
    let Some(members) = spec.as_object_mut() else { return };
    // Here, it is the object itself.
    let config = members.remove("providerSpec").or_else(|| members.remove("providerConfig"));
    if let Some(value) =
        config.as_ref().and_then(|config| config.get("value")).filter(|value| value.is_object())
    {
        let mut value = value.clone();
        typed(Some(&mut value));
        members.insert("providerSpec".to_owned(), value);
    }
}

fn machine(spec: &mut Value, cluster: Option<String>) {
    let Some(members) = spec.as_object_mut() else { return };
    if let Some(cluster) = cluster {
        members.insert("clusterName".to_owned(), cluster.into());
    }
    if !members.contains_key("providerSpec")
        && let Some(config) = members.remove("providerConfig").filter(Value::is_object)
    {
        members.insert("providerSpec".to_owned(), config);
    }
    typed(spec.pointer_mut("/providerSpec/value"));
}

/// Gives a configuration a type, if it has none.
fn typed(config: Option<&mut Value>) {
    let Some(members) = config.and_then(Value::as_object_mut) else { return };
    if !members.contains_key("apiVersion") && !members.contains_key("kind") {
        members.insert("apiVersion".to_owned(), UNTYPED.0.into());
        members.insert("kind".to_owned(), UNTYPED.1.into());
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// The object as it was imported; `None` if the kind does not exist there.
#[must_use]
pub fn export_v1alpha1(object: &Value) -> Option<Value> {
    KINDS.into_iter().find(|kind| Kind::of(object) == Some(*kind))?;
    let mut object = object.clone();
    let rest = take_rest(&mut object);
    let mut foreign = foreign(&object);
    rest.restore(&mut foreign);
    Some(foreign)
}

fn take_rest(object: &mut Value) -> Rest {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Rest::default();
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return Rest::default();
    };
    let text = annotations.remove(ORIGINAL_ANNOTATION);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    text.as_ref().and_then(Value::as_str).map(Rest::parse).unwrap_or_default()
}

/// The object in the other version, without what only an import knows.
fn foreign(object: &Value) -> Value {
    let mut foreign = json!({"apiVersion": FOREIGN, "kind": object["kind"]});
    let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter(|(name, _)| METADATA.contains(&name.as_str()));
    foreign["metadata"] =
        metadata.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into();
    let mut spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    match text(object, "/kind") {
        "MachineClass" => {
            untyped(spec.pointer_mut("/providerSpec"));
            foreign["providerSpec"] = spec["providerSpec"].take();
            return foreign;
        }
        "Cluster" => {
            untyped(spec.pointer_mut("/providerSpec"));
            if let Some(value) = spec.as_object_mut().and_then(|spec| spec.remove("providerSpec")) {
                spec["providerSpec"] = json!({"value": value});
            }
        }
        "Machine" => foreign_machine(&mut spec, &mut foreign["metadata"]),
        _ => {
            let mut metadata = spec.pointer_mut("/template/metadata").map(Value::take).unwrap_or_default();
            if let Some(template) = spec.pointer_mut("/template/spec") {
                foreign_machine(template, &mut metadata);
            }
            for labels in [spec.pointer_mut("/selector/matchLabels"), metadata.get_mut("labels")] {
                if let Some(labels) = labels.and_then(Value::as_object_mut)
                    && let Some(value) = labels.remove(CLUSTER_LABEL)
                {
                    labels.insert(FOREIGN_CLUSTER_LABEL.to_owned(), value);
                }
            }
            if !metadata.is_null() {
                spec["template"]["metadata"] = metadata;
            }
        }
    }
    foreign["spec"] = spec;
    foreign
}

fn foreign_machine(spec: &mut Value, metadata: &mut Value) {
    untyped(spec.pointer_mut("/providerSpec/value"));
    if let Some(name) = spec.as_object_mut().and_then(|spec| spec.remove("clusterName")) {
        if !metadata.is_object() {
            *metadata = json!({});
        }
        metadata["labels"][FOREIGN_CLUSTER_LABEL] = name;
    }
}

fn untyped(config: Option<&mut Value>) {
    let Some(members) = config.and_then(Value::as_object_mut) else { return };
    let is = |name: &str, value: &str| members.get(name).and_then(Value::as_str) == Some(value);
    if is("apiVersion", UNTYPED.0) && is("kind", UNTYPED.1) {
        members.remove("apiVersion");
        members.remove("kind");
    }
}

/// What is reported of the rest: not what is empty, nor what a server sets.
fn notes(kind: Kind, original: &Value, rest: &Rest) -> Vec<Note> {
    let object = format!("{kind}/{}", text(original, "/metadata/name"));
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let note = |(path, value): &(String, Value)| {
        let field = path.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
        let message = match path.as_str() {
            _ if is_empty(value) => return None,
            "/metadata/finalizers"
            | "/metadata/ownerReferences"
            | "/metadata/managedFields"
            | "/metadata/resourceVersion"
            | "/metadata/uid"
            | "/metadata/generation"
            | "/metadata/creationTimestamp"
            | "/metadata/selfLink" => "of the other server: kept in an annotation",
            path if path.starts_with("/status") => "kept in an annotation: the status is observed anew",
            path if path.ends_with("/configSource") => {
                "kept in an annotation: Kubernetes has removed dynamic kubelet configuration"
            }
            _ => "kept in an annotation, and not carried out: there is no such field",
        };
        Some(Note { object: object.clone(), field, message: message.to_owned() })
    };
    rest.set.iter().filter_map(note).collect()
}
