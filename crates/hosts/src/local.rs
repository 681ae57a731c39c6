//! What providers of hosts on this machine share: requests that the agent carries out, steps of updates, and hosts that are being created.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use settled_machines::provider::{Desired, Plan, Request, Step};
use settled_machines::types::{ContainerRuntime, MachineVersions};

use crate::agent::Asked;

/// Steps, and fields of configurations.
pub(crate) const RUNTIME: &str = "container-runtime";
pub(crate) const KUBELET: &str = "kubelet";
pub(crate) const REBOOT: &str = "reboot";
pub(crate) const IMAGE: &str = "image";

/// Hosts that this process is creating: others in that phase were cut off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Creations(Arc<Mutex<BTreeSet<String>>>);

/// A host that is being created, until this is dropped.
#[derive(Debug)]
pub(crate) struct Creating(Creations, String);

impl Drop for Creating {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Creations {
    /// The creation of a host begins.
    pub(crate) fn begin(&self, key: &str) -> Creating {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        Creating(self.clone(), key.to_owned())
    }

    /// Whether this process is creating a host.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}

/// A text of a configuration, empty if there is none.
pub(crate) fn text(config: &Value, name: &str) -> String {
    config.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Schema of the field `reboot`.
pub(crate) fn reboot_schema(what: &str) -> Value {
    json!({
        "type": "string", "maxLength": 63,
        "description": format!("Any value; the {what} is rebooted when it changes."),
    })
}

/// The desired state of a host's agent, of a request.
pub(crate) fn asked(request: &Request) -> Asked {
    Asked {
        versions: request.desired.versions.clone(),
        reboot: text(&request.desired.config, REBOOT),
        attempt: request.generation,
    }
}

/// Changes the desired state of a host's agent by a step.
pub(crate) fn take_step(asked: &mut Asked, step: &Step) {
    match step.name.as_str() {
        KUBELET => asked.versions.kubelet.clone_from(&step.argument),
        REBOOT => asked.reboot.clone_from(&step.argument),
        RUNTIME => {
            if let Some(runtime) = &mut asked.versions.container_runtime {
                runtime.version.clone_from(&step.argument);
            }
        }
        _ => {}
    }
}

/// What a host that only runs a kubelet cannot have.
pub(crate) fn validate(desired: &Desired, what: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if desired.versions.kubelet.is_empty() {
        errors.push("spec.versions.kubelet: Required value".to_owned());
    }
    if desired.versions.control_plane.is_some() {
        errors.push(format!("spec.versions.controlPlane: Forbidden: a {what} runs no control plane"));
    }
    errors
}

/// Another kind of container runtime cannot be had.
pub(crate) fn refuse_runtime(is: &MachineVersions, wanted: &MachineVersions) -> Option<Plan> {
    let name = |runtime: &Option<ContainerRuntime>| {
        runtime.as_ref().map_or_else(|| "none".to_owned(), |runtime| runtime.name.clone())
    };
    let (is, wanted) = (name(&is.container_runtime), name(&wanted.container_runtime));
    (is != wanted).then(|| Plan::Unsupported {
        reason: format!("the container runtime cannot change from {is} to {wanted}"),
    })
}

/// Steps from the versions that run to those that are wanted.
pub(crate) fn version_steps(is: &MachineVersions, wanted: &MachineVersions) -> Vec<Step> {
    let mut steps = Vec::new();
    if let (Some(is), Some(wanted)) = (&is.container_runtime, &wanted.container_runtime)
        && is.version != wanted.version
    {
        steps.push(Step::new(RUNTIME, &wanted.version));
    }
    if is.kubelet != wanted.kubelet {
        steps.push(Step::new(KUBELET, &wanted.kubelet));
    }
    steps
}
