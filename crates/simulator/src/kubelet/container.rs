//! Status of a container: how it changes when the container starts, ends and waits.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser, LinuxContainerUser, ResourceRequirements, VolumeMountStatus,
};

use super::image;
use super::input::{Input, Role};
use super::start::{BACKOFF, MAX_BACKOFF, Waiting, next_backoff};
use super::status::{seconds, time};
use super::stop::End;
use super::text;
use crate::meta;

/// `MaxContainerBackOff`, twice: after so long without a crash its backoff begins anew.
const FORGIVEN: i64 = 2 * MAX_BACKOFF;

/// A container that nothing has been done for yet.
pub(super) fn unstarted(container: &Container, has_init: bool) -> ContainerStatus {
    let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let mounts = container.volume_mounts.iter().flatten().map(|mount| {
        let read_only = mount.read_only == Some(true);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| match mount.recursive_read_only.as_deref() {
                Some("Enabled") => "Enabled".to_owned(),
                _ => "Disabled".to_owned(),
            }),
            ..VolumeMountStatus::default()
        }
    });
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(waiting((reason.to_owned(), String::new()))),
        volume_mounts: Some(mounts.collect::<Vec<_>>()).filter(|mounts| !mounts.is_empty()),
        ..ContainerStatus::default()
    }
}

fn waiting((reason, message): Waiting) -> ContainerState {
    let message = Some(message).filter(|message| !message.is_empty());
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason), message }),
        ..ContainerState::default()
    }
}

pub(super) fn running_since(status: &ContainerStatus) -> Option<i64> {
    status.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(seconds)
}

pub(super) fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// The run that has ended last, of a container that does not run.
pub(super) fn last_run(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    terminated(status).or_else(|| {
        status.state.as_ref()?.waiting.as_ref()?;
        status.last_state.as_ref()?.terminated.as_ref()
    })
}

/// Was it ever created?
pub(super) fn was_created(status: &ContainerStatus) -> bool {
    running_since(status).is_some() || last_run(status).is_some()
}

/// For how long a container that has ended backs off: what its status says, or what follows from how long it did
/// before its last run. A real kubelet has it in memory.
pub(super) fn backoff(status: &ContainerStatus) -> i64 {
    let message = status.state.as_ref().and_then(|state| state.waiting.as_ref()?.message.as_deref());
    let said = message.and_then(|message| message.strip_prefix("back-off "));
    if let Some(said) = said.and_then(|said| said.split(' ').next()) {
        return settled_go::duration::parse(said).map_or(BACKOFF, |nanoseconds| nanoseconds / 1_000_000_000);
    }
    let of = |run: &ContainerStateTerminated| {
        Some((run.started_at.as_ref().map(seconds)?, run.finished_at.as_ref().map(seconds)?))
    };
    let last = last_run(status);
    if last.and_then(of).is_some_and(|(started, finished)| started > 0 && finished - started > FORGIVEN) {
        return 0;
    }
    if status.restart_count == 0 {
        return 0;
    }
    let before =
        terminated(status).and(status.last_state.as_ref()).and_then(|state| state.terminated.as_ref());
    if let (Some((started, _)), Some((_, finished))) = (last.and_then(of), before.and_then(of))
        && started > 0
    {
        let pause = started - finished;
        let known = std::iter::successors(Some(BACKOFF), |backoff| {
            Some(next_backoff(*backoff)).filter(|next| next > backoff)
        });
        return next_backoff(known.take_while(|backoff| *backoff <= pause).last().unwrap_or(0));
    }
    (1..status.restart_count).fold(BACKOFF, |backoff, _| next_backoff(backoff))
}

/// It runs from a time on.
pub(super) fn begin(status: &mut ContainerStatus, input: &Input<'_>, container: &Container, at: i64) {
    if was_created(status) {
        status.restart_count += 1;
    }
    if let Some(ended) = terminated(status).cloned() {
        status.last_state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    }
    let running = ContainerStateRunning { started_at: Some(time(at)) };
    status.state = Some(ContainerState { running: Some(running), ..ContainerState::default() });
    let restarts = status.restart_count.to_string();
    let id = text::digest(input.seed, &[meta::uid(input.pod), &container.name, &restarts]);
    status.container_id = Some(format!("containerd://{id}"));
    if let Ok(reference) = image::parse(container.image.as_deref().unwrap_or_default()) {
        status.image = reference.name();
        status.image_id = reference.id();
    }
    let resources = container.resources.as_ref();
    status.allocated_resources = resources.and_then(|resources| resources.requests.clone());
    status.resources = Some(ResourceRequirements {
        claims: None,
        limits: resources.and_then(|resources| resources.limits.clone()),
        requests: resources.and_then(|resources| resources.requests.clone()),
    });
    status.user = Some(user(input, container));
}

/// The user that an image without one of its own runs as.
fn user(input: &Input<'_>, container: &Container) -> ContainerUser {
    let (own, pod) = (container.security_context.as_ref(), input.spec.security_context.as_ref());
    let uid = own.and_then(|own| own.run_as_user).or_else(|| pod?.run_as_user).unwrap_or(0);
    let gid = own.and_then(|own| own.run_as_group).or_else(|| pod?.run_as_group).unwrap_or(0);
    let mut groups = vec![gid];
    groups.extend(pod.and_then(|pod| pod.fs_group));
    groups.extend(pod.and_then(|pod| pod.supplemental_groups.as_ref()).into_iter().flatten());
    groups.sort_unstable();
    groups.dedup();
    ContainerUser { linux: Some(LinuxContainerUser { gid, supplemental_groups: Some(groups), uid }) }
}

/// It has ended.
pub(super) fn end(status: &mut ContainerStatus, end: &End, started_at: i64, role: Role) {
    let ended = ContainerStateTerminated {
        exit_code: end.code,
        reason: Some(end.reason.clone()),
        message: Some(end.message.clone()).filter(|message| !message.is_empty()),
        started_at: Some(time(started_at)),
        finished_at: Some(time(end.at)),
        container_id: status.container_id.clone(),
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    status.started = Some(false);
    status.ready = role == Role::Init && end.code == 0;
}

/// It waits to be started, once more.
pub(super) fn wait(status: &mut ContainerStatus, why: Waiting) {
    if let Some(ended) = terminated(status).cloned() {
        status.last_state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    }
    status.state = Some(waiting(why));
    status.ready = false;
    status.started = Some(false);
}
