//! Starts of a container: `SyncPod` after `SyncPod`, with image pulls, their backoff and the backoff of crash loops.

use k8s_openapi::api::core::v1::Container;
use settled_go::strconv::quote;

use super::image::{self, Reference};
use super::input::{EventKind, Input, Role, Timeline};
use super::pulls::{PullRequest, Turn};
use super::references;
use super::text;
use crate::scenario::{ContainerScript, Pull, StartFailure};

/// `backOffPeriod`, `imageBackOffPeriod` and the first backoff of a crash loop.
pub(super) const BACKOFF: i64 = 10;
/// `MaxImageBackOff` and `MaxCrashLoopBackOff`.
pub(super) const MAX_BACKOFF: i64 = 300;
/// `syncFrequency`.
const RESYNC: i64 = 60;
/// How long a container takes to be created and started, unless the scenario says otherwise.
const START: i64 = 1;
/// Milliseconds of a pull of an image that is there.
const PRESENT: u64 = 300;

const FAILED: EventKind = EventKind::warning("Failed");

/// Reason and message of a container that waits.
pub(super) type Waiting = (String, String);

/// What has become of the starts so far.
pub(super) enum Started {
    /// It runs, or its hook has failed.
    Running { at: i64 },
    /// It was created, and could not be run.
    Failed { at: i64, waiting: Waiting, code: i32, reason: &'static str, message: String, started_at: i64 },
    /// Not yet. What its status says, if that has changed.
    Waiting(Option<Waiting>),
}

/// A container that is to be started.
pub(super) struct Start<'a, 'b> {
    pub(super) input: &'b Input<'a>,
    pub(super) container: &'a Container,
    pub(super) role: Role,
    pub(super) script: &'b ContainerScript,
    /// When it is tried for the first time.
    pub(super) base: i64,
    /// When all containers that are started together have been tried: only then a status is written.
    pub(super) visible: i64,
    /// When its last run ended, and for how long it backs off after that.
    pub(super) crashed: Option<(i64, i64)>,
    /// What it waits for already.
    pub(super) waiting: Option<Waiting>,
    /// How often it has run before.
    pub(super) runs: u32,
}

enum ImageStep {
    Present { at: i64 },
    Failed { at: i64, waiting: Waiting },
}

/// Pulls of one image so far.
struct Pulls {
    failed: u32,
    until: i64,
    error: String,
    is_pulled: bool,
}

fn doubled(failed: u32) -> i64 {
    BACKOFF.saturating_mul(1_i64.checked_shl(failed.min(16)).unwrap_or(i64::MAX)).min(MAX_BACKOFF)
}

/// What comes after a backoff: `flowcontrol.Backoff.Next`.
pub(super) const fn next_backoff(backoff: i64) -> i64 {
    let next = if backoff < BACKOFF { BACKOFF } else { backoff * 2 };
    if next < MAX_BACKOFF { next } else { MAX_BACKOFF }
}

impl Start<'_, '_> {
    fn path(&self) -> String {
        self.role.field_path(&self.container.name)
    }

    fn image(&self) -> &str {
        self.container.image.as_deref().unwrap_or_default()
    }

    /// `wait.Jitter(_, 0.5)` in whole seconds. It follows from the age of the Pod: the time of day must not decide
    /// what a seed leads to.
    fn jitter(&self, seconds: i64, sync: i64) -> i64 {
        let pod = text::pod(self.input.pod);
        let created = self.input.pod.metadata.creation_timestamp.as_ref();
        let age = sync - created.map_or(0, |created| created.0.as_second());
        let hash = text::hash(self.input.seed, &[&pod, &self.container.name, "sync", &age.to_string()]);
        let most = u64::try_from(seconds / 2).unwrap_or_default() + 1;
        seconds + i64::try_from(hash % most).unwrap_or_default()
    }

    fn pull_script(&self) -> Pull {
        self.script.pull.clone().unwrap_or_default()
    }

    /// When it is the turn of a pull.
    fn pull(
        &self,
        reference: &Reference,
        pull: &Pull,
        at: i64,
        (is_present, succeeds): (bool, bool),
    ) -> Turn {
        let given = pull.takes.and_then(|takes| u64::try_from(takes.0.as_millis()).ok());
        let first = given.unwrap_or_else(|| if is_present { PRESENT } else { reference.pull_time() });
        let (container, image) = (&*self.container.name, self.image());
        let takes = (first, first.min(PRESENT));
        (self.input.pull)(&PullRequest { container, image, at, takes, succeeds })
    }

    fn is_on_node(&self, pull: &Pull, at: i64) -> bool {
        pull.present || (self.input.image_since)(self.image()).is_some_and(|since| since <= at)
    }

