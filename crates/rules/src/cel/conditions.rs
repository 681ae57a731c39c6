//! Condition functions, for `status.conditions` or any list of conditions.

use std::cell::OnceCell;

use kstatus::{ConditionFields, Known, Member, Node, Object};
use settled_cel::value::{Data as _, List, Map, Text};
use settled_cel::{Budget, Fault, Function};

use super::bytes::{Bytes, Val, text, value};

/// The conditions of an object, and the generation that they may be older than.
pub(crate) struct Conditions<'e> {
    object: &'e Object<'e>,
    generation: OnceCell<Option<i64>>,
    /// The steps it takes to go over the conditions.
    steps: OnceCell<u64>,
}

/// A generation, which some controllers write as text.
fn generation(node: Option<Node<'_>>) -> Option<i64> {
    let node = node?;
    node.as_int().or_else(|| value(node).as_int()).or_else(|| node.as_str()?.trim().parse().ok())
}

/// Status of a condition for the latest generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionStatus {
    True,
    False,
    Unknown,
    /// The condition is absent, of an older generation, or has another status.
    Other,
}

impl ConditionStatus {
    /// All of them, in their order.
    pub(crate) const ALL: [Self; 4] = [Self::True, Self::False, Self::Unknown, Self::Other];

    /// The status for which a function is true.
    pub(crate) fn of(function: Function) -> Option<Self> {
        match function {
            Function::IsTrue => Some(Self::True),
            Function::IsFalse => Some(Self::False),
            Function::IsUnknown => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// A condition where it lies.
type Found<'e> = Option<ConditionFields<'e>>;

impl<'e> Conditions<'e> {
    pub(crate) fn of(object: &'e Object<'e>) -> Self {
        Self { object, generation: OnceCell::new(), steps: OnceCell::new() }
    }

    fn generation(&self) -> Option<i64> {
        *self.generation.get_or_init(|| generation(self.object.known(Known::GENERATION)))
    }

    fn steps(&self) -> u64 {
        *self.steps.get_or_init(|| {
            self.object.known(Known::CONDITIONS).map_or(0, |conditions| Bytes(conditions).steps())
        })
    }

    /// Whether the controller has seen the latest generation.
    pub(crate) fn is_observed(&self) -> bool {
        let observed = self.object.known(Known::OBSERVED_GENERATION);
        matches!((generation(observed), self.generation()), (Some(observed), Some(latest)) if observed == latest)
    }

    /// Condition of an older generation, if any.
    pub(crate) fn lagging(&self) -> Option<String> {
        let latest = self.generation()?;
        self.object.conditions().find_map(|condition| {
            let observed = generation(condition.member(Member::ObservedGeneration))
                .filter(|observed| *observed < latest)?;
            let type_ = condition.member(Member::Type).and_then(Node::as_str).unwrap_or_default();
            Some(format!("condition {type_} was observed at generation {observed}, the latest is {latest}"))
        })
    }

    /// A condition of `status.conditions`.
    pub(crate) fn get(&self, type_: &str) -> Found<'e> {
        self.object.condition(type_)
    }

    /// The condition of a type: of `status.conditions`, or of the list that the method is called on.
    pub(crate) fn find(
        &self,
        list: Option<&Result<Val<'e>, Fault>>,
        type_: &str,
        budget: &Budget,
    ) -> Result<Found<'e>, Fault> {
        let list = match list {
            None => {
                budget.step(self.steps())?;
                return Ok(self.get(type_));
            }
            Some(Err(Fault::Absent(_)) | Ok(Val::Optional(None))) => return Ok(None),
            Some(Err(fault)) => return Err(fault.clone()),
            Some(Ok(Val::Optional(Some(list)))) => list,
            Some(Ok(list)) => list,
        };
        // To go over the list, and to look into each element.
        budget.step(2 * list.steps())?;
        let Val::List(list) = list else {
            return Err(Fault::error(format!("no conditions for {}", list.type_name())));
        };
        for element in list.iter() {
            budget.step(1)?;
            if let Val::Map(Map::Data(Bytes(element))) = element? {
                let condition = ConditionFields::of(element);
                if condition.member(Member::Type).is_some_and(|found| found.is(type_)) {
                    return Ok(Some(condition));
                }
            }
        }
        Ok(None)
    }

    /// Whether a condition speaks of an older generation.
    fn lags(&self, condition: &ConditionFields<'_>) -> bool {
        match (generation(condition.member(Member::ObservedGeneration)), self.generation()) {
            (Some(observed), Some(latest)) => observed < latest,
            _ => false,
        }
    }

    /// Whether a condition of `status.conditions` has the status that a function is for; none for other functions.
    pub(crate) fn holds(
        &self,
        function: Function,
        type_: &str,
        budget: &Budget,
    ) -> Option<Result<bool, Fault>> {
        let wanted = ConditionStatus::of(function)?;
        if let Err(fault) = budget.step(type_.len() as u64 / 256 + self.steps()) {
            return Some(Err(fault));
        }
        let Some(found) = self.get(type_) else { return Some(Ok(false)) };
        let steps = budget.step(2 * Bytes(found.element()).steps());
        Some(steps.map(|()| self.status_of(&found) == wanted))
    }

    /// Status of a condition of `status.conditions`.
    pub(crate) fn status(&self, type_: &str) -> ConditionStatus {
        self.get(type_).map_or(ConditionStatus::Other, |condition| self.status_of(&condition))
    }

    fn status_of(&self, condition: &ConditionFields<'_>) -> ConditionStatus {
        let Some(status) = condition.member(Member::Status) else { return ConditionStatus::Other };
        let status = if status.is("True") {
            ConditionStatus::True
        } else if status.is("False") {
            ConditionStatus::False
        } else if status.is("Unknown") {
            ConditionStatus::Unknown
        } else {
            return ConditionStatus::Other;
        };
        if self.lags(condition) { ConditionStatus::Other } else { status }
    }

    /// Result of a condition function; none if absent.
    pub(crate) fn answer(
        &self,
        function: Function,
        found: Found<'e>,
        budget: &Budget,
    ) -> Result<Option<Val<'e>>, Fault> {
        // Its status and its generation are looked for in it.
        budget.step(2 * found.as_ref().map_or(0, |found| Bytes(found.element()).steps()))?;
        let member = |member| {
            let member = found.as_ref().and_then(|condition| condition.member(member)).and_then(Node::as_str);
            text(member.unwrap_or_default())
        };
        if let Some(wanted) = ConditionStatus::of(function) {
            let has_status = found.is_some_and(|condition| self.status_of(&condition) == wanted);
            return Ok(Some(Val::Bool(has_status)));
        }
        Ok(Some(match function {
            Function::Lags => Val::Bool(found.as_ref().is_some_and(|condition| self.lags(condition))),
            Function::ReasonOf => member(Member::Reason),
            Function::MessageOf => member(Member::Message),
            _ => return Ok(found.map(|found| value(found.element()))),
        }))
    }

