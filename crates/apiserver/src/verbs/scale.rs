//! Subresource `scale` of any kind.

use serde_json::{Map, Value, json};
use settled_apimachinery::labels::LabelSelector;

use settled_managed_fields::{
    Entry, FieldSet, Operation, Path, decode_managed_fields, encode_managed_fields,
};

use crate::error::ApiError;
use crate::kinds::builtin;
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::kinds::scale_paths::{API_VERSION, KIND, value_at};
use crate::metadata;
use crate::object::{self, member_mut};
use crate::options::WriteOptions;
use crate::state::call::{Call, Target};
use crate::verbs::change::{Change, apply_failed, check_place};

/// The scale of an object.
pub(crate) fn scale(definition: &Definition, object: &Value) -> Result<Value, ApiError> {
    scale_or_zero(definition, object, false)
}

/// The scale of an object. `zero`: that of a custom one that doesn't say how many has none.
fn scale_or_zero(definition: &Definition, object: &Value, zero: bool) -> Result<Value, ApiError> {
    let paths = definition.scale.as_ref().ok_or_else(|| ApiError::internal("the kind has no scale"))?;
    let builtin = !definition.model.is_custom();
    let replicas = match value_at(object, &paths.replicas).filter(|value| !value.is_null()) {
        Some(value) => value.clone(),
        None if builtin || zero => 0.into(),
        None => {
            let message = format!("the spec replicas field \".{}\" does not exist", paths.replicas.join("."));
            return Err(ApiError::internal(message));
        }
    };
    let mut scale_metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object::metadata(object).and_then(|metadata| metadata.get(name)) {
            scale_metadata.insert(name.to_owned(), value.clone());
        }
    }
    let mut status =
        json!({"replicas": value_at(object, &paths.status_replicas).cloned().unwrap_or_else(|| 0.into())});
    let selector = paths.selector.as_ref().and_then(|path| value_at(object, path));
    let selector = match selector {
        Some(Value::String(text)) => text.clone(),
        // Those of ReplicationControllers are plain labels.
        Some(Value::Object(labels)) if builtin && labels.values().all(Value::is_string) => {
            let pairs =
                labels.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",")
        }
        Some(selector) if builtin => {
            LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut spec = Map::new();
    if replicas != 0 {
        spec.insert("replicas".to_owned(), replicas);
    }
    Ok(json!({
        "kind": KIND, "apiVersion": API_VERSION,
        "metadata": scale_metadata, "spec": spec, "status": status,
    }))
}

/// What a write to the scale of an object makes of the object.
pub(crate) fn rescaled(
    definition: &Definition,
    call: &mut Call<'_>,
    target: &Target<'_>,
    change: &Change<'_>,
    old: &Value,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let custom = definition.model.is_custom();
    let before = decode_managed_fields(old).unwrap_or_default();
    let path = replicas_path(definition)?;
    let mut live = scale_or_zero(definition, old, true)?;
    encode_managed_fields(&mut live, to_scale(&before, &path, definition));
    let manager = definition.field_manager(Part::Scale);
    let mut scale = match change {
        Change::Apply(_) if custom => {
            // So does upstream, whose conversion of custom resources knows of no other kinds.
            let message = format!(
                "failed to convert new object (/{}; {API_VERSION}, Kind={KIND}) to proper version: request to \
                 convert CR to an invalid group/version: {API_VERSION}",
                target.name
            );
            return Err(ApiError::new(500, "", message));
        }
        Change::Apply(config) => {
            let applied =
                manager.apply(&live, &config.object, &options.field_manager, options.force, call.now);
            applied.map_err(apply_failed)?
        }
        Change::Replace(scale) => (*scale).clone(),
        Change::With(change) => change(&live)?,
        Change::Patch(patch) => {
            let mut patched = patch.apply(&live, Part::Scale)?;
            let mut scale = patched.object.take();
            let given = scale.clone();
            let decoded = builtin::decode_component(builtin::SCALE, &mut scale);
            if let Some(why) = decoded.error {
                return Err(patched.refused(&given, &why));
            }
            scale
        }
    };
    if let Change::Replace(_) = change {
        let decoded = builtin::decode_component(builtin::SCALE, &mut scale);
        if let Some(why) = decoded.error {
            let message = format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}");
            return Err(ApiError::bad_request(message));
        }
    }
    check_place(target, &mut scale)?;
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas < 0 {
        let (group, kind, field, why) = if custom {
            let field = format!(".{}", path.join("."));
            (
                definition.names.group.as_str(),
                definition.names.kind.as_str(),
                field,
                "should be a non-negative integer",
            )
        } else {
            ("autoscaling", KIND, "spec.replicas".to_owned(), "must be greater than or equal to 0")
        };
        let cause = metadata::invalid(&field, &replicas.into(), why);
        return Err(ApiError::invalid(group, kind, target.name, vec![cause]));
    }
    let uid = object::meta(&scale, "uid");
    if !uid.is_empty() && uid != object::meta(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::meta(old, "uid")
        );
        return Err(ApiError::conflict(definition.group_resource(), target.name, &why));
    }
    if !matches!(change, Change::Apply(_)) {
        scale = manager.update_or_forget(&live, &scale, &options.manager(call.user_agent), call.now);
    }
    let after = decode_managed_fields(&scale).unwrap_or_default();
    let mut new = with_replicas(old, &path, replicas);
    encode_managed_fields(&mut new, to_parent(before, after, &path, definition));
    let revision = object::meta(&scale, "resourceVersion");
    if !revision.is_empty() {
        object::metadata_mut(&mut new).insert("resourceVersion".to_owned(), revision.into());
    } else if !custom {
        object::metadata_mut(&mut new).remove("resourceVersion");
    }
    Ok(new)
}

