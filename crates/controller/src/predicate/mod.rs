//! Predicates on objects and their changes.
//!
//! A [`Predicate`] is evaluated on the old and the new object and the type of the event, as in controller-runtime.
//! Combine them with [`and`](Predicate::and), [`or`](Predicate::or) and [`not`](Predicate::not):
//!
//! ```
//! use settled_controller::predicate::{self, Predicate};
//!
//! // What most controllers want: their spec, labels or finalizers were changed, and not by themselves.
//! let wanted: Predicate = predicate::generation_changed()
//!     .or(predicate::labels_changed())
//!     .or(predicate::finalizers_changed())
//!     .and(predicate::own_write("shop-controller").not());
//! // Which objects matter at all.
//! let owned = predicate::owned_by("DaemonSet").and(predicate::field("status.phase").equals("Running"));
//! ```
//!
//! A predicate on *objects* decides which of them exist for the controller, one on *events* which changes wake it up.
//! [`Filter`](crate::filter::Filter) applies both below a `kube::Client`, so that they work with any `Controller`;
//! [`Cache`](crate::cache::Cache) applies them while it reads.
//!
//! | predicate on events | true on Create | true on Update when | remark |
//! |---|---|---|---|
//! | [`generation_changed`] | yes | `metadata.generation` differs | not changed by writes of status, finalizers or
//! labels |
//! | [`labels_changed`], [`annotations_changed`], [`finalizers_changed`] | yes | these differ | |
//! | [`field_changed`] | yes | the value at a path differs | absent, `null` and empty are equal |
//! | [`changed_by`] | yes | the result of a function differs | |
//! | [`deletion_requested`] | if it is set | `deletionTimestamp` was not set before, and is now | |
//! | [`own_write_in`] | no | only recorded own writes lead from the old resourceVersion to the new one | see its limits |
//! | [`own_write`] | no | the only field manager that has written since is this one | see its limits |
//!
//! Two rules hold for all predicates: a deletion is never dropped, and an object with a new UID is another object,
//! whose creation is never dropped. 8 bytes per comparing predicate are kept of an old object.

mod compiled;
mod facts;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kstatus::Node;
use settled_apimachinery::InvalidSelector;
use settled_apimachinery::labels::LabelSelector;

pub(crate) use compiled::{Compiled, Event};
pub(crate) use facts::Facts;

use crate::object::{FieldPath, ObjectView};
use crate::own_writes::OwnWrites;

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// New to the cluster or to the watcher, or started to match.
    Create,
    /// Changed.
    Update,
    /// Deleted, or stopped matching.
    Delete,
    /// Part of an initial list or a relist.
    Generic,
}

/// A condition on an object, or on a change of it. Clones share it.
#[derive(Clone)]
pub struct Predicate(Arc<Expression>);

#[derive(Debug)]
pub(crate) enum Expression {
    Always(bool),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Predicate),
    Kind(EventKind),
    /// Test of an object.
    Object(ObjectTest),
    /// Test of a change.
    Change(ChangeTest),
}

/// Test of one object.
pub(crate) enum ObjectTest {
    Field(FieldPath, FieldTest),
    Labels(LabelSelector),
    Owner(OwnerTest),
    Deleting,
    Custom(Arc<dyn Fn(&ObjectView<'_>) -> bool + Send + Sync>),
}

#[derive(Clone, Debug)]
pub(crate) enum FieldTest {
    Exists,
    Equals(Box<str>),
    OneOf(Box<[Box<str>]>),
}

#[derive(Clone, Debug)]
pub(crate) struct OwnerTest {
    /// `None` matches any.
    pub(crate) kind: Option<Box<str>>,
    pub(crate) uid: Option<Box<str>>,
    /// Only the owner reference with `controller: true`.
    pub(crate) controller: bool,
}

/// Hashes the compared values.
pub(crate) type Compute = dyn Fn(&ObjectView<'_>, &mut dyn Hasher) + Send + Sync;

/// Test of an old and a new object.
pub(crate) enum ChangeTest {
    /// The value differs.
    Differs(FieldPath),
    /// The result of a function differs.
    Computed(Arc<Compute>),
    /// Deletion was requested.
    DeletionRequested,
    /// Only this field manager has written.
    OwnWrite(Box<str>),
    /// Only these writes were made.
    OwnWriteIn(OwnWrites),
}

impl fmt::Debug for ObjectTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(path, test) => write!(formatter, "Field({path:?}, {test:?})"),
            Self::Labels(selector) => write!(formatter, "Labels({selector})"),
            Self::Owner(test) => test.fmt(formatter),
            Self::Deleting => formatter.write_str("Deleting"),
            Self::Custom(_) => formatter.write_str("Custom"),
        }
    }
}

