//! Rule context: field access of the profile `settled`. Null is absent; a field of the wrong type is recorded as a problem, and a
//! verdict that depends on it is `Malformed`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::vocabulary::{Phrase, RETRIES, reports_failure};
use crate::fields::Field;
use crate::node::{Node, Shown, same};
use crate::object::{ConditionFields, Found, Object};
use crate::options::Options;
use crate::spans::Member;
use crate::text::text;
use crate::verdict::{Basis, Failure, FailureClass, Problem, Status, Text, Verdict};

/// One object on its way to a verdict.
pub(super) struct Context<'o, 'a> {
    pub(super) object: &'o Object<'a>,
    pub(super) options: &'o Options,
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    /// `status.observedGeneration`.
    pub(super) observed: Option<i64>,
    problems: RefCell<Vec<Problem>>,
    /// A bit for each odd condition that was noted.
    odd_conditions: Cell<u64>,
    /// Whether a field that was needed could not be read.
    unreadable: Cell<bool>,
}

impl<'o, 'a> Context<'o, 'a> {
    pub(super) fn new(object: &'o Object<'a>, options: &'o Options) -> Self {
        Self {
            object,
            options,
            generation: None,
            observed: None,
            problems: RefCell::new(Vec::new()),
            odd_conditions: Cell::new(0),
            unreadable: Cell::new(false),
        }
    }

    /// Notes something odd that the verdict does not depend on.
    pub(super) fn note(&self, path: impl Into<Text>, message: impl Into<Text>) {
        // A list can have any number of irregular elements; a few are sufficient.
        const MAX_PROBLEMS: usize = 16;
        let mut problems = self.problems.borrow_mut();
        let problem = Problem { path: path.into(), message: message.into() };
        // A field may be read more than once.
        if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// Whether an odd condition is seen for the first time; always true for those beyond the first 64.
    fn first_look_at(&self, condition: usize) -> bool {
        let bit = u32::try_from(condition).ok().and_then(|shift| 1u64.checked_shl(shift)).unwrap_or(0);
        let seen = self.odd_conditions.get();
        self.odd_conditions.set(seen | bit);
        seen & bit == 0
    }

    /// Whether a condition was passed over because its status is none of the three.
    pub(super) fn has_odd_condition(&self) -> bool {
        self.odd_conditions.get() != 0
    }

    /// Notes a field that was needed and cannot be read.
    pub(super) fn unreadable(&self, path: impl Into<Text>, message: impl Into<Text>) {
        self.unreadable.set(true);
        self.note(path, message);
    }

    /// Adds to a verdict what was noted on the way.
    pub(super) fn finish(self, verdict: &mut Verdict) {
        let problems = self.problems.into_inner();
        if let Some(problem) = problems.first().filter(|_| self.unreadable.get()) {
            let message = if problem.path.is_empty() {
                problem.message.clone()
            } else {
                text!("{}: {}", problem.path, problem.message).into()
            };
            *verdict = Verdict::new(Status::Unknown, Basis::Nothing, "Malformed", message);
        }
        verdict.generation = self.generation;
        verdict.observed_generation = self.observed;
        if verdict.problems.is_empty() {
            verdict.problems = problems;
        } else {
            // A custom rule has noted some of its own.
            verdict.problems.splice(0..0, problems);
        }
    }

    /// The field, where it is there and not null. A parent that is no map is unreadable.
    pub(super) fn get(&self, field: Field) -> Option<Node<'a>> {
        match self.object.find(field) {
            Found::Value(value) => Some(value).filter(|value| !value.is_null()),
            Found::Absent => None,
            Found::BadParent(parent) => {
                self.wrong_type(field.parent().path(), "a map", parent);
                None
            }
        }
    }

    pub(super) fn wrong_type(&self, path: impl Into<Text>, expected: &str, found: Node<'_>) {
        self.unreadable(path, text!("expected {expected}, found {}", found.kind().name()));
    }

