//! ControllerRevisions.

use serde_json::Value;
use settled_apimachinery::unstructured::given;

use crate::kinds::check::Check;
use crate::kinds::printers::{NONE, Read as _, Row, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate: validate_controller_revision,
    validate_update: Some(|check, new, old| {
        validate_controller_revision(check, new);
        check.immutable("data", given(new, "data"), given(old, "data"));
    }),
    print: Some(print_controller_revision),
    ..Strategy::DEFAULT
};

fn validate_controller_revision(check: &mut Check, new: &Value) {
    if given(new, "data").is_none() {
        check.required("data", "data is mandatory");
    }
    check.not_negative("", new, "revision");
}

fn print_controller_revision(row: Row<'_>) -> Vec<Value> {
    let owners = row.list("/metadata/ownerReferences").iter();
    let controller = { owners }.find(|owner| owner.flag("/controller")).map(|owner| {
        let group = owner.text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = format!("{}{dot}{group}", owner.text("/kind")).to_lowercase();
        format!("{kind}/{}", owner.text("/name"))
    });
    cells![row.name(), controller.unwrap_or_else(|| NONE.to_owned()), row.int("/revision"), row.age()]
}
