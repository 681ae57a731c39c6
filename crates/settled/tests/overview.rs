//! `status`, `why` and `tree` without arguments.

use serde_json::Value;

use crate::live::{AVAILABLE, Cluster};
use crate::support::{Directory, Run, settled};

/// A Deployment with a Pod that fails, a Pod of its own, a claim, and what has no state.
const MORE: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Secret
metadata: {name: unlisted, namespace: shop}
";

/// What a command printed, and its exit code.
fn ran(run: Run) -> (i32, String, String) {
    let output = run.no_stdin().output();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A Pod in the namespace `shop` that has failed, with this owner.
fn create_failed_pod(cluster: &Cluster, name: &str, owner: &str) {
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","ownerReferences":[{owner}]}},
            "spec":{{"restartPolicy":"Never","containers":[{{"name":"app","image":"web"}}]}}}}"#
    );
    let answer = cluster.server.request("POST /api/v1/namespaces/shop/pods", &pod);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let head = format!("PATCH /api/v1/namespaces/shop/pods/{name}/status");
    let failed =
        r#"{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on memory."}}"#;
    let answer = cluster.server.request_of_type("application/merge-patch+json", &head, failed);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn uid_of_web(cluster: &Cluster) -> String {
    let answer = cluster.server.request("GET /apis/apps/v1/namespaces/shop/deployments/web", "");
    let (_, rest) = answer.split_once("\"uid\":").unwrap();
    rest.trim_start().trim_start_matches('"').split('"').next().unwrap().to_owned()
}

#[test]
fn all_that_is_not_done_is_shown_by_its_owners() {
    let cluster = Cluster::with_objects();
    cluster.directory.write("more.yaml", MORE);
    assert_eq!(cluster.settled("apply -f more.yaml -q").code(), 0);
    let owner = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"{}"}}"#,
        uid_of_web(&cluster)
    );
    create_failed_pod(&cluster, "owned", &owner);
    create_failed_pod(&cluster, "alone", "");
    for place in ["-n shop", "-A"] {
        let (code, rows, errors) = ran(cluster.settled(&format!("status {place} -o jsonl")));
        let mut names: Vec<(String, String)> = rows
            .lines()
            .map(|row| serde_json::from_str::<Value>(row).unwrap())
            .map(|row| (row["kind"].as_str().unwrap().to_owned(), row["name"].as_str().unwrap().to_owned()))
            .collect();
        names.sort();
        let expected = [("Deployment", "web"), ("PersistentVolumeClaim", "data"), ("Pod", "alone")];
        let expected = expected.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
        assert_eq!(names, expected, "{place}: {rows}{errors}");
        assert_eq!(code, 1, "{place}: {errors}");
    }
    let (code, explained, errors) = ran(cluster.settled("why -n shop"));
    assert_eq!(code, 1, "{errors}");
    for name in ["Deployment/web", "PersistentVolumeClaim/data", "Pod/alone"] {
        assert!(explained.contains(name), "{name}: {explained}");
    }
    let (code, trees, errors) = ran(cluster.settled("tree -n shop -o json"));
    let trees: Value = serde_json::from_str(&trees).unwrap();
    let roots: Vec<&str> =
        trees.as_array().unwrap().iter().map(|tree| tree["object"]["name"].as_str().unwrap()).collect();
    assert_eq!(code, 1, "{errors}");
    assert_eq!(roots.len(), 3, "{roots:?}");
    assert!(!roots.contains(&"owned"), "{roots:?}");
    // The filters of status hold, too.
    let (code, rows, _) = ran(cluster.settled("status -n shop --kind deploy --status Current -o jsonl"));
    assert_eq!((code, &*rows), (0, ""));
    let (code, rows, _) = ran(cluster.settled("status -n shop --kind pvc -o jsonl"));
    assert_eq!((code, rows.lines().count()), (3, 1), "{rows}");
}

#[test]
fn everything_is_done() {
    let cluster = Cluster::with_objects();
    cluster.report_status(AVAILABLE);
    for command in ["status", "why", "tree"] {
        let (code, out, errors) = ran(cluster.settled(&format!("{command} -n shop")));
        assert_eq!(
            (code, &*out, &*errors),
            (0, "", "everything in namespace shop is done (1 object)\n"),
            "{command}"
        );
    }
    let (code, out, errors) = ran(cluster.settled("status -n shop -o json"));
    assert_eq!((code, out.trim()), (0, "[]"), "{errors}");
    let (code, out, errors) = ran(cluster.settled("status -n shop -q"));
    assert_eq!((code, &*out, &*errors), (0, "", ""));
    let (code, _, errors) = ran(cluster.settled("why -A"));
    // The server has a Service of its own in `default`.
    assert_eq!((code, &*errors), (0, "everything in all namespaces is done (2 objects)\n"));
}

#[test]
fn nothing_there_and_nothing_readable_is_not_everything_done() {
    let cluster = Cluster::with_objects();
    for command in ["status", "why", "tree"] {
        let (code, out, errors) = ran(cluster.settled(&format!("{command} -n kube-public")));
        assert_eq!((code, &*out), (2, ""), "{command}: {errors}");
        assert_eq!(
            errors, "error: no objects in namespace kube-public\nhint: set -n NAMESPACE or -A\n",
            "{command}"
        );
        // Beside one with objects, too: they are not all that was asked for.
        for place in ["kube-public,nope", "shop,nope"] {
            let (code, out, errors) = ran(cluster.settled(&format!("{command} -n {place}")));
            // `status` has printed its rows by then.
            let rows = if (command, place) == ("status", "shop,nope") { 2 } else { 0 };
            assert_eq!((code, out.lines().count()), (2, rows), "{command} {place}: {errors}");
            let wanted = "error: namespace \"nope\" does not exist\nhint: ";
            assert!(errors.starts_with(wanted), "{command} {place}: {errors}");
        }
        let (code, out, errors) = ran(cluster.settled(&format!("{command} -n shop --as nobody")));
        assert_eq!((code, &*out), (4, ""), "{command}: {errors}");
        assert!(errors.starts_with("error: no permission to list objects in namespace shop\n"), "{errors}");
    }
    // One who may see the Deployments only.
    let role = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: some, namespace: shop}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: some, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
";
    cluster.directory.write("role.yaml", role);
    assert_eq!(cluster.settled("apply -f role.yaml -q").code(), 0);
    let (code, out, errors) = ran(cluster.settled("status -n shop --as bob -o jsonl"));
    assert_eq!((code, out.lines().count()), (3, 1), "{out}{errors}");
    assert!(errors.contains("hint: no permission to list "), "{errors}");
    assert!(!errors.contains("warning: cannot list"), "{errors}");
}

#[test]
fn a_pipe_without_f_is_a_mistake() {
    let directory = Directory::new(&[]);
    for (command, error) in
        [("status", "no input"), ("why", "no targets given"), ("tree", "no targets given")]
    {
        let output =
            settled(command).stdin("kind: Pod").env("KUBECONFIG", "/nonexistent").dir(&directory).output();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {errors}");
        assert!(
            errors.starts_with(&format!("error: {error}\nhint: ")) && errors.contains("-f -"),
            "{errors}"
        );
    }
}
