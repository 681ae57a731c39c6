//! Live logs in a wait: which containers are followed, and what is reported of them.

use std::collections::BTreeSet;

use super::{Phase, Queued, Tracker};
use crate::ids::TargetId;
use crate::logs::LogMessage;
use crate::report::{Event, State};

impl Tracker {
    /// Follows the logs of containers that crash, of targets that something happened to.
    pub(super) fn follow_logs(&mut self, touched: &BTreeSet<TargetId>) {
        if self.phase != Phase::Following {
            return;
        }
        let mut log_sources = Vec::new();
        for number in touched {
            if matches!(self.policy.state(*number), Some(State::Waiting | State::Failed)) {
                let causes = self.causes(*number);
                log_sources.extend(causes.iter().flat_map(|cause| self.log_sources(cause)));
            }
        }
        let Some(follower) = &mut self.follower else { return };
        for log_source in log_sources {
            let Some(pod) = self.graph.get(&log_source.pod) else { continue };
            let crashed = pod.facts.iter().flat_map(|facts| facts.crashed());
            let crash = { crashed }.find(|crash| crash.container == log_source.container);
            follower.follow(&log_source, &pod.uid, crash.map_or(0, |crash| crash.restarts));
        }
    }

    /// Takes in what a followed log says.
    pub(super) fn log(&mut self, message: LogMessage) {
        let Some(follower) = &mut self.follower else { return };
        match message {
            LogMessage::Lines(lines) if self.phase == Phase::Following => {
                self.events.push_back(Queued::Event(Box::new(Event::Log(lines))));
            }
            LogMessage::Lines(_) => {}
            LogMessage::Forbidden(pod, error) => {
                if follower.forbid(&pod.namespace) {
                    let message = format!("no permission to read logs in {}: {error}", pod.namespace);
                    let remedy = format!("grant get on pods/log in {}", pod.namespace);
                    self.notify(message, Some(remedy));
                }
            }
            LogMessage::Ended(number) => follower.ended(number),
        }
    }
}
