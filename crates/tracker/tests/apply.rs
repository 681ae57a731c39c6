//! Applying on a real API server: ours, in the process.

use std::fmt::Write as _;

use kube_client::Client;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_tracker::apply::{
    Applied, ApplyError, ApplyEvent, ApplyOptions, ApplyReport, ApplySetError, apply_set_id,
};
use settled_tracker::release::Release;
use settled_tracker::{Cluster, ObjectId, Target, apply};

use crate::faulty::Faults;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

struct World {
    server: Server,
    admin: Client,
}

impl World {
    async fn new() -> Self {
        let server = Server::in_memory().await.unwrap();
        let admin = server.client();
        Self { server, admin }
    }

    fn cluster(&self) -> Cluster {
        Cluster::new(self.server.client())
    }

    async fn request(&self, method: &str, path: &str, type_: &str, body: &Value) -> Result<Value, String> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.admin.request(request).await.map_err(|error| error.to_string())
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.admin.request(request).await.map_err(|error| error.to_string())
    }

    /// What became of each object, a line each.
    async fn apply(&self, objects: &[Value], options: &ApplyOptions) -> (String, ApplyReport) {
        let (lines, report) = apply_with(&self.cluster(), objects, options).await;
        (lines, report.unwrap())
    }
}

async fn apply_with(
    cluster: &Cluster,
    objects: &[Value],
    options: &ApplyOptions,
) -> (String, Result<ApplyReport, ApplyError>) {
    let mut lines = String::new();
    let objects = objects.iter().map(|object| object.to_string().into_bytes()).collect();
    let report = apply(cluster, objects, options, |event| {
        let line = match event {
            ApplyEvent::Applied { object, result, fields, took_over, .. } => {
                format!("{object} {result:?} {fields:?} {took_over:?}")
            }
            ApplyEvent::Pruned { object } => format!("{object} pruned"),
            ApplyEvent::Refused { object, message, conflicts, remedy } => {
                let owners: Vec<&str> = conflicts.iter().map(|conflict| &*conflict.manager).collect();
                format!("{object} refused: {message} {owners:?} remedy: {}", remedy.unwrap_or_default())
            }
            ApplyEvent::Lost { remaining, .. } => format!("lost, {remaining} not sent"),
            ApplyEvent::Warning { message } => format!("warning: {message}"),
            ApplyEvent::Awaiting { .. } | ApplyEvent::NotAwaited(_) => return,
        };
        writeln!(lines, "{line}").unwrap();
    })
    .await;
    (lines, report)
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// As kubectl's client-side apply leaves an object.
async fn applied_by_kubectl(world: &World, name: &str, data: Value) {
    let mut object = config_map(name, data);
    let note = object.to_string();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: note});
    let path = format!("{MAPS}?fieldManager=kubectl-client-side-apply");
    world.request("POST", &path, "application/json", &object).await.unwrap();
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let name = |entry: &Value| {
        format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())
    };
    entries.map(name).collect()
}

#[tokio::test]
async fn client_side_apply_is_taken_over() {
    let world = World::new().await;
    applied_by_kubectl(&world, "web", json!({"a": "1", "dropped": "x"})).await;
    let options = ApplyOptions::default();

    let dry_run = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    let before = world.get(&format!("{MAPS}/web")).await.unwrap();
    let wanted = [config_map("web", json!({"a": "2"}))];
    let (lines, _) = world.apply(&wanted, &dry_run).await;
    assert_eq!(lines, "ConfigMap/web Configured [\"data.a\"] [\"kubectl-client-side-apply\"]\n");
    assert_eq!(world.get(&format!("{MAPS}/web")).await.unwrap(), before);

    let (lines, report) = world.apply(&wanted, &options).await;
    assert_eq!(
        lines,
        "ConfigMap/web Configured [\"data.a\", \"data.dropped\"] [\"kubectl-client-side-apply\"]\n"
    );
    assert_eq!(report.refused, 0);
    let after = world.get(&format!("{MAPS}/web")).await.unwrap();
    assert_eq!(after["data"], json!({"a": "2"}));
    assert_eq!(managers(&after), ["settled Apply"]);
    assert_eq!(after["metadata"]["annotations"], Value::Null);

    let (lines, _) = world.apply(&wanted, &options).await;
    assert_eq!(lines, "ConfigMap/web Unchanged [] []\n");
}

