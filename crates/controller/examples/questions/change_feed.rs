//! How does every replica see all changes? Each lists and watches for itself; the server keeps nothing about its readers.

use std::error::Error;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::cache::{Cache, Changes};
use settled_controller::predicate;

/// One replica: it needs no name, and registers nowhere.
async fn replica(client: Client) -> Result<(Cache<ConfigMap>, Changes<ConfigMap>), Box<dyn Error>> {
    let cache = Cache::<ConfigMap>::builder(client)
        .namespace("default")
        .objects(predicate::field("data.price").exists())
        .start();
    cache.wait_until_ready().await?;
    let changes = cache.changes();
    Ok((cache, changes))
}

/// The next change, in short.
async fn next(changes: &mut Changes<ConfigMap>) -> Result<String, Box<dyn Error>> {
    let change = changes.next().await.ok_or("the cache has ended")?;
    let price =
        |map: &ConfigMap| map.data.iter().flatten().map(|(_, price)| price.clone()).collect::<String>();
    let [old, new] =
        [&change.old, &change.new].map(|map| map.as_deref().map_or_else(|| "-".to_owned(), price));
    Ok(format!("{} {old}>{new}", change.key.name))
}

pub async fn answer() -> Result<Vec<String>, Box<dyn Error>> {
    let server = Server::in_memory().await?;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(server.client()).await?);
    }
    let prices: Api<ConfigMap> = Api::default_namespaced(server.client());
    let bread = serde_json::from_value(json!({"metadata": {"name": "bread"}, "data": {"price": "3"}}))?;
    prices.create(&PostParams::default(), &bread).await?;
    let mut lines = Vec::new();
    for (number, (_, changes)) in replicas.iter_mut().enumerate() {
        lines.push(format!("replica {number}: {}", next(changes).await?));
    }

    // Two replicas are replaced. Nothing of them is left to clean up; a new one begins with what is there.
    replicas.truncate(1);
    replicas.push(replica(server.client()).await?);
    lines.push(format!("the new replica begins with: {}", next(&mut replicas[1].1).await?));
    let raise = Patch::Merge(json!({"data": {"price": "4"}}));
    prices.patch("bread", &PatchParams::default(), &raise).await?;
    for (number, (_, changes)) in replicas.iter_mut().enumerate() {
        lines.push(format!("replica {number}: {}", next(changes).await?));
    }
    prices.delete("bread", &DeleteParams::default()).await?;
    for (number, (_, changes)) in replicas.iter_mut().enumerate() {
        lines.push(format!("replica {number}: {}", next(changes).await?));
    }
    Ok(lines)
}
