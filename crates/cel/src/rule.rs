//! One item of `x-kubernetes-validations`, as it is written.

pub use settled_schema::ValidationRule as Rule;
