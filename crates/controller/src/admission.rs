//! Detection of admission denials among responses with code 403, which also report missing permissions.

use kube::core::Status;

/// Whether an admission plugin, webhook or policy denied a request.
///
/// Webhooks and policies choose their own code and reason, so only the text identifies them. Authorizers share one message format
/// (`forbiddenMessage` upstream), so every other 403 is from a plugin: LimitRanger, ResourceQuota, NodeRestriction, NamespaceLifecycle.
pub(crate) fn is_denied(status: &Status) -> bool {
    let says = |texts: [&str; 2]| texts.iter().all(|text| status.message.contains(text));
    says(["admission webhook", "denied the request"])
        || says(["ValidatingAdmissionPolicy", "denied request"])
        || status.code == 403 && !says(["User \"", "\" cannot "])
}
