//! Plan: how a host of the pool gets from what runs on it to what is asked for. Pure.

use std::collections::BTreeMap;

use settled_machines::provider::{Desired, Host, HostState, Plan, Step};
use settled_machines::types::{self, ContainerRuntime, MachineAddress, MachineVersions, ReplacePolicy};

use super::config;
use super::program::Inspection;
use crate::versions::minor;

/// Step that puts a version of the kubelet in place.
pub(super) const KUBELET: &str = "kubelet";
/// Step that puts a version of the container runtime in place.
pub(super) const RUNTIME: &str = "container-runtime";

/// Facts of a host that plans depend on.
const LABELS: &str = "labels";
const REPLACE: &str = "replacePolicy";

/// The provider's name for a host: `spec.providerID` of its Node.
pub(super) fn id(host: &types::Host) -> String {
    let own = |field: &Option<String>| field.clone().unwrap_or_default();
    format!("ssh://{}/{}", own(&host.metadata.namespace), own(&host.metadata.name))
}

/// Addresses of a host.
pub(super) fn addresses(host: &types::Host) -> Vec<MachineAddress> {
    let is_ip = host.spec.address.parse::<std::net::IpAddr>().is_ok();
    let type_ = if is_ip { "InternalIP" } else { "Hostname" }.to_owned();
    vec![MachineAddress { type_, address: host.spec.address.clone() }]
}

/// What a provider reports of a host.
pub(super) fn view(host: &types::Host, inspection: &Inspection, is_own: bool) -> Host {
    let policy = match host.spec.replace_policy {
        ReplacePolicy::Allowed => "Allowed",
        ReplacePolicy::Never => "Never",
    };
    let labels = host.metadata.labels.clone().unwrap_or_default();
    let is_running = is_own && inspection.joined.is_some();
    Host {
        id: id(host),
        state: if is_running { HostState::Running } else { HostState::Creating },
        addresses: addresses(host),
        versions: if is_running { versions(inspection) } else { MachineVersions::default() },
        facts: BTreeMap::from([
            (LABELS.to_owned(), serde_json::to_string(&labels).unwrap_or_default()),
            (REPLACE.to_owned(), policy.to_owned()),
        ]),
        node_name: inspection.joined.clone().unwrap_or_default(),
        pool_host: host.metadata.name.clone(),
    }
}

/// What really runs.
pub(super) fn versions(inspection: &Inspection) -> MachineVersions {
    let runtime = inspection.runtime.as_ref();
    MachineVersions {
        kubelet: inspection.kubelet.clone(),
        control_plane: None,
        container_runtime: runtime
            .map(|(name, version)| ContainerRuntime { name: name.clone(), version: version.clone() }),
    }
}

/// The plan for a running host.
pub(super) fn plan(host: &Host, desired: &Desired) -> Plan {
    if let Some(reason) = replacement(host, desired) {
        return match host.facts.get(REPLACE).map(String::as_str) {
            Some("Never") => {
                Plan::Unsupported { reason: format!("{reason}, and the replacePolicy of its Host is Never") }
            }
            _ => Plan::Replace { reason },
        };
    }
    if desired.versions.control_plane.is_some() {
        return Plan::Unsupported { reason: NO_CONTROL_PLANE.to_owned() };
    }
    let (is, wanted) = (&host.versions, &desired.versions);
    let (mut steps, mut disruptive) = (Vec::new(), false);
    if let Some(runtime) = &wanted.container_runtime
        && is.container_runtime.as_ref() != Some(runtime)
    {
        steps.push(Step::new(RUNTIME, &format!("{} {}", runtime.name, runtime.version)));
        disruptive = is.container_runtime.is_some();
    }
    if is.kubelet != wanted.kubelet {
        steps.push(Step::new(KUBELET, &wanted.kubelet));
        // One that does not run is only started.
        disruptive |= !is.kubelet.is_empty() && minor(&is.kubelet) != minor(&wanted.kubelet);
    }
    if steps.is_empty() { Plan::NoOp } else { Plan::InPlace { steps, disruptive } }
}

