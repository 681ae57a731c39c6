//! Core of the kubelet: a pure function from a Pod, the objects it refers to, the scenario and the time to its next
//! status, Events, and the time to look again.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, HostIP, PodCondition, PodIP,
    PodStatus,
};

use super::container;
use super::input::{EventKind, Input, Outcome, Role, Timeline};
use super::probes::Run;
use super::references;
use super::resize;
use super::start::{Start, Started};
use super::status::{self, Containers, Generated, seconds, should_restart, time};
use super::stop::{self, End};
use crate::meta;
use crate::scenario::ContainerScript;

/// How long after the Pod was seen its sandbox is there.
const SANDBOX: i64 = 1;
/// `terminationGracePeriodSeconds` of a Pod that does not say.
const GRACE: i64 = 30;

/// Why all containers are to end.
struct Shutdown {
    at: i64,
    grace: i64,
    /// Reason and message of the Pod that has failed.
    failed: Option<(&'static str, String)>,
}

struct Look<'a, 'b> {
    input: &'b Input<'a>,
    old: &'b PodStatus,
    timeline: Timeline,
    resize: resize::Plan,
}

static NO_SCRIPT: LazyLock<ContainerScript> = LazyLock::new(ContainerScript::default);

fn script_of<'b>(input: &'b Input<'_>, container: &str) -> &'b ContainerScript {
    input.scripts.containers.get(container).unwrap_or(&NO_SCRIPT)
}

/// Looks at a Pod.
pub(crate) fn sync(input: &Input<'_>) -> Outcome {
    let old = input.pod.status.clone().unwrap_or_default();
    if matches!(old.phase.as_deref(), Some("Succeeded" | "Failed")) {
        let delete = meta::is_deleting(input.pod);
        return Outcome { status: old, events: Vec::new(), next: None, delete };
    }
    let timeline = Timeline::new(input.since, input.now);
    Look { input, old: &old, timeline, resize: resize::Plan::default() }.look()
}

/// When mounts are tried, after the first time: 500 ms, doubled up to 122 s, in whole seconds.
fn mount_tries() -> impl Iterator<Item = i64> {
    let mut milliseconds = 0_i64;
    let mut pause = 500;
    std::iter::from_fn(move || {
        let at = (milliseconds + 999) / 1000;
        milliseconds = milliseconds.checked_add(pause)?;
        pause = (pause * 2).min(122_000);
        Some(at)
    })
}

impl<'a, 'b> Look<'a, 'b> {
    fn look(mut self) -> Outcome {
        let Some(start) = self.old.start_time.as_ref().map(seconds) else {
            let containers = self.unstarted();
            let now = self.input.now;
            self.timeline.next = Some(now + SANDBOX);
            return self.finish(now, &containers, (None, None), false);
        };
        let shutdown = self.shutdown(start);
        let now = self.timeline.now;
        if let Some(shutdown) = &shutdown {
            // Until then it goes on as ever.
            self.timeline.now = shutdown.at;
        }
        let sandbox = self.sandbox(start);
        if shutdown.is_none() && sandbox.is_some() {
            let known = self.known();
            self.resize = resize::plan(self.input, self.old, &known, &mut self.timeline);
        }
        let mut containers = self.run_all(sandbox);
        if let Some(shutdown) = shutdown {
            (self.timeline.now, self.timeline.next) = (now, None);
            if let Some((reason @ "DeadlineExceeded", message)) = &shutdown.failed {
                self.timeline.event(shutdown.at, EventKind::normal(reason), None, message.clone());
            } else if let Some((reason, message)) = &shutdown.failed {
                self.timeline.event(shutdown.at, EventKind::warning(reason), None, message.clone());
            }
            let has_ended = self.kill_all(&mut containers, shutdown.at, shutdown.grace);
            let failed = shutdown.failed.filter(|_| has_ended);
            let sandbox = sandbox.filter(|_| !has_ended);
            let delete = has_ended && meta::is_deleting(self.input.pod);
            let outcome = self.finish(start, &containers, (sandbox, failed), has_ended);
            return Outcome { delete, ..outcome };
        }
        if let Some(at) = self.completion(&containers) {
            let grace = self.input.spec.termination_grace_period_seconds.unwrap_or(GRACE);
            let has_ended = self.kill_all(&mut containers, at, grace);
            let sandbox = sandbox.filter(|_| !has_ended);
            return self.finish(start, &containers, (sandbox, None), has_ended);
        }
        self.finish(start, &containers, (sandbox, None), false)
    }

