use std::time::Instant;

use serde_json::{Value, json};

use super::*;

#[test]
fn every_kind_has_a_schema_and_the_data_unpacks() {
    let start = Instant::now();
    assert_eq!(kinds().len(), 77);
    for kind in kinds() {
        let schema = component(kind.schema_name).unwrap_or_else(|| panic!("{}", kind.schema_name));
        assert!(schema.get("properties").is_some(), "{}", kind.schema_name);
    }
    assert!(schemas("v1").as_object().is_some_and(|all| all.len() > 200));
    assert!(document("apps/v1").to_string().len() > 200_000);
    assert_eq!(schemas("nope/v1").as_object().map(serde_json::Map::len), Some(0));
    assert_eq!(bootstrap_rbac().len(), 133);
    eprintln!("{:?}", start.elapsed());
}

#[test]
fn defaults_are_read_and_belong_to_schemas() {
    let read = defaults::read().expect("defaults.yaml is well formed");
    for name in read.keys() {
        let found = ["io.k8s.api.", "io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis."];
        assert!(found.iter().any(|prefix| component(&format!("{prefix}{name}")).is_some()), "{name}");
    }
}