    fn typed<T>(&self, field: Field, expected: &str, read: impl Fn(Node<'a>) -> Option<T>) -> Option<T> {
        let node = self.get(field)?;
        let value = read(node);
        if value.is_none() {
            self.wrong_type(path(field), expected, node);
        }
        value
    }

    pub(super) fn int(&self, field: Field) -> Option<i64> {
        self.typed(field, "an integer", whole_number)
    }

    /// A counter of a status: absent is 0, as Go omits zeros.
    pub(super) fn count(&self, field: Field) -> i64 {
        self.int(field).unwrap_or(0)
    }

    pub(super) fn boolean(&self, field: Field) -> Option<bool> {
        self.typed(field, "a boolean", Node::as_bool)
    }

    pub(super) fn text(&self, field: Field) -> Option<Cow<'a, str>> {
        self.typed(field, "a string", Node::as_str)
    }

    pub(super) fn map(&self, field: Field) -> Option<Node<'a>> {
        self.typed(field, "a map", |node| node.is_map().then_some(node))
    }

    /// The elements of a list; none where it is absent.
    pub(super) fn list(&self, field: Field) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.typed(field, "a list", |node| node.is_list().then_some(node))
            .into_iter()
            .flat_map(Node::elements)
    }

    /// A member of a map that some field holds, where it is a map itself.
    pub(super) fn child(&self, parent: Node<'a>, path: &'static str, key: &str) -> Option<Node<'a>> {
        let node = parent.get(key).filter(|node| !node.is_null())?;
        if !node.is_map() {
            self.wrong_type(text!("{path}.{key}"), "a map", node);
            return None;
        }
        Some(node)
    }

    /// `status.conditions`, in their order.
    pub(super) fn conditions(&self) -> Conditions<'_, 'o, 'a> {
        if let Some(list) = self.get(Field::Conditions).filter(|list| !list.is_list()) {
            self.wrong_type(".status.conditions", "a list", list);
        }
        Conditions { context: self }
    }

    /// Time since a timestamp; none if the text is invalid.
    pub(super) fn since(&self, time: &str) -> Option<SignedDuration> {
        let time: Timestamp = time.parse().ok()?;
        Some(self.options.now.duration_since(time))
    }

    /// `verdict`, unless the condition it rests on speaks of an older generation.
    pub(super) fn decided_by(&self, condition: &Condition<'_>, verdict: impl FnOnce() -> Verdict) -> Verdict {
        self.lag(condition).unwrap_or_else(verdict)
    }

    /// The latest generation, and that which a condition speaks of.
    fn both_generations(&self, condition: &Condition<'_>) -> Option<(i64, i64)> {
        Some((self.generation?, condition.observed_generation()?))
    }

    /// Whether a condition speaks of an older generation.
    pub(super) fn is_lagging(&self, condition: &Condition<'_>) -> bool {
        self.both_generations(condition).is_some_and(|(latest, observed)| observed < latest)
    }

    /// Whether a condition speaks of the latest generation.
    pub(super) fn is_latest(&self, condition: &Condition<'_>) -> bool {
        self.both_generations(condition).is_some_and(|(latest, observed)| observed == latest)
    }

    /// The verdict where a condition speaks of an older generation.
    pub(super) fn lag(&self, condition: &Condition<'_>) -> Option<Verdict> {
        let (latest, observed) = self.both_generations(condition)?;
        (observed < latest).then(|| observed_at(condition, observed, latest))
    }

    /// Whether a condition was observed at another generation than the latest, be it older or newer.
    pub(super) fn is_of_other_generation(&self, condition: &Condition<'_>) -> bool {
        self.both_generations(condition).is_some_and(|(latest, observed)| latest != observed)
    }

    /// The verdict on such a condition.
    pub(super) fn other_generation(&self, condition: &Condition<'_>) -> Option<Verdict> {
        let (latest, observed) = self.both_generations(condition)?;
        (observed != latest).then(|| observed_at(condition, observed, latest))
    }

    /// InProgress where a controller that always sets `status.observedGeneration` has not set it yet. Objects
    /// without a generation (written by hand, or by an older server) pass.
    pub(super) fn unobserved(&self) -> Option<Verdict> {
        (self.generation.is_some() && self.observed.is_none()).then(|| {
            Verdict::new(
                Status::InProgress,
                Basis::KindRule,
                "NotObserved",
                "the controller has not observed the object yet",
            )
        })
    }
}