    /// What ends all containers first: deletion, the deadline of the Pod, or an eviction.
    fn shutdown(&mut self, start: i64) -> Option<Shutdown> {
        let Input { pod, spec, .. } = *self.input;
        let grace = spec.termination_grace_period_seconds.unwrap_or(GRACE);
        let mut all = Vec::new();
        if let Some(deletion) = &pod.metadata.deletion_timestamp {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(GRACE);
            all.push(Shutdown { at: seconds(deletion) - grace, grace, failed: None });
        }
        if let Some(active) = spec.active_deadline_seconds {
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            all.push(Shutdown { at: start + active, grace, failed: Some(("DeadlineExceeded", message)) });
        }
        if let Some(evict) = &self.input.scripts.evict {
            let message = format!("The node was low on resource: {}. ", evict.resource);
            let at = start + evict.after.seconds();
            all.push(Shutdown { at, grace: 1, failed: Some(("Evicted", message)) });
        }
        let now = self.timeline.now;
        all.iter().for_each(|one| self.timeline.wake(one.at));
        all.into_iter().filter(|one| one.at <= now).min_by_key(|one| one.at)
    }

    /// Mounts the volumes. When the sandbox is there.
    fn sandbox(&mut self, start: i64) -> Option<i64> {
        if let Some(at) = status::ready_to_start(self.old) {
            return Some(at);
        }
        for pause in mount_tries() {
            let at = start + SANDBOX + pause;
            if at > self.timeline.now {
                self.timeline.wake(at);
                return None;
            }
            if self.timeline.is_past(at) {
                continue;
            }
            let errors = references::mount_errors(self.input);
            if errors.is_empty() {
                return Some(at);
            }
            let failed_mount = EventKind::warning("FailedMount");
            let (claims, others): (Vec<_>, Vec<_>) =
                errors.into_iter().partition(|error| error.is_unprocessed);
            for error in others {
                self.timeline.event(at, failed_mount, None, error.message);
            }
            if !claims.is_empty() {
                let names: Vec<&str> = claims.iter().map(|error| &*error.volume).collect();
                let messages: Vec<&str> = claims.iter().map(|error| &*error.message).collect();
                let (names, why) = (names.join(" "), messages.join("; "));
                let note = format!(
                    "Unable to attach or mount volumes: unmounted volumes=[{names}], unattached volumes=[], failed \
                     to process volumes=[{names}]: {why}"
                );
                self.timeline.event(at, failed_mount, None, note);
            }
        }
        None
    }

    fn unstarted(&self) -> Containers {
        let spec = self.input.spec;
        let has_init = spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
        let make = |container: &Container| container::unstarted(container, has_init);
        Containers {
            init: spec.init_containers.iter().flatten().map(make).collect(),
            regular: spec.containers.iter().map(make).collect(),
        }
    }

    /// The statuses as they are, or of containers that were not started.
    fn known(&self) -> Containers {
        let Containers { mut init, mut regular } = self.unstarted();
        let keep = |statuses: &mut Vec<ContainerStatus>, old: Option<&Vec<ContainerStatus>>| {
            for status in statuses {
                if let Some(old) = old.into_iter().flatten().find(|old| old.name == status.name) {
                    *status = old.clone();
                }
            }
        };
        keep(&mut init, self.old.init_container_statuses.as_ref());
        keep(&mut regular, self.old.container_statuses.as_ref());
        Containers { init, regular }
    }

    /// Brings all containers forward to now.
    fn run_all(&mut self, sandbox: Option<i64>) -> Containers {
        let spec = self.input.spec;
        let mut containers = self.known();
        let Some(sandbox) = sandbox else { return containers };
        let has_initialized = containers.regular.iter().any(container::was_created);
        let mut base = Some(sandbox);
        for (container, known) in spec.init_containers.iter().flatten().zip(&mut containers.init) {
            let role = Role::of_init(container);
            if has_initialized && role == Role::Init {
                continue;
            }
            // Only what was never created has a first start, and asks for a pull then.
            let first_end = |base| {
                if container::was_created(known) { base } else { self.first_end(container, role, base) }
            };
            let first = base.map(|base| (base, first_end(base)));
            let first = first.or_else(|| has_initialized.then_some((sandbox, sandbox)));
            let started = self.run(container, role, first, sandbox, known);
            let finished = container::terminated(known).filter(|terminated| terminated.exit_code == 0);
            base = match role {
                Role::Sidecar => started.filter(|_| base.is_some()),
                _ => finished.and_then(|terminated| terminated.finished_at.as_ref()).map(seconds),
            };
        }
        if base.is_none() && !has_initialized {
            return containers;
        }
        // They are started one after the other, and reported together.
        let base = base.unwrap_or(sandbox);
        let (mut next, mut bases) = (base, Vec::new());
        let are_created = containers.regular.iter().all(container::was_created);
        for container in &spec.containers {
            bases.push(next);
            if !are_created {
                next = self.first_end(container, Role::Regular, next);
            }
        }
        for ((container, known), base) in spec.containers.iter().zip(&mut containers.regular).zip(bases) {
            self.run(container, Role::Regular, Some((base, next)), sandbox, known);
        }
        containers
    }

