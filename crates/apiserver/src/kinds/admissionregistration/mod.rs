//! Kinds of the group `admissionregistration.k8s.io`. Policies and their bindings are stored only.

pub(crate) mod webhook_configuration;

use serde_json::Value;

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{Read as _, Row, UNSET, cells, joined};
use crate::kinds::strategy::Strategy;

const NOT_ENFORCED: &str = "stored but not enforced: this server does not evaluate admission policies";

const COMMON: Strategy = Strategy {
    behavior: Behavior { generation: true, unconditional_update: false, ..Behavior::BUILTIN },
    not_enforced: Some(|_policy| Some(NOT_ENFORCED)),
    ..Strategy::DEFAULT
};

pub(crate) static VALIDATING_ADMISSION_POLICY: Strategy = Strategy {
    print: Some(|row| {
        cells![row.name(), row.list("/spec/validations").len(), format_param_kind(row), row.age()]
    }),
    ..COMMON
};

pub(crate) static MUTATING_ADMISSION_POLICY: Strategy = Strategy {
    print: Some(|row| {
        cells![row.name(), row.list("/spec/mutations").len(), format_param_kind(row), row.age()]
    }),
    ..COMMON
};

fn format_param_kind(row: Row<'_>) -> String {
    let kind = row.at("/spec/paramKind");
    let kind = kind.map(|kind| format!("{}/{}", kind.text("/apiVersion"), kind.text("/kind")));
    kind.unwrap_or_else(|| UNSET.to_owned())
}

/// Bindings of policies of either sort.
pub(crate) static POLICY_BINDING: Strategy = Strategy { print: Some(print_policy_binding), ..COMMON };

fn print_policy_binding(row: Row<'_>) -> Vec<Value> {
    let parameter = match (row.text("/spec/paramRef/namespace"), row.text("/spec/paramRef/name")) {
        (_, "") => match row.at("/spec/paramRef/selector") {
            Some(selector) => format_go_selector(selector),
            None => UNSET.to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    cells![row.name(), row.text("/spec/policyName"), parameter, row.age()]
}

/// A label selector as Go prints a protobuf message.
fn format_go_selector(selector: &Value) -> String {
    let labels = selector.at("/matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.text(""))).collect();
    let expressions = selector.list("/matchExpressions").iter().map(|expression| {
        let [key, operator] = ["/key", "/operator"].map(|pointer| expression.text(pointer));
        let values = joined(expression.list("/values"), "", " ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
