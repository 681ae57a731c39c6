//! Kinds of the group `autoscaling`. A Scale is the subresource of others.

pub(crate) mod horizontal_pod_autoscaler;

use serde_json::Value;

use crate::kinds::printers::{Read as _, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static SCALE: Strategy = Strategy {
    print: Some(|row| cells![row.name(), row.int("/spec/replicas"), row.int("/status/replicas"), row.age()]),
    ..Strategy::DEFAULT
};
