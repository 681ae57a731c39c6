//! Identity of the Pods of a StatefulSet: names, ordinals, labels, volumes (`stateful_set_utils.go` upstream).

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};

use crate::meta;
use crate::pod;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label with the name of the revision of a Pod.
const REVISION: &str = "controller-revision-hash";

/// `web-3` is the Pod 3 of `web`; without a number, there is no parent.
pub(super) fn parent_and_ordinal(name: &str) -> (&str, Option<i32>) {
    match name.rsplit_once('-') {
        Some((parent, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (parent, digits.parse().ok())
        }
        _ => ("", None),
    }
}

pub(super) fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(meta::name(pod)).1
}

pub(super) fn start(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or_default()
}

pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn is_in_range(set: &StatefulSet, pod: &Pod) -> bool {
    ordinal(pod).is_some_and(|ordinal| (start(set)..start(set) + replicas(set)).contains(&ordinal))
}

pub(super) fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)).map_or("", String::as_str)
}

pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", meta::name(template), meta::name(set))
}

/// A Pod that is to be created.
pub(super) fn new_pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let name = format!("{}-{ordinal}", meta::name(set));
    let mut pod = pod::from_template(template, set, &pod::name_prefix(meta::name(set)));
    pod.metadata.name = Some(name.clone());
    update_identity(&mut pod, ordinal);
    pod.metadata.labels.get_or_insert_default().insert(REVISION.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    let service = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    spec.subdomain = service.filter(|service| !service.is_empty());
    update_storage(set, &mut pod, ordinal);
    pod
}

/// The labels with name and ordinal.
pub(super) fn update_identity(pod: &mut Pod, ordinal: i32) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name);
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
}

/// The volumes of the claims, before the others.
fn update_storage(set: &StatefulSet, pod: &mut Pod, ordinal: i32) {
    let templates = claim_templates(set);
    if templates.is_empty() {
        return;
    }
    let of_claim = |template: &PersistentVolumeClaim| Volume {
        name: meta::name(template).to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    };
    let volumes = pod.spec.get_or_insert_default().volumes.get_or_insert_default();
    volumes.retain(|volume| templates.iter().all(|template| meta::name(template) != volume.name));
    volumes.splice(0..0, templates.iter().map(of_claim));
}

/// Has the Pod the label with its name?
pub(super) fn identity_matches(pod: &Pod) -> bool {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(POD_NAME));
    label.is_some_and(|label| label == meta::name(pod))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_have_a_parent_and_an_ordinal() {
        assert_eq!(parent_and_ordinal("web-12"), ("web", Some(12)));
        assert_eq!(parent_and_ordinal("a-1-b-0"), ("a-1-b", Some(0)));
        for name in ["web", "web-", "web-a", "web-1a"] {
            assert_eq!(parent_and_ordinal(name), ("", None), "{name}");
        }
    }

    #[test]
    fn a_pod_has_its_claims_before_other_volumes() {
        let set = json!({
            "metadata": {"name": "db", "uid": "u"},
            "spec": {
                "replicas": 2, "ordinals": {"start": 5}, "serviceName": "db", "selector": {}, "template": {},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "log"}}],
            },
        });
        let set: StatefulSet = serde_json::from_value(set).expect("a StatefulSet");
        let template = json!({"spec": {"containers": [], "volumes": [{"name": "tmp"}, {"name": "log"}]}});
        let template = serde_json::from_value(template).expect("a template");
        let pod = new_pod(&set, &template, "db-abc", 6);
        let spec = pod.spec.clone().unwrap_or_default();
        let volumes: Vec<_> = spec
            .volumes
            .iter()
            .flatten()
            .map(|volume| {
                let claim = volume.persistent_volume_claim.as_ref().map(|claim| &*claim.claim_name);
                (&*volume.name, claim)
            })
            .collect();
        assert_eq!(volumes, [("data", Some("data-db-6")), ("log", Some("log-db-6")), ("tmp", None)]);
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-6"), Some("db")));
        assert_eq!((revision(&pod), identity_matches(&pod), is_in_range(&set, &pod)), ("db-abc", true, true));
    }
}