/// The same values are no conflict; the fields go over all the same, so that later ones can be dropped.
#[tokio::test]
async fn what_is_the_same_is_taken_over_and_unchanged() {
    let world = World::new().await;
    applied_by_kubectl(&world, "web", json!({"a": "1"})).await;
    let (lines, _) = world.apply(&[config_map("web", json!({"a": "1"}))], &ApplyOptions::default()).await;
    assert_eq!(lines, "ConfigMap/web Unchanged [] [\"kubectl-client-side-apply\"]\n");
    assert_eq!(managers(&world.get(&format!("{MAPS}/web")).await.unwrap()), ["settled Apply"]);
}

#[tokio::test]
async fn what_somebody_else_has_changed_since_stays_a_conflict() {
    let world = World::new().await;
    applied_by_kubectl(&world, "web", json!({"a": "1", "b": "1"})).await;
    let path = format!("{MAPS}/web?fieldManager=kubectl-edit");
    world
        .request("PATCH", &path, "application/merge-patch+json", &json!({"data": {"b": "2"}}))
        .await
        .unwrap();
    let before = world.get(&format!("{MAPS}/web")).await.unwrap();
    let wanted = [config_map("web", json!({"a": "2", "b": "3"}))];
    let (lines, report) = world.apply(&wanted, &ApplyOptions::default()).await;
    assert!(lines.starts_with("ConfigMap/web refused: "), "{lines}");
    assert!(lines.contains("\"kubectl-edit\""), "{lines}");
    assert_eq!((report.refused, report.unreachable), (1, 0));
    assert_eq!(world.get(&format!("{MAPS}/web")).await.unwrap(), before, "nothing was taken over");

    let (lines, _) = world.apply(&wanted, &ApplyOptions { force: true, ..ApplyOptions::default() }).await;
    assert!(lines.starts_with("ConfigMap/web Configured [\"data.a\", \"data.b\"]"), "{lines}");
}

/// As kubectl: for the manager `kubectl` the server keeps the annotation up to date, so it stays.
#[tokio::test]
async fn the_annotation_stays_for_the_manager_kubectl() {
    let world = World::new().await;
    applied_by_kubectl(&world, "web", json!({"a": "1"})).await;
    let options = ApplyOptions { field_manager: "kubectl".to_owned(), ..ApplyOptions::default() };
    let (lines, report) = world.apply(&[config_map("web", json!({"a": "2"}))], &options).await;
    assert_eq!(report.refused, 0, "{lines}");
    let after = world.get(&format!("{MAPS}/web")).await.unwrap();
    assert_eq!(managers(&after).len(), 2, "{after}");
    assert!(managers(&after).contains(&"kubectl-last-applied Apply".to_owned()), "{after}");
    assert!(after["metadata"]["annotations"][LAST_APPLIED].is_string(), "{after}");
}

fn in_set(name: &str) -> ApplyOptions {
    ApplyOptions { apply_set: Some(name.to_owned()), ..ApplyOptions::default() }
}

