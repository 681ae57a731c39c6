//! Output formats of `netpol check`.

pub(super) mod connections;
pub(super) mod github;
pub(super) mod json;
pub(super) mod junit;
pub(super) mod sarif;
pub(super) mod table;
