//! Scale paths: where a kind keeps the replicas and selector of its subresource `scale`.

use serde_json::Value;
use settled_go as go;

use crate::error::Cause;
use crate::metadata;

/// The kind of every scale, and its version.
pub(crate) const KIND: &str = "Scale";
pub(crate) const API_VERSION: &str = "autoscaling/v1";

/// Where a kind keeps what its scale shows: paths of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// Checks numbers of replicas, and the selector of Pods.
    fn validate(&self, numbers: &[&Vec<String>], object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let wrong = |path: &[String], value: &Value, wanted: &str| {
            let (shown, given) = (go::fmt::plain(value), go::fmt::type_name(value));
            let path = path.join(".");
            format!(".{path} accessor error: {shown} is of the type {given}, expected {wanted}")
        };
        for path in numbers {
            let Some(value) = value_at(object, path).filter(|value| !value.is_null()) else { continue };
            let field = format!(".{}", path.join("."));
            let number = value.as_i64();
            let why = match number {
                None => wrong(path, value, "int64"),
                Some(..0) => "should be a non-negative integer".to_owned(),
                Some(number) if number > i64::from(i32::MAX) => {
                    format!("should be less than or equal to {}", i32::MAX)
                }
                Some(_) => continue,
            };
            causes.push(metadata::invalid(&field, &number.unwrap_or_default().into(), &why));
        }
        if let Some(path) = &self.selector
            && let Some(value) = value_at(object, path).filter(|value| !value.is_null() && !value.is_string())
        {
            let field = format!(".{}", path.join("."));
            causes.push(metadata::invalid(&field, &"".into(), &wrong(path, value, "string")));
        }
        causes
    }

    /// What is wrong with the parts of a custom object that its scale shows.
    pub(crate) fn validate_spec(&self, object: &Value) -> Vec<Cause> {
        self.validate(&[&self.replicas, &self.status_replicas], object)
    }

    /// As [`ScalePaths::validate_spec`], for a write to the status.
    pub(crate) fn validate_status(&self, object: &Value) -> Vec<Cause> {
        self.validate(&[&self.status_replicas], object)
    }

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

/// The value at a path of field names.
pub(crate) fn value_at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}
