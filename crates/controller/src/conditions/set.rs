//! `Conditions`: the findings of one reconcile, and the resulting list.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::slice;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use settled_apimachinery::conditions::MAX_MESSAGE_LENGTH;

use super::meta::{find_status_condition, is_zero};
use super::summary::{Progress, summarize};
use super::types::{ConditionType, Declaration, Finding, Reason, Status};
use super::validate::{InvalidConditions, validate};
use crate::Clock;
use crate::text::truncate;

/// kstatus' condition type for an object that its controller is reconciling.
pub const RECONCILING: &str = "Reconciling";
/// kstatus' condition type for an object that its controller cannot reconcile further.
pub const STALLED: &str = "Stalled";

/// Treatment of declared conditions that a reconcile did not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreported {
    /// Unknown, with reason `NotEvaluated`. An object has all its conditions from the first reconcile on.
    #[default]
    Unknown,
    /// Removed.
    Remove,
    /// Kept, with its observed generation. If that is outdated, the summary counts it as Unknown.
    Keep,
}

/// The conditions of one object in one reconcile.
///
/// ```
/// use settled_controller::Clock;
/// use settled_controller::conditions::{ConditionType, Conditions, Reason, Status};
///
/// #[derive(ConditionType)]
/// enum BucketCondition {
///     /// All objects are stored.
///     Stored,
///     /// Writes take longer than they should.
///     #[condition(polarity = "negative", severity = "warning")]
///     Degraded,
/// }
///
/// #[derive(Reason)]
/// enum BucketReason {
///     Written,
///     LatencyNormal,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `status.conditions` of the object, and its `metadata.generation`.
/// let (observed, generation) = (Vec::new(), Some(3));
/// let mut conditions = Conditions::new(&observed, generation, &Clock::system());
/// conditions.set(BucketCondition::Stored, Status::True, BucketReason::Written, "3 objects are stored");
/// conditions.set(BucketCondition::Degraded, false, BucketReason::LatencyNormal, "");
/// let list = conditions.finish()?;
/// let types: Vec<&str> = list.iter().map(|condition| condition.type_.as_str()).collect();
/// assert_eq!(types, ["Ready", "Stored", "Degraded"]);
/// assert_eq!((list[0].status.as_str(), list[0].observed_generation), ("True", Some(3)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Conditions<'a, C> {
    observed: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    findings: BTreeMap<&'static str, Finding>,
    progress: Option<Progress>,
    unreported: Unreported,
    retired: Vec<String>,
    types: PhantomData<fn() -> C>,
}

impl<'a, C: ConditionType> Conditions<'a, C> {
    /// Starts without findings, for an object with these conditions and this `metadata.generation`.
    pub fn new(observed: &'a [Condition], generation: impl Into<Option<i64>>, clock: &Clock) -> Self {
        let now = clock.now();
        Self {
            observed,
            generation: generation.into().filter(|generation| *generation != 0),
            // Truncated to the precision of metav1.Time: never in the future.
            now: Timestamp::from_second(now.as_second()).unwrap_or(now),
            findings: BTreeMap::new(),
            progress: None,
            unreported: Unreported::default(),
            retired: Vec::new(),
            types: PhantomData,
        }
    }

    /// Reports one condition. A later report replaces an earlier one.
    pub fn set(
        &mut self,
        condition: C,
        status: impl Into<Status>,
        reason: impl Reason,
        message: impl Into<String>,
    ) -> &mut Self {
        self.report(condition, Finding::new(status, reason, message))
    }

    /// Reports a finding, such as the result of [`mirror`](super::mirror) or [`Aggregate`](super::Aggregate).
    pub fn report(&mut self, condition: C, finding: Finding) -> &mut Self {
        self.findings.insert(condition.declaration().name, finding);
        self
    }

    /// Sets `Reconciling`: the controller is working towards this generation. The summary is Unknown, unless a
    /// condition is bad. Replaces `Stalled`, and vice versa; if neither is set, the object has neither.
    pub fn reconciling(&mut self, reason: impl Reason, message: impl Into<String>) -> &mut Self {
        self.progress = Some(Progress::Reconciling(Finding::new(Status::True, reason, message)));
        self
    }

    /// Sets `Stalled`: the controller cannot continue without a change by a user. The summary is False.
    pub fn stalled(&mut self, reason: impl Reason, message: impl Into<String>) -> &mut Self {
        self.progress = Some(Progress::Stalled(Finding::new(Status::True, reason, message)));
        self
    }

    /// Sets the treatment of declared conditions that are not reported.
    pub fn unreported(&mut self, unreported: Unreported) -> &mut Self {
        self.unreported = unreported;
        self
    }