#[tokio::test]
async fn what_is_not_applied_any_more_is_pruned() {
    let world = World::new().await;
    let maps =
        |names: &[&str]| names.iter().map(|name| config_map(name, json!({"a": "1"}))).collect::<Vec<_>>();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": []});
    let foreign = config_map("foreign", json!({}));
    world.request("POST", MAPS, "application/json", &foreign).await.unwrap();

    let mut objects = maps(&["a", "b"]);
    objects.push(role);
    let (lines, _) = world.apply(&objects, &in_set("shop")).await;
    assert!(!lines.contains("pruned"), "{lines}");
    let parent = world.get("/api/v1/namespaces/default/secrets/shop").await.unwrap();
    let secret = ObjectId::new("", "Secret", "default", "shop");
    assert_eq!(parent["metadata"]["labels"]["applyset.kubernetes.io/id"], apply_set_id(&secret));
    let annotations = &parent["metadata"]["annotations"];
    assert_eq!(
        annotations["applyset.kubernetes.io/contains-group-kinds"],
        "ClusterRole.rbac.authorization.k8s.io,ConfigMap"
    );
    assert_eq!(annotations["applyset.kubernetes.io/additional-namespaces"], "");
    assert!(annotations["applyset.kubernetes.io/tooling"].as_str().unwrap().starts_with("settled/v"));
    let member = world.get(&format!("{MAPS}/a")).await.unwrap();
    let label = &member["metadata"]["labels"]["applyset.kubernetes.io/part-of"];
    assert_eq!(label, &parent["metadata"]["labels"]["applyset.kubernetes.io/id"]);

    // What waits for the set finds its members.
    let release: Release = "applyset/shop".parse().unwrap();
    let resources = world.cluster().resources().await.unwrap();
    let found = release.targets(&world.cluster(), &resources, "default").await.unwrap();
    assert_eq!(found.targets.len(), 2, "{found:?}");
    assert!(found.targets.iter().all(|target| matches!(target, Target::Select(selection)
        if selection.labels.as_deref().is_some_and(|labels| labels.ends_with(label.as_str().unwrap())))));

    // A dry run deletes nothing.
    let (lines, report) = world.apply(&maps(&["a"]), &ApplyOptions { dry_run: true, ..in_set("shop") }).await;
    assert_eq!(lines, "ConfigMap/a Unchanged [] []\nClusterRole/reader pruned\nConfigMap/b pruned\n");
    assert_eq!(report.pruned.len(), 2);
    assert!(world.get(&format!("{MAPS}/b")).await.is_ok());

    // Nor does an apply that fails in part.
    let mut broken = maps(&["a"]);
    broken
        .push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 1}}));
    let (lines, report) = world.apply(&broken, &in_set("shop")).await;
    assert!(lines.ends_with("warning: nothing is pruned, because not everything was applied\n"), "{lines}");
    assert_eq!((report.refused, report.pruned.len()), (1, 0));
    assert!(world.get(&format!("{MAPS}/b")).await.is_ok());

    let (lines, _) = world.apply(&maps(&["a"]), &in_set("shop")).await;
    assert_eq!(lines, "ConfigMap/a Unchanged [] []\nClusterRole/reader pruned\nConfigMap/b pruned\n");
    assert!(world.get(&format!("{MAPS}/b")).await.unwrap_err().contains("not found"));
    assert!(world.get(&format!("{MAPS}/foreign")).await.is_ok());
    let parent = world.get("/api/v1/namespaces/default/secrets/shop").await.unwrap();
    assert_eq!(parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"], "ConfigMap");

    // Without the set nothing goes.
    let (lines, _) = world.apply(&maps(&["z"]), &ApplyOptions::default()).await;
    assert_eq!(lines, "ConfigMap/z Created [] []\n");
    assert!(world.get(&format!("{MAPS}/a")).await.is_ok());
}

