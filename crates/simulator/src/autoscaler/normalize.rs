//! Limits of an autoscaler: stabilization, rates, minimum and maximum (`normalizeDesiredReplicas`, with and without behavior).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec,
};

/// How long the highest recommendation holds: `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWNSCALE_WINDOW: i32 = 300;

/// What an autoscaler remembers. As upstream, a restart forgets it.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    recommendations: Vec<(Timestamp, i32)>,
    has_begun: bool,
    up: Vec<(Timestamp, i32)>,
    down: Vec<(Timestamp, i32)>,
}

/// A reason and a message.
pub(super) type Why = (&'static str, &'static str);

/// The number of replicas, and what the conditions say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Normalized {
    pub(super) replicas: i32,
    pub(super) able: Why,
    pub(super) is_limited: bool,
    pub(super) limited: Why,
}

const READY: Why = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: Why = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: Why = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const IN_RANGE: Why = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_LIMIT: Why =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: Why =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: Why = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Why = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

fn within(list: &[(Timestamp, i32)], seconds: i32, now: Timestamp) -> impl Iterator<Item = i32> {
    let cutoff = now - SignedDuration::from_secs(seconds.into());
    list.iter().filter(move |(time, _)| *time > cutoff).map(|(_, value)| *value)
}

impl Memory {
    /// The number of replicas that is set for a number that the metrics ask for.
    pub(super) fn normalize(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        current: i32,
        desired: i32,
        now: Timestamp,
    ) -> Normalized {
        let (min, max) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        // The first recommendation is the number that is there.
        if !std::mem::replace(&mut self.has_begun, true) {
            self.recommendations.push((now, current));
        }
        let (up, down) = match &spec.behavior {
            None => (0, DOWNSCALE_WINDOW),
            Some(behavior) => (
                window(behavior.scale_up.as_ref()).unwrap_or(0),
                window(behavior.scale_down.as_ref()).unwrap_or(DOWNSCALE_WINDOW),
            ),
        };
        let lowest = within(&self.recommendations, up, now).fold(desired, i32::min);
        let highest = within(&self.recommendations, down, now).fold(desired, i32::max);
        let keep = now - SignedDuration::from_secs(up.max(down).into());
        self.recommendations.retain(|(time, _)| *time > keep);
        self.recommendations.push((now, desired));
        let stabilized = match spec.behavior {
            // Only the way down is stabilized.
            None => highest,
            Some(_) => current.max(lowest).min(highest),
        };
        let able = if stabilized == desired {
            READY
        } else if spec.behavior.is_some() && desired >= current {
            UP_STABILIZED
        } else {
            DOWN_STABILIZED
        };
        let (replicas, limited) = match &spec.behavior {
            None => rules(current, stabilized, min, max),
            Some(behavior) => self.rates(behavior, current, stabilized, (min, max), now),
        };
        Normalized { replicas, able, is_limited: replicas != stabilized, limited }
    }

    /// Remembers that the number was changed.
    pub(super) fn scaled(&mut self, from: i32, to: i32, now: Timestamp) {
        let keep = now - SignedDuration::from_secs(1800);
        let list = if to > from { &mut self.up } else { &mut self.down };
        list.retain(|(time, _)| *time > keep);
        list.push((now, (to - from).abs()));
    }

    /// `convertDesiredReplicasWithBehaviorRate`.
    fn rates(
        &self,
        behavior: &HorizontalPodAutoscalerBehavior,
        current: i32,
        desired: i32,
        (min, max): (i32, i32),
        now: Timestamp,
    ) -> (i32, Why) {
        if desired > current {
            let limit = self.limit(behavior.scale_up.as_ref(), current, true, now).max(current);
            let (allowed, why) = if max > limit { (limit, UP_LIMIT) } else { (max, TOO_MANY) };
            return if desired > allowed { (allowed, why) } else { (desired, IN_RANGE) };
        }
        if desired < current {
            let limit = self.limit(behavior.scale_down.as_ref(), current, false, now).min(current);
            let (allowed, why) = if min < limit { (limit, DOWN_LIMIT) } else { (min, TOO_FEW) };
            return if desired < allowed { (allowed, why) } else { (desired, IN_RANGE) };
        }
        if desired < min {
            (min, TOO_FEW)
        } else if desired > max {
            (max, TOO_MANY)
        } else {
            (desired, IN_RANGE)
        }
    }

