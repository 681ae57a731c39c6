//! What sets contain. `golden/helm/` has what Helm 4.3 stores: two revisions in Secrets, one in a ConfigMap, one that failed. To have it
//! stored anew:
//!
//! ```sh
//! HELM=path/to/helm cargo test -p settled-tracker --test main -- --ignored helm_is_asked
//! ```

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_tracker::release::{
    Contents, Inventory, ListedKind as KindName, Release, Revisions, newest_revisions,
};
use settled_tracker::{Cluster, Target};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/helm")
}

fn of(object: &Value) -> String {
    match Contents::of(object.to_string().as_bytes()) {
        Ok(Some(Contents::Objects(inventory))) => shown(&inventory),
        Ok(Some(Contents::Helm(storage))) => {
            format!(
                "release {} in {}: {}, or {}",
                storage.release,
                storage.namespace,
                storage.selector(),
                storage.object_name().unwrap_or_default()
            )
        }
        Ok(Some(Contents::ApplySet(set))) => {
            let kinds: Vec<String> = set
                .kinds
                .iter()
                .map(|kind| match kind {
                    KindName::Kind { group, kind } => format!("{kind}.{group}"),
                    KindName::Resource { group, resource } => format!("{resource}.{group}"),
                })
                .collect();
            format!("{}: {} of {kinds:?} in {:?}", set.title, set.selector, set.namespaces)
        }
        Ok(None) => "no set".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn shown(inventory: &Inventory) -> String {
    let mut lines = vec![inventory.title.clone()];
    let member = |member: &settled_tracker::release::Member| {
        let version = member.version.as_deref().unwrap_or("-");
        format!("{} {version}{}", member.id.full(), if member.default_namespace { " by default" } else { "" })
    };
    lines.extend(inventory.members.iter().map(|one| format!("  {}", member(one))));
    lines.extend(
        inventory
            .hooks
            .iter()
            .map(|hook| format!("  hook {}: {:?} {:?}", member(&hook.job), hook.events, hook.phase)),
    );
    lines.extend(inventory.left_out.iter().map(|text| format!("  without {text}")));
    lines.join("\n")
}

fn stored(name: &str) -> Value {
    let text = std::fs::read_to_string(directory().join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn releases_of_helm_are_read() {
    insta::assert_snapshot!(of(&stored("secret.v1.json")), @r#"
    release shop, revision 1
      ConfigMap/elsewhere-shop in default v1
      ClusterRole.rbac.authorization.k8s.io/shop:shop in shop v1 by default
      Service/web in shop v1 by default
      Deployment.apps/web in shop v1 by default
      hook Job.batch/migrate in shop v1 by default: ["pre-install", "pre-upgrade"] ""
    "#);
    insta::assert_snapshot!(of(&stored("secret.v2.json")), @r#"
    release shop, revision 2
      ConfigMap/elsewhere-shop in default v1
      ClusterRole.rbac.authorization.k8s.io/shop:shop in shop v1 by default
      Service/web in shop v1 by default
      Deployment.apps/web in shop v1 by default
      hook Job.batch/migrate in shop v1 by default: ["pre-install", "pre-upgrade"] ""
    "#);
    insta::assert_snapshot!(of(&stored("secret.v3.json")), @r#"
    release shop, revision 3
      ConfigMap/elsewhere-shop in default v1
      ClusterRole.rbac.authorization.k8s.io/shop:shop in shop v1 by default
      Service/web in shop v1 by default
      Deployment.apps/web in shop v1 by default
      hook Job.batch/migrate in shop v1 by default: ["pre-install", "pre-upgrade"] ""
    "#);
    insta::assert_snapshot!(of(&stored("configmap.v1.json")), @r#"
    release mapped, revision 1
      ConfigMap/elsewhere-mapped in default v1
      ClusterRole.rbac.authorization.k8s.io/shop:mapped in shop v1 by default
      Service/web in shop v1 by default
      Deployment.apps/web in shop v1 by default
      hook Job.batch/migrate in shop v1 by default: ["pre-install", "pre-upgrade"] ""
    "#);
}

#[test]
fn the_newest_revision_that_is_deployed_counts() {
    let texts: Vec<String> = ["secret.v1.json", "secret.v2.json", "secret.v3.json", "configmap.v1.json"]
        .iter()
        .map(|name| stored(name).to_string())
        .collect();
    let list: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let newest = |release: &str, list: &[&[u8]]| match newest_revisions(release, list) {
        Ok(Revisions { current, failed }) => format!("{current}, failed: {failed:?}"),
        Err(error) => error.to_string(),
    };
    insta::assert_snapshot!(newest("shop", &list), @"1, failed: Some(2)");
    insta::assert_snapshot!(newest("shop", &list[..2]), @"1, failed: None");
    insta::assert_snapshot!(newest("shop", &list[2..3]), @"0, failed: Some(0)");
    insta::assert_snapshot!(newest("shop", &list[..1]), @"release shop: it is superseded: there is nothing to wait for");
    insta::assert_snapshot!(newest("mapped", &list), @"3, failed: None");
    insta::assert_snapshot!(newest("nope", &list), @"release nope: there is none of this name in this namespace: `helm list -A` says where it is");
    insta::assert_snapshot!(newest("nope", &[b"[1]"]), @"release nope: it is no JSON object");
}

/// After a failed upgrade the objects of both revisions count: what only the failed one has is what is looked for.
#[tokio::test]
async fn a_failed_upgrade_is_looked_at_too() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let create = async |path: &str, object: Value| {
        let request = http::Request::post(path).body(object.to_string().into_bytes()).unwrap();
        client.request::<Value>(request).await.unwrap()
    };
    create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let config_map =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n---\n");
    for (revision, status, names) in [(1, "deployed", ["same", "old"]), (2, "failed", ["same", "new"])] {
        let manifest: String = names.iter().map(|name| config_map(name)).collect();
        let release = json!({"name": "shop", "namespace": "shop", "version": revision, "manifest": manifest});
        let mut secret = secret(release.to_string().as_bytes());
        secret["metadata"] = json!({"name": format!("sh.helm.release.v1.shop.v{revision}"), "labels":
            {"owner": "helm", "name": "shop", "version": revision.to_string(), "status": status}});
        create("/api/v1/namespaces/shop/secrets", secret).await;
    }
    let cluster = Cluster::new(server.client());
    let resources = cluster.resources().await.unwrap();
    let release: Release = "helm/shop".parse().unwrap();
    let found = release.targets(&cluster, &resources, "shop").await.unwrap();
    let names = found.targets.iter().map(|target| match target {
        Target::Object { name, .. } => &**name,
        Target::Select(_) => "a selection",
    });
    assert_eq!(names.collect::<Vec<_>>(), ["same", "old", "new"]);
    assert_eq!(found.title, "release shop, revision 1");
    assert_eq!(
        found.notes,
        [
            "release shop, revision 2 failed; the objects are those of both, only the newer one has ConfigMap/new in shop"
        ]
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A Secret as Helm makes it of a release.
fn secret(release: &[u8]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "sh.helm.release.v1.a.v1", "namespace": "store"},
        "data": {"release": BASE64.encode(BASE64.encode(release))},
    })
}

#[test]
fn releases_as_they_may_be() {
    let manifest = "\
# Source: a
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: null}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
---
# nothing but a comment
---
{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"metadata\": {\"generateName\": \"run-\"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'a:b'}
";
    let release = |manifest: &str| json!({"name": "a", "namespace": "b", "version": 1, "manifest": manifest, "chart": {"x": [1]}});
    // Plain, as Helm 2 had it.
    insta::assert_snapshot!(of(&secret(release(manifest).to_string().as_bytes())), @r#"
    release a, revision 1
      ConfigMap/one in b v1 by default
      ClusterRole.rbac.authorization.k8s.io/a:b in b v1 by default
      without Job run-*: the server chose its name
    "#);
    insta::assert_snapshot!(of(&secret(&gzip(json!({"name": "a", "version": 2, "manifest": "kind: A\nmetadata: {name: b}"}).to_string().as_bytes()))), @r#"
    release a, revision 2
      A/b in store - by default
    "#);
    insta::assert_snapshot!(of(&secret(b"{}")), @"Secret sh.helm.release.v1.a.v1: data.release holds no release: it has no name");
    let wrong = [
        ("no release", json!({"kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "a"}})),
        (
            "not base64",
            json!({"kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "a"}, "data": {"release": "%"}}),
        ),
        (
            "not base64 twice",
            json!({"kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "a"}, "data": {"release": "AAAA"}}),
        ),
        ("no JSON", secret(b"hello")),
        ("no gzip", secret(&[0x1f, 0x8b, 0x08, 1, 2, 3])),
        ("cut gzip", secret(&gzip(release(manifest).to_string().as_bytes())[..40])),
        ("a bomb", secret(&gzip(&vec![b' '; 65 << 20]))),
        ("no YAML", secret(release("kind: A\nmetadata: [").to_string().as_bytes())),
        ("no object", secret(release("kind: A\nmetadata: {name: a}\n---\n- 1").to_string().as_bytes())),
        ("no name", secret(release("kind: A\nmetadata: {}").to_string().as_bytes())),
        (
            "too many",
            secret(
                release(
                    &(0..50_002)
                        .map(|n| format!("kind: A\nmetadata: {{name: a{n}}}\n---\n"))
                        .collect::<String>(),
                )
                .to_string()
                .as_bytes(),
            ),
        ),
        (
            "another type",
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "a"}}),
        ),
    ];
    let table: String = wrong.iter().map(|(what, object)| format!("{what}: {}\n", of(object))).collect();
    insta::assert_snapshot!(table, @r#"
    no release: Secret a: data.release is empty
    not base64: Secret a: data.release is not base64 as Helm writes it: Invalid symbol 37, offset 0.
    not base64 twice: Secret a: data.release is not base64 as Helm writes it: Invalid symbol 0, offset 0.
    no JSON: Secret sh.helm.release.v1.a.v1: data.release holds no release: expected value at line 1 column 1
    no gzip: Secret sh.helm.release.v1.a.v1: cannot decode data.release: unexpected end of file
    cut gzip: Secret sh.helm.release.v1.a.v1: cannot decode data.release: incomplete deflate stream
    a bomb: Secret sh.helm.release.v1.a.v1: data.release unpacks to more than 64 MiB: that is no release of Helm
    no YAML: release a, revision 1: its manifest, line 2, column 12: did not find expected node content
    no object: release a, revision 1: its manifest, line 4, column 1: expected an object as the item of a list
    no name: release a, revision 1: its manifest, line 1, column 1: an object without kind or name
    too many: release a, revision 1: it lists more than 50000 objects: wait for a part of them by a selector
    another type: no set
    "#);
}

#[test]
fn flux_lists_what_it_applied() {
    let kustomization = |spec: Value, status: Value| {
        of(
            &json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "apps", "namespace": "flux"},
            "spec": spec, "status": status}),
        )
    };
    let entries = json!([
        {"id": "shop_web_apps_Deployment", "v": "v1"},
        {"id": "_shop__Namespace", "v": "v1"},
        {"id": "_system__auth-delegator_rbac.authorization.k8s.io_ClusterRoleBinding", "v": "v1"},
        {"id": "shop_web__Service", "v": "v1"},
        {"id": "shop_web__Service", "v": "v1"},
    ]);
    insta::assert_snapshot!(kustomization(json!({}), json!({"inventory": {"entries": entries}})), @r#"
    Kustomization apps
      Deployment.apps/web in shop v1
      Namespace/shop v1
      ClusterRoleBinding.rbac.authorization.k8s.io/system:auth-delegator v1
      Service/web in shop v1
    "#);
    insta::assert_snapshot!(kustomization(json!({}), json!({"inventory": {"entries": []}})), @"Kustomization apps");
    insta::assert_snapshot!(kustomization(json!({}), json!({"inventory": {"entries": [{"id": "shop_web"}]}})), @r#"Kustomization apps: status.inventory.entries[0].id: "shop_web" is no id: NAMESPACE_NAME_GROUP_KIND was expected"#);
    insta::assert_snapshot!(kustomization(json!({}), json!({"observedGeneration": -1})), @"Kustomization apps: status.inventory is not there: Flux has not applied it yet; wait for the Kustomization itself");
    insta::assert_snapshot!(kustomization(json!({"kubeConfig": {"secretRef": {"name": "far"}}}), json!({})), @"Kustomization apps: spec.kubeConfig names another cluster: choose it with --context, and name the objects there by files or selectors");

    let release = |spec: Value, status: Value| {
        of(
            &json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web", "namespace": "flux"},
            "spec": spec, "status": status}),
        )
    };
    let history = json!([{"name": "shop-web", "namespace": "shop", "version": 2}, {"name": "shop-web", "namespace": "shop", "version": 10}]);
    insta::assert_snapshot!(release(json!({"targetNamespace": "shop"}), json!({"history": history})), @"release shop-web in flux: owner=helm,name=shop-web, or sh.helm.release.v1.shop-web.v10");
    insta::assert_snapshot!(release(json!({"storageNamespace": "helm"}), json!({"history": history})), @"release shop-web in helm: owner=helm,name=shop-web, or sh.helm.release.v1.shop-web.v10");
    insta::assert_snapshot!(release(json!({"storageNamespace": "helm"}), json!({"history": history, "storageNamespace": "before"})), @"release shop-web in before: owner=helm,name=shop-web, or sh.helm.release.v1.shop-web.v10");
    insta::assert_snapshot!(release(json!({}), json!({"history": history, "inventory": {"entries": [{"id": "shop_web__Service", "v": "v1"}]}})), @r#"
    HelmRelease web
      Service/web in shop v1
    "#);
    insta::assert_snapshot!(release(json!({"targetNamespace": "shop"}), json!({"lastReleaseRevision": 3})), @"release shop-web in flux: owner=helm,name=shop-web, or sh.helm.release.v1.shop-web.v3");
    insta::assert_snapshot!(release(json!({}), json!({})), @"HelmRelease web: status.history is not there: Flux has released nothing yet; wait for the HelmRelease itself");
    insta::assert_snapshot!(release(json!({"kubeConfig": {}}), json!({"history": history})), @"HelmRelease web: spec.kubeConfig names another cluster: choose it with --context, and name the objects there by files or selectors");
}

#[test]
fn argo_cd_lists_its_resources() {
    let application = |destination: Value, status: Value| {
        of(
            &json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"destination": destination}, "status": status}),
        )
    };
    let resources = json!({"resources": [
        {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web", "status": "Synced", "health": {"status": "Healthy"}},
        {"version": "v1", "kind": "Namespace", "name": "shop"},
        {"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "old", "requiresPruning": true},
        {"group": "batch", "version": "v1", "kind": "Job", "namespace": "shop", "name": "migrate", "hook": true},
        {"version": "v1", "kind": "Pod", "namespace": "shop", "name": "check", "hook": true},
    ]});
    insta::assert_snapshot!(application(json!({"server": "https://kubernetes.default.svc", "namespace": "shop"}), resources.clone()), @r#"
    Application shop
      Deployment.apps/web in shop v1
      Namespace/shop v1
      hook Job.batch/migrate in shop v1: [] ""
    "#);
    insta::assert_snapshot!(application(json!({"name": "in-cluster"}), json!({"resources": []})), @"Application shop");
    insta::assert_snapshot!(application(json!({"name": "edge"}), resources.clone()), @"Application shop: spec.destination is another cluster, edge: choose it with --context, and name the objects there by files or selectors");
    insta::assert_snapshot!(application(json!({"server": "https://10.0.0.1"}), resources), @"Application shop: spec.destination is another cluster, https://10.0.0.1: choose it with --context, and name the objects there by files or selectors");
    insta::assert_snapshot!(application(json!({"name": "in-cluster"}), json!({})), @"Application shop: status.resources is not there: Argo CD has not compared it yet; wait for the Application itself");
    insta::assert_snapshot!(application(json!({"name": "in-cluster"}), json!({"resources": [{"kind": "A"}]})), @"Application shop: status.resources[0] has no kind or no name");
}

#[test]
fn sets_by_labels() {
    insta::assert_snapshot!(of(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inventory-1", "namespace": "shop", "labels": {"cli-utils.sigs.k8s.io/inventory-id": "1-2"}},
        "data": {
            "shop_web_apps_Deployment": r#"{"actuation":"Succeeded","reconcile":"Pending","strategy":"Apply"}"#,
            "shop_old__ConfigMap": r#"{"actuation":"Pending","reconcile":"Pending","strategy":"Delete"}"#,
            "_a__b_rbac.authorization.k8s.io_ClusterRole": "",
        },
    })), @r#"
    inventory inventory-1
      ClusterRole.rbac.authorization.k8s.io/a:b -
      Deployment.apps/web in shop -
    "#);
    insta::assert_snapshot!(of(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"cli-utils.sigs.k8s.io/inventory-id": "1"}}, "data": {"x": ""},
    })), @r#"inventory a: data: "x" is no id: NAMESPACE_NAME_GROUP_KIND was expected"#);
    let group = |resources: Value| {
        of(&json!({
            "apiVersion": "kpt.dev/v1alpha1", "kind": "ResourceGroup",
            "metadata": {"name": "shop", "namespace": "shop", "labels": {"cli-utils.sigs.k8s.io/inventory-id": "1-2"}},
            "spec": {"resources": resources},
            "status": {"resourceStatuses": [
                {"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "strategy": "Apply", "actuation": "Succeeded"},
                {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "old", "strategy": "Delete", "actuation": "Pending"},
            ]},
        }))
    };
    insta::assert_snapshot!(group(json!([
        {"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web"},
        {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "old"},
        {"group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a:b"},
    ])), @r"
    inventory shop
      Deployment.apps/web in shop -
      ClusterRole.rbac.authorization.k8s.io/a:b -
    ");
    insta::assert_snapshot!(group(json!([{"group": "apps", "kind": "Deployment"}])), @"inventory shop: spec.resources[0] has no kind or no name");
    let parent = |kind: &str, namespace: &str, id: &str, annotations: Value| {
        of(&json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "shop", "namespace": namespace,
            "labels": {"applyset.kubernetes.io/id": id}, "annotations": annotations}}))
    };
    insta::assert_snapshot!(parent("Secret", "shop", "applyset-x-v1", json!({
        "applyset.kubernetes.io/tooling": "kubectl/v1.36", "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Deployment.apps",
        "applyset.kubernetes.io/additional-namespaces": "other,shop",
    })), @r#"ApplySet shop: applyset.kubernetes.io/part-of=applyset-x-v1 of ["ConfigMap.", "Deployment.apps"] in ["other", "shop"]"#);
    insta::assert_snapshot!(parent("ConfigMap", "shop", "applyset-x-v1", json!({
        "applyset.kubernetes.io/contains-group-resources": "deployments.apps,services",
    })), @r#"ApplySet shop: applyset.kubernetes.io/part-of=applyset-x-v1 of ["deployments.apps", "services."] in ["shop"]"#);
    insta::assert_snapshot!(parent("Secret", "shop", "applyset-x-v1", json!({})), @"ApplySet shop: the annotation applyset.kubernetes.io/contains-group-kinds is not there: its tool does not say which kinds it contains");
    insta::assert_snapshot!(parent("Secret", "shop", "a,b", json!({})), @"ApplySet shop: the label applyset.kubernetes.io/id is no id, such as applyset-…-v1");
    assert_eq!(
        of(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})),
        "no set"
    );
    insta::assert_snapshot!(of(&json!([1])), @"the object: it is no JSON object");
}

proptest! {
    /// Whatever is in the places that are read: an answer, and no panic.
    #[test]
    fn any_object_is_answered(
        which in 0..7_usize,
        text in "[a-zA-Z_:.{}\\[\\]\"\n -]{0,40}",
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        packed in any::<bool>(),
    ) {
        let object = match which {
            0 => secret(if packed { gzip(&bytes) } else { bytes }.as_slice()),
            1 => secret(json!({"name": text, "manifest": String::from_utf8_lossy(&bytes), "hooks": [{"kind": "Job", "manifest": text}]}).to_string().as_bytes()),
            2 => json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "status": {"inventory": {"entries": [{"id": text}]}}}),
            3 => json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "status": {"history": [{"name": text}]}}),
            4 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"cli-utils.sigs.k8s.io/inventory-id": ""}}, "data": {(text): ""}}),
            5 => json!({"apiVersion": "kpt.dev/v1alpha1", "kind": "ResourceGroup", "spec": {"resources": [{"kind": text, "name": text, "group": which}]}}),
            _ => json!({"kind": text, "metadata": {"labels": {"applyset.kubernetes.io/id": "a"}, "annotations": {"applyset.kubernetes.io/contains-group-kinds": text}}}),
        };
        prop_assert!(!of(&object).is_empty());
    }
}

