//! Conditions derived from those of other objects.

use serde::Serialize;
use serde_json::Value;
use settled_apimachinery::conditions::{MAX_REASON_LENGTH, is_valid_condition_reason};

use super::summary::AS_EXPECTED;
use super::types::{Finding, Polarity, Status};
use crate::text::{join, truncate};

/// Maximum number of children named in the message of an aggregate.
const MAX_NAMED: usize = 3;
/// Maximum size of a child's message within the message of an aggregate, in bytes.
const MAX_PART: usize = 128;

/// An object whose conditions are read: a Pod, a Deployment, a custom resource.
#[derive(Clone, Debug)]
pub struct Child {
    name: String,
    generation: Option<i64>,
    observed_generation: Option<i64>,
    conditions: Vec<Value>,
}

impl Child {
    /// A child with its name for messages. Conditions follow metav1 or older APIs: those of Pods and Deployments have
    /// no observed generation, and may have no reason.
    pub fn new<T: Serialize>(name: impl Into<String>, conditions: &[T]) -> Self {
        let conditions =
            conditions.iter().filter_map(|condition| serde_json::to_value(condition).ok()).collect();
        Self { name: name.into(), generation: None, observed_generation: None, conditions }
    }

    /// Sets its `metadata.generation`: conditions of older generations count as Unknown.
    #[must_use]
    pub fn generation(self, generation: impl Into<Option<i64>>) -> Self {
        Self { generation: generation.into(), ..self }
    }

    /// Sets its `status.observedGeneration`, for conditions that have none.
    #[must_use]
    pub fn observed_generation(self, generation: impl Into<Option<i64>>) -> Self {
        Self { observed_generation: generation.into(), ..self }
    }

    /// One of its conditions, if present: Unknown if its generation is outdated.
    fn find(&self, condition_type: &str) -> Option<Finding> {
        let is = |condition: &&Value| condition["type"].as_str() == Some(condition_type);
        let condition = self.conditions.iter().find(is)?;
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        let observed = condition["observedGeneration"].as_i64().filter(|generation| *generation != 0);
        if let (Some(observed), Some(generation)) = (observed.or(self.observed_generation), self.generation)
            && observed < generation
        {
            let message =
                format!("{condition_type} is about generation {observed}, the latest is {generation}");
            return Some(Finding::new(Status::Unknown, "Outdated", message));
        }
        Some(Finding::new(Status::parse(text("status")), text("reason"), text("message")))
    }
}

/// Mirrors the condition of a child: its status, reason and message, prefixed with the child's name. Unknown with
/// reason `NotReported` if the child does not have it, and with `Outdated` if its generation is outdated. The
/// transition time is that of the mirrored condition on the parent.
///
/// ```
/// use settled_controller::conditions::{Child, Status, mirror};
///
/// let conditions = [serde_json::json!({
///     "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "no replica is available",
/// })];
/// let deployment = Child::new("Deployment/web", &conditions).generation(4).observed_generation(4);
/// let finding = mirror(&deployment, "Available");
/// assert_eq!(finding.status, Status::False);
/// assert_eq!(finding.reason, "MinimumReplicasUnavailable");
/// assert_eq!(finding.message, "Deployment/web: no replica is available");
/// assert_eq!(mirror(&deployment, "Progressing").reason, "NotReported");
/// ```
#[must_use]
pub fn mirror(child: &Child, condition_type: &str) -> Finding {
    let Some(found) = child.find(condition_type) else {
        let message = format!("{}: {condition_type} is not reported yet", child.name);
        return Finding::new(Status::Unknown, "NotReported", message);
    };
    let valid =
        is_valid_condition_reason(&found.reason).is_empty() && found.reason.len() <= MAX_REASON_LENGTH;
    let reason = if valid { found.reason.as_str() } else { "Mirrored" };
    let message = match found.message.as_str() {
        "" => format!("{}: {condition_type} is {}", child.name, found.status),
        message => format!("{}: {message}", child.name),
    };
    Finding::new(found.status, reason, message)
}

