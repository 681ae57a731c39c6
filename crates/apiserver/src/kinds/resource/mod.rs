//! Kinds of the group `resource.k8s.io`: dynamic resource allocation.

use serde_json::Value;

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{Read as _, Row, cells, print_name_and_age};
use crate::kinds::strategy::Strategy;
use crate::selector::{FieldSelectors, Source};

const RETURNED: Behavior = Behavior { returns_deleted: true, ..Behavior::BUILTIN };
const COUNTED_RETURNED: Behavior = Behavior { generation: true, ..RETURNED };

pub(crate) static DEVICE_CLASS: Strategy =
    Strategy { behavior: COUNTED_RETURNED, print: Some(print_name_and_age), ..Strategy::DEFAULT };

pub(crate) static RESOURCE_CLAIM: Strategy =
    Strategy { behavior: RETURNED, print: Some(print_resource_claim), ..Strategy::DEFAULT };

fn print_resource_claim(row: Row<'_>) -> Vec<Value> {
    let allocated = row.has("/status/allocation");
    let states = [
        (row.deleted(), "deleted"),
        (!allocated && !row.deleted(), "pending"),
        (allocated, "allocated"),
        (allocated && !row.list("/status/reservedFor").is_empty(), "reserved"),
    ];
    let states: Vec<&str> = states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect();
    cells![row.name(), states.join(","), row.age()]
}

pub(crate) static RESOURCE_CLAIM_TEMPLATE: Strategy =
    Strategy { behavior: RETURNED, print: Some(print_name_and_age), ..Strategy::DEFAULT };

pub(crate) static RESOURCE_SLICE: Strategy = Strategy {
    behavior: COUNTED_RETURNED,
    field_selectors: FieldSelectors::of_resource_slices(&[
        ("spec.nodeName", Source::Text(&["/spec/nodeName"])),
        ("spec.driver", Source::Text(&["/spec/driver"])),
    ]),
    print: Some(print_resource_slice),
    ..Strategy::DEFAULT
};

fn print_resource_slice(row: Row<'_>) -> Vec<Value> {
    cells![
        row.name(),
        row.text("/spec/nodeName"),
        row.text("/spec/driver"),
        row.text("/spec/pool/name"),
        row.age(),
    ]
}
