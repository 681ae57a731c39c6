//! ServiceAccount controller: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in every namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use settled_store::Scope;

use super::feed::{Feed, News};
use super::retry::{backoff, call};
use crate::error::ApiError;
use crate::kinds::index;
use crate::kinds::names::Part;
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::Target;
use crate::verbs::change::Change;
use crate::verbs::{create, update};

/// The ServiceAccount of pods that name none.
pub(crate) const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// Follows the namespaces, and those two in them, until the server stops.
pub(super) async fn run(state: Arc<State>, ca: String) {
    let mut feed = Feed::new(&state, Scope::All, |definition| {
        definition.names.group.is_empty()
            && matches!(definition.names.plural.as_str(), "namespaces" | "serviceaccounts" | "configmaps")
    });
    let mut attempts = 0;
    let mut again: BTreeSet<String> = BTreeSet::new();
    loop {
        let mut due: BTreeSet<String> = BTreeSet::new();
        let retry = async {
            match again.is_empty() {
                true => std::future::pending().await,
                false => tokio::time::sleep(backoff(attempts)).await,
            }
        };
        tokio::select! {
            news = feed.next() => match news {
                Some(News::Snapshot(snapshot)) if snapshot.resource() == &state.namespaces => {
                    due.extend(snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()));
                }
                // What was lost of the others, the namespaces lead to.
                Some(News::Snapshot(_)) => due.extend(names(&state)),
                Some(News::Event(event)) => {
                    let key = event.key();
                    if key.resource() == &state.namespaces {
                        if event.entry().is_some() && event.previous().is_none() {
                            due.insert(key.name().to_owned());
                        }
                    } else if matches!((key.resource().as_str(), key.name()), ("serviceaccounts", ACCOUNT) | ("configmaps", AUTHORITY)) {
                        due.insert(key.namespace().to_owned());
                    }
                }
                Some(News::Catalog) => {}
                None => return,
            },
            () = retry => {
                attempts += 1;
                due.append(&mut again);
            }
        }
        for namespace in due {
            if ensure(&state, &namespace, &ca).await.is_err() {
                again.insert(namespace);
            }
        }
        if again.is_empty() {
            attempts = 0;
        }
    }
}

/// Makes what the first namespaces have, before anybody can look: so that a new server is the same each time.
pub(crate) async fn begin(state: &Arc<State>, ca: &str) -> Result<(), ApiError> {
    let mut tasks = tokio::task::JoinSet::new();
    for namespace in names(state) {
        let (state, ca) = (state.clone(), ca.to_owned());
        tasks.spawn(async move { ensure(&state, &namespace, &ca).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(ApiError::internal)??;
    }
    Ok(())
}

fn names(state: &State) -> Vec<String> {
    let Ok(snapshot) = state.store.snapshot(&state.namespaces, settled_store::At::Latest) else {
        return Vec::new();
    };
    snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()).collect()
}

/// Makes what is missing in a namespace, and mends what was changed.
async fn ensure(state: &State, namespace: &str, ca: &str) -> Result<(), ApiError> {
    let catalog = state.catalog();
    let find = |plural| catalog.find("", "v1", plural).ok_or_else(|| ApiError::internal("it is not served"));
    let namespaces = Target { definition: find("namespaces")?, namespace: "", name: namespace };
    match state.get(&namespaces) {
        Ok(entry) if !index::is_terminating(&entry) => {}
        _ => return Ok(()),
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    let target = Target { definition: find("serviceaccounts")?, namespace, name: ACCOUNT };
    create(state, &target, account).await?;
    let data = json!({"ca.crt": ca});
    let target = Target { definition: find("configmaps")?, namespace, name: AUTHORITY };
    let Ok(entry) = state.get(&target) else {
        let authority = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": AUTHORITY, "annotations": {"kubernetes.io/description": DESCRIPTION}},
        });
        return create(state, &target, authority).await;
    };
    if target.definition.read(&entry).get("data") == Some(&data) {
        return Ok(());
    }
    let mend = |old: &Value| {
        let mut new = old.clone();
        new["data"] = data.clone();
        new["metadata"]["annotations"]["kubernetes.io/description"] = DESCRIPTION.into();
        Ok(new)
    };
    match update::update(
        state,
        &mut call(),
        &target,
        Part::Main,
        Change::With(&mend),
        &WriteOptions::internal(),
    )
    .await
    {
        Err(error) if error.code != 404 => Err(error),
        _ => Ok(()),
    }
}

async fn create(state: &State, target: &Target<'_>, object: Value) -> Result<(), ApiError> {
    if state.get(target).is_ok() {
        return Ok(());
    }
    match create::create(state, &mut call(), target, object, &WriteOptions::internal()).await {
        // It is there, or its namespace isn't, or not for long.
        Err(error) if matches!(error.reason, "AlreadyExists" | "NotFound") => Ok(()),
        Err(error) if error.reason == "Forbidden" && error.message.contains("being terminated") => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}