impl fmt::Debug for ChangeTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(path) => write!(formatter, "Differs({path:?})"),
            Self::Computed(_) => formatter.write_str("Computed"),
            Self::DeletionRequested => formatter.write_str("DeletionRequested"),
            Self::OwnWrite(manager) => write!(formatter, "OwnWrite({manager})"),
            Self::OwnWriteIn(_) => formatter.write_str("OwnWriteIn"),
        }
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Predicate {
    fn new(expression: Expression) -> Self {
        Self(Arc::new(expression))
    }

    pub(crate) fn expression(&self) -> &Expression {
        &self.0
    }

    /// Whether it is always true.
    pub(crate) fn is_always(&self) -> bool {
        matches!(*self.0, Expression::Always(true))
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        all([self, other])
    }

    /// Either, or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        any([self, other])
    }

    /// Negation.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "it stands beside `and` and `or`, in the order of reading"
    )]
    pub fn not(self) -> Self {
        Self::new(Expression::Not(self))
    }

    /// Evaluates an event, for tests of predicates and for custom streams. `old` is the old object of an update.
    ///
    /// ```
    /// use settled_controller::ObjectView;
    /// use settled_controller::predicate::{EventKind, generation_changed};
    /// let old = ObjectView::parse(br#"{"metadata":{"generation":1},"status":{}}"#)?;
    /// let new = ObjectView::parse(br#"{"metadata":{"generation":1},"status":{"ready":1}}"#)?;
    /// assert!(!generation_changed().evaluate(EventKind::Update, Some(&old), &new));
    /// assert!(generation_changed().evaluate(EventKind::Create, None, &new));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn evaluate(&self, kind: EventKind, old: Option<&ObjectView<'_>>, new: &ObjectView<'_>) -> bool {
        let compiled = Compiled::new(self);
        let old = old.map(|old| compiled.facts(old));
        let new = compiled.facts(new);
        compiled.accepts(&Event { kind, old: old.as_ref(), new: &new, is_consecutive: true })
    }

    /// Evaluates a single object.
    #[must_use]
    pub fn matches(&self, object: &ObjectView<'_>) -> bool {
        self.evaluate(EventKind::Generic, None, object)
    }
}

/// Always true, or always false.
#[must_use]
pub fn always(value: bool) -> Predicate {
    Predicate::new(Expression::Always(value))
}

/// All of these.
#[must_use]
pub fn all(predicates: impl IntoIterator<Item = Predicate>) -> Predicate {
    Predicate::new(Expression::All(predicates.into_iter().collect()))
}

/// At least one of these.
#[must_use]
pub fn any(predicates: impl IntoIterator<Item = Predicate>) -> Predicate {
    Predicate::new(Expression::Any(predicates.into_iter().collect()))
}

/// Events of this type.
#[must_use]
pub fn on(kind: EventKind) -> Predicate {
    Predicate::new(Expression::Kind(kind))
}

/// Controlled by an object of this kind: Pods of DaemonSets, ReplicaSets of Deployments.
#[must_use]
pub fn owned_by(kind: &str) -> Predicate {
    owner(OwnerTest { kind: Some(kind.into()), uid: None, controller: true })
}

/// Owned by the object with this UID, as its controller or not.
#[must_use]
pub fn owned_by_uid(uid: &str) -> Predicate {
    owner(OwnerTest { kind: None, uid: Some(uid.into()), controller: false })
}

/// Controlled by an object of any kind.
#[must_use]
pub fn has_controller() -> Predicate {
    owner(OwnerTest { kind: None, uid: None, controller: true })
}

fn owner(test: OwnerTest) -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Owner(test)))
}

/// Labels that match a selector in kubectl's syntax: `app=web,tier in (a,b),!canary`. If possible, use a label selector
/// on the request, which costs less.
///
/// # Errors
/// The selector is invalid.
pub fn labels(selector: &str) -> Result<Predicate, InvalidSelector> {
    Ok(Predicate::new(Expression::Object(ObjectTest::Labels(LabelSelector::parse(selector)?))))
}

/// Deletion was requested: `metadata.deletionTimestamp` is set.
#[must_use]
pub fn deleting() -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Deleting))
}

/// A field, for comparisons.
#[must_use]
pub fn field(path: impl Into<FieldPath>) -> Field {
    Field(path.into())
}

/// A custom condition on an object.
#[must_use]
pub fn object(test: impl Fn(&ObjectView<'_>) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Custom(Arc::new(test))))
}

/// `metadata.generation` differs: the spec was changed, or deletion requested, for kinds that have a generation.
#[must_use]
pub fn generation_changed() -> Predicate {
    field_changed("metadata.generation")
}

/// The labels differ.
#[must_use]
pub fn labels_changed() -> Predicate {
    field_changed("metadata.labels")
}

/// The annotations differ.
#[must_use]
pub fn annotations_changed() -> Predicate {
    field_changed("metadata.annotations")
}

/// The finalizers differ.
#[must_use]
pub fn finalizers_changed() -> Predicate {
    field_changed("metadata.finalizers")
}

/// The resourceVersion differs: drops resyncs, which have no change.
#[must_use]
pub fn resource_version_changed() -> Predicate {
    field_changed("metadata.resourceVersion")
}

/// The value at a path differs.
#[must_use]
pub fn field_changed(path: impl Into<FieldPath>) -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::Differs(path.into())))
}

