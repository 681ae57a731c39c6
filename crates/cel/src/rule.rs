//! One item of `x-kubernetes-validations`, as written in the CRD.

pub use settled_schema::ValidationRule as Rule;
