//! Kinds of the group `certificates.k8s.io`.

pub(crate) mod certificate_signing_request;
mod signature;
