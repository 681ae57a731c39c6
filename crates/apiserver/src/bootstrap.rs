//! Bootstrap: the namespaces, priority classes, roles and bindings that every server starts with.

use std::sync::Arc;

use serde_json::json;

use crate::auth;
use crate::error::ApiError;
use crate::object;
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::state::identity::RBAC_GROUP;
use crate::verbs::create;

/// The priorities that every cluster has.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];
/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Writes what every cluster has, unless it is there.
pub(crate) async fn write(state: &Arc<State>) -> Result<(), ApiError> {
    let catalog = state.catalog();
    let namespaces =
        NAMESPACES.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let priorities = PRIORITIES.map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        })
    });
    let kinds = [
        ("", "namespaces", namespaces.to_vec()),
        ("scheduling.k8s.io", "priorityclasses", priorities.to_vec()),
    ];
    let kinds = kinds
        .into_iter()
        .flat_map(|(group, plural, objects)| objects.into_iter().map(move |object| (group, plural, object)));
    let policy =
        auth::bootstrap::policy().into_iter().map(|(kind, object)| (RBAC_GROUP, kind.resource(), object));
    // What is in a namespace waits until that is there. The rest is written at once, which makes few commits of it.
    let (inside, outside): (Vec<_>, Vec<_>) =
        kinds.chain(policy).partition(|(_, _, object)| !object::meta(object, "namespace").is_empty());
    for objects in [outside, inside] {
        let mut writes = tokio::task::JoinSet::new();
        for (group, plural, object) in objects {
            let Some(definition) = catalog.find(group, "v1", plural).cloned() else { continue };
            let state = state.clone();
            writes.spawn(async move {
                let namespace = object::meta(&object, "namespace").to_owned();
                let name = object::meta(&object, "name").to_owned();
                let target = Target { definition: &definition, namespace: &namespace, name: &name };
                if state.get(&target).is_ok() {
                    return Ok(());
                }
                let mut call = Call::new("kube-apiserver");
                let options = WriteOptions::internal();
                create::create(&state, &mut call, &target, object, &options).await.map(drop)
            });
        }
        while let Some(written) = writes.join_next().await {
            written.map_err(ApiError::internal)??;
        }
    }
    Ok(())
}