    fn starts(
        &self,
        container: &'a Container,
        role: Role,
        (base, visible): (i64, i64),
        known: Option<&ContainerStatus>,
    ) -> Start<'a, 'b> {
        let last = known.and_then(container::last_run);
        // What is restarted for its new resources does not back off: it is started in the sync that ends it.
        let is_resized = known.is_some_and(|known| self.restarts_for_resize(container, known));
        if let Some(last) = last.filter(|_| is_resized) {
            let base = last.finished_at.as_ref().map_or(base, seconds);
            let script = script_of(self.input, &container.name);
            let runs = known.map_or(0, |known| known.restart_count.unsigned_abs() + 1);
            let visible = i64::MIN;
            return Start {
                input: self.input,
                container,
                role,
                script,
                base,
                visible,
                crashed: None,
                waiting: None,
                runs,
            };
        }
        let crashed = last.zip(known).and_then(|(last, known)| {
            let finished = last.finished_at.as_ref().map(seconds)?;
            Some((finished, container::backoff(known)))
        });
        let base = crashed.map_or(base, |(finished, _)| finished);
        let visible = crashed.map_or(visible, |_| i64::MIN);
        let waiting = known.and_then(|known| known.state.as_ref()?.waiting.as_ref());
        let waiting = waiting.map(|waiting| {
            (waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default())
        });
        let runs = if crashed.is_some() {
            known.map_or(0, |known| known.restart_count.unsigned_abs() + 1)
        } else {
            0
        };
        Start {
            input: self.input,
            container,
            role,
            script: script_of(self.input, &container.name),
            base,
            visible,
            crashed,
            waiting,
            runs,
        }
    }

    /// Has a container ended because its resources change?
    fn restarts_for_resize(&self, container: &Container, known: &ContainerStatus) -> bool {
        let since = status::condition(self.old, resize::IN_PROGRESS)
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(seconds);
        since.is_some_and(|since| resize::restarts(container, known, since))
    }

    fn first_end(&self, container: &'a Container, role: Role, base: i64) -> i64 {
        self.starts(container, role, (base, base), None).first_end()
    }

    /// Brings a container forward to now. Since when it is started.
    fn run(
        &mut self,
        container: &'a Container,
        role: Role,
        first: Option<(i64, i64)>,
        sandbox: i64,
        known: &mut ContainerStatus,
    ) -> Option<i64> {
        let spec = self.input.spec;
        loop {
            if let Some(started_at) = container::running_since(known) {
                let (end, started, is_ready) = self.running(container, role, (started_at, sandbox), known);
                if let Some(end) = end {
                    if end.at <= self.timeline.now {
                        container::end(known, &end, started_at, role);
                        continue;
                    }
                    self.timeline.wake(end.at);
                }
                known.started = Some(started.is_some());
                known.ready = role != Role::Init && is_ready;
                if self.resize.is_allocated && known.resources.is_some() {
                    resize::allocate(container, known);
                    if self.resize.actuated.is_some() && !resize::needs_restart(container, known) {
                        resize::actuate(container, known);
                    }
                }
                return started;
            }
            if let Some(terminated) = container::terminated(known)
                && !should_restart(spec, container, role, terminated.exit_code)
                && !self.restarts_for_resize(container, known)
            {
                return None;
            }
            let first = if container::last_run(known).is_some() { Some((0, 0)) } else { first };
            let starts = self.starts(container, role, first?, Some(known));
            match starts.walk(&mut self.timeline) {
                Started::Running { at } => container::begin(known, self.input, container, at),
                Started::Failed { at, waiting, code, reason, message, started_at } => {
                    container::begin(known, self.input, container, started_at);
                    let end = End { at, code, reason: reason.to_owned(), message };
                    container::end(known, &end, started_at, role);
                    if !should_restart(spec, container, role, code) {
                        return None;
                    }
                    container::wait(known, waiting);
                }
                Started::Waiting(waiting) => {
                    if let Some(waiting) = waiting {
                        container::wait(known, waiting);
                    }
                    return None;
                }
            }
        }
    }

