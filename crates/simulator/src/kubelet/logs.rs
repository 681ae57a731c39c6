//! Logs of the containers that are played.

use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::ContainerStatus;
use settled_controller::ObjectKey;

use super::{container, scripts, stop};
use crate::controller::Shared;
use crate::informers::Informers;
use crate::scenario::Scenario;

/// Why there is no log. The messages are those of kube-apiserver and the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no such Pod.
    #[error("pods {0:?} not found")]
    NoPod(String),
    /// The request does not fit the Pod.
    #[error("{0}")]
    BadRequest(String),
}

/// Where the logs of containers come from.
#[derive(Clone)]
pub struct LogSource {
    informers: Weak<Informers>,
    scenario: Scenario,
}

impl std::fmt::Debug for LogSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogSource").finish_non_exhaustive()
    }
}

impl LogSource {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { informers: Arc::downgrade(&shared.informers), scenario: shared.scenario.clone() }
    }

    /// The whole log of the present run of a container, or of the one before.
    ///
    /// # Errors
    /// There is none, as `validateContainerLogStatus` says.
    pub fn read(&self, namespace: &str, pod: &str, name: &str, previous: bool) -> Result<String, LogError> {
        let informers = self.informers.upgrade();
        let informers =
            informers.ok_or_else(|| LogError::BadRequest("the simulation has ended".to_owned()))?;
        let found = informers.pods.get(ObjectKey::new(namespace, pod));
        let found = found.ok_or_else(|| LogError::NoPod(pod.to_owned()))?;
        let spec = found.spec.clone().unwrap_or_default();
        let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
        let name = match (name, &*spec.containers) {
            ("", [only]) => &*only.name,
            ("", _) => {
                let names: Vec<&str> = spec.containers.iter().map(|container| &*container.name).collect();
                let names = names.join(" ");
                return Err(LogError::BadRequest(format!(
                    "a container name must be specified for pod {pod}, choose one of: [{names}]"
                )));
            }
            (name, _) => name,
        };
        let container = all.find(|container| container.name == name);
        let container = container
            .ok_or_else(|| LogError::BadRequest(format!("container {name} is not valid for pod {pod}")))?;
        let status = found.status.clone().unwrap_or_default();
        let statuses = status.init_container_statuses.iter().chain(&status.container_statuses);
        let known = statuses.flatten().find(|status| status.name == name);
        let run = known.and_then(|known| run(known, previous));
        let Some((number, has_ended)) = run else {
            let waiting = known.and_then(|known| known.state.as_ref()?.waiting.as_ref()?.reason.clone());
            let waiting = waiting.unwrap_or_default();
            return Err(LogError::BadRequest(if previous {
                format!("previous terminated container {name:?} in pod {pod:?} not found")
            } else {
                format!("container {name:?} in pod {pod:?} is waiting to start: {waiting}")
            }));
        };
        let (scripts, _) = scripts(&self.scenario, &found, &spec, &informers);
        let script = scripts.containers.get(name).cloned().unwrap_or_default();
        let mut log = stop::log(container, &script, number, has_ended).join("\n");
        if !log.is_empty() {
            log.push('\n');
        }
        Ok(log)
    }
}

/// Which run of a container is meant, counted from 0, and whether it has ended.
fn run(status: &ContainerStatus, previous: bool) -> Option<(u32, bool)> {
    let restarts = status.restart_count.unsigned_abs();
    let is_running = container::running_since(status).is_some();
    if previous {
        let has_before = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
        // While it waits, the run before is the last one.
        let is_current = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        return has_before.then(|| (if is_current { restarts } else { restarts.saturating_sub(1) }, true));
    }
    (is_running || container::last_run(status).is_some()).then_some((restarts, !is_running))
}