    /// Of several conditions the one that is furthest from True.
    pub(crate) fn worst(
        &self,
        list: Option<&Result<Val<'e>, Fault>>,
        types: &List<'e, Bytes<'e>>,
        budget: &Budget,
    ) -> Result<Val<'e>, Fault> {
        let mut worst: Option<(u8, Val<'e>)> = None;
        for type_ in types.iter() {
            let type_ = match type_? {
                Val::Text(type_) => type_,
                other => return Err(Fault::error(format!("no `worst` for {}", other.type_name()))),
            };
            let found = self.find(list, &type_, budget)?;
            let is = |word: &str| {
                found.as_ref().and_then(|c| c.member(Member::Status)).is_some_and(|status| status.is(word))
            };
            let lags = found.as_ref().is_some_and(|condition| self.lags(condition));
            let (rank, value) = match &found {
                None => (1, missing(type_, "Missing", "there is no condition ", budget)?),
                Some(_) if lags => {
                    (1, missing(type_, "Lagging", "an older generation has the condition ", budget)?)
                }
                Some(condition) if is("False") => (0, value(condition.element())),
                Some(condition) if is("True") => (3, value(condition.element())),
                Some(condition) => (2, value(condition.element())),
            };
            if worst.as_ref().is_none_or(|(known, _)| rank < *known) {
                worst = Some((rank, value));
            }
        }
        worst.map(|(_, value)| value).ok_or_else(|| Fault::error("worst: the list of types is empty"))
    }
}

/// Placeholder for a missing condition.
fn missing<'e>(
    type_: Text<'e>,
    reason: &'static str,
    message: &str,
    budget: &Budget,
) -> Result<Val<'e>, Fault> {
    budget.allocate(256 + 2 * type_.len())?;
    let message = Val::text([message, &type_].concat());
    Ok(Val::Map(Map::of_texts([
        ("type", Val::Text(type_)),
        ("status", Val::Text(Text::Borrowed("Unknown"))),
        ("reason", Val::Text(Text::Borrowed(reason))),
        ("message", message),
    ])))
}