/// The result of a function differs.
#[must_use]
pub fn changed_by<H: Hash>(value: impl Fn(&ObjectView<'_>) -> H + Send + Sync + 'static) -> Predicate {
    let computed =
        move |object: &ObjectView<'_>, mut hasher: &mut dyn Hasher| value(object).hash(&mut hasher);
    Predicate::new(Expression::Change(ChangeTest::Computed(Arc::new(computed))))
}

/// Deletion was requested with this change: `metadata.deletionTimestamp` is set now, and was not before.
#[must_use]
pub fn deletion_requested() -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::DeletionRequested))
}

/// The change is a write of this field manager: in `metadata.managedFields`, the time of one of its entries has
/// changed, and of no entry of others.
///
/// True only for updates that show it. The server truncates these times to seconds: of two writes of a manager within a
/// second, the second one cannot be recognized. False for what a cache finds changed after a relist, where several
/// writes may have been missed. Writes of other managers are never mistaken for own ones. [`own_write_in`] compares
/// resourceVersions and has no such limits.
#[must_use]
pub fn own_write(manager: &str) -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::OwnWrite(manager.into())))
}

/// The change consists of recorded writes only: they lead from the old resourceVersion to the new one. Independent of
/// times and of the name of the field manager, also over several writes.
///
/// True only for updates. Not recognized are writes without a resourceVersion, and watch events that arrive before the
/// response to the write; `own_write_in(&own).or(own_write("shop-controller"))` recognizes these by field manager.
/// Writes of other clients are never mistaken for own ones.
#[must_use]
pub fn own_write_in(own_writes: &OwnWrites) -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::OwnWriteIn(own_writes.clone())))
}

/// A field of an object, for comparisons: see [`field`].
#[derive(Clone, Debug)]
pub struct Field(FieldPath);

impl Field {
    fn test(self, test: FieldTest) -> Predicate {
        Predicate::new(Expression::Object(ObjectTest::Field(self.0, test)))
    }

    /// The field exists and is not null.
    #[must_use]
    pub fn exists(self) -> Predicate {
        self.test(FieldTest::Exists)
    }

    /// The field is this string; or this number or boolean, written as in JSON.
    #[must_use]
    pub fn equals(self, value: &str) -> Predicate {
        self.test(FieldTest::Equals(value.into()))
    }

    /// The field is one of these values.
    #[must_use]
    pub fn one_of<'v>(self, values: impl IntoIterator<Item = &'v str>) -> Predicate {
        self.test(FieldTest::OneOf(values.into_iter().map(Into::into).collect()))
    }
}

impl ObjectTest {
    pub(crate) fn holds(&self, object: &ObjectView<'_>) -> bool {
        match self {
            Self::Field(path, test) => object.field(path).is_some_and(|value| match test {
                FieldTest::Exists => true,
                FieldTest::Equals(wanted) => is(value, wanted),
                FieldTest::OneOf(wanted) => wanted.iter().any(|wanted| is(value, wanted)),
            }),
            Self::Labels(selector) => selector.matches(&facts::LabelsOf::new(object)),
            Self::Owner(test) => object.owners().any(|owner| {
                let text = |key: &str, wanted: &Option<Box<str>>| {
                    wanted.as_ref().is_none_or(|wanted| owner.get(key).is_some_and(|value| value.is(wanted)))
                };
                let controller = || owner.get("controller").and_then(Node::as_bool) == Some(true);
                text("kind", &test.kind) && text("uid", &test.uid) && (!test.controller || controller())
            }),
            Self::Deleting => object.is_deleting(),
            Self::Custom(test) => test(object),
        }
    }

    /// Whether it reads only metadata.
    pub(crate) fn is_metadata(&self) -> bool {
        match self {
            Self::Field(path, _) => path.is_metadata(),
            Self::Labels(_) | Self::Owner(_) | Self::Deleting => true,
            Self::Custom(_) => false,
        }
    }
}

impl ChangeTest {
    /// Whether it reads only metadata.
    pub(crate) fn is_metadata(&self) -> bool {
        match self {
            Self::Differs(path) => path.is_metadata(),
            Self::Computed(_) => false,
            Self::DeletionRequested | Self::OwnWrite(_) | Self::OwnWriteIn(_) => true,
        }
    }
}

/// Whether a value is this string, or is written so.
fn is(value: Node<'_>, wanted: &str) -> bool {
    if value.is_string() {
        return value.is(wanted);
    }
    match value {
        Node::Text(text) => text == wanted.as_bytes(),
        Node::Value(value) => {
            let text = value.to_string();
            text == wanted
        }
    }
}