    /// `EnsureImageExists`.
    fn ensure_image(&self, timeline: &mut Timeline, sync: i64, pulls: &mut Pulls) -> ImageStep {
        let (image, path) = (self.image(), self.path());
        let quoted = quote(image);
        let failed = |timeline: &mut Timeline, at, reason: &str, message: String| {
            timeline.event(at, FAILED, Some(&path), format!("Error: {reason}"));
            ImageStep::Failed { at, waiting: (reason.to_owned(), message) }
        };
        let reference = match image::parse(image) {
            Ok(reference) => reference,
            Err(why) => {
                let message = format!(
                    "Failed to apply default image tag {quoted}: couldn't parse image name {quoted}: {why}"
                );
                timeline.event(sync, EventKind::warning("InspectFailed"), Some(&path), message.clone());
                return failed(timeline, sync, "InvalidImageName", message);
            }
        };
        let pull = self.pull_script();
        let policy = self.container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        let is_present = pulls.is_pulled || self.is_on_node(&pull, sync);
        if policy == "Never" && !is_present {
            let message = format!("Container image {quoted} is not present with pull policy of Never");
            timeline.event(sync, EventKind::warning("ErrImageNeverPull"), Some(&path), message.clone());
            return failed(timeline, sync, "ErrImageNeverPull", message);
        }
        if is_present && policy != "Always" {
            let note =
                format!("Container image {quoted} already present on machine and can be accessed by the pod");
            timeline.event(sync, EventKind::normal("Pulled"), Some(&path), note);
            return ImageStep::Present { at: sync };
        }
        if sync < pulls.until {
            let message = format!("Back-off pulling image {quoted}");
            timeline.event(sync, EventKind::normal("BackOff"), Some(&path), message.clone());
            return failed(timeline, sync, "ImagePullBackOff", format!("{message}: {}", pulls.error));
        }
        timeline.event(sync, EventKind::normal("Pulling"), Some(&path), format!("Pulling image {quoted}"));
        let fails =
            pull.fails.is_some() && pull.times.is_none_or(|times| self.runs == 0 && pulls.failed < times);
        let turn = self.pull(&reference, &pull, sync, (is_present, !fails));
        let at = turn.over();
        if fails {
            let error = reference.error(&pull);
            timeline.event(at, FAILED, Some(&path), format!("Failed to pull image {quoted}: {error}"));
            let (reason, message) = image::pull_reason(image, &error);
            pulls.until = at + doubled(pulls.failed);
            pulls.failed += 1;
            pulls.error = format!("{reason}: {message}");
            return failed(timeline, at, reason, message);
        }
        let since = |begin: i64| text::duration(u64::try_from(turn.end - begin).unwrap_or_default());
        let note = format!(
            "Successfully pulled image {quoted} in {} ({} including waiting). Image size: {} bytes.",
            since(turn.begin),
            since(sync * 1000),
            reference.size()
        );
        timeline.event(at, EventKind::normal("Pulled"), Some(&path), note);
        pulls.is_pulled = true;
        ImageStep::Present { at }
    }

    /// When the first try is over: what is started together waits for it.
    pub(super) fn first_end(&self) -> i64 {
        let mut ignored = Timeline::new(Some(i64::MAX), i64::MIN);
        match self.ensure_image(&mut ignored, self.base, &mut Pulls::new()) {
            ImageStep::Failed { at, .. } => at,
            ImageStep::Present { at } => at + self.start_time() + self.hook_time(),
        }
    }

    fn start_time(&self) -> i64 {
        self.script
            .start
            .as_ref()
            .and_then(|start| start.takes)
            .map_or(START, crate::scenario::Delay::seconds)
    }

    fn has_hook(&self) -> bool {
        self.container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some())
    }

    fn hook_time(&self) -> i64 {
        let hook = self.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook else { return 0 };
        let scripted = self.script.post_start.as_ref().and_then(|script| script.takes);
        scripted.map_or_else(|| super::stop::handler_time(hook), crate::scenario::Delay::seconds)
    }

    /// `doBackOff`: whether a sync is too early for another start.
    fn back_off(&self, timeline: &mut Timeline, sync: i64) -> Option<(Waiting, i64)> {
        let (finished, backoff) = self.crashed?;
        if sync >= finished + backoff {
            return None;
        }
        let (name, pod) = (&self.container.name, text::pod(self.input.pod));
        let note = format!("Back-off restarting failed container {name} in pod {pod}");
        timeline.event(sync, EventKind::warning("BackOff"), Some(&self.path()), note);
        let seconds = u64::try_from(backoff).unwrap_or_default();
        let pause = text::duration(seconds * 1000);
        let message = format!("back-off {pause} restarting failed container={name} pod={pod}");
        let next = self.jitter((finished + backoff - sync).clamp(1, RESYNC), sync);
        Some((("CrashLoopBackOff".to_owned(), message), sync + next))
    }