/// Aggregates one condition of many children.
///
/// ```
/// use settled_controller::conditions::{Aggregate, Child, Status};
///
/// let ready = |status: &str, message: &str| [serde_json::json!({"type": "Ready", "status": status, "message": message})];
/// let pods = [
///     Child::new("web-0", &ready("True", "")),
///     Child::new("web-1", &ready("False", "containers with unready status: [app]")),
/// ];
/// let finding = Aggregate::new("Pods", "Ready").expecting(3).of(pods);
/// assert_eq!(finding.status, Status::False);
/// assert_eq!(finding.message, "1 of 3 Pods have Ready=True; False: web-1 (containers with unready status: [app]); 1 missing");
/// ```
#[derive(Clone, Debug)]
pub struct Aggregate<'a> {
    children: &'a str,
    condition_type: &'a str,
    polarity: Polarity,
    expected: usize,
}

impl<'a> Aggregate<'a> {
    /// A condition of children, with their plural name for messages.
    #[must_use]
    pub fn new(children: &'a str, condition_type: &'a str) -> Self {
        Self { children, condition_type, polarity: Polarity::Positive, expected: 0 }
    }

    /// Declares that True is the bad state: the result is True as soon as one child is.
    #[must_use]
    pub fn negative(self) -> Self {
        Self { polarity: Polarity::Negative, ..self }
    }

    /// Expected number of children. Missing ones count as bad. Without it, having no children is good.
    #[must_use]
    pub fn expecting(self, count: usize) -> Self {
        Self { expected: count, ..self }
    }

    /// The result: bad if a child is bad or missing, else unknown if one is unknown, else good. The reason is that of
    /// the bad (or unknown) children if they agree, otherwise `MultipleReasons`. The message has the number of each
    /// kind and three names, sorted, so that it does not depend on the order of the children.
    #[must_use]
    pub fn of(&self, children: impl IntoIterator<Item = Child>) -> Finding {
        let good = if self.polarity == Polarity::Negative { Status::False } else { Status::True };
        let (mut count, mut bad, mut unknown) = (0_usize, Vec::new(), Vec::new());
        for child in children {
            count += 1;
            let finding = child
                .find(self.condition_type)
                .unwrap_or_else(|| Finding::new(Status::Unknown, "NotReported", "not reported yet"));
            if finding.status == Status::Unknown {
                unknown.push((child.name, finding));
            } else if finding.status != good {
                bad.push((child.name, finding));
            }
        }
        let missing = self.expected.saturating_sub(count);
        let total = count + missing;
        let good_count = count - bad.len() - unknown.len();
        let Self { children, condition_type, .. } = self;
        let mut message = format!("{good_count} of {total} {children} have {condition_type}={good}");
        if bad.is_empty() && unknown.is_empty() && missing == 0 {
            return Finding::new(good, AS_EXPECTED, message);
        }
        bad.sort_by(|(name, _), (other, _)| name.cmp(other));
        unknown.sort_by(|(name, _), (other, _)| name.cmp(other));
        for (status, named) in [(good.inverted(), &bad), (Status::Unknown, &unknown)] {
            if !named.is_empty() {
                message.push_str(&format!("; {status}: {}", names(named)));
            }
        }
        if missing > 0 {
            message.push_str(&format!("; {missing} missing"));
        }
        let is_bad = !bad.is_empty() || missing > 0;
        let (status, deciding) = if is_bad { (good.inverted(), &bad) } else { (Status::Unknown, &unknown) };
        Finding::new(status, common_reason(deciding, missing > 0), message)
    }
}

fn names(children: &[(String, Finding)]) -> String {
    let named = children.iter().map(|(name, finding)| match finding.message.as_str() {
        "" => name.clone(),
        message => format!("{name} ({})", truncate(message, MAX_PART)),
    });
    join(named, ", ", MAX_NAMED)
}

fn common_reason(children: &[(String, Finding)], missing: bool) -> &str {
    let Some((_, first)) = children.first() else { return "Missing" };
    let same = children.iter().all(|(_, finding)| finding.reason == first.reason);
    let valid =
        is_valid_condition_reason(&first.reason).is_empty() && first.reason.len() <= MAX_REASON_LENGTH;
    if same && valid && !missing { &first.reason } else { "MultipleReasons" }
}
