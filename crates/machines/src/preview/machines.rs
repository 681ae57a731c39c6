//! One Machine of a preview: the plan of its provider for what its status says of its host.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Decision, World};
use crate::desired::{configuration, desired};
use crate::provider::{ConfigError, Host, HostState, Plan, Registry};
use crate::types::{Cluster, Machine, MachineClass, MachineSpec, PAUSED_ANNOTATION};

/// What the Machines of a world are decided by.
pub(super) struct Context<'w> {
    registry: &'w Registry,
    clusters: BTreeMap<(&'w str, &'w str), &'w Cluster>,
    classes: BTreeMap<(&'w str, &'w str), &'w MachineClass>,
}

fn key(metadata: &kube::api::ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

impl<'w> Context<'w> {
    pub(super) fn new(world: &'w World, registry: &'w Registry) -> Self {
        Self {
            registry,
            clusters: world.clusters.iter().map(|cluster| (key(&cluster.metadata), cluster)).collect(),
            classes: world.classes.iter().map(|class| (key(&class.metadata), class)).collect(),
        }
    }

    fn cluster(&self, namespace: &str, spec: &MachineSpec) -> Option<&'w Cluster> {
        self.clusters.get(&(namespace, spec.cluster_name.as_deref()?)).copied()
    }

    /// Whether no controller acts on a Machine of this spec.
    fn is_paused(&self, machine: &Machine, namespace: &str, spec: &MachineSpec) -> bool {
        let has = |annotations: Option<&BTreeMap<String, String>>| {
            annotations.is_some_and(|all| all.contains_key(PAUSED_ANNOTATION))
        };
        has(machine.metadata.annotations.as_ref())
            || self
                .cluster(namespace, spec)
                .is_some_and(|cluster| cluster.spec.paused || has(cluster.metadata.annotations.as_ref()))
    }

    /// What becomes of a Machine with this spec.
    pub(super) fn decide(&self, machine: &Machine, spec: &MachineSpec) -> (Decision, String) {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        if machine.metadata.deletion_timestamp.is_some() {
            return (Decision::Delete, "it is being deleted".to_owned());
        }
        if self.is_paused(machine, namespace, spec) {
            return (Decision::NoOp, "paused".to_owned());
        }
        match self.plan(machine, spec, namespace) {
            Ok(Some(Plan::NoOp)) => (Decision::NoOp, String::new()),
            Ok(Some(Plan::InPlace { steps, disruptive })) => {
                let reason = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                (Decision::InPlace { steps, disruptive }, reason)
            }
            Ok(Some(Plan::Replace { reason })) => (Decision::Replace, reason),
            Ok(Some(Plan::Unsupported { reason })) => (Decision::Unsupported, reason),
            Ok(None) => (Decision::Create, "it has no host yet".to_owned()),
            Err(error) => (Decision::Unsupported, error.to_string()),
        }
    }

    /// The plan of the provider; `None` without a host.
    fn plan(
        &self,
        machine: &Machine,
        spec: &MachineSpec,
        namespace: &str,
    ) -> Result<Option<Plan>, ConfigError> {
        let class =
            |name: &str| self.classes.get(&(namespace, name)).map(|class| class.spec.provider_spec.clone());
        let config = configuration(&spec.provider_spec, class)?;
        let entry = self.registry.find(&config)?;
        let recorded = machine.status.as_ref().and_then(|status| status.provider.as_deref());
        if let Some(recorded) = recorded.filter(|recorded| *recorded != entry.name()) {
            return Err(ConfigError::Invalid(vec![format!(
                "the provider cannot change from {recorded} to {}",
                entry.name()
            )]));
        }
        let config = entry.complete(&config)?;
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        let wanted = desired(namespace, name, spec, self.cluster(namespace, spec), config);
        entry.validate(&wanted)?;
        Ok(host(machine).map(|host| entry.provider.plan(&host, &wanted)))
    }
}

/// The host of a Machine, as its status says.
fn host(machine: &Machine) -> Option<Host> {
    let status = machine.status.as_ref()?;
    let facts = status.provider_status.as_ref().and_then(|status| status.get("facts")?.as_object());
    let facts = facts.into_iter().flatten();
    Some(Host {
        id: status.provider_id.clone()?,
        state: HostState::Running,
        addresses: status.addresses.clone(),
        versions: status.versions.clone()?,
        facts: facts.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect(),
        node_name: status.node_ref.as_ref().map(|node| node.name.clone()).unwrap_or_default(),
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
