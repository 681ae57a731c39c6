//! ControllerRevisions: the templates that StatefulSets and DaemonSets had (`pkg/controller/history` upstream).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::Resource;
use serde_json::{Value, json};

use crate::meta;

/// A template as revisions keep it: a strategic merge patch that replaces the template.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The template of a revision.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    meta::typed(revision.data.as_ref()?.0.get("spec")?.get("template")?)
}

/// Does a revision have this template? Fields that servers add or drop do not count: what is compared was read by the same types.
pub(crate) fn has_template(revision: &ControllerRevision, wanted: &PodTemplateSpec) -> bool {
    template(revision).is_some_and(|template| template == *wanted)
}

/// A new revision of an owner.
pub(crate) fn revision<O>(
    owner: &O,
    name: String,
    labels: BTreeMap<String, String>,
    template: &PodTemplateSpec,
    number: i64,
) -> ControllerRevision
where
    O: Resource<DynamicType = ()>,
{
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone().filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![meta::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data(template))),
        revision: number,
    }
}

/// Sorts revisions by number, then by age, then by name: `SortControllerRevisions`.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    let created =
        |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
    revisions.sort_by(|one, other| {
        let numbers = one.revision.cmp(&other.revision);
        numbers
            .then_with(|| created(one).cmp(&created(other)))
            .then_with(|| meta::name(&**one).cmp(meta::name(&**other)))
    });
}

/// The number after the greatest one.
pub(crate) fn next(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.iter().map(|revision| revision.revision).max().unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_keep_templates() {
        let wanted = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
        let wanted: PodTemplateSpec = serde_json::from_value(wanted).expect("a template");
        let owner = k8s_openapi::api::apps::v1::StatefulSet::default();
        let kept = revision(&owner, "web-1".to_owned(), BTreeMap::new(), &wanted, 1);
        assert_eq!(
            kept.data.as_ref().map(|data| data.0["spec"]["template"]["$patch"].clone()),
            Some("replace".into())
        );
        assert!(has_template(&kept, &wanted) && !has_template(&kept, &PodTemplateSpec::default()));
    }
}