fn observed_at(condition: &Condition<'_>, observed: i64, latest: i64) -> Verdict {
    let type_ = condition.type_text();
    not_observed(text!("condition {type_} was observed at generation {observed}, the latest is {latest}"))
}

/// The verdict on an object whose latest generation the controller has not seen.
pub(super) fn not_observed(message: String) -> Verdict {
    Verdict::new(Status::InProgress, Basis::Generation, "LatestGenerationNotObserved", message)
}

/// An integer, also one written with an empty fraction: `3.0`.
pub(super) fn whole_number(node: Node<'_>) -> Option<i64> {
    node.as_int().or_else(|| {
        let number = node.as_float()?;
        // Every whole number below 2^53 is exact.
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    })
}

pub(super) fn path(field: Field) -> String {
    text!("{}.{}", field.parent().path(), field.key())
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn parse(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"True" => Self::True,
            b"False" => Self::False,
            b"Unknown" => Self::Unknown,
            _ => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One condition, read once.
#[derive(Clone, Copy)]
pub(super) struct Condition<'o> {
    fields: ConditionFields<'o>,
    /// The type's bytes; none for one that is written with escapes.
    type_bytes: Option<&'o [u8]>,
    pub(super) truth: Truth,
}

impl<'o> Condition<'o> {
    /// A condition elsewhere than in `status.conditions`. One of the wrong shape says nothing.
    pub(super) fn elsewhere(element: Node<'o>) -> Option<Self> {
        let (mut type_, mut status) = (None, None);
        for (key, value) in element.entries() {
            let slot = match &*key.bytes() {
                b"type" => &mut type_,
                b"status" => &mut status,
                _ => continue,
            };
            *slot = Some(value);
        }
        Self::of_members(ConditionFields::of(element), type_?, status?)
    }

    /// One of `status.conditions`, without a note of what is odd in it.
    pub(super) fn of_status(fields: ConditionFields<'o>) -> Option<Self> {
        let (type_, status) = (fields.member(Member::Type)?, fields.member(Member::Status)?);
        Self::of_members(fields, type_, status)
    }

    fn of_members(fields: ConditionFields<'o>, type_: Node<'o>, status: Node<'o>) -> Option<Self> {
        let truth = status.plain().and_then(Truth::parse)?;
        type_.is_string().then(|| Self { fields, type_bytes: type_.plain(), truth })
    }

    /// The generation of the object that it speaks of.
    fn observed_generation(&self) -> Option<i64> {
        self.fields.member(Member::ObservedGeneration).and_then(generation_number)
    }

    #[inline]
    pub(super) fn is_type(&self, word: &str) -> bool {
        match self.type_bytes {
            Some(bytes) => same(bytes, word.as_bytes()),
            None => self.fields.member(Member::Type).is_some_and(|type_| type_.is(word)),
        }
    }

    pub(super) fn is_true(&self) -> bool {
        self.truth == Truth::True
    }

    pub(super) fn is_false(&self) -> bool {
        self.truth == Truth::False
    }

    pub(super) fn is(&self, type_: &str, truth: Truth) -> bool {
        self.truth == truth && self.is_type(type_)
    }

    pub(super) fn is_reason(&self, word: &str) -> bool {
        self.reason().is_some_and(|reason| reason.is(word))
    }

    /// What is found out of the bytes of the type.
    pub(super) fn with_type<R>(&self, read: impl FnOnce(&[u8]) -> Option<R>) -> Option<R> {
        match self.type_bytes {
            Some(bytes) => read(bytes),
            None => read(self.type_text().as_bytes()),
        }
    }

    pub(super) fn type_text(&self) -> Cow<'o, str> {
        self.fields.member(Member::Type).and_then(Node::as_str).unwrap_or_default()
    }

    pub(super) fn is_observed_at(&self, generation: i64) -> bool {
        self.observed_generation() == Some(generation)
    }

    /// Whether this is what a verdict says, written for a generation.
    pub(super) fn is_of(&self, generation: i64, verdict: &Verdict) -> bool {
        let is = |said: Option<Node<'o>>, text: &str| {
            said.is_some_and(|said| said.as_str().is_some_and(|said| said == text))
        };
        self.is_observed_at(generation)
            && (is(self.reason(), &verdict.reason) || is(self.message(), &verdict.message))
    }

    fn reason(&self) -> Option<Node<'o>> {
        self.fields.member(Member::Reason)
    }

    fn message(&self) -> Option<Node<'o>> {
        self.fields.member(Member::Message)
    }

    /// What is found out of the words of the reason; of none where it has none.
    pub(super) fn with_reason<R>(&self, read: impl FnOnce(Option<&Phrase<'_>>) -> R) -> R {
        match self.reason() {
            Some(reason) => reason.with_head(|text| match text {
                Some(text) => Phrase::with(text, |phrase| read(Some(phrase))),
                None => read(None),
            }),
            None => read(None),
        }
    }

    /// Whether the condition has a reason that is like this.
    pub(super) fn has_reason(&self, is_like: impl Fn(&Phrase<'_>) -> bool) -> bool {
        self.with_reason(|reason| reason.is_some_and(is_like))
    }

    /// The condition's reason, or a word of ours where it has none.
    pub(super) fn reason_or(&self, fallback: &'static str) -> Text {
        match self.reason().and_then(Node::as_str) {
            Some(reason) if !reason.is_empty() => reason.into_owned().into(),
            _ => fallback.into(),
        }
    }

    /// The condition's message, or `fallback` where it has none.
    pub(super) fn message_or(&self, fallback: impl FnOnce() -> String) -> String {
        match self.message().and_then(Node::as_str) {
            Some(message) if !message.is_empty() => message.into_owned(),
            _ => fallback(),
        }
    }

    /// Whether the condition, which is False, reports a failure: by its reason, its message, or its severity as in Cluster
    /// API.
    pub(super) fn reports_failure(&self) -> bool {
        self.with_reason(|reason| self.reports_failure_with(reason))
    }

    /// As [`reports_failure`](Self::reports_failure), with the words of its reason.
    pub(super) fn reports_failure_with(&self, reason: Option<&Phrase<'_>>) -> bool {
        let message_fails = |message: Node<'_>| message.with_head(|text| text.is_some_and(reports_failure));
        reason.is_some_and(Phrase::names_failure)
            || self.message().is_some_and(message_fails) && !reason.is_some_and(Phrase::names_waiting)
            || self.fields.member(Member::Severity).is_some_and(|severity| severity.is("Error"))
    }

    /// Whether the condition, with the words of its reason, says that the controller tries again by itself.
    pub(super) fn is_retried_with(&self, reason: Option<&Phrase<'_>>) -> bool {
        self.message().is_some_and(|message| RETRIES.iter().any(|words| message.contains(words)))
            || reason.is_some_and(Phrase::names_waiting)
    }

    pub(super) fn is_message(&self, text: &str) -> bool {
        self.message().is_some_and(|message| message.is(text))
    }

    pub(super) fn has_message(&self) -> bool {
        self.message().is_some_and(Node::is_filled)
    }

    /// The condition's message, or "condition X is False" and the reason.
    pub(super) fn describe(&self) -> Described<'o> {
        Described(*self)
    }

    pub(super) fn last_transition(&self) -> Option<Cow<'o, str>> {
        self.fields.member(Member::LastTransitionTime)?.as_str()
    }
}

