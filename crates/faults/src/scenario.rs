//! Scenario: objects, edits, external system and invariants that a controller is explored with.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Controller, Controllers};

use crate::cluster::{View, text};
use crate::world::World;

pub(crate) type Invariant<W> = Arc<dyn Fn(&View<'_, W>) -> Result<(), String> + Send + Sync>;
pub(crate) type Promise<W> = Arc<dyn Fn(&Value, &View<'_, W>) -> Result<(), String> + Send + Sync>;
pub(crate) type Claims = Arc<dyn Fn(&Value) -> Vec<String> + Send + Sync>;
pub(crate) type Order<W> = Arc<dyn Fn(&W, &View<'_, W>) -> Result<(), String> + Send + Sync>;
type Mutation<W> = Arc<dyn Fn(&mut W) + Send + Sync>;

/// Object of an edit.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Reference {
    /// Of `namespace/name`, or a name alone.
    fn new(api_version: &str, kind: &str, name: &str) -> Self {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn to(object: &Value) -> Self {
        let own = |pointer| text(object, pointer).to_owned();
        Self {
            api_version: own("/apiVersion"),
            kind: own("/kind"),
            namespace: own("/metadata/namespace"),
            name: own("/metadata/name"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{} {}", self.kind, self.name),
            false => write!(f, "{} {}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// An action of a user while the controller runs.
#[derive(Clone)]
pub(crate) enum Edit<W> {
    Create(Value),
    Patch { object: Reference, subresource: String, patch: Value },
    Delete(Reference),
    World { name: String, change: Mutation<W> },
}

impl<W> Edit<W> {
    /// Its object, if it is in the cluster.
    pub(crate) fn object(&self) -> Option<Reference> {
        match self {
            Self::Create(object) => Some(Reference::to(object)),
            Self::Patch { object, .. } | Self::Delete(object) => Some(object.clone()),
            Self::World { .. } => None,
        }
    }
}

impl<W> fmt::Display for Edit<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(object) => write!(f, "create {}", Reference::to(object)),
            Self::Patch { object, subresource, patch } if subresource.is_empty() => {
                write!(f, "patch {object} {patch}")
            }
            Self::Patch { object, subresource, patch } => write!(f, "patch {object} ({subresource}) {patch}"),
            Self::Delete(object) => write!(f, "delete {object}"),
            Self::World { name, .. } => write!(f, "external: {name}"),
        }
    }
}

/// Scenario for the exploration of a controller. Clones share their content.
///
/// ```
/// use serde_json::json;
/// use settled_faults::Scenario;
///
/// let scenario = Scenario::new("copies")
///     .object(json!({
///         "apiVersion": "v1", "kind": "ConfigMap",
///         "metadata": {"name": "original", "namespace": "default"}, "data": {"text": "a"},
///     }))
///     .patch("v1", "ConfigMap", "default/original", json!({"data": {"text": "b"}}))
///     .delete("v1", "ConfigMap", "default/original")
///     .invariant("no copy without an original", |view| {
///         let stray = view.get("ConfigMap", "default", "copy").is_some()
///             && view.get("ConfigMap", "default", "original").is_none();
///         if stray { Err("the copy is alone".to_owned()) } else { Ok(()) }
///     });
/// # let _ = scenario;
/// ```
#[derive(Clone)]
pub struct Scenario<W: World = ()> {
    pub(crate) name: String,
    pub(crate) world: W,
    pub(crate) objects: Vec<Value>,
    pub(crate) edits: Vec<Edit<W>>,
    pub(crate) user: User,
    pub(crate) controllers: Controllers,
    pub(crate) condition: String,
    pub(crate) promises: Vec<Promise<W>>,
    pub(crate) claims: Option<Claims>,
    pub(crate) grants: Option<Claims>,
    pub(crate) orders: Vec<(String, Order<W>)>,
    pub(crate) invariants: Vec<(String, Invariant<W>)>,
    pub(crate) goals: Vec<(String, Invariant<W>)>,
    pub(crate) ignored: Vec<String>,
}

impl Scenario {
    /// Creates a scenario without an external system.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_world(name, ())
    }
}

impl<W: World> Scenario<W> {
    /// Creates a scenario with the initial state of an external system.
    #[must_use]
    pub fn with_world(name: &str, world: W) -> Self {
        Self {
            name: name.to_owned(),
            world,
            objects: Vec::new(),
            edits: Vec::new(),
            user: User::admin(),
            controllers: Controllers::none().with(Controller::Garbage).with(Controller::Namespaces),
            condition: "Ready".to_owned(),
            promises: Vec::new(),
            claims: None,
            grants: None,
            orders: Vec::new(),
            invariants: Vec::new(),
            goals: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Adds an object, including its status, that exists before the controller starts. Add CRDs before their objects.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// An edit: creates an object once the controller is idle.
    #[must_use]
    pub fn create(mut self, object: Value) -> Self {
        self.edits.push(Edit::Create(object));
        self
    }

    /// An edit: a JSON merge patch of `namespace/name` (or of a name alone).
    #[must_use]
    pub fn patch(mut self, api_version: &str, kind: &str, name: &str, patch: Value) -> Self {
        let object = Reference::new(api_version, kind, name);
        self.edits.push(Edit::Patch { object, subresource: String::new(), patch });
        self
    }

    /// An edit: a JSON merge patch of the status alone (`{"phase": "Running"}`), as another controller writes it.
    #[must_use]
    pub fn patch_status(self, api_version: &str, kind: &str, name: &str, status: Value) -> Self {
        self.patch_subresource(api_version, kind, name, "status", json!({"status": status}))
    }

    /// An edit: a JSON merge patch of a subresource, such as `resize`. The patch is of the whole object.
    #[must_use]
    pub fn patch_subresource(
        mut self,
        api_version: &str,
        kind: &str,
        name: &str,
        subresource: &str,
        patch: Value,
    ) -> Self {
        let object = Reference::new(api_version, kind, name);
        self.edits.push(Edit::Patch { object, subresource: subresource.to_owned(), patch });
        self
    }

    /// An edit: deletes `namespace/name` (or a name alone).
    #[must_use]
    pub fn delete(mut self, api_version: &str, kind: &str, name: &str) -> Self {
        self.edits.push(Edit::Delete(Reference::new(api_version, kind, name)));
        self
    }

    /// An edit: changes the external system.
    #[must_use]
    pub fn external(mut self, name: &str, change: impl Fn(&mut W) + Send + Sync + 'static) -> Self {
        self.edits.push(Edit::World { name: name.to_owned(), change: Arc::new(change) });
        self
    }

    /// User of the controller, so that RBAC is part of the scenario. The administrator by default.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    /// Built-in controllers that run beside the controller: garbage collector and namespaces by default.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Invariant of cluster and external system whenever an object reports `Ready=True` for its current generation.
    #[must_use]
    pub fn ready_means(
        mut self,
        promise: impl Fn(&Value, &View<'_, W>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.promises.push(Arc::new(promise));
        self
    }

    /// The condition of [`Scenario::ready_means`], if it is not `Ready`.
    #[must_use]
    pub fn condition(mut self, condition: &str) -> Self {
        self.condition = condition.to_owned();
        self
    }

    /// Which [effects](crate::Effect) an object's status claims, by id: each must exist, for this object, from then on.
    #[must_use]
    pub fn claims(mut self, claims: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.claims = Some(Arc::new(claims));
        self
    }

    /// Values granted to an object that no other object may have at the same time: addresses, numbers of a pool.
    #[must_use]
    pub fn grants(mut self, grants: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.grants = Some(Arc::new(grants));
        self
    }

    /// Invariant of each call of the controller that changes the external system, with the state before it: checks the order of writes,
    /// such as an effect after the status that permits it.
    #[must_use]
    pub fn order(
        mut self,
        name: &str,
        holds: impl Fn(&W, &View<'_, W>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.orders.push((name.to_owned(), Arc::new(holds)));
        self
    }

    /// Invariant after every write.
    #[must_use]
    pub fn invariant(
        mut self,
        name: &str,
        holds: impl Fn(&View<'_, W>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push((name.to_owned(), Arc::new(holds)));
        self
    }

    /// Invariant at the end, once all edits are made and the controller is idle.
    #[must_use]
    pub fn finally(
        mut self,
        name: &str,
        holds: impl Fn(&View<'_, W>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.goals.push((name.to_owned(), Arc::new(holds)));
        self
    }

    /// Excludes a field, by its JSON pointer, from the comparison with the run without faults.
    #[must_use]
    pub fn ignore(mut self, pointer: &str) -> Self {
        self.ignored.push(pointer.to_owned());
        self
    }
}

impl<W: World> fmt::Debug for Scenario<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}
