//! `settled apply` against a real API server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::live::{AVAILABLE, Cluster};
use crate::support::{Directory, settled};

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {value:?}}}\n---\n")
}

#[test]
fn what_changes_is_shown() {
    let cluster = Cluster::start();
    let write = |value: &str| cluster.directory.write("map.yaml", &config_map("settings", value));
    write("1");
    assert_eq!(cluster.settled("apply -f map.yaml").stdout(), "configmap/settings created\n");
    write("2");
    assert_snapshot!(cluster.transcript("apply -f map.yaml --dry-run --diff"), @r#"
    exit code: 0
    --- stdout ---
    configmap/settings configured (data.a) (server dry run)
    --- LIVE/v1.ConfigMap.default.settings
    +++ MERGED/v1.ConfigMap.default.settings
    @@ -1,6 +1,6 @@
     apiVersion: v1
     data:
    -  a: "1"
    +  a: "2"
     kind: ConfigMap
     metadata:
       name: settings
    "#);
    assert_eq!(cluster.settled("apply -f map.yaml").stdout(), "configmap/settings configured (data.a)\n");
    assert_eq!(cluster.settled("apply -f map.yaml --diff").stdout(), "configmap/settings unchanged\n");
    assert_snapshot!(cluster.transcript("apply -f map.yaml --dry-run=client"), @"
    exit code: 2
    --- stderr ---
    error: --dry-run=client is not supported with server-side apply
    hint: --dry-run=server validates on the server without storing anything; settled status -f FILE evaluates files without a cluster
    ");
}

#[test]
fn what_is_left_out_is_pruned_and_awaited() {
    let cluster = Cluster::start();
    cluster.directory.write("maps.yaml", &[config_map("a", "1"), config_map("b", "1")].concat());
    assert_eq!(cluster.settled("apply -f maps.yaml --prune --applyset shop").code(), 0);
    cluster.directory.write("maps.yaml", &config_map("a", "1"));
    let pruned = "apply -f maps.yaml --prune --applyset shop";
    assert_eq!(
        cluster.settled(&format!("{pruned} --dry-run")).stdout(),
        "configmap/a unchanged (server dry run)\nconfigmap/b pruned (server dry run)\n"
    );
    assert_snapshot!(cluster.transcript(&format!("{pruned} --wait --plain")), @"
    exit code: 0
    --- stdout ---
    configmap/a unchanged
    configmap/b pruned
    --- stderr ---
    waiting for the deletion of 1 pruned object
      [T]    watching 1 object: 1 done, 0 waiting
      [T]  ✓ done already: ConfigMap/a
    ✓ settled after [T] in default: 1/1 done
    ");
    assert_eq!(cluster.settled("wait --release applyset/shop -q --timeout 20s").code(), 0);
    assert_eq!(cluster.settled("wait --release applyset/secret/shop -q --timeout 20s").code(), 0);
    // A finalizer keeps the next one: the wait says so, and does not say that all is done.
    cluster.directory.write(
        "held.yaml",
        &config_map("held", "1").replace("{name: held}", "{name: held, finalizers: [example.com/x]}"),
    );
    assert_eq!(cluster.settled("apply -f maps.yaml -f held.yaml --prune --applyset shop").code(), 0);
    let text = cluster.transcript(&format!("{pruned} --wait --timeout 2s"));
    assert!(text.starts_with("exit code: 3\n"), "{text}");
    assert!(text.contains("ConfigMap/held"), "{text}");

    assert_eq!(cluster.settled("apply -f maps.yaml --prune").code(), 2);
    assert_eq!(cluster.settled("apply -f maps.yaml --applyset shop").code(), 2);
    let parent = r#"{"metadata":{"name":"kubectls","annotations":{"applyset.kubernetes.io/tooling":"kubectl/v1.36.0"}}}"#;
    cluster.server.request("POST /api/v1/namespaces/default/secrets", parent);
    let text = cluster.transcript("apply -f maps.yaml --prune --applyset kubectls");
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains(r#"managed by "kubectl", not "settled""#), "{text}");
}

#[test]
fn a_missing_permission_is_no_fault_of_the_object() {
    let cluster = Cluster::start();
    cluster.directory.write("map.yaml", &config_map("a", "1"));
    let text = cluster.transcript("apply -f map.yaml --as jane");
    assert!(text.starts_with("exit code: 4\n"), "{text}");
    assert!(text.contains("hint: grant get and patch on configmaps in default\n"), "{text}");
    // What the server refuses is the object's fault.
    cluster
        .directory
        .write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: [1]}\n");
    assert_eq!(cluster.settled("apply -f map.yaml").code(), 1);
}

/// The wait ends well, and reports the changes by another manager.
#[test]
fn a_change_by_somebody_else_is_noticed() {
    let cluster = Cluster::with_objects();
    let (kubeconfig, path) =
        (cluster.server.kubeconfig.to_str().unwrap().to_owned(), cluster.directory.path());
    let run = settled("apply -f web.yaml --wait -o json --field-manager settled --timeout 60s --stable 1s")
        .env("KUBECONFIG", &kubeconfig)
        .dir(&cluster.directory);
    // It has applied once the file that it opens before is there, and its own write is in.
    cluster.directory.write(
        "web.yaml",
        &fs::read_to_string(path.join("web.yaml")).unwrap().replace("replicas: 2", "replicas: 3"),
    );
    let waiting = std::thread::spawn(move || run.output());
    let head = "/apis/apps/v1/namespaces/shop/deployments/web";
    loop {
        let answer = cluster.server.request(&format!("GET {head}"), "");
        if answer.contains("\"replicas\":3") || answer.contains("\"replicas\": 3") {
            break;
        }
    }
    let answer = cluster.server.request_of_type(
        "application/merge-patch+json",
        &format!("PATCH {head}?fieldManager=kubectl-edit"),
        r#"{"spec":{"replicas":2}}"#,
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    cluster.report_status(&AVAILABLE.replace("\"observedGeneration\":1", "\"observedGeneration\":3"));
    let output = waiting.join().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["outcome"]), (Some(0), &json!("settled")), "{report}");
    let change = &report["changedByOthers"][0];
    assert_eq!(change["managers"], json!(["kubectl-edit"]), "{report}");
    assert_eq!(change["fields"], json!([".spec.replicas"]));
    assert_eq!((&change["appliedGeneration"], &change["generation"]), (&json!(2), &json!(3)));
    let notice = report["notices"][0]["message"].as_str().unwrap();
    assert!(
        notice
            .starts_with("Deployment/web was changed by \"kubectl-edit\" during the wait (generation 2 -> 3"),
        "{notice}"
    );
}

#[test]
fn credentials_may_be_given_on_the_command_line() {
    let directory = Directory::new(&[("tokens.csv", "s3cret,jane,7,system:masters\n")]);
    let tokens = directory.path().join("tokens.csv");
    let server = crate::serve::Served::start(&["--memory", "--token-auth-file", tokens.to_str().unwrap()]);
    let kubeconfig = fs::read_to_string(&server.kubeconfig).unwrap();
    for (field, file) in [
        ("certificate-authority-data:", "ca.crt"),
        ("client-certificate-data:", "client.crt"),
        ("client-key-data:", "client.key"),
    ] {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(field)).unwrap();
        let pem = data_encoding::BASE64.decode(line.trim().as_bytes()).unwrap();
        directory.write(file, &String::from_utf8(pem).unwrap());
    }
    let address = format!("--server https://{}", server.address);
    let run = |arguments: &str| {
        // Neither a kubeconfig nor a home: kubectl needs none of them either.
        settled(&format!("wait ns/default -q --timeout 20s {address} {arguments}")).dir(&directory).output()
    };
    let code = |arguments: &str| run(arguments).status.code();
    assert_eq!(code("--certificate-authority ca.crt --token s3cret"), Some(0));
    assert_eq!(
        code("--certificate-authority ca.crt --client-certificate client.crt --client-key client.key"),
        Some(0)
    );
    assert_eq!(code("--insecure-skip-tls-verify --token s3cret"), Some(0));
    assert_eq!(code("--certificate-authority ca.crt --tls-server-name localhost --token s3cret"), Some(0));
    assert_eq!(code("--certificate-authority ca.crt --token wrong"), Some(4));
    assert_eq!(
        code("--certificate-authority ca.crt --tls-server-name other.example --token s3cret"),
        Some(4)
    );
    assert_eq!(code("--certificate-authority ca.crt --insecure-skip-tls-verify"), Some(2));
    assert_eq!(code("--client-key client.key"), Some(2));
    let missing = run("--certificate-authority no.crt");
    assert_eq!(missing.status.code(), Some(4));
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("cannot read --certificate-authority no.crt"), "{text}");
}

