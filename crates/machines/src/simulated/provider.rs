//! The provider of simulated hosts: the contract on top of the simulated cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use settled_controller::Clock;

use super::cloud::{Access, Cloud, Latency, SimulatedHost};
use crate::crds::ConfigSchema;
use crate::provider::{
    Desired, Host, HostKey, HostState, Observed, Owned, Plan, Progress, Provider, ProviderError, Request,
    Step,
};
use crate::types::{ContainerRuntime, ErrorReason, MachineAddress};

/// `apiVersion` of the configuration.
pub const API_VERSION: &str = "simulated.cluster.settled.dev/v1alpha1";
/// `kind` of the configuration.
pub const KIND: &str = "SimulatedMachine";

const CONTROL_PLANE: &str = "control-plane";
const RUNTIME: &str = "container-runtime";
const KUBELET: &str = "kubelet";

/// Provider of simulated hosts.
#[derive(Clone, Debug)]
pub struct SimulatedProvider<A> {
    cloud: A,
    clock: Clock,
    latency: Latency,
}

impl<A: Access> SimulatedProvider<A> {
    /// A provider with this cloud.
    #[must_use]
    pub const fn new(cloud: A, clock: Clock, latency: Latency) -> Self {
        Self { cloud, clock, latency }
    }

    /// How a host gets its first state.
    fn build(&self, cloud: &mut Cloud, request: &Request, now: Timestamp) -> SimulatedHost {
        let desired = &request.desired;
        let config = |name: &str| desired.config.get(name);
        let text = |name: &str| config(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        cloud.last_address += 1;
        let [_, high, middle, low] = cloud.last_address.to_be_bytes();
        let runs_from = now + self.latency.of(self.latency.create, request.key.as_str());
        let joins = config("neverJoins").and_then(Value::as_bool) != Some(true);
        SimulatedHost {
            // A new host has another id, also one for the same Machine.
            id: format!("simulated://{}/{}", request.key, cloud.last_address),
            machine: request.machine.clone(),
            node_name: desired.node_name.clone(),
            labels: desired.labels.clone(),
            taints: desired.taints.clone(),
            address: format!("10.{high}.{middle}.{low}"),
            versions: desired.versions.clone(),
            image: text("image"),
            size: text("size"),
            runs_from,
            joins_from: joins.then(|| runs_from + self.latency.of(self.latency.boot, request.key.as_str())),
            busy_until: None,
            gone_from: None,
            steps: 0,
        }
    }

    fn pending(now: Timestamp, until: Timestamp) -> Progress {
        match Duration::try_from(until.duration_since(now)) {
            Ok(rest) if !rest.is_zero() => Progress::Pending { retry_after: rest },
            _ => Progress::Done,
        }
    }
}

fn state(host: &SimulatedHost, now: Timestamp) -> HostState {
    if host.gone_from.is_some() {
        HostState::Deleting
    } else if now < host.runs_from {
        HostState::Creating
    } else if host.busy_until.is_some_and(|until| now < until) {
        HostState::Updating
    } else {
        HostState::Running
    }
}

fn view(host: &SimulatedHost, now: Timestamp) -> Host {
    Host {
        id: host.id.clone(),
        state: state(host, now),
        addresses: vec![MachineAddress { type_: "InternalIP".to_owned(), address: host.address.clone() }],
        versions: host.versions.clone(),
        facts: BTreeMap::from([
            ("image".to_owned(), host.image.clone()),
            ("size".to_owned(), host.size.clone()),
        ]),
        node_name: host.node_name.clone(),
        pool_host: None,
    }
}

/// Fails if the cloud refuses a call for good.
fn refuse(cloud: &Cloud, call: &str) -> Result<(), ProviderError> {
    match cloud.refused_calls.contains(call) {
        true => Err(ProviderError::terminal(
            ErrorReason::InvalidConfiguration,
            format!("{call} is not permitted"),
        )),
        false => Ok(()),
    }
}

/// What a step makes of a host.
fn perform(host: &mut SimulatedHost, step: &Step) {
    match step.name.as_str() {
        CONTROL_PLANE => host.versions.control_plane = Some(step.argument.clone()),
        KUBELET => host.versions.kubelet.clone_from(&step.argument),
        _ => {
            if let Some(runtime) = &mut host.versions.container_runtime {
                runtime.version.clone_from(&step.argument);
            }
        }
    }
}

/// Whether a step was performed.
fn is_performed(host: &SimulatedHost, step: &Step) -> bool {
    let mut performed = host.clone();
    perform(&mut performed, step);
    performed.versions == host.versions
}

fn minor(version: &str) -> Option<&str> {
    version.trim_start_matches('v').rsplit_once('.').map(|(minor, _)| minor)
}

impl<A: Access> Provider for SimulatedProvider<A> {
    fn schema(&self) -> ConfigSchema {
        ConfigSchema {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "image": {"type": "string", "minLength": 1, "maxLength": 253, "default": "debian-12"},
                    "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
                    "failCreates": {"type": "integer", "minimum": 0, "description": "How many attempts to create the host fail."},
                    "createError": {"type": "string", "enum": ["CreateError", "InsufficientResources"], "description": "The host cannot be created."},
                    "neverJoins": {"type": "boolean", "description": "The Node never registers."},
                    "replacePolicy": {"type": "string", "enum": ["Allowed", "Never"], "default": "Allowed"},
                },
            }),
        }
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        let mut errors = Vec::new();
        if desired.versions.kubelet.is_empty() {
            errors.push("spec.versions.kubelet: Required value".to_owned());
        }
        errors
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        let now = self.clock.now();
        async move {
            Ok(self
                .cloud
                .read(|cloud| match cloud.hosts.get(key.as_str()) {
                    Some(host) if host.gone_from.is_none_or(|gone| gone > now) => {
                        Observed::Host(Box::new(view(host, now)))
                    }
                    _ => Observed::Absent,
                })
                .await)
        }
        .boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        let text = |name: &str| desired.config.get(name).and_then(Value::as_str).unwrap_or_default();
        for name in ["image", "size"] {
            let (is, wanted) = (host.facts.get(name).map_or("", String::as_str), text(name));
            if is != wanted {
                let reason = format!("{name} changes from {is} to {wanted}");
                return match text("replacePolicy") {
                    "Never" => Plan::Unsupported { reason: format!("{reason}, and replacePolicy is Never") },
                    _ => Plan::Replace { reason },
                };
            }
        }
        let (is, wanted) = (&host.versions, &desired.versions);
        let runtime =
            |runtime: &Option<ContainerRuntime>| runtime.as_ref().map(|runtime| runtime.name.clone());
        if wanted.container_runtime.is_some()
            && runtime(&is.container_runtime) != runtime(&wanted.container_runtime)
        {
            let name = |of: &Option<ContainerRuntime>| runtime(of).unwrap_or_else(|| "none".to_owned());
            return Plan::Unsupported {
                reason: format!(
                    "the container runtime cannot change from {} to {}",
                    name(&is.container_runtime),
                    name(&wanted.container_runtime)
                ),
            };
        }
        let (mut steps, mut disruptive) = (Vec::new(), false);
        if let Some(version) = &wanted.control_plane
            && is.control_plane.as_ref() != Some(version)
        {
            steps.push(Step::new(CONTROL_PLANE, version));
        }
        if let (Some(is), Some(wanted)) = (&is.container_runtime, &wanted.container_runtime)
            && is.version != wanted.version
        {
            steps.push(Step::new(RUNTIME, &wanted.version));
            disruptive = true;
        }
        if is.kubelet != wanted.kubelet {
            steps.push(Step::new(KUBELET, &wanted.kubelet));
            disruptive |= minor(&is.kubelet) != minor(&wanted.kubelet);
        }
        if steps.is_empty() { Plan::NoOp } else { Plan::InPlace { steps, disruptive } }
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let now = self.clock.now();
            let number =
                |name: &str| request.desired.config.get(name).and_then(Value::as_u64).unwrap_or_default();
            let failures = number("failCreates");
            let refusal = request.desired.config.get("createError").and_then(Value::as_str);
            let action = format!("create the host of {}", request.key);
            self.cloud
                .change(&action, |cloud| {
                    cloud.sweep(now);
                    if let Some(host) = cloud.hosts.get(request.key.as_str()) {
                        return match host.gone_from {
                            Some(gone) => Ok(Self::pending(now, gone)),
                            None => Ok(Self::pending(now, host.runs_from)),
                        };
                    }
                    if let Some(reason) = refusal {
                        let reason = match reason {
                            "InsufficientResources" => ErrorReason::InsufficientResources,
                            _ => ErrorReason::CreateError,
                        };
                        return Err(ProviderError::terminal(
                            reason,
                            "the configuration asks for this failure",
                        ));
                    }
                    let failed = cloud.failed_creates.entry(request.key.as_str().to_owned()).or_default();
                    if u64::from(*failed) < failures {
                        *failed += 1;
                        return Err(ProviderError::Transient(format!(
                            "attempt {failed} to create the host failed"
                        )));
                    }
                    cloud.failed_creates.remove(request.key.as_str());
                    if cloud.quota.is_some_and(|quota| cloud.hosts.len() >= quota) {
                        let message = format!("the quota of {} hosts is used up", cloud.hosts.len());
                        return Err(ProviderError::terminal(ErrorReason::InsufficientResources, message));
                    }
                    let host = self.build(cloud, request, now);
                    let until = host.runs_from;
                    cloud.hosts.insert(request.key.as_str().to_owned(), host);
                    Ok(Self::pending(now, until))
                })
                .await?
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let now = self.clock.now();
            let action = format!("{step} on the host of {}", request.key);
            self.cloud
                .change(&action, |cloud| {
                    refuse(cloud, "step")?;
                    let Some(host) = cloud.hosts.get_mut(request.key.as_str()) else {
                        return Err(ProviderError::Transient("there is no host".to_owned()));
                    };
                    if state(host, now) == HostState::Updating {
                        return Ok(Self::pending(now, host.busy_until.unwrap_or(now)));
                    }
                    if is_performed(host, step) {
                        return Ok(Progress::Done);
                    }
                    perform(host, step);
                    host.steps += 1;
                    let until = now + self.latency.of(self.latency.step, request.key.as_str());
                    host.busy_until = Some(until);
                    Ok(Self::pending(now, until))
                })
                .await?
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let now = self.clock.now();
            self.cloud
                .change(&format!("delete the host of {key}"), |cloud| {
                    refuse(cloud, "delete")?;
                    cloud.sweep(now);
                    cloud.failed_creates.remove(key.as_str());
                    let Some(host) = cloud.hosts.get_mut(key.as_str()) else { return Ok(Progress::Done) };
                    let gone = *host
                        .gone_from
                        .get_or_insert_with(|| now + self.latency.of(self.latency.delete, key.as_str()));
                    cloud.sweep(now);
                    Ok(Self::pending(now, gone))
                })
                .await?
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        async move {
            let now = self.clock.now();
            let owned = |cloud: &Cloud| {
                let live =
                    cloud.hosts.iter().filter(|(_, host)| host.gone_from.is_none_or(|gone| gone > now));
                live.map(|(uid, host)| Owned { key: HostKey::new(uid), id: host.id.clone() }).collect()
            };
            Ok(self.cloud.read(owned).await)
        }
        .boxed()
    }
}
