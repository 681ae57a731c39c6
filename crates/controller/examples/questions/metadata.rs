//! Status, annotation or spec? What a tool notes is an annotation that it owns alone; what a controller reports is status. Neither changes
//! the generation (but for annotations of Deployments, which are copied to their ReplicaSets), and neither write touches the other.

use std::error::Error;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::status::StatusWriter;

/// The annotation of a tool that calculates costs.
const COST: &str = "example.com/cost";

pub async fn answer() -> Result<Vec<String>, Box<dyn Error>> {
    let server = Server::in_memory().await?;
    let sets: Api<StatefulSet> = Api::default_namespaced(server.client());
    let set = serde_json::from_value(json!({
        "metadata": {"name": "web", "annotations": {"example.com/team": "shop"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
    }))?;
    let created = sets.create(&PostParams::default(), &set).await?;
    let mut lines = vec![text("created", &created)];

    // The tool applies the only field that it owns.
    let note = |annotations| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "annotations": annotations}});
    let tool = PatchParams::apply("cost-calculator");
    let noted = sets.patch("web", &tool, &Patch::Apply(note(json!({COST: "12"})))).await?;
    lines.push(text("annotated", &noted));

    // The controller writes the status.
    let writer = StatusWriter::<StatefulSet>::new(server.client(), "web-controller");
    writer.write(&noted, |_| Ok(json!({"observedGeneration": 1, "replicas": 2}))).await?;
    let reported = sets.get("web").await?;
    lines.push(text("reported", &reported));

    // What the tool does not apply any more is removed, and nothing else is.
    let removed = sets.patch("web", &tool, &Patch::Apply(note(json!({})))).await?;
    lines.push(text("annotation withdrawn", &removed));

    // A user asks for something else: that is spec, and a new generation.
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let scaled = sets.patch("web", &PatchParams::default(), &scale).await?;
    lines.push(text("scaled", &scaled));
    Ok(lines)
}

fn text(what: &str, set: &StatefulSet) -> String {
    let annotations: Vec<&str> = set.annotations().keys().map(String::as_str).collect();
    let replicas = set.status.as_ref().map(|status| status.replicas);
    format!(
        "{what}: generation {}, annotations {}, status.replicas {}",
        set.metadata.generation.unwrap_or_default(),
        annotations.join(" "),
        replicas.map_or_else(|| "-".to_owned(), |replicas| replicas.to_string())
    )
}