const CHART: [(&str, &str); 4] = [
    ("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
    ("values.yaml", "replicas: 1\n"),
    (
        "templates/all.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: 'example.com/web:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'shop:{{ .Release.Name }}'}
rules: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere-{{ .Release.Name }}, namespace: default}
{{- if .Values.broken }}
data: [1]
{{- end }}
",
    ),
    (
        "templates/hooks.yaml",
        "apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: 'example.com/migrate:1'}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
spec: {containers: [{name: app, image: 'example.com/check:1'}]}
",
    ),
];

/// Writes what a Helm stores. It is no test, but it needs the server.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm 4 in HELM, and writes golden/helm"]
async fn helm_is_asked() {
    let helm = std::env::var_os("HELM").expect("HELM names helm");
    let server = Server::in_memory().await.unwrap();
    let kubeconfig = server.kubeconfig_file().await.unwrap();
    let chart = std::env::temp_dir().join(format!("settled-chart-{}", std::process::id()));
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    for (name, text) in CHART {
        std::fs::write(chart.join(name), text).unwrap();
    }
    let run = |driver: &str, args: &[&str]| {
        let mut command = Command::new(&helm);
        command.args(args).arg(&chart).args(["--namespace", "shop", "--create-namespace", "--no-hooks"]);
        command.env("KUBECONFIG", kubeconfig.path()).env("HELM_DRIVER", driver);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let installed = run("secret", &["install", "shop"]);
    assert!(installed.0, "{}", installed.1);
    let upgraded = run("secret", &["upgrade", "shop", "--set", "replicas=2"]);
    assert!(upgraded.0, "{}", upgraded.1);
    assert!(!run("secret", &["upgrade", "shop", "--set", "replicas=2,broken=true"]).0);
    let mapped = run("configmap", &["install", "mapped", "--take-ownership"]);
    assert!(mapped.0, "{}", mapped.1);
    let stored = [
        ("secrets", "sh.helm.release.v1.shop.v1", "secret.v1.json"),
        ("secrets", "sh.helm.release.v1.shop.v2", "secret.v2.json"),
        ("secrets", "sh.helm.release.v1.shop.v3", "secret.v3.json"),
        ("configmaps", "sh.helm.release.v1.mapped.v1", "configmap.v1.json"),
    ];
    std::fs::create_dir_all(directory()).unwrap();
    for (resource, name, file) in stored {
        let path = format!("/api/v1/namespaces/shop/{resource}/{name}");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let object: Value = server.client().request(request).await.unwrap();
        let mut text = serde_json::to_string_pretty(&object).unwrap();
        text.push('\n');
        std::fs::write(directory().join(file), text).unwrap();
    }
    std::fs::remove_dir_all(chart).unwrap();
}
