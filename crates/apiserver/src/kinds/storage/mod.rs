//! Kinds of the group `storage.k8s.io`. Those that are little more than a row stand here.

pub(crate) mod storage_class;

use serde_json::Value;

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{NONE, Read as _, Row, UNSET, cells, joined};
use crate::kinds::strategy::Strategy;

/// Updates name the revision that they change.
const CONDITIONAL: Behavior = Behavior { unconditional_update: false, ..Behavior::BUILTIN };
const CONDITIONAL_RETURNED: Behavior = Behavior { returns_deleted: true, ..CONDITIONAL };

pub(crate) static CSI_DRIVER: Strategy =
    Strategy { behavior: CONDITIONAL_RETURNED, print: Some(print_csi_driver), ..Strategy::DEFAULT };

fn print_csi_driver(row: Row<'_>) -> Vec<Value> {
    let modes = joined(row.list("/spec/volumeLifecycleModes"), "", ",");
    let audiences =
        row.at("/spec/tokenRequests").map(|_| joined(row.list("/spec/tokenRequests"), "/audience", ","));
    cells![
        row.name(),
        row.at("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true),
        row.flag("/spec/podInfoOnMount"),
        row.flag("/spec/storageCapacity"),
        audiences.unwrap_or_else(|| UNSET.to_owned()),
        row.flag("/spec/requiresRepublish"),
        if modes.is_empty() { NONE.to_owned() } else { modes },
        row.age(),
    ]
}

pub(crate) static CSI_NODE: Strategy = Strategy {
    behavior: CONDITIONAL_RETURNED,
    print: Some(|row| cells![row.name(), row.list("/spec/drivers").len(), row.age()]),
    ..Strategy::DEFAULT
};

pub(crate) static CSI_STORAGE_CAPACITY: Strategy = Strategy { behavior: CONDITIONAL, ..Strategy::DEFAULT };

pub(crate) static VOLUME_ATTACHMENT: Strategy =
    Strategy { behavior: CONDITIONAL_RETURNED, print: Some(print_volume_attachment), ..Strategy::DEFAULT };

fn print_volume_attachment(row: Row<'_>) -> Vec<Value> {
    cells![
        row.name(),
        row.text("/spec/attacher"),
        row.text("/spec/source/persistentVolumeName"),
        row.text("/spec/nodeName"),
        row.flag("/status/attached"),
        row.age(),
    ]
}

pub(crate) static VOLUME_ATTRIBUTES_CLASS: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, ..Behavior::BUILTIN },
    print: Some(|row| cells![row.name(), row.text("/driverName"), row.age()]),
    ..Strategy::DEFAULT
};