    fn limit(&self, rules: Option<&HPAScalingRules>, current: i32, is_up: bool, now: Timestamp) -> i32 {
        let select = rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let given = rules.and_then(|rules| rules.policies.clone()).filter(|policies| !policies.is_empty());
        let policy =
            |type_: &str, value| HPAScalingPolicy { type_: type_.to_owned(), value, period_seconds: 15 };
        let policies = given.unwrap_or_else(|| match is_up {
            true => vec![policy("Pods", 4), policy("Percent", 100)],
            false => vec![policy("Percent", 100)],
        });
        let proposals = policies.iter().map(|policy| {
            let added: i32 = within(&self.up, policy.period_seconds, now).sum();
            let removed: i32 = within(&self.down, policy.period_seconds, now).sum();
            let start = i64::from(current - added + removed);
            let value = i64::from(policy.value);
            let proposal = match (policy.type_.as_str(), is_up) {
                ("Pods", true) => start + value,
                ("Pods", false) => start - value,
                (_, true) => (start * (100 + value) + 99).div_euclid(100),
                (_, false) => (start * (100 - value)).div_euclid(100),
            };
            i32::try_from(proposal).unwrap_or(if is_up { i32::MAX } else { 0 })
        });
        let limit = match (select, is_up) {
            ("Min", true) | ("Max", false) => proposals.min(),
            _ => proposals.max(),
        };
        limit.unwrap_or(current)
    }
}

fn window(rules: Option<&HPAScalingRules>) -> Option<i32> {
    rules.and_then(|rules| rules.stabilization_window_seconds)
}

/// `convertDesiredReplicasWithRules`.
fn rules(current: i32, desired: i32, min: i32, max: i32) -> (i32, Why) {
    let limit = current.saturating_mul(2).max(4);
    let (allowed, why) = if max > limit { (limit, UP_LIMIT) } else { (max, TOO_MANY) };
    if desired < min {
        (min, TOO_FEW)
    } else if desired > allowed {
        (allowed, why)
    } else {
        (desired, IN_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
        let target = json!({"kind": "Deployment", "name": "web"});
        let spec =
            json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 20, "behavior": behavior});
        serde_json::from_value(spec).expect("a spec")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn without_behavior_the_way_down_is_slow_and_the_way_up_at_most_double() {
        let spec = spec(json!(null));
        let mut memory = Memory::default();
        let mut step = |current: i32, desired: i32, seconds: i64| {
            let normalized = memory.normalize(&spec, current, desired, at(seconds));
            (normalized.replicas, normalized.able.0, normalized.limited.0)
        };
        assert_eq!(step(3, 9, 0), (6, "ReadyForNewScale", "ScaleUpLimit"));
        assert_eq!(step(6, 9, 15), (9, "ReadyForNewScale", "DesiredWithinRange"));
        assert_eq!(step(9, 3, 30), (9, "ScaleDownStabilized", "DesiredWithinRange"));
        assert_eq!(step(9, 1, 316), (3, "ScaleDownStabilized", "DesiredWithinRange"));
        assert_eq!(step(3, 1, 700), (2, "ReadyForNewScale", "TooFewReplicas"));
        assert_eq!(step(19, 30, 1400), (20, "ReadyForNewScale", "TooManyReplicas"));
    }

    #[test]
    fn behavior_limits_rates() {
        let down = json!({"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]});
        let spec = spec(json!({"scaleDown": down, "scaleUp": {"selectPolicy": "Disabled"}}));
        let mut memory = Memory::default();
        let first = memory.normalize(&spec, 5, 2, at(0));
        assert_eq!((first.replicas, first.limited.0), (4, "ScaleDownLimit"));
        memory.scaled(5, 4, at(0));
        assert_eq!(memory.normalize(&spec, 4, 2, at(15)).replicas, 4);
        assert_eq!(memory.normalize(&spec, 4, 2, at(61)).replicas, 3);
        assert_eq!(memory.normalize(&spec, 3, 9, at(200)).replicas, 3);
    }
}
