//! Compiled predicates: evaluated on remembered facts about the old object.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::{ChangeTest, EventKind, Expression, Facts, Predicate, facts};
use crate::object::ObjectView;
use crate::own_writes::OwnWrites;

/// An event with the facts of its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'e> {
    pub(crate) kind: EventKind,
    /// Facts of the old version; `None` if it is unknown or did not exist.
    pub(crate) old: Option<&'e Facts>,
    pub(crate) new: &'e Facts,
    /// No version between the two was missed.
    pub(crate) is_consecutive: bool,
}

/// A compiled predicate.
#[derive(Clone, Debug)]
pub(crate) struct Compiled(Arc<Program>);

#[derive(Debug)]
struct Program {
    root: Step,
    /// The predicate, for its tests.
    predicate: Predicate,
    state: RandomState,
}

/// An expression with numbered tests.
#[derive(Debug)]
enum Step {
    Always(bool),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Kind(EventKind),
    /// Index of the fact with the result.
    Object(usize),
    /// Index of the first compared fact.
    Change(ChangeKind, usize),
    /// Index of the version among the facts.
    OwnWriteIn(OwnWrites, usize),
}

#[derive(Clone, Copy, Debug)]
enum ChangeKind {
    Differs,
    DeletionRequested,
    OwnWrite,
}

impl Compiled {
    pub(crate) fn new(predicate: &Predicate) -> Self {
        let root = compile(predicate.expression(), &mut 0);
        Self(Arc::new(Program { root, predicate: predicate.clone(), state: RandomState::new() }))
    }

    /// Collects the facts of an object.
    pub(crate) fn facts(&self, object: &ObjectView<'_>) -> Facts {
        let mut values = Vec::new();
        read(self.0.predicate.expression(), object, &self.0.state, &mut values);
        Facts { uid: self.0.state.hash_one(object.uid().as_bytes()), values: values.into() }
    }

    /// Whether the predicate accepts the event. Deletions, and new incarnations, are always accepted.
    pub(crate) fn accepts(&self, event: &Event<'_>) -> bool {
        let recreated = event.old.is_some_and(|old| !old.is_same_object(event.new));
        event.kind == EventKind::Delete || recreated || holds(&self.0.root, event)
    }

    /// Whether the predicate accepts an object, without collecting facts.
    pub(crate) fn matches(&self, object: &ObjectView<'_>) -> bool {
        matches(self.0.predicate.expression(), object)
    }

    /// Whether it reads only the metadata of an object.
    pub(crate) fn is_metadata(&self) -> bool {
        is_metadata(self.0.predicate.expression())
    }
}

/// `next` is the first free index of facts.
fn compile(expression: &Expression, next: &mut usize) -> Step {
    let mut all = |parts: &[Predicate]| parts.iter().map(|part| compile(part.expression(), next)).collect();
    match expression {
        Expression::Always(value) => Step::Always(*value),
        Expression::All(parts) => Step::All(all(parts)),
        Expression::Any(parts) => Step::Any(all(parts)),
        Expression::Not(part) => Step::Not(Box::new(compile(part.expression(), next))),
        Expression::Kind(kind) => Step::Kind(*kind),
        Expression::Object(_) => {
            let value = *next;
            *next += 1;
            Step::Object(value)
        }
        Expression::Change(test) => {
            let value = *next;
            *next += facts::width(test);
            match test {
                ChangeTest::Differs(_) | ChangeTest::Computed(_) => Step::Change(ChangeKind::Differs, value),
                ChangeTest::DeletionRequested => Step::Change(ChangeKind::DeletionRequested, value),
                ChangeTest::OwnWrite(_) => Step::Change(ChangeKind::OwnWrite, value),
                ChangeTest::OwnWriteIn(own_writes) => Step::OwnWriteIn(own_writes.clone(), value),
            }
        }
    }
}

/// Reads the facts of an object, in the order in which [`compile`] assigned the indexes.
fn read(expression: &Expression, object: &ObjectView<'_>, state: &RandomState, values: &mut Vec<u64>) {
    match expression {
        Expression::Always(_) | Expression::Kind(_) => {}
        Expression::All(parts) | Expression::Any(parts) => {
            parts.iter().for_each(|part| read(part.expression(), object, state, values));
        }
        Expression::Not(part) => read(part.expression(), object, state, values),
        Expression::Object(test) => values.push(u64::from(test.holds(object))),
        Expression::Change(test) => facts::push(values, test, object, state),
    }
}

fn holds(step: &Step, event: &Event<'_>) -> bool {
    match step {
        Step::Always(value) => *value,
        Step::All(parts) => parts.iter().all(|part| holds(part, event)),
        Step::Any(parts) => parts.iter().any(|part| holds(part, event)),
        Step::Not(part) => !holds(part, event),
        Step::Kind(kind) => *kind == event.kind,
        Step::Object(index) => event.new.values.get(*index) == Some(&1),
        Step::Change(kind, index) => {
            let differs = |old: &Facts, index: usize| old.values.get(index) != event.new.values.get(index);
            match (kind, event.old) {
                (ChangeKind::Differs, Some(old)) => differs(old, *index),
                // Nothing to compare with: the object is new to the watcher.
                (ChangeKind::Differs, None) => true,
                (ChangeKind::DeletionRequested, old) => {
                    let requested = |facts: &Facts| facts.values.get(*index) == Some(&1);
                    requested(event.new) && !old.is_some_and(requested)
                }
                (ChangeKind::OwnWrite, Some(old)) => {
                    event.is_consecutive && differs(old, *index) && !differs(old, index + 1)
                }
                (ChangeKind::OwnWrite, None) => false,
            }
        }
        Step::OwnWriteIn(own_writes, index) => {
            let old = event.old.and_then(|old| old.values.get(*index));
            old.zip(event.new.values.get(*index)).is_some_and(|(old, new)| own_writes.lead(*old, *new))
        }
    }
}

fn matches(expression: &Expression, object: &ObjectView<'_>) -> bool {
    match expression {
        Expression::Always(value) => *value,
        Expression::All(parts) => parts.iter().all(|part| matches(part.expression(), object)),
        Expression::Any(parts) => parts.iter().any(|part| matches(part.expression(), object)),
        Expression::Not(part) => !matches(part.expression(), object),
        Expression::Kind(kind) => *kind == EventKind::Generic,
        Expression::Object(test) => test.holds(object),
        Expression::Change(ChangeTest::Differs(_) | ChangeTest::Computed(_)) => true,
        Expression::Change(ChangeTest::DeletionRequested) => object.is_deleting(),
        Expression::Change(ChangeTest::OwnWrite(_) | ChangeTest::OwnWriteIn(_)) => false,
    }
}

fn is_metadata(expression: &Expression) -> bool {
    match expression {
        Expression::Always(_) | Expression::Kind(_) => true,
        Expression::All(parts) | Expression::Any(parts) => {
            parts.iter().all(|part| is_metadata(part.expression()))
        }
        Expression::Not(part) => is_metadata(part.expression()),
        Expression::Object(test) => test.is_metadata(),
        Expression::Change(test) => test.is_metadata(),
    }
}
