//! The subresource `scale`: how many there are to be, whatever the kind.

use serde_json::{Map, Value, json};

use crate::core::Call;
use crate::definition::Definition;
use crate::error::{ApiError, Cause};
use crate::object::{self, member_mut, metadata, text};
use crate::selector::LabelSelector;

/// Where a kind keeps what its scale shows: paths of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// Those of built-in kinds.
    pub(crate) fn builtin() -> Self {
        let path = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        Self {
            replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        }
    }

    /// From `subresources.scale` of a definition.
    pub(crate) fn custom(scale: &Value) -> Option<Self> {
        let path = |name: &str| {
            let path = scale.get(name)?.as_str()?.strip_prefix('.')?;
            Some(path.split('.').map(str::to_owned).collect::<Vec<_>>())
        };
        Some(Self {
            replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath"),
        })
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

impl Definition {
    /// The scale of an object.
    pub(crate) fn scale(&self, object: &Value) -> Result<Value, ApiError> {
        let paths = self.scale.as_ref().ok_or_else(|| ApiError::internal("the kind has no scale"))?;
        let builtin = !self.model.is_custom();
        let replicas = match at(object, &paths.replicas).filter(|value| !value.is_null()) {
            Some(value) => value.clone(),
            None if builtin => 0.into(),
            None => {
                let message =
                    format!("the spec replicas field \".{}\" does not exist", paths.replicas.join("."));
                return Err(ApiError::internal(message));
            }
        };
        let mut scale_metadata = Map::new();
        for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = metadata(object).and_then(|metadata| metadata.get(name)) {
                scale_metadata.insert(name.to_owned(), value.clone());
            }
        }
        let mut status =
            json!({"replicas": at(object, &paths.status_replicas).cloned().unwrap_or_else(|| 0.into())});
        let selector = paths.selector.as_ref().and_then(|path| at(object, path));
        let selector = match selector {
            Some(Value::String(text)) => text.clone(),
            // Those of ReplicationControllers are plain labels.
            Some(Value::Object(labels)) if builtin && labels.values().all(Value::is_string) => {
                let pairs = labels
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
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
        if replicas != 0 || self.model.is_custom() {
            spec.insert("replicas".to_owned(), replicas);
        }
        Ok(json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": scale_metadata, "spec": spec, "status": status,
        }))
    }

    /// The object with what a scale asks for.
    pub(crate) fn with_scale(&self, object: &Value, scale: &Value) -> Result<Value, ApiError> {
        let paths = self.scale.as_ref().ok_or_else(|| ApiError::internal("the kind has no scale"))?;
        let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            let message = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            let cause = Cause::new("FieldValueInvalid", message, "spec.replicas");
            return Err(ApiError::invalid("autoscaling", "Scale", object::meta(scale, "name"), vec![cause]));
        }
        let mut new = object.clone();
        let (last, parents) =
            paths.replicas.split_last().ok_or_else(|| ApiError::internal("the path is empty"))?;
        let mut place = &mut new;
        for name in parents {
            member_mut(place, name);
            place = &mut place[name.as_str()];
        }
        if let Some(map) = place.as_object_mut() {
            map.insert(last.clone(), replicas);
        }
        let revision = object::meta(scale, "resourceVersion").to_owned();
        let target = object::metadata_mut(&mut new);
        if revision.is_empty() {
            target.remove("resourceVersion");
        } else {
            target.insert("resourceVersion".to_owned(), revision.into());
        }
        Ok(new)
    }

    /// What is applied to an object when a scale is applied to it.
    pub(crate) fn configuration_of_scale(&self, _call: &Call<'_>, scale: &Value) -> Result<Value, ApiError> {
        if text(scale, "kind") != "Scale" || text(scale, "apiVersion") != "autoscaling/v1" {
            return Err(ApiError::bad_request("the configuration must be a Scale of autoscaling/v1"));
        }
        let mut config = json!({"apiVersion": self.api_version(), "kind": self.kind, "metadata": {}});
        for name in ["name", "namespace"] {
            if let Some(value) = metadata(scale).and_then(|metadata| metadata.get(name)) {
                config["metadata"][name] = value.clone();
            }
        }
        self.with_scale(&config, scale)
    }
}
