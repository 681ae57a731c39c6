//! Fault scenarios of the Bucket example, and their checks.

use std::collections::BTreeMap;

use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::decision::Permit;
use settled_controller::faults::{
    CallFailed, Context, Effect, ExploreError, External, Options, Report, Scenario, View, World, explore,
};

#[path = "controller.rs"]
pub mod controller;

use controller::{BOUND, Bucket, BucketInstance, Error, ObjectStore};

const API: &str = "storage.example.com/v1";

/// Access to instances, by the UID of the Bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store(BTreeMap<String, String>);

impl World for Store {
    fn effects(&self) -> Vec<Effect> {
        let effect = |(uid, instance): (&String, &String)| {
            Effect::new(format!("{uid} in {instance}"), uid, format!("access to {instance}"))
        };
        self.0.iter().map(effect).collect()
    }
}

/// The UID of a permit's key.
fn owner(permit: &Permit) -> String {
    permit.key().as_str().strip_prefix("bucket-").unwrap_or_default().to_owned()
}

fn failed(lost: CallFailed) -> Error {
    Error::ObjectStore(lost.to_string())
}

impl ObjectStore for External<Store> {
    async fn allow(&self, permit: &Permit, instance: &str) -> Result<(), Error> {
        let (uid, instance) = (owner(permit), instance.to_owned());
        let action = format!("allow {instance} for {uid}");
        self.call(&action, |store| drop(store.0.insert(uid, instance))).await.map_err(failed)
    }

    async fn revoke(&self, permit: &Permit) -> Result<(), Error> {
        let uid = owner(permit);
        self.call(&format!("revoke {uid}"), |store| drop(store.0.remove(&uid))).await.map_err(failed)
    }
}

async fn start(context: Context<Store>) {
    let clock = Clock::from(&context);
    controller::run(context.client(), context.external(), clock, std::future::pending()).await;
}

fn bucket(instance: &str) -> Value {
    let metadata = json!({"name": "mine", "namespace": "default"});
    json!({"apiVersion": API, "kind": "Bucket", "metadata": metadata, "spec": {"instance": instance}})
}

/// An instance that the namespace `default` may use, or another one.
fn instance(name: &str, namespace: &str) -> Value {
    let spec = json!({"allowedNamespaces": [namespace]});
    json!({"apiVersion": API, "kind": "BucketInstance", "metadata": {"name": name}, "spec": spec})
}

fn bound_to(bucket: &Value) -> Option<&str> {
    bucket.pointer("/status/instance").and_then(Value::as_str)
}

fn checked(name: &str) -> Scenario<Store> {
    let crds = [Bucket::crd(), BucketInstance::crd()];
    let scenario = Scenario::with_world(name, Store::default());
    crds.iter()
        .fold(scenario, |scenario, crd| scenario.object(json!(crd)))
        .condition(BOUND)
        .ready_means(|bucket, _| match bound_to(bucket) {
            Some(bound) if bucket["spec"]["instance"] == bound => Ok(()),
            bound => Err(format!("it is bound to {bound:?}")),
        })
        .order("the answer comes before the access", |before, view| {
            let mut new =
                view.world().0.iter().filter(|(uid, instance)| before.0.get(*uid) != Some(*instance));
            new.try_for_each(|(uid, instance)| {
                let bucket = view.objects("Bucket").find(|bucket| bucket["metadata"]["uid"] == uid.as_str());
                let bound = bucket.and_then(bound_to);
                if bound == Some(instance) {
                    Ok(())
                } else {
                    Err(format!("{instance} is allowed, {bound:?} is the answer"))
                }
            })
        })
        .order("the answer is withdrawn before the access", |before, view| {
            let mut gone = before.0.keys().filter(|uid| !view.world().0.contains_key(*uid));
            gone.try_for_each(|uid| {
                let bucket = view.objects("Bucket").find(|bucket| bucket["metadata"]["uid"] == uid.as_str());
                let bucket = bucket.filter(|bucket| bucket.pointer("/metadata/deletionTimestamp").is_none());
                match bucket.and_then(bound_to) {
                    Some(bound) => Err(format!("the answer still is {bound:?}")),
                    None => Ok(()),
                }
            })
        })
        .finally("each Bucket has an answer, and the access that it says", answered)
}

fn answered(view: &View<'_, Store>) -> Result<(), String> {
    for bucket in view.objects("Bucket") {
        let (wanted, uid) =
            (&bucket["spec"]["instance"], bucket["metadata"]["uid"].as_str().unwrap_or_default());
        let allowed = wanted
            .as_str()
            .and_then(|name| view.get("BucketInstance", "", name))
            .is_some_and(|instance| instance["spec"]["allowedNamespaces"] == json!(["default"]));
        let mut conditions =
            bucket.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let answer = conditions.find(|condition| condition["type"] == BOUND);
        let status = answer.map(|condition| &condition["status"]);
        if status != Some(&json!(if allowed { "True" } else { "False" })) {
            return Err(format!("allowed: {allowed}, the answer is {status:?}"));
        }
        let access = view.world().0.get(uid).map(String::as_str);
        if access != bound_to(bucket) || allowed != access.is_some() {
            return Err(format!("allowed: {allowed}, access to {access:?}, bound to {:?}", bound_to(bucket)));
        }
    }
    Ok(())
}

/// A Bucket asks for an instance that it may use, for another one, for one that it may not use; is deleted and made again.
fn asked() -> Scenario<Store> {
    let ask = |instance: &str| json!({"spec": {"instance": instance}});
    checked("bucket: requests")
        .object(instance("prod", "default"))
        .object(instance("test", "default"))
        .object(instance("billing", "finance"))
        .object(bucket("prod"))
        .patch(API, "Bucket", "default/mine", ask("test"))
        .patch(API, "Bucket", "default/mine", ask("billing"))
        .patch(API, "Bucket", "default/mine", ask("prod"))
        .delete(API, "Bucket", "default/mine")
        .create(bucket("billing"))
}

/// The administrator takes a permission back, gives it again, and removes the instance.
fn permitted() -> Scenario<Store> {
    let permit = |namespace: &str| json!({"spec": {"allowedNamespaces": [namespace]}});
    checked("bucket: permissions")
        .object(instance("prod", "default"))
        .object(bucket("prod"))
        .patch(API, "BucketInstance", "prod", permit("finance"))
        .patch(API, "BucketInstance", "prod", permit("default"))
        .delete(API, "BucketInstance", "prod")
        .create(instance("prod", "default"))
}

/// Explores all of it.
pub fn explore_all(options: &Options) -> Result<Vec<Report>, ExploreError> {
    Ok(vec![explore(start, &asked(), options)?, explore(start, &permitted(), options)?])
}