/// A server that gives each connection the next of these answers.
fn web(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap().to_lowercase();
            assert!(!request.contains("authorization"), "{request}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn manifests_are_read_from_urls_patterns_and_kustomizations() {
    let body = crate::support::config_map("web");
    let whole =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let moved = "HTTP/1.1 302 Found\r\nlocation: /b.json\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        .to_owned();
    let directory = Directory::new(&[("a-1.json", &crate::support::config_map("one")), ("b.json", "{}")]);
    let status = |arguments: &str| settled(&format!("status -o jsonl {arguments}")).dir(&directory);
    let address = web(vec![moved.clone(), whole]);
    let line = status(&format!("-f http://{address}/a.json")).stdout();
    assert!(line.contains(r#""name":"web""#), "{line}");
    let address =
        web(vec!["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()]);
    let text = status(&format!("-f http://{address}/a.json")).transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("the server answers 404"), "{text}");
    let address = web(vec![moved; 7]);
    let text = status(&format!("-f http://{address}/a.json")).transcript();
    assert!(text.contains("more than 5 redirects"), "{text}");
    let text = status("-f https://user:word@127.0.0.1:1/a.json").transcript();
    assert!(text.contains("a URL with a user or password is not read"), "{text}");

    let line = status("-f a-?.json").stdout();
    assert!(line.contains(r#""name":"one""#), "{line}");
    assert!(status("-f c*.json").transcript().contains("cannot read c*.json: No such file"));

    // Its own binary, or kubectl's; without both a remedy.
    let text = status("-k .").env("PATH", directory.path().to_str().unwrap()).transcript();
    assert!(text.contains("neither kustomize nor kubectl is in the PATH"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let script = format!(
            "#!/bin/sh\n[ \"$1 $2\" = 'build overlay' ] || {{ echo \"no $2\" >&2; exit 1; }}\necho '{body}'\n"
        );
        directory.write("kustomize", &script);
        fs::set_permissions(directory.path().join("kustomize"), fs::Permissions::from_mode(0o755)).unwrap();
        let with_path = |arguments: &str| status(arguments).env("PATH", directory.path().to_str().unwrap());
        let line = with_path("-k overlay").stdout();
        assert!(line.contains(r#""name":"web""#), "{line}");
        let text = with_path("-k other").transcript();
        assert!(text.starts_with("exit code: 2\n") && text.contains("kustomize build: no other"), "{text}");
    }
}
