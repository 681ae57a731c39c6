//! `validateAPIApproval`: groups of the Kubernetes community need the annotation that their API was approved.

use serde_json::{Map, Value};
use settled_apimachinery::field::Error as FieldError;
use settled_go::url;

use super::internal::InternalCrd;

/// `KubeAPIApprovedAnnotation`.
const ANNOTATION: &str = "api-approved.kubernetes.io";

/// `APIApprovalState`.
#[derive(PartialEq)]
enum State {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

impl State {
    /// `GetAPIApprovalState`.
    fn of(annotation: &str) -> Self {
        match annotation {
            "" => Self::Missing,
            reason if reason.starts_with("unapproved") => Self::Bypassed,
            text => match url::parse_request_uri(text) {
                Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => Self::Approved,
                _ => Self::Invalid,
            },
        }
    }
}

/// `IsProtectedCommunityGroup`.
fn is_protected_community_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|protected| {
        group == *protected || group.strip_suffix(protected).is_some_and(|rest| rest.ends_with('.'))
    })
}

fn annotation(metadata: Option<&Map<String, Value>>) -> &str {
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    annotations
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn validate_api_approval(
    crd: &InternalCrd<'_>,
    old: Option<&InternalCrd<'_>>,
    errors: &mut Vec<FieldError>,
) {
    if !is_protected_community_group(crd.group) {
        return;
    }
    let approval = annotation(crd.metadata);
    let state = State::of(approval);
    if old.is_some_and(|old| State::of(annotation(old.metadata)) == state) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        State::Missing => {
            let detail = format!("protected groups must have approval annotation \"{ANNOTATION}\", {see}");
            errors.push(FieldError::required(field, detail));
        }
        State::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            errors.push(FieldError::invalid(field, approval, detail));
        }
        State::Bypassed | State::Approved => {}
    }
}
