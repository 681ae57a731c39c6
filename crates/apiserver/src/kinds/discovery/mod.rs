//! Kinds of the group `discovery.k8s.io`.

use serde_json::Value;
use settled_apimachinery::unstructured::{given, items, string};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::printers::{Read as _, Row, cells, first_three};
use crate::kinds::strategy::Strategy;

pub(crate) static ENDPOINT_SLICE: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    validate: validate_endpoint_slice,
    validate_update: Some(|check, new, old| {
        validate_endpoint_slice(check, new);
        check.immutable("addressType", given(new, "addressType"), given(old, "addressType"));
    }),
    print: Some(print_endpoint_slice),
    ..Strategy::DEFAULT
};

fn validate_endpoint_slice(check: &mut Check, new: &Value) {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    check.word("addressType", string(new, "addressType"), &TYPES);
    for (index, endpoint) in items(new, "endpoints").iter().enumerate() {
        if items(endpoint, "addresses").is_empty() {
            check.required(format!("endpoints[{index}].addresses"), "must contain at least 1 address");
        }
    }
}

fn print_endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let ports = row.list("/ports").iter().map(|port| match port.at("/port") {
        Some(number) => number.to_string(),
        None => port.text_or("/name", "*").to_owned(),
    });
    let addresses = row.list("/endpoints").iter().flat_map(|endpoint| endpoint.list("/addresses"));
    let addresses = addresses.map(|address| address.text("").to_owned());
    cells![row.name(), row.text("/addressType"), first_three(ports), first_three(addresses), row.age()]
}
