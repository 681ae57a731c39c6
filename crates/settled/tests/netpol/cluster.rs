//! Policies, provider and version of a cluster: detection, permissions, failures.

use std::io::Read as _;
use std::net::TcpListener;

use serde_json::{Value, json};

use super::{MYEGRESS, PLAIN, row};
use crate::live::Cluster;
use crate::support::{Directory, Run, settled};

const NAMESPACES: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";

fn daemon_set(name: &str, image: &str) -> String {
    let labels = format!("{{app: {name}}}");
    format!(
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}, namespace: kube-system}}\nspec:\n  selector: {{matchLabels: {labels}}}\n  \
         template:\n    metadata: {{labels: {labels}}}\n    spec: {{containers: [{{name: agent, image: \"{image}\"}}]}}\n"
    )
}

/// A cluster with these manifests, and two policies in `shop`.
fn cluster(manifests: &[String]) -> Cluster {
    let cluster = Cluster::start();
    let all = [NAMESPACES, MYEGRESS, PLAIN].into_iter().map(str::to_owned).chain(manifests.iter().cloned());
    cluster.directory.write("all.yaml", &all.collect::<Vec<_>>().join("---\n"));
    let applied = cluster.settled("apply -f all.yaml -q").output();
    assert_eq!(applied.status.code(), Some(0), "{}", String::from_utf8_lossy(&applied.stderr));
    cluster
}

/// Exit code, standard output as JSON, and standard error.
fn checked(run: Run) -> (i32, Value, String) {
    let output = run.output();
    let errors = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), report, errors)
}

#[test]
fn the_provider_is_that_of_the_cluster() {
    let cluster = cluster(&[daemon_set(
        "cilium",
        "quay.io/cilium/cilium:v1.15.6@sha256:6aa840986a3a9722cd967ef63248d675a87add7e1704740902d5d3162f0c0def",
    )]);
    let (code, report, errors) = checked(cluster.settled("netpol check -n shop -o json"));
    assert_eq!(code, 1, "{report} {errors}");
    assert_eq!(row(&report, "myegress")["provider"], "cilium@v1.15.6", "{report}");
    assert_eq!(row(&report, "myegress")["status"], "PartialFailure");
    assert_eq!(row(&report, "plain")["status"], "Accepted");
    let evidence = report["providers"][0]["evidence"][0].as_str().unwrap();
    assert!(
        evidence.starts_with("DaemonSet kube-system/cilium with image quay.io/cilium/cilium:v1.15.6"),
        "{evidence}"
    );
    assert!(errors.contains("detected: cilium@v1.15.6 by DaemonSet kube-system/cilium"), "{errors}");
    // Of a namespace without policies there is nothing to say.
    let (code, report, errors) = checked(cluster.settled("netpol check -n other -o json"));
    assert_eq!((code, &report["policies"]), (0, &json!([])), "{errors}");
    let (_, report, _) = checked(cluster.settled("netpol check -A -o json"));
    assert_eq!(report["policies"].as_array().unwrap().len(), 2);
    // Policies of files for the provider of the cluster.
    cluster.directory.write("mine.yaml", MYEGRESS);
    let (code, report, _) = checked(cluster.settled("netpol check -f mine.yaml -o json"));
    assert_eq!((code, report["policies"].as_array().unwrap().len()), (1, 1), "{report}");
    // And of the cluster for another provider.
    let (code, report, _) = checked(cluster.settled("netpol check -n shop --provider cilium@1.16 -o json"));
    assert_eq!(code, 0, "{report}");
    assert_eq!(row(&report, "myegress")["provider"], "cilium@1.16");
    let explained = cluster.settled("netpol explain netpol/myegress -n shop").stdout();
    assert!(explained.contains("30000 to 32000"), "{explained}");
}

#[test]
fn no_provider_and_two_are_answers() {
    let cluster = cluster(&[]);
    let (code, _, errors) = checked(cluster.settled("netpol check -n shop"));
    assert_eq!(code, 5, "{errors}");
    assert!(errors.starts_with("error: no known provider runs in the cluster\n"), "{errors}");
    assert!(errors.contains("hint: name it: --provider "), "{errors}");
    cluster.directory.write("cilium.yaml", &daemon_set("cilium", "quay.io/cilium/cilium:v1.16.1"));
    cluster.directory.write("calico.yaml", &daemon_set("calico-node", "docker.io/calico/node:v3.28.0"));
    assert_eq!(cluster.settled("apply -f cilium.yaml -f calico.yaml -q").code(), 0);
    let (code, _, errors) = checked(cluster.settled("netpol check -n shop"));
    assert_eq!(code, 5, "{errors}");
    let first = errors.lines().next().unwrap();
    assert!(
        first.starts_with("error: several providers run in the cluster: ")
            && first.contains("cilium@v1.16.1"),
        "{errors}"
    );
    for evidence in
        ["DaemonSet kube-system/cilium with image", "DaemonSet kube-system/calico-node with image"]
    {
        assert!(errors.contains(evidence), "{errors}");
    }
    assert!(errors.contains("--provider cilium@v1.16.1"), "{errors}");
}

#[test]
fn a_version_that_nobody_knows_is_unknown() {
    let cluster = cluster(&[daemon_set("cilium", "quay.io/cilium/cilium:latest")]);
    let (code, report, errors) = checked(cluster.settled("netpol check -n shop -o json"));
    assert_eq!(code, 3, "{report} {errors}");
    assert_eq!(row(&report, "plain")["status"], "Unknown", "{report}");
}

/// With permission to read policies only, the output names what is missing; without it, the error does.
#[test]
fn missing_permissions_are_named() {
    let cluster = cluster(&[]);
    let role = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: policies, namespace: shop}
rules:
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: policies, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: policies}
subjects: [{kind: User, name: mary, apiGroup: rbac.authorization.k8s.io}]
";
    cluster.directory.write("role.yaml", role);
    assert_eq!(cluster.settled("apply -f role.yaml -q").code(), 0);
    let (code, report, errors) =
        checked(cluster.settled("netpol check -n shop --provider cilium@1.15 --as mary -o json"));
    assert_eq!(code, 1, "{report} {errors}");
    assert_eq!(row(&report, "myegress")["status"], "PartialFailure", "{report}");
    for objects in ["pods", "namespaces", "nodes", "services"] {
        assert!(errors.contains(&format!("warning: cannot read {objects}: ")), "{errors}");
        let unread = report["unread"].as_array().unwrap();
        assert!(unread.iter().any(|unread| unread["objects"] == objects), "{report}");
    }
    assert!(errors.contains("missing: findings on named ports"), "{errors}");
    // Nor what runs.
    let (code, _, errors) = checked(cluster.settled("netpol check -n shop --as mary"));
    assert_eq!(code, 4, "{errors}");
    assert!(errors.contains("error: cannot detect the provider of the cluster: "), "{errors}");
    let (code, _, errors) =
        checked(cluster.settled("netpol check -n other --provider cilium@1.15 --as mary"));
    assert_eq!(code, 4, "{errors}");
    assert!(errors.contains("networkpolicies"), "{errors}");
}