    /// Tries to start it until now.
    pub(super) fn walk(&self, timeline: &mut Timeline) -> Started {
        let mut pulls = Pulls::new();
        let mut shown = None;
        let mut failure: Option<Waiting> = None;
        let mut sync = self.base;
        let mut failed_starts = 0;
        for number in 0_u32.. {
            if sync > timeline.now {
                timeline.wake(sync);
                break;
            }
            // A sync first reports what the one before has found.
            shown = failure.take().or(shown);
            let visible = if number == 0 { self.visible } else { i64::MIN };
            if let Some((waiting, next)) = self.back_off(timeline, sync) {
                (failure, sync) = (Some(waiting), next);
                continue;
            }
            let end = match self.ensure_image(timeline, sync, &mut pulls) {
                ImageStep::Present { at } => at + self.start_time(),
                ImageStep::Failed { at, waiting } => {
                    failure = Some(waiting);
                    sync = self.retry(number, at.max(visible), sync);
                    continue;
                }
            };
            let done = (end + self.hook_time()).max(visible);
            if done > timeline.now && end > timeline.now {
                timeline.wake(end);
                break;
            }
            match self.create(timeline, end, done, &mut failed_starts) {
                Ok(Some(started)) => return started,
                Ok(None) => {
                    timeline.wake(done);
                    break;
                }
                Err(waiting) => {
                    failure = Some(waiting);
                    sync = self.retry(number, done, sync);
                }
            }
        }
        Started::Waiting(shown)
    }

    /// When it is tried again. The first sync of a Pod is followed by one at once: its sandbox is news.
    fn retry(&self, number: u32, end: i64, sync: i64) -> i64 {
        if number == 0 && self.crashed.is_none() { end.max(sync) } else { end + self.jitter(BACKOFF, sync) }
    }

    /// The container is created, started, and its hook runs. None while that goes on.
    fn create(
        &self,
        timeline: &mut Timeline,
        end: i64,
        done: i64,
        failed_starts: &mut u32,
    ) -> Result<Option<Started>, Waiting> {
        let path = self.path();
        let failed = |timeline: &mut Timeline, message: &str| {
            timeline.event(end, FAILED, Some(&path), format!("Error: {message}"));
        };
        let error = references::config_error(self.input, self.container);
        let was_error = self.waiting.as_ref().filter(|(reason, _)| reason == "CreateContainerConfigError");
        // What an earlier look has seen has failed then, or the container would run.
        let message = match (&error, was_error) {
            (Some(error), _) => Some(error.clone()),
            (None, Some((_, message))) if timeline.is_past(done) => Some(message.clone()),
            (None, _) => None,
        };
        if let Some(message) = message {
            failed(timeline, &message);
            return Err(("CreateContainerConfigError".to_owned(), message));
        }
        let script = self.script.start.as_ref();
        let fails = script.and_then(|script| {
            let times = script.times;
            script.fails.filter(|_| times.is_none_or(|times| self.runs + *failed_starts < times))
        });
        if fails == Some(StartFailure::Create) {
            *failed_starts += 1;
            let message = script.and_then(|script| script.message.clone()).unwrap_or_else(|| {
                format!(
                    "failed to generate container spec: failed to apply OCI options: container {}",
                    self.container.name
                )
            });
            failed(timeline, &message);
            return Err(("CreateContainerError".to_owned(), message));
        }
        timeline.event(end, EventKind::normal("Created"), Some(&path), "Container created");
        if fails == Some(StartFailure::Run) {
            let message = script.and_then(|script| script.message.clone()).unwrap_or_else(|| {
                let program = self.container.command.iter().flatten().next().map_or("entrypoint", String::as_str);
                format!(
                    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
                     create failed: unable to start container process: error during container init: exec: {}: \
                     executable file not found in $PATH",
                    quote(program)
                )
            });
            failed(timeline, &message);
            if done > timeline.now {
                return Ok(None);
            }
            let waiting = ("RunContainerError".to_owned(), message.clone());
            let (code, reason) = (128, "StartError");
            return Ok(Some(Started::Failed { at: end, waiting, code, reason, message, started_at: 0 }));
        }
        timeline.event(end, EventKind::normal("Started"), Some(&path), "Container started");
        if self.has_hook() && self.script.post_start.as_ref().is_some_and(|hook| hook.fails) {
            let at = end + self.hook_time();
            timeline.event(
                at,
                EventKind::warning("FailedPostStartHook"),
                Some(&path),
                "PostStartHook failed",
            );
            timeline.event(at, EventKind::normal("Killing"), Some(&path), "FailedPostStartHook");
            if done > timeline.now {
                return Ok(None);
            }
            let pod = text::pod(self.input.pod);
            let message = format!(
                "lifecycle hook for Container {} in Pod {} failed",
                quote(&self.container.name),
                quote(&pod)
            );
            let waiting = ("PostStartHookError".to_owned(), message);
            let (code, reason, message) = (137, "Error", String::new());
            return Ok(Some(Started::Failed { at, waiting, code, reason, message, started_at: end }));
        }
        if done > timeline.now {
            return Ok(None);
        }
        Ok(Some(Started::Running { at: end }))
    }
}

impl Pulls {
    const fn new() -> Self {
        Self { failed: 0, until: i64::MIN, error: String::new(), is_pulled: false }
    }
}