/// Text of a condition for messages.
pub(super) struct Described<'o>(Condition<'o>);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = |node: &Node<'_>| node.is_filled();
        let condition = &self.0;
        if let Some(message) = condition.message().filter(filled) {
            return Shown(message).fmt(f);
        }
        write!(f, "condition {} is {}", condition.type_text(), condition.truth.as_str())?;
        match condition.reason().filter(filled) {
            Some(reason) => write!(f, ": {}", Shown(reason)),
            None => Ok(()),
        }
    }
}

impl From<Described<'_>> for Text {
    fn from(described: Described<'_>) -> Self {
        let condition = &described.0;
        Self::Owned(condition.message_or(|| {
            // As `Display` has it, without the cost of formatting: most conditions have no message.
            let (type_, is) = (condition.type_text(), condition.truth.as_str());
            match condition.reason().and_then(Node::as_str).filter(|reason| !reason.is_empty()) {
                Some(reason) => ["condition ", &type_, " is ", is, ": ", &reason].concat(),
                None => ["condition ", &type_, " is ", is].concat(),
            }
        }))
    }
}

/// The conditions of an object.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'c, 'o, 'a> {
    context: &'c Context<'o, 'a>,
}

impl<'c, 'o, 'a> Conditions<'c, 'o, 'a> {
    pub(super) fn find(&self, type_: &str) -> Option<Condition<'o>> {
        self.iter().find(|condition| condition.is_type(type_))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Condition<'o>> + use<'c, 'o, 'a> {
        let context = self.context;
        let fields = context.object.conditions().enumerate();
        fields.filter_map(move |(index, fields)| Condition::read(context, index, fields))
    }
}

