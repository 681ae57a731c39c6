//! ClusterRole aggregation (`pkg/controller/clusterroleaggregation` upstream).

use std::sync::Arc;

use serde_json::Value;
use settled_store::Scope;

use super::feed::{Feed, News};
use super::retry::{backoff, call};
use crate::error::ApiError;
use crate::kinds::names::Part;
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::Target;
use crate::state::identity::RBAC_GROUP;
use crate::verbs::change::Change;
use crate::verbs::update;

const PLURAL: &str = "clusterroles";

/// Writes the rules of aggregated roles where they are not as they should be.
pub(crate) async fn aggregate(state: &State) -> Result<(), ApiError> {
    let catalog = state.catalog();
    let Some(definition) = catalog.find(RBAC_GROUP, "v1", PLURAL) else { return Ok(()) };
    let gathered = state.identity.rbac().aggregate();
    for (name, rules) in gathered {
        let target = Target { definition, namespace: "", name: &name };
        let change = |old: &Value| {
            let mut new = old.clone();
            new["rules"] = rules.clone();
            Ok(new)
        };
        let options = WriteOptions::internal();
        match update::update(state, &mut call(), &target, Part::Main, Change::With(&change), &options).await {
            Err(error) if error.code != 404 => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Follows the roles until the server stops.
pub(super) async fn run(state: Arc<State>) {
    let mut feed = Feed::new(&state, Scope::All, |definition| definition.is(RBAC_GROUP, PLURAL));
    loop {
        match feed.next().await {
            None => return,
            Some(News::Catalog) => continue,
            Some(_) => {}
        }
        while feed.try_next().is_some() {}
        let mut attempts = 0;
        while let Err(error) = aggregate(&state).await {
            if error.code == 503 {
                return;
            }
            tokio::time::sleep(backoff(attempts)).await;
            attempts += 1;
        }
    }
}
