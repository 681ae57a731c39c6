//! Predicates: which objects, and which changes of them, a controller wants to see.
//!
//! A [`Predicate`] is evaluated over the old and the new object and the kind of the event, as controller-runtime's are, and is built with
//! [`and`](Predicate::and), [`or`](Predicate::or) and [`not`](Predicate::not):
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
//! Two questions, two places: a predicate on *objects* decides which of them exist for the controller, one on *events* which changes wake it.
//! [`Filter`](crate::filter::Filter) asks both below a `kube::Client`, so that they work with a `Controller` as it is;
//! [`Cache`](crate::cache::Cache) asks them while it reads.
//!
//! | predicate on events | true on Create | true on Update when | remark |
//! |---|---|---|---|
//! | [`generation_changed`] | yes | `metadata.generation` differs | a status write does not change it; a finalizer or a label neither |
//! | [`labels_changed`], [`annotations_changed`], [`finalizers_changed`] | yes | these differ | |
//! | [`field_changed`] | yes | the value at a path differs | an absent field, `null` and an empty one are the same |
//! | [`changed_by`] | yes | the value of a function of one's own differs | |
//! | [`deletion_requested`] | if it is set | `deletionTimestamp` was not set before, and is now | |
//! | [`own_write`] | no | the only field manager that has written since is this one | see there |
//!
//! Two rules hold whatever a predicate says: a deletion is never dropped, and an object with a new UID is another object, whose appearance is
//! never dropped, however alike the two are. What is kept of an old object is 8 bytes for each predicate that compares, not the object.

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

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It is new, to the cluster or to the watcher; or began to match.
    Create,
    /// It was changed.
    Update,
    /// It is gone, or stopped matching.
    Delete,
    /// Nothing: it is part of an initial list or a relist.
    Generic,
}

/// A condition on an object, or on a change of it. Copies share it.
#[derive(Clone)]
pub struct Predicate(Arc<Expression>);

#[derive(Debug)]
pub(crate) enum Expression {
    Always(bool),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Predicate),
    Kind(EventKind),
    /// Of the object as it is.
    Object(ObjectTest),
    /// Of what the change has changed.
    Change(ChangeTest),
}

/// A test of one object.
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
    /// None is any.
    pub(crate) kind: Option<Box<str>>,
    pub(crate) uid: Option<Box<str>>,
    /// Only the owner reference with `controller: true`.
    pub(crate) controller: bool,
}

/// Hashes what a change is told by.
pub(crate) type Compute = dyn Fn(&ObjectView<'_>, &mut dyn Hasher) + Send + Sync;

/// A test of an old and a new object.
pub(crate) enum ChangeTest {
    /// The value differs.
    Differs(FieldPath),
    /// The result of a function differs.
    Computed(Arc<Compute>),
    /// The deletion was requested.
    DeletionRequested,
    /// Only this field manager has changed something.
    OwnWrite(Box<str>),
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

    /// Whether it is true of everything.
    pub(crate) fn is_always(&self) -> bool {
        matches!(*self.0, Expression::Always(true))
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        all([self, other])
    }

    /// One of them, or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        any([self, other])
    }

    /// The opposite.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "it stands beside `and` and `or`, in the order of reading"
    )]
    pub fn not(self) -> Self {
        Self::new(Expression::Not(self))
    }

    /// Whether it holds for an event: for predicates in tests, and for streams of one's own. The old object is that of an update.
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
        compiled.accepts(&Event { kind, old: old.as_ref(), new: &new })
    }

    /// Whether it holds for an object by itself.
    #[must_use]
    pub fn matches(&self, object: &ObjectView<'_>) -> bool {
        self.evaluate(EventKind::Generic, None, object)
    }
}

/// True of everything, or of nothing.
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

/// Events of this kind.
#[must_use]
pub fn on(kind: EventKind) -> Predicate {
    Predicate::new(Expression::Kind(kind))
}

/// An owner reference of this kind with `controller: true`: Pods that are owned by a DaemonSet, ReplicaSets by a Deployment.
#[must_use]
pub fn owned_by(kind: &str) -> Predicate {
    owner(OwnerTest { kind: Some(kind.into()), uid: None, controller: true })
}

