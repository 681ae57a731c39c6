//! Controllers of workloads.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::support::{cluster, pass};

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let cluster = cluster(|_| {}).await;
    let api: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    let web = serde_json::from_value(web).expect("a Deployment");
    api.create(&PostParams::default(), &web).await.expect("created");
    pass(10).await;
    let status = api.get("web").await.expect("a Deployment").status.unwrap_or_default();
    assert_eq!((status.available_replicas, status.updated_replicas), (Some(3), Some(3)));
}
