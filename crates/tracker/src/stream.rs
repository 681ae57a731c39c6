//! The streams of a tracker: which objects they are about, and the records that become of them.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use settled_watch::stream::{self, Decode, Scope};
use settled_watch::{Cluster, Resource};
use tokio::sync::mpsc::Sender;

use crate::evaluator::Evaluator;
use crate::ids::StreamId;
use crate::record::Record;

/// What happened on which stream, in order.
pub(crate) type Message = stream::Message<StreamId, Box<Record>>;
/// What happened.
pub(crate) type Update = stream::Update<Box<Record>>;

/// Which objects a stream is about, and what is asked of them.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) scope: Scope,
    /// Its objects are waited for: each is asked whether it is what is wanted.
    pub(crate) target: bool,
    /// All others are passed over.
    pub(crate) only: Option<Arc<HashSet<Box<str>>>>,
}

impl Spec {
    /// The objects of a kind, in a namespace or everywhere.
    pub(crate) fn new(resource: &Arc<Resource>, namespace: Option<&str>) -> Self {
        Self { scope: Scope::new(resource, namespace), target: false, only: None }
    }

    /// Only the object of this name.
    pub(crate) fn name(mut self, name: &str) -> Self {
        self.scope = self.scope.name(name);
        self
    }

    fn decoder(&self, evaluator: &Arc<Evaluator>) -> Decoder {
        Decoder {
            evaluator: Arc::clone(evaluator),
            resource: self.scope.metadata.then(|| Arc::clone(&self.scope.resource)),
            target: self.target,
            only: self.only.clone(),
        }
    }
}

/// Follows the objects until nobody listens.
pub(crate) async fn follow(
    cluster: Cluster,
    spec: Spec,
    evaluator: Arc<Evaluator>,
    stream: StreamId,
    out: Sender<Message>,
) {
    if !spec.scope.metadata {
        evaluator.learn(&cluster, &spec.scope.resource).await;
    }
    let decoder = spec.decoder(&evaluator);
    stream::follow(cluster, spec.scope, decoder, stream, out).await;
}

/// Asks for single objects again and again: for users who may get them, but not list or watch them.
pub(crate) async fn poll(
    cluster: Cluster,
    spec: Spec,
    names: Vec<Box<str>>,
    evaluator: Arc<Evaluator>,
    stream: StreamId,
    out: Sender<Message>,
) {
    evaluator.learn(&cluster, &spec.scope.resource).await;
    let decoder = spec.decoder(&evaluator);
    settled_watch::poll(cluster, spec.scope, names, decoder, stream, out).await;
}

/// Makes records of objects.
struct Decoder {
    evaluator: Arc<Evaluator>,
    /// The kind of the objects where only their metadata comes, whose type is PartialObjectMetadata.
    resource: Option<Arc<Resource>>,
    target: bool,
    only: Option<Arc<HashSet<Box<str>>>>,
}

impl Decode for Decoder {
    type Item = Box<Record>;

    fn decode(&self, object: &[u8], now: Timestamp) -> Option<(Box<Record>, u64)> {
        let object = kstatus::Object::parse(object).ok()?;
        if let Some(only) = &self.only
            && !only.contains(&*object.name()?)
        {
            return None;
        }
        let mut record = self.evaluator.record_of(&object, now, self.target)?;
        if let Some(resource) = &self.resource {
            record.id =
                self.evaluator.id(&resource.group, &resource.kind, &record.id.namespace, &record.id.name);
        }
        let resource_version = record.resource_version;
        Some((Box::new(record), resource_version))
    }
}
