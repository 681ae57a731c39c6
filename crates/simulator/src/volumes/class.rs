//! Classes: the default one, and the one that a simulation starts with.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{ListParams, PostParams};
use settled_controller::typed;

use crate::meta;
use crate::requests;
use crate::selector;

/// The annotation of the default class.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The name of the class that is created.
const NAME: &str = "standard";
/// The provisioner of that class.
pub(super) const SIMULATED: &str = "simulator.settled.dev/volumes";

fn is_default(class: &StorageClass) -> bool {
    selector::label(class.metadata.annotations.as_ref(), IS_DEFAULT) == Some("true")
}

/// The default class: of several the newest, then the first by name.
pub(super) fn default(classes: &[Arc<StorageClass>]) -> Option<Arc<StorageClass>> {
    let all = classes.iter().filter(|class| is_default(class));
    let best = all.min_by_key(|class| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(created), meta::name(&***class).to_owned())
    });
    best.cloned()
}

/// Creates a default class, unless there is one.
pub(crate) async fn create_default(client: &Client) -> Result<(), kube::Error> {
    let kind = requests::of::<StorageClass>("");
    let answer = requests::send(client, kind.list(&ListParams::default())).await?;
    let classes: Vec<StorageClass> = match requests::view(&answer)?.root().get("items") {
        Some(items) => typed::from_node(items).map_err(kube::Error::SerdeError)?,
        None => Vec::new(),
    };
    if classes.iter().any(is_default) {
        return Ok(());
    }
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            annotations: Some([(IS_DEFAULT.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        provisioner: SIMULATED.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    };
    let request = kind.create(&PostParams::default(), requests::body(&class)?);
    match requests::send(client, request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}