fn replicas_path(definition: &Definition) -> Result<Vec<String>, ApiError> {
    let paths = definition.scale.as_ref().ok_or_else(|| ApiError::internal("the kind has no scale"))?;
    Ok(paths.replicas.clone())
}

fn with_replicas(object: &Value, path: &[String], replicas: i64) -> Value {
    let mut new = object.clone();
    let Some((last, parents)) = path.split_last() else { return new };
    let mut place = &mut new;
    for name in parents {
        member_mut(place, name);
        place = &mut place[name.as_str()];
    }
    if let Some(map) = place.as_object_mut() {
        map.insert(last.clone(), replicas.into());
    }
    new
}

/// Whether an entry is about a version that can be scaled, and owns the replicas.
fn owns_replicas(entry: &Entry, path: &[String], definition: &Definition) -> bool {
    of_definition(entry, definition) && entry.fields.contains(&Path::fields(path.iter().map(String::as_str)))
}

/// Entries of other versions are dropped by upstream.
fn of_definition(entry: &Entry, definition: &Definition) -> bool {
    let group = entry.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    group == definition.names.group
}

/// The entries that own the replicas, as those of the scale (`managedfields.ScaleHandler.ToSubresource` upstream).
fn to_scale(entries: &[Entry], path: &[String], definition: &Definition) -> Vec<Entry> {
    let owners = entries.iter().filter(|entry| owns_replicas(entry, path, definition));
    let fields: FieldSet = [Path::fields(["spec", "replicas"])].into_iter().collect();
    let owned = |entry: &Entry| Entry {
        api_version: API_VERSION.to_owned(),
        fields: fields.clone(),
        ..entry.clone()
    };
    owners.map(owned).collect()
}

/// The entries of the object after its scale was written (`managedfields.ScaleHandler.ToParent` upstream).
fn to_parent(
    before: Vec<Entry>,
    mut scale: Vec<Entry>,
    path: &[String],
    definition: &Definition,
) -> Vec<Entry> {
    // Who applies is the same in all versions.
    let same = |a: &Entry, b: &Entry| {
        (a.manager == b.manager && a.operation == b.operation && a.subresource == b.subresource)
            && (a.operation == Operation::Apply || a.api_version == b.api_version)
    };
    let replicas: FieldSet = [Path::fields(path.iter().map(String::as_str))].into_iter().collect();
    let in_scale: FieldSet = [Path::fields(["spec", "replicas"])].into_iter().collect();
    let mut out = Vec::new();
    for mut entry in before.into_iter().filter(|entry| of_definition(entry, definition)) {
        if !owns_replicas(&entry, path, definition) {
            out.push(entry);
        } else if let Some(at) = scale.iter().position(|other| same(other, &entry)) {
            scale.remove(at);
            out.push(entry);
        } else {
            entry.fields = entry.fields.difference(&replicas);
            if !entry.fields.is_empty() {
                out.push(entry);
            }
        }
    }
    for entry in scale {
        if entry.fields.intersection(&in_scale).is_empty() {
            continue;
        }
        // Upstream looks the time up under a name that isn't there.
        let api_version = definition.api_version().to_owned();
        out.push(Entry { api_version, time: None, fields: replicas.clone(), ..entry });
    }
    out
}