#[tokio::test]
async fn a_set_of_somebody_else_is_left_alone() {
    let world = World::new().await;
    let refused = async |parent: &str, object: Value| {
        let (lines, report) = apply_with(&world.cluster(), &[object], &in_set(parent)).await;
        assert_eq!(lines, "", "nothing was applied");
        match report.unwrap_err() {
            ApplyError::ApplySet(ApplySetError::Refused { message, remedy, .. }) => {
                format!("{message} | {}", remedy.unwrap_or_default())
            }
            other => panic!("{other}"),
        }
    };
    let a = || config_map("a", json!({}));
    let parent = |name: &str, metadata: Value| {
        let mut object = config_map(name, json!({}));
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        object
    };
    for object in [
        parent("plain", json!({})),
        parent("kubectls", json!({"annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.36.0"}})),
        parent(
            "wrong",
            json!({"annotations": {"applyset.kubernetes.io/tooling": "settled/v0.1.0"},
            "labels": {"applyset.kubernetes.io/id": "applyset-x-v1"}}),
        ),
    ] {
        world.request("POST", MAPS, "application/json", &object).await.unwrap();
    }
    insta::assert_snapshot!(refused("configmap/plain", a()).await, @"ConfigMap plain exists and has no annotation applyset.kubernetes.io/tooling: it is no parent of an ApplySet | choose another name for the ApplySet");
    let text = refused("configmap/kubectls", a()).await;
    assert!(text.starts_with(r#"ConfigMap kubectls exists and is managed by "kubectl", not "settled" | to hand it over for good: kubectl annotate --overwrite configmap/kubectls -n default applyset.kubernetes.io/tooling=settled/v"#), "{text}");
    let text = refused("configmap/wrong", a()).await;
    assert!(text.starts_with("ConfigMap wrong exists and has the label applyset.kubernetes.io/id=applyset-x-v1, expected applyset-"), "{text}");
    insta::assert_snapshot!(refused("namespace/default", a()).await, @"Namespace is no kind of parents | use a Secret or a ConfigMap, or label the CRD namespaces. with applyset.kubernetes.io/is-parent-type=true");
    insta::assert_snapshot!(refused("gizmos/x", a()).await, @r#"the cluster has no kind "gizmos" | "#);
    let mut labelled = a();
    labelled["metadata"]["labels"] = json!({"applyset.kubernetes.io/part-of": "x"});
    insta::assert_snapshot!(refused("shop", labelled).await, @"ConfigMap/a in default: the label applyset.kubernetes.io/part-of is set by --applyset: remove it from the manifest | ");
}

/// A missing permission is no fault of the object, and neither is a server that is gone.
#[tokio::test]
async fn what_was_not_applied_is_counted_by_its_reason() {
    let world = World::new().await;
    let nobody = Cluster::new(world.server.client_as(&User::new("jane", ["system:authenticated"])));
    let (lines, report) = apply_with(&nobody, &[config_map("a", json!({}))], &ApplyOptions::default()).await;
    let report = report.unwrap();
    assert!(lines.ends_with("remedy: grant get and patch on configmaps in default\n"), "{lines}");
    assert_eq!((report.refused, report.unreachable), (1, 1));

    // A quota answers with the same code.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"configmaps": "0"}}});
    world
        .request("POST", "/api/v1/namespaces/default/resourcequotas", "application/json", &quota)
        .await
        .unwrap();
    // It limits nothing before it was counted once.
    while world
        .get("/api/v1/namespaces/default/resourcequotas/few")
        .await
        .unwrap()
        .pointer("/status/hard")
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let (lines, report) = world.apply(&[config_map("a", json!({}))], &ApplyOptions::default()).await;
    assert!(lines.contains("exceeded quota"), "{lines}");
    assert_eq!((report.refused, report.unreachable), (1, 0));

    // A server that is busy all the time: no pause lasts long here.
    let faults = Faults::new();
    let cluster = Cluster::new(faults.client(world.server.client()));
    faults.refuse(|refusals| refusals.failing = Some("/configmaps/".to_owned()));
    tokio::time::pause();
    let objects: Vec<Value> = (0..3).map(|n| config_map(&format!("m{n}"), json!({}))).collect();
    let (_, report) = apply_with(&cluster, &objects, &ApplyOptions::default()).await;
    let report = report.unwrap();
    assert_eq!((report.refused, report.unreachable), (3, 3));
}

#[tokio::test]
async fn versions_hide_the_data_of_secrets() {
    let world = World::new().await;
    let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": data});
    let options = ApplyOptions { versions: true, ..ApplyOptions::default() };
    world.apply(&[secret(json!({"same": "YQ==", "changed": "YQ==", "gone": "YQ=="}))], &options).await;
    let mut shown = None;
    let objects =
        vec![secret(json!({"same": "YQ==", "changed": "Yg==", "new": "Yg=="})).to_string().into_bytes()];
    apply(&world.cluster(), objects, &options, |event| {
        if let ApplyEvent::Applied { versions, result, fields, .. } = event {
            assert_eq!((result, fields.len()), (Applied::Configured, 3));
            shown = versions;
        }
    })
    .await
    .unwrap();
    let shown = shown.unwrap();
    assert_eq!(
        shown.before.unwrap()["data"],
        json!({"same": "***", "changed": "*** (before)", "gone": "***"})
    );
    assert_eq!(shown.after["data"], json!({"same": "***", "changed": "*** (after)", "new": "***"}));
}