    /// Removes a type that an earlier version of the controller had. Other undeclared types belong to other controllers
    /// and are kept.
    pub fn retire(&mut self, condition_type: impl Into<String>) -> &mut Self {
        self.retired.push(condition_type.into());
        self
    }

    /// The list to store: the controller's own conditions at their existing positions, new ones at the end, those of
    /// others unchanged. Of duplicate types the first one is kept.
    ///
    /// # Errors
    /// A textual reason is invalid in metav1.
    pub fn finish(self) -> Result<Vec<Condition>, InvalidConditions> {
        let mut own = self.own()?;
        let mut list = Vec::with_capacity(self.observed.len() + own.len());
        for condition in self.observed {
            if let Some(index) = own.iter().position(|new| new.type_ == condition.type_) {
                list.push(own.remove(index));
            } else if !self.is_own(&condition.type_) {
                list.push(condition.clone());
            }
        }
        list.append(&mut own);
        Ok(list)
    }

    /// Only the controller's own conditions, for server-side apply: the intent must not contain those of others.
    ///
    /// # Errors
    /// See [`Conditions::finish`].
    pub fn finish_own(self) -> Result<Vec<Condition>, InvalidConditions> {
        self.own()
    }

    fn own(&self) -> Result<Vec<Condition>, InvalidConditions> {
        let parts: Vec<(&Declaration, Part<'_>)> =
            C::DECLARATIONS.iter().filter_map(|declared| Some((declared, self.part(declared)?))).collect();
        let findings: Vec<(&Declaration, &Finding)> =
            parts.iter().map(|(declared, part)| (*declared, part.finding())).collect();
        let summary = summarize(&findings, self.progress.as_ref());

        let mut own = vec![self.condition(C::SUMMARY, &summary)];
        for (declared, part) in &parts {
            own.push(match part {
                Part::Found(finding) => self.condition(declared.name, finding),
                Part::Kept(condition, _) => (*condition).clone(),
            });
        }
        match &self.progress {
            Some(Progress::Reconciling(finding)) => own.push(self.condition(RECONCILING, finding)),
            Some(Progress::Stalled(finding)) => own.push(self.condition(STALLED, finding)),
            None => {}
        }
        validate(&own)?;
        Ok(own)
    }

    fn is_own(&self, condition_type: &str) -> bool {
        [C::SUMMARY, RECONCILING, STALLED].contains(&condition_type)
            || C::DECLARATIONS.iter().any(|declared| declared.name == condition_type)
            || self.retired.iter().any(|retired| retired == condition_type)
    }

    /// A declared condition to store.
    fn part(&self, declared: &Declaration) -> Option<Part<'a>> {
        if let Some(finding) = self.findings.get(declared.name) {
            return Some(Part::Found(finding.clone()));
        }
        let unknown = || Finding::new(Status::Unknown, "NotEvaluated", "not evaluated by the last reconcile");
        match self.unreported {
            Unreported::Remove => None,
            Unreported::Unknown => Some(Part::Found(unknown())),
            Unreported::Keep => Some(match find_status_condition(self.observed, declared.name) {
                None => Part::Found(unknown()),
                // An older version of the controller may have written it. The API server would reject the whole status.
                Some(kept) if validate(slice::from_ref(kept)).is_err() => Part::Found(unknown()),
                Some(kept) if kept.observed_generation == self.generation => {
                    let status = Status::parse(&kept.status);
                    Part::Kept(kept, Finding::new(status, kept.reason.as_str(), kept.message.as_str()))
                }
                Some(kept) => {
                    let message = "not evaluated for the latest generation yet";
                    Part::Kept(kept, Finding::new(Status::Unknown, "NotEvaluated", message))
                }
            }),
        }
    }

    fn condition(&self, condition_type: &str, finding: &Finding) -> Condition {
        let last_transition_time = match find_status_condition(self.observed, condition_type) {
            Some(old) if is_zero(&old.last_transition_time) => Time(self.now),
            Some(old) if old.status == finding.status.as_str() => old.last_transition_time.clone(),
            // If the clock was set back, the transition time does not decrease.
            Some(old) => Time(self.now.max(old.last_transition_time.0)),
            None => Time(self.now),
        };
        Condition {
            type_: condition_type.to_owned(),
            status: finding.status.as_str().to_owned(),
            observed_generation: self.generation,
            last_transition_time,
            reason: finding.reason.clone(),
            message: truncate(&finding.message, MAX_MESSAGE_LENGTH),
        }
    }
}

enum Part<'a> {
    Found(Finding),
    /// The stored condition, and its contribution to the summary.
    Kept(&'a Condition, Finding),
}

impl Part<'_> {
    fn finding(&self) -> &Finding {
        match self {
            Self::Found(finding) | Self::Kept(_, finding) => finding,
        }
    }
}
