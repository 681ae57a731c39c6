//! PartialObjectMetadata: objects reduced to their metadata.

use serde_json::{Map, Value, json};

/// A version of `meta.k8s.io`, the group of tables and partial objects. Both look the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    /// `v1`, what is asked for today.
    #[default]
    V1,
    /// `v1beta1`, which upstream still answers.
    V1beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

/// The `PartialObjectMetadataList` of objects. The list's metadata are passed on as they are.
pub(crate) fn partial_list<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    list_metadata: Value,
    version: MetaVersion,
) -> Value {
    let items: Vec<Value> = objects.into_iter().map(|object| partial(object, version)).collect();
    // An empty list has null here, as upstream, unlike any other list.
    let items = if items.is_empty() { Value::Null } else { items.into() };
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": list_metadata,
        "items": items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_are_left() {
        let object = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {},
        });
        let metadata = json!({"name": "web", "labels": {"a": "b"}});
        let expected =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        assert_eq!(partial(&object, MetaVersion::V1), expected);
        let list = partial_list([&object], json!({"resourceVersion": "7"}), MetaVersion::V1beta1);
        assert_eq!(list["apiVersion"], "meta.k8s.io/v1beta1");
        assert_eq!(list["kind"], "PartialObjectMetadataList");
        assert_eq!(list["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(list["items"][0]["apiVersion"], "meta.k8s.io/v1beta1");
        assert_eq!(list["items"][0]["metadata"], expected["metadata"]);
        assert_eq!(partial_list([], json!({}), MetaVersion::V1)["items"], Value::Null);
    }
}