    /// How a running container ends, since when it is started, and whether it is ready.
    fn running(
        &mut self,
        container: &'a Container,
        role: Role,
        (started_at, sandbox): (i64, i64),
        known: &ContainerStatus,
    ) -> (Option<End>, Option<i64>, bool) {
        let input = self.input;
        let script = script_of(input, &container.name);
        let restarts = known.restart_count.unsigned_abs();
        let restarts_always = should_restart(input.spec, container, role, 0);
        let own = stop::own_end(container, role, script, (started_at, restarts, restarts_always));
        if role == Role::Init {
            return (own, Some(started_at), false);
        }
        let own_at = own.as_ref().map_or(i64::MAX, |own| own.at);
        let ip = self.old.pod_ip.as_deref().unwrap_or(input.pod_ip);
        let run = Run { container, role, script, started_at, ticks_from: sandbox, restarts, ip };
        let health = run.health(&mut self.timeline, own_at);
        let Some(kill) = health.kill else {
            let killed = self.kill_for_resize(container, role, started_at, known);
            let first = own.into_iter().chain(killed).min_by_key(|end| end.at);
            return (first, health.started_at, health.is_ready);
        };
        let probe =
            if kill.probe == "liveness" { &container.liveness_probe } else { &container.startup_probe };
        let own_grace = probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
        let grace = own_grace.or(input.spec.termination_grace_period_seconds).unwrap_or(GRACE);
        let (name, probe) = (&container.name, kill.probe);
        let note = if role == Role::Sidecar {
            format!("Init container {name} failed {probe} probe")
        } else if should_restart(input.spec, container, role, 137) {
            format!("Container {name} failed {probe} probe, will be restarted")
        } else {
            format!("Container {name} failed {probe} probe")
        };
        let killed =
            stop::kill(&mut self.timeline, (container, role, script), (kill.at, grace, kill.at), note);
        let first = own.filter(|own| own.at <= killed.at).unwrap_or(killed);
        (Some(first), health.started_at, health.is_ready)
    }

    /// How a container ends whose new resources need a restart.
    fn kill_for_resize(
        &mut self,
        container: &'a Container,
        role: Role,
        started_at: i64,
        known: &ContainerStatus,
    ) -> Option<End> {
        let at = self.resize.actuated.filter(|at| started_at < *at)?;
        if resize::has_resources(container, known) || !resize::needs_restart(container, known) {
            return None;
        }
        let grace = self.input.spec.termination_grace_period_seconds.unwrap_or(GRACE);
        let script = script_of(self.input, &container.name);
        let note = format!("Container {} resize requires restart", container.name);
        Some(stop::kill(&mut self.timeline, (container, role, script), (at, grace, at), note))
    }

    /// When the Pod has done its work, or cannot do it any more.
    fn completion(&self, containers: &Containers) -> Option<i64> {
        let spec = self.input.spec;
        let finished = |status: &ContainerStatus| {
            container::terminated(status).and_then(|terminated| terminated.finished_at.as_ref()).map(seconds)
        };
        let is_final = |container: &Container, role, status: &ContainerStatus| {
            container::terminated(status)
                .is_some_and(|terminated| !should_restart(spec, container, role, terminated.exit_code))
        };
        for (container, status) in spec.init_containers.iter().flatten().zip(&containers.init) {
            let failed = container::terminated(status).is_some_and(|terminated| terminated.exit_code != 0);
            let role = Role::of_init(container);
            if role == Role::Init && failed && is_final(container, role, status) {
                return finished(status);
            }
        }
        let mut regular = spec.containers.iter().zip(&containers.regular);
        let is_done = regular.all(|(container, status)| is_final(container, Role::Regular, status));
        if is_done { containers.regular.iter().filter_map(finished).max() } else { None }
    }

