//! Validation beyond schemas: requests by the rules of their providers, and objects by what their status says. Pure.

use serde_json::Value;

use crate::desired::{configuration, desired};
use crate::inventory::{Id, Inventory, Kind, text};
use crate::provider::{ConfigError, Registry};
use crate::types::{Machine, MachineDeployment, MachineSet, MachineSpec};

/// A checked object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checked {
    /// `Kind/name`.
    pub object: String,
    /// What is wrong with it.
    pub failure: Option<String>,
}

/// Checks what objects ask their providers for: whose configuration no provider reads, and what violates a rule that no schema has.
#[must_use]
pub fn check_requests(inventory: &Inventory, registry: &Registry) -> Vec<(Id, String)> {
    let mut failures = Vec::new();
    for (id, object) in inventory.iter() {
        let parsed = |value: &Value| -> Option<MachineSpec> {
            match id.kind {
                Kind::Machine => {
                    serde_json::from_value::<Machine>(value.clone()).ok().map(|machine| machine.spec)
                }
                Kind::MachineSet => {
                    serde_json::from_value::<MachineSet>(value.clone()).ok().map(|set| set.spec.template.spec)
                }
                Kind::MachineDeployment => serde_json::from_value::<MachineDeployment>(value.clone())
                    .ok()
                    .map(|deployment| deployment.spec.template.spec),
                _ => None,
            }
        };
        let Some(spec) = parsed(object) else { continue };
        if let Err(error) = check(id, &spec, inventory, registry) {
            failures.push((id.clone(), error.to_string()));
        }
    }
    failures
}

fn check(id: &Id, spec: &MachineSpec, inventory: &Inventory, registry: &Registry) -> Result<(), ConfigError> {
    let class = |name: &str| {
        let class = inventory.get(&Id::new(Kind::MachineClass, &id.namespace, name))?;
        class.pointer("/spec/providerSpec").cloned()
    };
    let config = match configuration(&spec.provider_spec, class) {
        // The class may be on the server.
        Err(ConfigError::NoClass(_)) => return Ok(()),
        other => other?,
    };
    let entry = registry.find(&config)?;
    let config = entry.complete(&config)?;
    entry.validate(&desired(&id.namespace, &id.name, spec, None, config))
}

/// Checks what objects report.
#[must_use]
pub fn check_status(inventory: &Inventory) -> Vec<Checked> {
    let check = |(id, object): (&Id, &Value)| {
        let condition = |name: &str| {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().find(|condition| text(condition, "/type") == name)
        };
        let reason = text(object, "/status/errorReason");
        let failure = if !reason.is_empty() {
            Some(format!("[{reason}] {}", text(object, "/status/errorMessage")))
        } else if matches!(id.kind, Kind::MachineClass | Kind::Host) {
            None
        } else {
            match condition("Ready") {
                Some(ready) if text(ready, "/status") == "True" => None,
                Some(ready) => Some(format!("[{}] {}", text(ready, "/reason"), text(ready, "/message"))),
                None => Some("[NotObserved] no controller has reported on it".to_owned()),
            }
        };
        Checked { object: id.to_string(), failure }
    };
    inventory.iter().map(check).collect()
}
