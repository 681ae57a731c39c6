//! Kinds of the group `coordination.k8s.io`.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, integer, string};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::printers::{Read as _, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static LEASE: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, unconditional_update: false, ..Behavior::BUILTIN },
    validate: validate_lease,
    print: Some(|row| cells![row.name(), row.text("/spec/holderIdentity"), row.age()]),
    ..Strategy::DEFAULT
};

fn validate_lease(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    if let Some(seconds) = integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        check.invalid("spec.leaseDurationSeconds", &seconds.into(), "must be greater than 0");
    }
    if let Some(count) = integer(spec, "leaseTransitions").filter(|count| *count < 0) {
        check.invalid("spec.leaseTransitions", &count.into(), "must be greater than or equal to 0");
    }
    if !string(spec, "preferredHolder").is_empty() && string(spec, "strategy").is_empty() {
        check.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined");
    }
}