/// Why a Machine cannot be had.
pub(super) const NO_CONTROL_PLANE: &str = "hosts of a pool run no control plane";

/// Why only another host, or the same one set up anew, is as asked for.
fn replacement(host: &Host, desired: &Desired) -> Option<String> {
    let labels: BTreeMap<String, String> =
        host.facts.get(LABELS).and_then(|labels| serde_json::from_str(labels).ok()).unwrap_or_default();
    if !config::selects(&desired.config, Some(&labels)) {
        return Some(format!("hostSelector does not select the host {}", host.id));
    }
    let (is, wanted) =
        (host.versions.container_runtime.as_ref()?, desired.versions.container_runtime.as_ref()?);
    (is.name != wanted.name)
        .then(|| format!("the container runtime changes from {} to {}", is.name, wanted.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runtime(name: &str, version: &str) -> Option<ContainerRuntime> {
        Some(ContainerRuntime { name: name.to_owned(), version: version.to_owned() })
    }

    fn host(policy: &str) -> Host {
        Host {
            id: "ssh://default/h1".to_owned(),
            versions: MachineVersions {
                kubelet: "v1.36.0".to_owned(),
                control_plane: None,
                container_runtime: runtime("containerd", "2.1.0"),
            },
            facts: BTreeMap::from([
                (LABELS.to_owned(), r#"{"rack":"a"}"#.to_owned()),
                (REPLACE.to_owned(), policy.to_owned()),
            ]),
            ..Host::default()
        }
    }

    fn desired(change: impl FnOnce(&mut Desired)) -> Desired {
        let mut desired = Desired {
            versions: host("").versions,
            config: json!({"hostSelector": {"matchLabels": {"rack": "a"}}}),
            ..Desired::default()
        };
        change(&mut desired);
        desired
    }

    #[test]
    fn all_outcomes_are_possible() {
        let up = |policy: &str, change: fn(&mut Desired)| plan(&host(policy), &desired(change));
        assert_eq!(up("Allowed", |_| {}), Plan::NoOp);
        let patch = up("Allowed", |desired| desired.versions.kubelet = "v1.36.1".to_owned());
        assert_eq!(patch, Plan::InPlace { steps: vec![Step::new(KUBELET, "v1.36.1")], disruptive: false });
        let both = up("Allowed", |desired| {
            desired.versions.kubelet = "v1.35.0".to_owned();
            desired.versions.container_runtime = runtime("containerd", "2.0.0");
        });
        let steps = vec![Step::new(RUNTIME, "containerd 2.0.0"), Step::new(KUBELET, "v1.35.0")];
        assert_eq!(both, Plan::InPlace { steps, disruptive: true });
        let other_rack: fn(&mut Desired) =
            |desired| desired.config = json!({"hostSelector": {"matchLabels": {"rack": "b"}}});
        assert!(matches!(up("Allowed", other_rack), Plan::Replace { .. }));
        assert!(matches!(up("Never", other_rack), Plan::Unsupported { .. }));
        let other_runtime: fn(&mut Desired) =
            |desired| desired.versions.container_runtime = runtime("cri-o", "1.36.0");
        assert!(matches!(up("Allowed", other_runtime), Plan::Replace { .. }));
        assert!(matches!(up("Never", other_runtime), Plan::Unsupported { .. }));
        let control_plane =
            up("Allowed", |desired| desired.versions.control_plane = Some("v1.36.0".to_owned()));
        assert_eq!(control_plane, Plan::Unsupported { reason: NO_CONTROL_PLANE.to_owned() });
    }

    #[test]
    fn an_agent_that_does_not_run_is_started_without_a_drain() {
        let mut stopped = host("Allowed");
        stopped.versions.kubelet = String::new();
        let steps = vec![Step::new(KUBELET, "v1.36.0")];
        assert_eq!(plan(&stopped, &desired(|_| {})), Plan::InPlace { steps, disruptive: false });
    }
}