impl<'o> Condition<'o> {
    /// An element without a type says nothing and is passed over; one of the wrong shape is unreadable.
    fn read(context: &Context<'_, '_>, index: usize, fields: ConditionFields<'o>) -> Option<Self> {
        let at = |key: &str| text!(".status.conditions[{index}]{key}");
        if !fields.element().is_map() {
            if fields.element().is_null() {
                context.note(at(""), "null condition");
            } else {
                context.wrong_type(at(""), "a map", fields.element());
            }
            return None;
        }
        let (type_, status) = (fields.member(Member::Type), fields.member(Member::Status));
        for (key, node) in [(".type", type_), (".status", status)] {
            if let Some(node) = node.filter(|node| !node.is_string()) {
                context.wrong_type(at(key), "a string", node);
                return None;
            }
        }
        let type_ = type_?;
        let Some(truth) = status.and_then(Node::plain).and_then(Truth::parse) else {
            // Conditions are read more than once; the note is made at the first time.
            if context.first_look_at(index) {
                let found = status.and_then(Node::as_str).unwrap_or_default();
                context.note(at(".status"), text!("expected True, False or Unknown, found `{found}`"));
            }
            return None;
        };
        Some(Self { fields, type_bytes: type_.plain(), truth })
    }
}

/// A generation: a number, or a string that holds one as Argo Rollouts writes it.
pub(crate) fn generation_number(node: Node<'_>) -> Option<i64> {
    whole_number(node).or_else(|| node.as_str()?.trim().parse().ok())
}

// Verdicts of kind rules.

pub(super) fn current(reason: impl Into<Text>, message: impl Into<Text>) -> Verdict {
    Verdict::new(Status::Current, Basis::KindRule, reason, message)
}

pub(super) fn in_progress(reason: impl Into<Text>, message: impl Into<Text>) -> Verdict {
    Verdict::new(Status::InProgress, Basis::KindRule, reason, message)
}

/// A failure that the controller goes on working against: it may pass without a change of the object.
pub(super) fn recoverable(class: FailureClass, reason: impl Into<Text>, message: impl Into<Text>) -> Verdict {
    let mut verdict = Verdict::new(Status::Failed, Basis::KindRule, reason, message);
    verdict.failure = Some(Failure { class, terminal: false });
    verdict
}

/// A failure that only a change of the object, or its replacement, ends.
pub(super) fn terminal(class: FailureClass, reason: impl Into<Text>, message: impl Into<Text>) -> Verdict {
    let mut verdict = Verdict::new(Status::Failed, Basis::KindRule, reason, message);
    verdict.failure = Some(Failure { class, terminal: true });
    verdict
}
