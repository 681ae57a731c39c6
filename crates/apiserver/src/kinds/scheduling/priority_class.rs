//! PriorityClasses. That only one is the default is checked by `admission`.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, string};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    validate: validate_priority_class,
    validate_update: Some(validate_priority_class_update),
    print: Some(print_priority_class),
    ..Strategy::DEFAULT
};

/// The priority classes that the system has.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn validate_priority_class(check: &mut Check, new: &Value) {
    let value = integer(new, "value").unwrap_or_default();
    let name = string(field(new, "metadata"), "name");
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => format!("{name} is not a known system priority class"),
            Some((_, wanted)) if *wanted != value => {
                format!("value of {name} PriorityClass must be {wanted}")
            }
            Some(_) if field(new, "globalDefault") == &Value::Bool(true) => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => return,
        };
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
        );
        check.forbidden("metadata.name", &detail);
    } else if value > 1_000_000_000 {
        check.forbidden("value", "maximum allowed value of a user defined priority is 1000000000");
    }
    let policy = string(new, "preemptionPolicy");
    check.word("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]);
}

fn validate_priority_class_update(check: &mut Check, new: &Value, old: &Value) {
    if Some(integer(new, "value").unwrap_or_default()) != integer(old, "value") {
        check.forbidden("value", "may not be changed in an update.");
    }
    check.immutable("preemptionPolicy", given(new, "preemptionPolicy"), given(old, "preemptionPolicy"));
}

fn print_priority_class(row: Row<'_>) -> Vec<Value> {
    cells![
        row.name(),
        row.int("/value"),
        row.flag("/globalDefault"),
        row.age(),
        row.text("/preemptionPolicy"),
    ]
}