/// An owner reference with this UID, whether it is the controller or not.
#[must_use]
pub fn owned_by_uid(uid: &str) -> Predicate {
    owner(OwnerTest { kind: None, uid: Some(uid.into()), controller: false })
}

/// An owner reference with `controller: true`, of any kind.
#[must_use]
pub fn has_controller() -> Predicate {
    owner(OwnerTest { kind: None, uid: None, controller: true })
}

fn owner(test: OwnerTest) -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Owner(test)))
}

/// Labels that a selector selects, with all that kubectl knows: `app=web,tier in (a,b),!canary`. Where the server can do it, a label selector on
/// the request costs less.
///
/// # Errors
/// It is no label selector.
pub fn labels(selector: &str) -> Result<Predicate, InvalidSelector> {
    Ok(Predicate::new(Expression::Object(ObjectTest::Labels(LabelSelector::parse(selector)?))))
}

/// The deletion was requested: `metadata.deletionTimestamp` is set.
#[must_use]
pub fn deleting() -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Deleting))
}

/// A field, to be compared.
#[must_use]
pub fn field(path: impl Into<FieldPath>) -> Field {
    Field(path.into())
}

/// A condition of one's own on an object.
#[must_use]
pub fn object(test: impl Fn(&ObjectView<'_>) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::new(Expression::Object(ObjectTest::Custom(Arc::new(test))))
}

/// The `metadata.generation` differs: for kinds that have one, the spec was changed, or the deletion requested.
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

/// The resourceVersion differs: anything was changed. Resyncs, where nothing was, are left out.
#[must_use]
pub fn resource_version_changed() -> Predicate {
    field_changed("metadata.resourceVersion")
}

/// The value at a path differs.
#[must_use]
pub fn field_changed(path: impl Into<FieldPath>) -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::Differs(path.into())))
}

/// What a function of the object returns differs.
#[must_use]
pub fn changed_by<H: Hash>(value: impl Fn(&ObjectView<'_>) -> H + Send + Sync + 'static) -> Predicate {
    let computed =
        move |object: &ObjectView<'_>, mut hasher: &mut dyn Hasher| value(object).hash(&mut hasher);
    Predicate::new(Expression::Change(ChangeTest::Computed(Arc::new(computed))))
}

/// The deletion was requested with this change: `metadata.deletionTimestamp` was not set before, and is now.
#[must_use]
pub fn deletion_requested() -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::DeletionRequested))
}

/// The change is the echo of a write by this field manager: in `metadata.managedFields`, the time of an entry of it has changed, and of no
/// entry of anybody else.
///
/// It is true of updates alone, and only where that can be seen. The server keeps these times in seconds: of two writes of a manager within
/// one second, the second one does not show, and passes as anybody's. Nobody else's write is taken for one's own.
#[must_use]
pub fn own_write(manager: &str) -> Predicate {
    Predicate::new(Expression::Change(ChangeTest::OwnWrite(manager.into())))
}

/// A field of an object, to be compared: see [`field`].
#[derive(Clone, Debug)]
pub struct Field(FieldPath);

impl Field {
    fn test(self, test: FieldTest) -> Predicate {
        Predicate::new(Expression::Object(ObjectTest::Field(self.0, test)))
    }

    /// It is there, and not null.
    #[must_use]
    pub fn exists(self) -> Predicate {
        self.test(FieldTest::Exists)
    }

    /// It is this text; or this number or boolean, written as in JSON.
    #[must_use]
    pub fn equals(self, value: &str) -> Predicate {
        self.test(FieldTest::Equals(value.into()))
    }

    /// It is one of these.
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

    /// Whether metadata is all that it reads.
    pub(crate) fn is_metadata(&self) -> bool {
        match self {
            Self::Field(path, _) => path.is_metadata(),
            Self::Labels(_) | Self::Owner(_) | Self::Deleting => true,
            Self::Custom(_) => false,
        }
    }
}

impl ChangeTest {
    /// Whether metadata is all that it reads.
    pub(crate) fn is_metadata(&self) -> bool {
        match self {
            Self::Differs(path) => path.is_metadata(),
            Self::Computed(_) => false,
            Self::DeletionRequested | Self::OwnWrite(_) => true,
        }
    }
}

/// Whether a value is this text, or is written so.
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
