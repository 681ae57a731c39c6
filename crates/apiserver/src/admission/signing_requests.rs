//! Admission of CertificateSigningRequests: CertificateApproval, CertificateSigning, CertificateSubjectRestriction
//! (`plugin/pkg/admission/certificates` upstream).

use serde_json::Value;
use settled_apimachinery::unstructured::{items_at, string_at};

use crate::auth::{Attributes, User};
use crate::error::ApiError;
use crate::kinds::certificates::certificate_signing_request::organizations;
use crate::kinds::names::{Part, SIGNING_REQUESTS_GROUP};
use crate::state::State;
use crate::state::call::{Call, Target};

/// The signer whose certificates the server itself takes for identities.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = crate::auth::MASTERS;

/// Lets a write of a CertificateSigningRequest pass or refuses it.
pub(super) fn check(
    state: &State,
    call: &Call<'_>,
    target: &Target<'_>,
    part: Part,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    match (part, old) {
        (Part::Approval, Some(old)) => require_signer(state, call, target, "approve", old),
        (Part::Status, Some(old)) => {
            let certificate = |request| string_at(request, "/status/certificate");
            let conditions = |request| items_at(request, "/status/conditions");
            if certificate(new) == certificate(old) && conditions(new) == conditions(old) {
                return Ok(());
            }
            require_signer(state, call, target, "sign", old)
        }
        (Part::Main, None) if string_at(new, "/spec/signerName") == CLIENT_SIGNER => {
            let organizations = organizations(string_at(new, "/spec/request"))
                .map_err(|error| target.forbidden(new, &format!("failed to parse CSR: {error}")))?;
            if organizations.iter().any(|name| name == MASTERS) {
                let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
                return Err(target.forbidden(new, &why));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Requires a verb on the signer of a request: on its name, or on all names of its domain.
fn require_signer(
    state: &State,
    call: &Call<'_>,
    target: &Target<'_>,
    verb: &str,
    old: &Value,
) -> Result<(), ApiError> {
    let signer = string_at(old, "/spec/signerName");
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let rbac = state.identity.rbac();
    let allowed = |user: &User, name: &str| {
        let attributes = Attributes {
            verb,
            api_group: SIGNING_REQUESTS_GROUP,
            api_version: "*",
            resource: "signers",
            name,
            ..Attributes::default()
        };
        rbac.authorize(user, &attributes).allowed
    };
    if allowed(&call.user, signer) || allowed(&call.user, &domain) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(target.forbidden(old, &why))
}