#[test]
fn connections_are_those_of_the_cluster() {
    let pod = |name: &str, app: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: {app}}}}}\nspec: {{containers: [{{name: app, image: app}}]}}\n"
        )
    };
    // Pods need theirs, which a controller creates at some time.
    let account =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: shop}\n".to_owned();
    let cluster = cluster(&[
        account,
        pod("web-0", "web"),
        pod("db-0", "db"),
        pod("other-0", "other"),
        daemon_set("cilium", "quay.io/cilium/cilium:v1.16.1"),
    ]);
    for (name, address) in [("web-0", "10.0.0.1"), ("db-0", "10.0.0.2"), ("other-0", "10.0.0.3")] {
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}}).to_string();
        let head = format!("PATCH /api/v1/namespaces/shop/pods/{name}/status");
        let answer = cluster.server.request_of_type("application/merge-patch+json", &head, &status);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let ask = |arguments: &str| checked(cluster.settled(&format!("netpol reach {arguments} -o json")));
    // `myegress` isolates web for egress, `plain` allows web to db and nobody else.
    let (code, answer, errors) = ask("--from shop/other-0 --to shop/db-0 --port 5432");
    assert_eq!(code, 1, "{answer} {errors}");
    let (code, answer, errors) = ask("--from shop/web-0 --to shop/db-0 --port 5432");
    assert_eq!(code, 1, "{answer} {errors}");
    let written = &answer["answers"][0]["connections"][0]["asWritten"];
    assert_eq!(written["egress"]["causes"][0]["policy"], "NetworkPolicy/shop/myegress", "{answer}");
    let (code, answer, _) = ask("--from shop/db-0 --to shop/other-0 --port 80");
    assert_eq!(code, 0, "{answer}");
    let (code, _, errors) = ask("--from shop/db-0 --to shop/nobody --port 80");
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("shop/nobody"), "{errors}");
    // What deleting its rules changes.
    let closed = PLAIN.split("  ingress:").next().unwrap();
    cluster.directory.write("closed.yaml", closed);
    let output = cluster.settled("netpol diff -f closed.yaml").output();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    // web may not connect anyway, and nobody else could.
    assert_eq!((output.status.code(), &*text), (Some(0), ""), "{errors}");
    cluster.directory.write(
        "open.yaml",
        &closed.replace("policyTypes: [Ingress]", "policyTypes: [Ingress]\n  ingress: [{}]"),
    );
    let output = cluster.settled("netpol diff -f open.yaml").output();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("+ shop/other-0 -> shop/db-0 "), "{text}");
}

/// A server that accepts connections and never answers.
#[test]
fn no_command_outlives_its_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0; 1]).ok();
            open.push(stream);
        }
    });
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    let directory = Directory::new(&[("config", &config), ("k8s.yaml", MYEGRESS)]);
    let path = directory.path().join("config");
    for command in [
        "check",
        "check -f k8s.yaml",
        "explain myegress -n shop",
        "reach --from a/b --to c/d",
        "diff -f k8s.yaml",
    ] {
        let run =
            settled(&format!("netpol {command} --timeout 1s")).env("KUBECONFIG", path.to_str().unwrap());
        let (code, _, errors) = checked(run.dir(&directory));
        assert_eq!(code, 4, "{command}: {errors}");
    }
}

#[test]
fn a_cluster_that_is_not_there_is_unreachable() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run =
        settled(&format!("netpol check --provider cilium@1.16 --server http://{address} --timeout 30s"));
    let (code, _, errors) = checked(run);
    assert_eq!(code, 4, "{errors}");
    assert!(errors.contains("cannot reach the cluster"), "{errors}");
}
