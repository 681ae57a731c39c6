//! Probes: whether a running container is started, ready and alive, by its declared delays and the scenario.

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::input::{EventKind, Role, Timeline};
use crate::scenario::{After, ContainerScript};

const UNHEALTHY: EventKind = EventKind::warning("Unhealthy");

/// A container that runs.
pub(super) struct Run<'a> {
    pub(super) container: &'a Container,
    pub(super) role: Role,
    pub(super) script: &'a ContainerScript,
    pub(super) started_at: i64,
    /// When its probes began to tick: when the Pod was ready to start containers.
    pub(super) ticks_from: i64,
    pub(super) restarts: u32,
    pub(super) ip: &'a str,
}

/// A container that is to be killed because of a probe.
pub(super) struct ProbeKill {
    pub(super) at: i64,
    /// `liveness` or `startup`.
    pub(super) probe: &'static str,
}

/// What its probes say.
pub(super) struct Health {
    /// Since when it is started.
    pub(super) started_at: Option<i64>,
    pub(super) is_ready: bool,
    pub(super) kill: Option<ProbeKill>,
}

fn period(probe: &Probe) -> i64 {
    i64::from(probe.period_seconds.unwrap_or(10)).max(1)
}

fn threshold(given: Option<i32>, default: i64) -> i64 {
    given.map_or(default, i64::from).max(1)
}

/// The first tick of a grid at a time or later.
fn tick(from: i64, period: i64, at: i64) -> i64 {
    let behind = at.saturating_sub(from).max(0);
    from.saturating_add(behind.saturating_add(period - 1) / period * period)
}

fn port(container: &Container, port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let found = ports.find(|port| port.name.as_ref() == Some(name));
            found.map_or_else(|| name.clone(), |port| port.container_port.to_string())
        }
    }
}

impl Run<'_> {
    /// The output of a failed probe.
    fn output(&self, probe: &Probe, message: Option<&str>) -> String {
        if let Some(message) = message {
            return message.to_owned();
        }
        if probe.http_get.is_some() {
            return "HTTP probe failed with statuscode: 503".to_owned();
        }
        if let Some(socket) = &probe.tcp_socket {
            let host = socket.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(self.ip);
            return format!(
                "dial tcp {host}:{}: connect: connection refused",
                port(self.container, &socket.port)
            );
        }
        if probe.grpc.is_some() {
            return "service unhealthy (responded with \"NOT_SERVING\")".to_owned();
        }
        String::new()
    }

    fn failed(&self, timeline: &mut Timeline, at: i64, kind: &str, probe: &Probe, message: Option<&str>) {
        let path = self.role.field_path(&self.container.name);
        let note = format!("{kind} probe failed: {}", self.output(probe, message));
        timeline.event(at, UNHEALTHY, Some(&path), note);
    }

    /// Records failures at ticks from a time on, at most so many and before the last time. When the last one was.
    fn failures(
        &self,
        timeline: &mut Timeline,
        (kind, probe, message): (&str, &Probe, Option<&str>),
        (first, count, end): (i64, i64, i64),
    ) -> Option<i64> {
        let period = period(probe);
        let mut at = first;
        for number in 1..=count {
            if at >= end {
                return None;
            }
            if at > timeline.now {
                timeline.wake(at);
                return None;
            }
            self.failed(timeline, at, kind, probe, message);
            if number == count {
                return Some(at);
            }
            at += period;
        }
        None
    }

    /// What its probes say now, if it does not end by itself before a time.
    pub(super) fn health(&self, timeline: &mut Timeline, end: i64) -> Health {
        let mut health = Health { started_at: None, is_ready: false, kill: None };
        let start = self.started_at;
        let begin = |probe: &Probe| start + i64::from(probe.initial_delay_seconds.unwrap_or(0));
        let mut started = start;
        if let Some(probe) = &self.container.startup_probe {
            let first = tick(self.ticks_from, period(probe), begin(probe).max(start + 1));
            let succeeds = self.script.startup.map_or(Some(0), After::seconds).map(|after| start + after);
            let success = succeeds.map_or(i64::MAX, |at| tick(first, period(probe), at.max(first)));
            let limit = threshold(probe.failure_threshold, 3);
            if let Some(at) =
                self.failures(timeline, ("Startup", probe, None), (first, limit, success.min(end)))
            {
                health.kill = Some(ProbeKill { at, probe: "startup" });
                return health;
            }
            timeline.wake(success);
            started = success;
        } else if let Some(after) = self.script.startup {
            // The scenario says so though nothing probes it.
            started = after.seconds().map_or(i64::MAX, |after| start + after);
            timeline.wake(started);
        }
        if started > timeline.now || started >= end {
            return health;
        }
        health.started_at = Some(started);
        if let (Some(probe), Some(script)) = (&self.container.liveness_probe, &self.script.liveness)
            && script.times.is_none_or(|times| self.restarts < times)
        {
            let from = start + script.fails_after.seconds();
            let first = tick(self.ticks_from, period(probe), begin(probe).max(started).max(from));
            let limit = threshold(probe.failure_threshold, 3);
            let message = script.message.as_deref();
            if let Some(at) = self.failures(timeline, ("Liveness", probe, message), (first, limit, end)) {
                health.kill = Some(ProbeKill { at, probe: "liveness" });
            }
        }
        let end = health.kill.as_ref().map_or(end, |kill| kill.at.min(end));
        health.is_ready = self.is_ready(timeline, started, end);
        health
    }

    /// Readiness: its probe fails until it would succeed, and while the scenario says so.
    fn is_ready(&self, timeline: &mut Timeline, started: i64, end: i64) -> bool {
        let start = self.started_at;
        let ready = self.script.ready.map_or(Some(0), After::seconds).map_or(i64::MAX, |after| start + after);
        let lost = self.script.unready.as_ref().map(|unready| {
            let from = (start + unready.after.seconds()).max(ready);
            (from, unready.lasts.map_or(i64::MAX, |lasts| from.saturating_add(lasts.seconds())))
        });
        // Times in which it is not ready, and those in which it is.
        let mut spans = vec![(i64::MIN, ready, false)];
        match lost {
            Some((from, until)) => {
                spans.extend([(ready, from, true), (from, until, false), (until, i64::MAX, true)]);
            }
            None => spans.push((ready, i64::MAX, true)),
        }
        let Some(probe) = &self.container.readiness_probe else {
            for (from, _, _) in &spans {
                timeline.wake(*from);
            }
            let now = timeline.now;
            return spans.iter().any(|(from, until, is_ready)| *is_ready && *from <= now && now < *until);
        };
        // A container that has started is probed at once, and from then on periodically.
        let period = period(probe);
        let delay = start + i64::from(probe.initial_delay_seconds.unwrap_or(0));
        let first = tick(started, period, delay);
        let mut is_ready = false;
        for (from, until, succeeds) in spans {
            let begin = tick(first, period, from.max(first));
            let until = until.min(end);
            if begin >= until {
                continue;
            }
            let limit = if succeeds {
                threshold(probe.success_threshold, 1)
            } else {
                threshold(probe.failure_threshold, 3)
            };
            let flips = begin + (limit - 1) * period;
            if flips < until {
                timeline.wake(flips);
                if flips <= timeline.now {
                    is_ready = succeeds;
                }
            }
            if !succeeds {
                // Of all failed probes, the ones since the last look.
                let mut at = begin;
                while at < until && at <= timeline.now {
                    self.failed(timeline, at, "Readiness", probe, None);
                    at += period;
                }
                if at < until {
                    timeline.wake(at);
                }
            }
        }
        is_ready
    }
}
