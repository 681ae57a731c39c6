//! Move of a cluster to another server, with its status, in one transaction.
//!
//! 1. The Cluster is paused, and marked with where it goes.
//! 2. Its objects are copied into the other server, where the Cluster is paused, too, until both sides are equal.
//! 3. The hosts are given to the other server, in the ledger: this one can touch them no more.
//! 4. The Cluster there is unpaused, by one write: the transaction is committed.
//! 5. The objects here are removed, without their hosts.
//!
//! Whatever interrupts it, the next attempt continues from what both sides are.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use settled_machines::provider::{HostKey, Observed};
use settled_machines::types::{HOST_UID_ANNOTATION, MOVE_ANNOTATION, Machine, PAUSED_ANNOTATION};

use crate::contents::Contents;
use crate::error::{Error, is_code};
use crate::kinds::api;
use crate::management::{MANAGER, Management};

/// Value of the annotation that pauses a Cluster for a move.
const PAUSED_BY_MOVE: &str = "move";
/// Annotation of the Cluster here: to where it goes.
const DESTINATION_ANNOTATION: &str = "cluster.settled.dev/move-to";
/// Annotation of the Cluster here: by what it was paused before.
const PAUSED_BEFORE_ANNOTATION: &str = "cluster.settled.dev/paused-before-move";
/// How often the objects are compared before they are taken for ones that others change without end.
const MAX_PASSES: usize = 20;

/// What was moved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moved {
    /// How many objects there are.
    pub objects: usize,
    /// How many hosts.
    pub hosts: usize,
}

struct Move<'m> {
    source: &'m Management,
    destination: &'m Management,
    namespace: &'m str,
    name: &'m str,
}

/// Checks that a cluster can be moved, without changing anything. What would be moved.
///
/// # Errors
/// It cannot be moved, and why.
pub async fn check_move(
    source: &Management,
    destination: &Management,
    namespace: &str,
    name: &str,
) -> Result<Moved, Error> {
    let transfer = Move { source, destination, namespace, name };
    let contents = Contents::read(source, namespace, name).await?;
    let cluster =
        contents.of_kind("Cluster").next().ok_or_else(|| Error::NotFound(format!("Cluster {name}")))?;
    transfer.check(&contents, cluster).await?;
    Ok(Moved {
        objects: contents.objects.len(),
        hosts: contents.machines().iter().filter(|machine| has_host(machine)).count(),
    })
}

/// Moves a cluster to another server, or continues to.
///
/// # Errors
/// It cannot be moved, or a request fails: the next attempt continues.
pub async fn move_cluster(
    source: &Management,
    destination: &Management,
    namespace: &str,
    name: &str,
) -> Result<Moved, Error> {
    Move { source, destination, namespace, name }.run().await
}

fn annotation<'o>(object: &'o DynamicObject, key: &str) -> Option<&'o str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

fn name_of(object: &DynamicObject) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn has_host(machine: &Machine) -> bool {
    machine
        .status
        .as_ref()
        .is_some_and(|status| status.provisioning_since.is_some() || status.provider_id.is_some())
}

