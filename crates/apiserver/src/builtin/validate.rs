//! Rules of the kinds.
use super::BuiltinKind;
use serde_json::Value;
/// x
#[derive(Debug)]
pub(crate) struct Invalid {}
/// x
pub(crate) fn validate(_kind: &BuiltinKind, _new: &Value, _old: Option<&Value>) -> Vec<Invalid> {
    Vec::new()
}
