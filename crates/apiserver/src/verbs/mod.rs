//! Verbs: get, list, watch, create, update, patch, apply and delete, for requests and controllers.

pub(crate) mod change;
pub(crate) mod components;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod patching;
pub(crate) mod pods;
pub(crate) mod prepare;
pub(crate) mod read;
pub(crate) mod scale;
pub(crate) mod strict;
pub(crate) mod unenforced;
pub(crate) mod update;
pub(crate) mod watching;
pub(crate) mod write;