impl Move<'_> {
    async fn run(&self) -> Result<Moved, Error> {
        if self.source.identity == self.destination.identity {
            return Err(Error::Refused("source and destination are the same API server".to_owned()));
        }
        let there = self.cluster(self.destination).await?;
        let Some(here) = self.cluster(self.source).await? else {
            // Either it was moved, or there never was one.
            let there = there.ok_or_else(|| Error::NotFound(format!("Cluster {}", self.name)))?;
            self.finish(&there).await?;
            return Ok(Moved::default());
        };
        let id = uid(&here).to_owned();
        let is_ours = there.as_ref().map(|there| annotation(there, MOVE_ANNOTATION) == Some(id.as_str()));
        if is_ours == Some(false) {
            let message =
                format!("the destination has another Cluster {} in namespace {}", self.name, self.namespace);
            return Err(Error::Refused(message));
        }
        let is_committed =
            there.as_ref().is_some_and(|there| annotation(there, PAUSED_ANNOTATION) != Some(PAUSED_BY_MOVE));
        let mut contents = Contents::read(self.source, self.namespace, self.name).await?;
        if !is_committed {
            if annotation(&here, DESTINATION_ANNOTATION).is_none() {
                self.check(&contents, &here).await?;
            }
            self.pause(&here).await?;
            contents = self.copy().await?;
            self.hand_over(&contents).await?;
            self.commit(&id).await?;
        }
        let moved = Moved {
            objects: contents.objects.len(),
            hosts: contents.machines().iter().filter(|machine| has_host(machine)).count(),
        };
        self.remove(&contents).await?;
        if let Some(there) = self.cluster(self.destination).await? {
            self.finish(&there).await?;
        }
        Ok(moved)
    }

    async fn cluster(&self, of: &Management) -> Result<Option<DynamicObject>, Error> {
        let clusters = api(&of.client, "Cluster", self.namespace);
        clusters.get_opt(self.name).await.map_err(Error::request(format!("read Cluster {}", self.name)))
    }

    /// Whether everything can be moved.
    async fn check(&self, contents: &Contents, cluster: &DynamicObject) -> Result<(), Error> {
        if let Some(to) = annotation(cluster, DESTINATION_ANNOTATION)
            && to != self.destination.identity
        {
            return Err(Error::Refused(format!(
                "Cluster {} is being moved to another API server ({to})",
                self.name
            )));
        }
        if let Some((kind, object)) =
            contents.objects.iter().find(|(_, object)| object.metadata.deletion_timestamp.is_some())
        {
            let message =
                format!("{kind} {} is being deleted: move the Cluster when it is gone", name_of(object));
            return Err(Error::Refused(message));
        }
        // Providers that do not have the hosts would make others.
        for machine in contents.machines().iter().filter(|machine| has_host(machine)) {
            let status = machine.status.as_ref();
            let provider = status.and_then(|status| status.provider.clone()).unwrap_or_default();
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            let key = HostKey::from(machine);
            let refuse = |why: String| {
                Err(Error::Refused(format!("the destination cannot manage Machine {name}: {why}")))
            };
            let Ok(entry) = self.destination.registry.by_name(&provider) else {
                return refuse(format!("the provider {provider} is not installed there"));
            };
            let observed = entry.provider.observe(&key).await;
            let observed =
                observed.map_err(Error::provider(format!("look for the host of Machine {name}")))?;
            let has_host = status.is_some_and(|status| status.provider_id.is_some());
            // The Host of a pool is moved with its Machine.
            let is_in_pool = status.is_some_and(|status| status.host.is_some());
            if has_host && !is_in_pool && observed == Observed::Absent {
                return refuse(format!("the provider {provider} there does not have its host"));
            }
        }
        Ok(())
    }

    /// Nobody acts on the Cluster here any more.
    async fn pause(&self, here: &DynamicObject) -> Result<(), Error> {
        if annotation(here, DESTINATION_ANNOTATION).is_some() {
            return Ok(());
        }
        let before = annotation(here, PAUSED_ANNOTATION);
        let patch = json!({"metadata": {
            "uid": uid(here), "resourceVersion": here.metadata.resource_version,
            "annotations": {
                PAUSED_ANNOTATION: PAUSED_BY_MOVE, PAUSED_BEFORE_ANNOTATION: before,
                DESTINATION_ANNOTATION: self.destination.identity, MOVE_ANNOTATION: uid(here),
            },
        }});
        let clusters = api(&self.source.client, "Cluster", self.namespace);
        let patched = clusters.patch(self.name, &parameters(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(Error::request(format!("pause Cluster {}", self.name)))
    }

    /// Copies everything, until a pass finds nothing to do: what was still under way when the Cluster was paused is copied, too.
    async fn copy(&self) -> Result<Contents, Error> {
        for _ in 0..MAX_PASSES {
            let contents = Contents::read(self.source, self.namespace, self.name).await?;
            let mut uids = BTreeMap::new();
            let mut is_equal = true;
            for (kind, object) in &contents.objects {
                let (copied, is_new) = self.copy_object(kind, object, &uids).await?;
                uids.insert(uid(object).to_owned(), uid(&copied).to_owned());
                is_equal &= !is_new;
            }
            is_equal &= !self.remove_surplus(&contents).await?;
            if is_equal {
                return Ok(contents);
            }
        }
        Err(Error::Refused(format!(
            "the objects of Cluster {} are changed without end: end what changes them",
            self.name
        )))
    }

    /// Copies an object. What is there then, and whether it was not there before.
    async fn copy_object(
        &self,
        kind: &str,
        object: &DynamicObject,
        uids: &BTreeMap<String, String>,
    ) -> Result<(DynamicObject, bool), Error> {
        let objects = api(&self.destination.client, kind, self.namespace);
        let name = name_of(object);
        let failed = |what: &str| format!("{what} {kind} {name} in the destination");
        let mut wanted = copy_of(kind, object, uids);
        let there = objects.get_opt(name).await.map_err(Error::request(failed("read")))?;
        let (mut there, mut is_new) = match there {
            None => {
                let create = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                (objects.create(&create, &wanted).await.map_err(Error::request(failed("create")))?, true)
            }
            Some(there) => {
                self.check_conflict(kind, object, &there)?;
                (there, false)
            }
        };
        // Defaults of the destination are its own.
        if !is_new && !is_same(&wanted, &there) {
            wanted.metadata.resource_version = there.metadata.resource_version.clone();
            wanted.metadata.uid = there.metadata.uid.clone();
            let replace = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            there =
                objects.replace(name, &replace, &wanted).await.map_err(Error::request(failed("update")))?;
            is_new = true;
        }
        let Some(status) = object
            .data
            .get("status")
            .filter(|status| status.as_object().is_some_and(|fields| !fields.is_empty()))
        else {
            return Ok((there, is_new));
        };
        let status = status_for(status, object.metadata.generation, there.metadata.generation);
        if there.data.get("status") != Some(&status) {
            let mut with_status = there.clone();
            with_status.data["status"] = status;
            let replace = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            there = objects
                .replace_status(name, &replace, &with_status)
                .await
                .map_err(Error::request(failed("write the status of")))?;
            is_new = true;
        }
        Ok((there, is_new))
    }

    /// Fails if an object of the destination is another one of the same name.
    fn check_conflict(&self, kind: &str, object: &DynamicObject, there: &DynamicObject) -> Result<(), Error> {
        let is_same = match kind {
            "Cluster" => annotation(there, MOVE_ANNOTATION) == Some(uid(object)),
            "Machine" => annotation(there, HOST_UID_ANNOTATION) == Some(host_uid(object)),
            "MachineSet" | "MachineDeployment" => {
                there.data.pointer("/spec/template/spec/clusterName")
                    == object.data.pointer("/spec/template/spec/clusterName")
            }
            "Secret" | "ConfigMap" if there.metadata.owner_references.is_some() => true,
            "Secret" | "ConfigMap" => there.data.get("data") == object.data.get("data"),
            _ => there.data.get("spec") == object.data.get("spec"),
        };
        match is_same {
            true => Ok(()),
            false => Err(Error::Refused(format!("the destination has another {kind} {}", name_of(object)))),
        }
    }

    /// Removes copies of what is gone here. Whether there was something.
    async fn remove_surplus(&self, contents: &Contents) -> Result<bool, Error> {
        let wanted: BTreeSet<(&str, &str)> =
            contents.objects.iter().map(|(kind, object)| (kind.as_str(), name_of(object))).collect();
        let there = Contents::read(self.destination, self.namespace, self.name).await?;
        let surplus =
            there.objects.iter().rev().filter(|(kind, object)| !wanted.contains(&(kind, name_of(object))));
        let mut is_removed = false;
        for (kind, object) in surplus
            .filter(|(kind, _)| matches!(kind.as_str(), "Machine" | "MachineSet" | "MachineDeployment"))
        {
            remove_object(self.destination, self.namespace, kind, object).await?;
            is_removed = true;
        }
        Ok(is_removed)
    }

    /// Gives the hosts to the destination.
    async fn hand_over(&self, contents: &Contents) -> Result<(), Error> {
        for machine in contents.machines() {
            let key = HostKey::from(&machine);
            let ledger = self.source.ledger();
            let io = |source| Error::File { path: key.as_str().into(), source };
            let is_known = ledger.owner(&key).map_err(io)?.is_some();
            if has_host(&machine) || is_known {
                ledger.assign(&key, &self.destination.identity).map_err(io)?;
            }
        }
        Ok(())
    }

    /// The one write that decides.
    async fn commit(&self, id: &str) -> Result<(), Error> {
        let clusters = api(&self.destination.client, "Cluster", self.namespace);
        let failed = || format!("commit the move of Cluster {}", self.name);
        let there = clusters.get(self.name).await.map_err(Error::request(failed()))?;
        if annotation(&there, MOVE_ANNOTATION) != Some(id) {
            return Err(Error::Refused(format!("the destination has another Cluster {}", self.name)));
        }
        let patch = json!({"metadata": {
            "uid": uid(&there), "resourceVersion": there.metadata.resource_version,
            "annotations": {
                PAUSED_ANNOTATION: annotation(&there, PAUSED_BEFORE_ANNOTATION), PAUSED_BEFORE_ANNOTATION: null_value(),
            },
        }});
        clusters
            .patch(self.name, &parameters(), &Patch::Merge(patch))
            .await
            .map_err(Error::request(failed()))?;
        Ok(())
    }

    /// Removes what was moved, from the last object to the Cluster. The hosts are not touched: the Cluster is paused, and they are the other server's.
    async fn remove(&self, contents: &Contents) -> Result<(), Error> {
        // What is found by its users goes before them, so that an attempt after this one finds it, too.
        let rank = |kind: &str| match kind {
            "MachineHealthCheck" | "Secret" | "ConfigMap" => 0,
            "Host" | "MachineClass" => 1,
            "Cluster" => 3,
            _ => 2,
        };
        let mut objects: Vec<_> = contents.objects.iter().collect();
        objects.sort_by_key(|(kind, _)| rank(kind));
        for (kind, object) in objects {
            if !contents.shared.contains(&(kind.clone(), name_of(object).to_owned())) {
                remove_object(self.source, self.namespace, kind, object).await?;
            }
        }
        Ok(())
    }

    /// The mark of the move is not needed any more.
    async fn finish(&self, there: &DynamicObject) -> Result<(), Error> {
        if annotation(there, MOVE_ANNOTATION).is_none() {
            return Ok(());
        }
        if annotation(there, PAUSED_ANNOTATION) == Some(PAUSED_BY_MOVE) {
            return Err(Error::Refused(format!(
                "Cluster {} in the destination was never committed, and its source is gone: remove the annotation {PAUSED_ANNOTATION} if it is complete",
                self.name
            )));
        }
        let clusters = api(&self.destination.client, "Cluster", self.namespace);
        let patch = json!({"metadata": {"uid": uid(there), "annotations": {MOVE_ANNOTATION: null_value()}}});
        let patched = clusters.patch(self.name, &parameters(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(Error::request(format!("finish the move of Cluster {}", self.name)))
    }
}

const fn null_value() -> Value {
    Value::Null
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

fn host_uid(machine: &DynamicObject) -> &str {
    annotation(machine, HOST_UID_ANNOTATION).unwrap_or_else(|| uid(machine))
}

/// An object as it is created in the destination.
fn copy_of(kind: &str, object: &DynamicObject, uids: &BTreeMap<String, String>) -> DynamicObject {
    let mut annotations = object.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(DESTINATION_ANNOTATION);
    match kind {
        "Machine" => {
            annotations.insert(HOST_UID_ANNOTATION.to_owned(), host_uid(object).to_owned());
        }
        "Cluster" => {
            annotations.insert(MOVE_ANNOTATION.to_owned(), uid(object).to_owned());
            annotations.insert(PAUSED_ANNOTATION.to_owned(), PAUSED_BY_MOVE.to_owned());
        }
        _ => {}
    }
    let owners = object.metadata.owner_references.iter().flatten().filter_map(|owner| {
        let mut owner = owner.clone();
        owner.uid = uids.get(&owner.uid)?.clone();
        Some(owner)
    });
    let owners: Vec<_> = owners.collect();
    let mut copy = object.clone();
    copy.metadata = ObjectMeta {
        name: object.metadata.name.clone(),
        namespace: object.metadata.namespace.clone(),
        labels: object.metadata.labels.clone(),
        annotations: Some(annotations).filter(|all| !all.is_empty()),
        finalizers: object.metadata.finalizers.clone(),
        owner_references: Some(owners).filter(|all| !all.is_empty()),
        ..ObjectMeta::default()
    };
    if let Some(fields) = copy.data.as_object_mut() {
        fields.remove("status");
    }
    copy
}

/// Whether an object is as it was copied.
fn is_same(wanted: &DynamicObject, there: &DynamicObject) -> bool {
    let (one, other) = (&wanted.metadata, &there.metadata);
    let content = |object: &DynamicObject| {
        let mut data = object.data.clone();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("status");
        }
        data
    };
    one.labels == other.labels
        && one.annotations == other.annotations
        && one.finalizers == other.finalizers
        && one.owner_references == other.owner_references
        && content(wanted) == content(there)
}

/// A status whose observed generations are those of the destination: what was about the present spec is, and what was not is not.
fn status_for(status: &Value, here: Option<i64>, there: Option<i64>) -> Value {
    let mut status = status.clone();
    let generation = |value: &mut Value| {
        if let Some(observed) = value.as_i64() {
            let there = there.unwrap_or_default();
            *value = (if Some(observed) == here { there } else { there - 1 }).into();
        }
    };
    for pointer in ["/observedGeneration", "/update/observedGeneration"] {
        status.pointer_mut(pointer).map(generation);
    }
    for condition in status.pointer_mut("/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition.get_mut("observedGeneration").map(generation);
    }
    status
}

/// Removes an object with its finalizers: nothing that belongs to it is touched.
async fn remove_object(
    of: &Management,
    namespace: &str,
    kind: &str,
    object: &DynamicObject,
) -> Result<(), Error> {
    let objects = api(&of.client, kind, namespace);
    let name = name_of(object);
    let failed = || format!("remove {kind} {name}");
    let preconditions = Preconditions { uid: Some(uid(object).to_owned()), resource_version: None };
    let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match objects.delete(name, &delete).await {
        // Gone, or another one.
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => return Ok(()),
        Err(error) => return Err(Error::request(failed())(error)),
        Ok(_) => {}
    }
    let patch = json!({"metadata": {"uid": uid(object), "finalizers": null_value()}});
    match objects.patch(name, &parameters(), &Patch::Merge(patch)).await {
        Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => Err(Error::request(failed())(error)),
        _ => Ok(()),
    }
}