    /// Kills what runs: first the regular containers, then the sidecars, the last one first. Whether all have ended.
    fn kill_all(&mut self, containers: &mut Containers, at: i64, grace: i64) -> bool {
        let spec = self.input.spec;
        let mut turn = at;
        let mut has_ended = true;
        let regular = spec.containers.iter().zip(&mut containers.regular).map(|pair| (Role::Regular, pair));
        let init = spec.init_containers.as_deref().unwrap_or_default().iter().zip(&mut containers.init).rev();
        let init = init.map(|(container, status)| (Role::of_init(container), (container, status)));
        let mut last = at;
        for (role, (container, status)) in regular.chain(init) {
            let Some(started_at) = container::running_since(status) else { continue };
            let script = script_of(self.input, &container.name);
            if role == Role::Sidecar {
                turn = last;
            }
            let note = format!("Stopping container {}", container.name);
            let end = stop::kill(&mut self.timeline, (container, role, script), (at, grace, turn), note);
            last = last.max(end.at);
            if end.at > self.timeline.now {
                self.timeline.wake(end.at);
                has_ended = false;
            } else {
                container::end(status, &end, started_at, role);
            }
        }
        has_ended
    }

    fn finish(
        self,
        start: i64,
        containers: &Containers,
        (sandbox, failed): (Option<i64>, Option<(&'static str, String)>),
        is_terminal: bool,
    ) -> Outcome {
        let Input { pod, spec, now, .. } = *self.input;
        let mut phase = status::phase(spec, containers, is_terminal);
        // `TerminatePod`: what has ended without a result has failed.
        if failed.is_some() || (is_terminal && matches!(phase, "Pending" | "Running")) {
            phase = "Failed";
        }
        let generated =
            Generated { pod, spec, old: self.old, containers, phase, ready_to_start: sandbox, now };
        let mut conditions = generated.conditions();
        conditions.retain(|condition| ![resize::PENDING, resize::IN_PROGRESS].contains(&&*condition.type_));
        if !is_terminal {
            conditions.extend(self.resize.conditions.iter().cloned());
        }
        let (mut reason, mut message) = (None, None);
        if self.old.phase.as_deref() == Some(phase) {
            (reason, message) = (self.old.reason.clone(), self.old.message.clone());
        }
        if let Some((why, what)) = failed {
            if why == "Evicted" {
                let target = PodCondition {
                    type_: "DisruptionTarget".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("TerminationByKubelet".to_owned()),
                    message: Some(what.clone()),
                    last_transition_time: Some(time(now)),
                    observed_generation: pod.metadata.generation,
                    ..PodCondition::default()
                };
                conditions.retain(|condition| condition.type_ != target.type_);
                conditions.insert(0, target);
            }
            (reason, message) = (Some(why.to_owned()), Some(what));
        }
        let mut regular = containers.regular.clone();
        regular.sort_by(|one, other| one.name.cmp(&other.name));
        let host_ip = self.input.host_ips.first();
        let is_host_network = spec.host_network == Some(true);
        let has_news = containers.regular.iter().chain(&containers.init).any(|status| !is_default(status));
        let pod_ip = match &self.old.pod_ip {
            Some(ip) => Some(ip.clone()),
            None if is_host_network => host_ip.cloned(),
            None => (has_news && sandbox.is_some()).then(|| self.input.pod_ip.to_owned()),
        };
        let init = Some(containers.init.clone()).filter(|init| !init.is_empty());
        let hosts = self.input.host_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect::<Vec<_>>();
        let status = PodStatus {
            phase: Some(phase.to_owned()),
            reason,
            message,
            conditions: Some(conditions),
            container_statuses: Some(regular),
            init_container_statuses: init,
            start_time: Some(time(start)),
            host_ip: host_ip.cloned(),
            host_ips: Some(hosts).filter(|hosts| !hosts.is_empty()),
            pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip,
            observed_generation: pod.metadata.generation,
            ..self.old.clone()
        };
        let Timeline { mut events, next, .. } = self.timeline;
        events.sort_by_key(|event| event.at);
        Outcome {
            status,
            events,
            next: next.filter(|_| !matches!(phase, "Succeeded" | "Failed")),
            delete: false,
        }
    }
}

/// Is nothing known of a container?
fn is_default(status: &ContainerStatus) -> bool {
    let waiting = status.state.as_ref().and_then(|state: &ContainerState| state.waiting.as_ref());
    let last: Option<&ContainerStateTerminated> = container::last_run(status);
    last.is_none()
        && waiting.is_some_and(|waiting| {
            matches!(waiting.reason.as_deref(), Some("ContainerCreating" | "PodInitializing"))
        })
}
