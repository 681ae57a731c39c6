//! Kinds of the group `flowcontrol.apiserver.k8s.io`, which are stored only.

use serde_json::Value;

use crate::kinds::behavior::{Behavior, StatusUpdatePreserves};
use crate::kinds::printers::{NONE, Read as _, Row, cells};
use crate::kinds::strategy::Strategy;

const NOT_ENFORCED: &str = "stored but not enforced: this server does not apply API priority and fairness";

const COMMON: Strategy = Strategy {
    behavior: Behavior {
        generation: true,
        status_update_preserves: StatusUpdatePreserves::All,
        ..Behavior::BUILTIN
    },
    not_enforced: Some(|_object| Some(NOT_ENFORCED)),
    ..Strategy::DEFAULT
};

pub(crate) static FLOW_SCHEMA: Strategy = Strategy { print: Some(print_flow_schema), ..COMMON };

fn print_flow_schema(row: Row<'_>) -> Vec<Value> {
    let conditions = row.list("/status/conditions");
    let dangling = conditions.iter().find(|condition| condition.text("/type") == "Dangling");
    cells![
        row.name(),
        row.text("/spec/priorityLevelConfiguration/name"),
        row.int("/spec/matchingPrecedence"),
        row.text_or("/spec/distinguisherMethod/type", NONE),
        row.age(),
        dangling.map_or("?", |condition| condition.text("/status")),
    ]
}

pub(crate) static PRIORITY_LEVEL_CONFIGURATION: Strategy =
    Strategy { print: Some(print_priority_level_configuration), ..COMMON };

fn print_priority_level_configuration(row: Row<'_>) -> Vec<Value> {
    let limited = |pointer: &str, there: &str| match row.has(there) {
        true => Value::from(row.int(&format!("{there}{pointer}"))),
        false => NONE.into(),
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    cells![
        row.name(),
        row.text("/spec/type"),
        limited("/nominalConcurrencyShares", "/spec/limited"),
        limited("/queues", queuing),
        limited("/handSize", queuing),
        limited("/queueLengthLimit", queuing),
        row.age(),
    ]
}
