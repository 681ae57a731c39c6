//! Kinds of the group `node.k8s.io`.

use serde_json::Value;

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{Read as _, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static RUNTIME_CLASS: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, unconditional_update: false, ..Behavior::BUILTIN },
    print: Some(|row| cells![row.name(), row.text("/handler"), row.age()]),
    ..Strategy::DEFAULT
};
