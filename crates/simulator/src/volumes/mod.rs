//! Volumes: claims and volumes are matched, bound, provisioned and reclaimed.

pub(crate) mod binder;
pub(crate) mod class;
pub(crate) mod matching;
pub(crate) mod phase;
pub(crate) mod provisioner;
