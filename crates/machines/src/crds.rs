//! CustomResourceDefinitions of the API types, with the schemas of the installed providers.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Map, Value, json};
use settled_controller::conditions::ConditionType;
use settled_controller::conditions::crd::add_printer_columns;

use crate::types::{
    Cluster, ClusterCondition, HealthCheckCondition, Host, HostCondition, Machine, MachineClass,
    MachineCondition, MachineDeployment, MachineDeploymentCondition, MachineHealthCheck, MachineSet,
    MachineSetCondition,
};

/// Format of a provider's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigSchema {
    /// `apiVersion` of the configuration.
    pub api_version: String,
    /// `kind` of the configuration.
    pub kind: String,
    /// Its structural schema, without `apiVersion` and `kind`.
    pub schema: Value,
}

impl ConfigSchema {
    /// The schema of a value: that of the provider, for its own version and kind.
    #[must_use]
    pub fn complete(&self) -> Value {
        let mut schema = self.schema.clone();
        let Some(members) = schema.as_object_mut() else { return json!({"type": "object"}) };
        members.insert("type".to_owned(), "object".into());
        let properties = members.entry("properties").or_insert_with(|| json!({}));
        properties["apiVersion"] = json!({"type": "string", "enum": [self.api_version]});
        properties["kind"] = json!({"type": "string", "enum": [self.kind]});
        let required = members.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.splice(0..0, [json!("apiVersion"), json!("kind")]);
        }
        schema
    }

    fn property(&self, name: &str) -> Option<&Value> {
        self.schema.get("properties")?.get(name)
    }
}

/// All definitions. With providers, configurations are validated by their schemas at admission: completely with one provider, with several ones
/// by their kinds, required fields and plain values; controllers validate the rest.
#[must_use]
pub fn definitions(providers: &[ConfigSchema]) -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![
        with_columns::<ClusterCondition>(Cluster::crd()),
        with_columns::<MachineCondition>(Machine::crd()),
        with_columns::<MachineSetCondition>(MachineSet::crd()),
        with_columns::<MachineDeploymentCondition>(MachineDeployment::crd()),
        MachineClass::crd(),
        with_columns::<HealthCheckCondition>(MachineHealthCheck::crd()),
        with_columns::<HostCondition>(Host::crd()),
    ];
    definitions.iter_mut().for_each(begin_unobserved);
    if let Some(config) = union(providers) {
        for definition in &mut definitions {
            embed(definition, &config);
        }
    }
    definitions
}

/// Kinds that no controller reports on at all times.
const UNREPORTED: [&str; 2] = ["MachineClass", "Host"];

/// Lets a new object say that it is not observed yet. Upstream's kstatus takes an object without a status for done; Flux has the same default.
fn begin_unobserved(definition: &mut CustomResourceDefinition) {
    if UNREPORTED.contains(&definition.spec.names.kind.as_str()) {
        return;
    }
    change(definition, |schema| {
        if let Some(status) = schema.pointer_mut("/openAPIV3Schema/properties/status") {
            status["default"] = json!({"observedGeneration": -1});
        }
    });
}

/// Changes the schemas of a definition.
fn change(definition: &mut CustomResourceDefinition, mut edit: impl FnMut(&mut Value)) {
    let mut value = json!(definition);
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        edit(&mut version["schema"]);
    }
    if let Ok(changed) = serde_json::from_value(value) {
        *definition = changed;
    }
}

fn with_columns<C: ConditionType>(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    add_printer_columns::<C>(&mut definition);
    definition
}

/// Replaces the schemas of configurations of Machines in a definition.
fn embed(definition: &mut CustomResourceDefinition, config: &Value) {
    if definition.spec.names.kind == "Cluster" {
        return;
    }
    change(definition, |schema| replace(schema, config));
}

/// Replaces the schema of each property `providerSpec`, or of its property `value`.
fn replace(schema: &mut Value, config: &Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(provider) = members.get_mut("properties").and_then(|all| all.get_mut("providerSpec")) {
        match provider.pointer_mut("/properties/value") {
            Some(value) => {
                *value = config.clone();
                value["nullable"] = true.into();
            }
            None => *provider = config.clone(),
        }
        return;
    }
    members.values_mut().for_each(|member| replace(member, config));
}

/// One schema for the configurations of all providers.
fn union(providers: &[ConfigSchema]) -> Option<Value> {
    match providers {
        [] => None,
        [provider] => Some(provider.complete()),
        several => Some(several_schemas(several)),
    }
}

fn several_schemas(providers: &[ConfigSchema]) -> Value {
    let names = providers.iter().filter_map(|provider| provider.schema.get("properties")?.as_object());
    let mut properties = Map::new();
    for name in names.flat_map(Map::keys) {
        let mut found = providers.iter().filter_map(|provider| provider.property(name));
        let kind = found.next().and_then(scalar_type);
        let schema = match kind {
            Some(kind) if found.all(|other| scalar_type(other) == Some(kind)) => json!({"type": kind}),
            _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
        };
        properties.insert(name.clone(), schema);
    }
    let is_scalar = |name: &str| properties.get(name).is_some_and(|schema| schema.get("type").is_some());
    let branches: Vec<Value> = providers.iter().map(|provider| branch(provider, &is_scalar)).collect();
    properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
    properties.insert("kind".to_owned(), json!({"type": "string"}));
    json!({
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": properties,
        "oneOf": branches,
    })
}

/// Value validations of one provider, as `oneOf` permits them.
fn branch(provider: &ConfigSchema, is_scalar: &dyn Fn(&str) -> bool) -> Value {
    let mut properties = Map::new();
    properties.insert("apiVersion".to_owned(), json!({"enum": [provider.api_version]}));
    properties.insert("kind".to_owned(), json!({"enum": [provider.kind]}));
    for (name, schema) in provider.schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(members) = schema.as_object().filter(|_| is_scalar(name)) else { continue };
        let validations: Map<String, Value> = members
            .iter()
            .filter(|(key, _)| {
                !matches!(key.as_str(), "type" | "description" | "title" | "default" | "nullable")
                    && !key.starts_with("x-kubernetes-")
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !validations.is_empty() {
            properties.insert(name.clone(), Value::Object(validations));
        }
    }
    json!({"properties": properties, "required": provider.schema.get("required").cloned().unwrap_or_else(|| json!([]))})
}

fn scalar_type(schema: &Value) -> Option<&str> {
    schema.get("type")?.as_str().filter(|kind| matches!(*kind, "string" | "integer" | "number" | "boolean"))
}
