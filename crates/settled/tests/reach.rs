//! Unreachable clusters and missing permissions: messages and exit codes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use crate::live::Cluster;
use crate::support::{Directory, Run, settled};

/// A server that does this with each connection.
fn listener(each: fn(&mut TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            each(&mut stream);
            // It stays open.
            open.push(stream);
        }
    });
    address
}

/// A directory with a kubeconfig: for this server, as this user.
fn kubeconfig(server: &str, user: &str) -> Directory {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {server}}}]\nusers: [{{name: u, user: {user}}}]\n"
    );
    Directory::new(&[("config", &text)])
}

fn with(directory: &Directory, arguments: &str) -> Run {
    let path = directory.path().join("config");
    settled(arguments).env("KUBECONFIG", path.to_str().unwrap()).env("PATH", "/usr/bin:/bin")
}

/// Exit code and standard error, with `ADDRESS` for the server.
fn said(run: Run, address: &str) -> String {
    let output = run.output();
    let code = output.status.code().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap().replace(address, "ADDRESS");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    format!("{code}\n{errors}")
}

#[test]
fn a_selector_without_match_is_named() {
    let cluster = Cluster::with_objects();
    for (targets, sentence) in [
        ("deploy -l app=none -n shop", "no Deployment matches app=none in shop"),
        ("deploy,sts -l app=none -n shop", "no Deployment or StatefulSet matches app=none in shop"),
        ("deploy -l app=none -A", "no Deployment matches app=none in any namespace"),
        (
            "deploy -l app=none -n shop,web",
            "no Deployment matches app=none in shop; no Deployment matches app=none in web",
        ),
        ("namespaces -l app=none", "no Namespace matches app=none"),
        (
            "deploy --field-selector metadata.name=none -n shop",
            "no Deployment matches metadata.name=none in shop",
        ),
    ] {
        let wait = said(cluster.settled(&format!("wait {targets} --timeout 0")), "ADDRESS");
        let last = wait.lines().last().unwrap();
        let words = last.strip_prefix("✗ timed out after ").unwrap().split_once(": ").unwrap().1;
        assert_eq!(words, sentence, "{wait}");
        assert!(wait.starts_with("3\n"), "{wait}");
        let status = said(cluster.settled(&format!("status {targets}")), "ADDRESS");
        let mut lines = status.lines();
        assert_eq!(lines.next(), Some("2"), "{status}");
        assert_eq!(lines.next(), Some(&*format!("error: {sentence}")), "{status}");
        let why = said(cluster.settled(&format!("why {targets}")), "ADDRESS");
        let notices: String = sentence.split("; ").map(|part| format!("warning: {part}\n")).collect();
        assert_eq!(why, format!("3\n{notices}"));
    }
    let report = cluster.settled("wait deploy -l app=none -n shop --timeout 0 -o json").output();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let expected = serde_json::json!([{"group": "apps", "kind": "Deployment", "namespaced": true, "namespace": "shop", "selector": "app=none"}]);
    assert_eq!(report["unmatched"], expected);
}

#[test]
fn what_may_not_be_read_is_not_called_missing() {
    let cluster = Cluster::with_objects();
    let run = |arguments: &str| cluster.settled(arguments);
    let status = run("status cm/web -n shop --as nobody -o jsonl").output();
    assert_eq!(status.status.code(), Some(4));
    let row: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&row["status"], &row["reason"]), (&"Unknown".into(), &"Forbidden".into()), "{row}");
    let message = row["message"].as_str().unwrap();
    for word in ["get", "configmaps", "shop"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    for command in ["tree cm/web", "why cm/web", "wait cm/web", "wait cm/web -o json", "wait cm/web -o junit"]
    {
        let output = run(&format!("{command} -n shop --as nobody")).output();
        assert_eq!(output.status.code(), Some(4), "{command}");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("Forbidden"), "{command}: {text}");
        assert!(!text.contains("NotFound") && !text.contains("does not exist"), "{command}: {text}");
    }
    // Of what is selected there is not even a row.
    for command in ["tree pods --all", "events pods --all", "status pods", "why pods --all", "events cm/web"]
    {
        assert_eq!(run(&format!("{command} -n shop --as nobody")).code(), 4, "{command}");
    }
}

#[test]
fn a_malformed_selector_is_an_error_at_once() {
    let cluster = Cluster::start();
    for command in ["wait", "status", "why", "tree", "events"] {
        let output = cluster.settled(command).arg("pods").arg("-l").arg("app in (").output();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {errors}");
        assert!(errors.contains("unable to parse requirement"), "{command}: {errors}");
    }
}

#[test]
fn no_wait_outlives_its_timeout() {
    let silent = listener(|_| {});
    for scheme in ["http", "https"] {
        let directory = kubeconfig(&format!("{{server: \"{scheme}://{silent}\"}}"), "{}");
        let text = said(with(&directory, "wait deploy/web --timeout 1s"), &silent.to_string());
        assert!(text.starts_with("4\nerror: cannot reach the cluster at "), "{text}");
    }
    let directory = kubeconfig(
        "{server: \"https://127.0.0.1:1\"}",
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: [\"600\"], interactiveMode: Never}}",
    );
    assert_snapshot!(said(with(&directory, "wait deploy/web --timeout 1s"), "127.0.0.1:1"), @"
    4
    error: no credentials within 1s
    hint: check the credential plugin of the kubeconfig, and that the kubeconfig is a file
    ");
}

#[test]
fn what_cannot_heal_is_not_retried() {
    // With the default timeout, retrying would take minutes.
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let directory = kubeconfig(&format!("{{server: \"https://{refused}\"}}"), "{}");
    assert_snapshot!(said(with(&directory, "status pods"), &refused), @"
    4
    error: cannot reach the cluster at https://ADDRESS: Connection refused
    hint: check that the server of this context is running and reachable
    ");
    let plain = listener(|stream| {
        assert!(stream.read(&mut [0; 512]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    })
    .to_string();
    let directory = kubeconfig(&format!("{{server: \"https://{plain}\"}}"), "{}");
    assert_snapshot!(said(with(&directory, "wait deploy/web"), &plain), @"
    4
    error: cannot reach the cluster at https://ADDRESS: received corrupt message of type InvalidContentType
    hint: the server does not use TLS: check http:// or https:// and the port in the kubeconfig
    ");
    let cluster = Cluster::start();
    let address = cluster.server.address().to_owned();
    let directory = kubeconfig(&format!("{{server: \"https://{address}\"}}"), "{}");
    assert_snapshot!(said(with(&directory, "wait deploy/web"), &address), @"
    4
    error: cannot reach the cluster at https://ADDRESS: invalid peer certificate: UnknownIssuer
    hint: the server's certificate is not signed by the certificate-authority of the kubeconfig, or is for another name
    ");
}

#[test]
fn a_server_that_is_not_there_is_told_at_once_and_retried() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let directory = kubeconfig(&format!("{{server: \"https://{refused}\"}}"), "{}");
    assert_snapshot!(said(with(&directory, "wait deploy/web --timeout 1s"), &refused), @"
    4
    warning: cannot reach the cluster at https://ADDRESS: Connection refused; retrying
    error: cannot reach the cluster at https://ADDRESS: Connection refused
    hint: check that the server of this context is running and reachable
    ");
}

#[test]
fn kubeconfigs_that_cannot_be_used() {
    let transcript = |server: &str, user: &str, arguments: &str| {
        let directory = kubeconfig(server, user);
        let path = directory.path().to_str().unwrap().to_owned();
        said(with(&directory, arguments), &path)
    };
    let here = "{server: \"https://127.0.0.1:1\"}";
    assert_snapshot!(transcript(here, "{}", "status pods --context nope"), @r#"
    4
    error: no context "nope" in ADDRESS/config; there are: here
    hint: select another one with --kubeconfig FILE and --context NAME
    "#);
    assert_snapshot!(
        transcript("{server: \"https://127.0.0.1:1\", certificate-authority: /dev/full}", "{}", "status pods"),
        @"
    4
    error: cannot read /dev/full: it is a device
    hint: select another one with --kubeconfig FILE and --context NAME
    "
    );
    let endless =
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: yes, interactiveMode: Never}}";
    assert_snapshot!(transcript(here, endless, "status pods"), @"
    4
    error: exec plugin yes: it prints more than 1 MiB
    hint: run the credential plugin separately to see its error
    ");
}

#[test]
fn a_server_that_is_gone_at_the_end_is_told_of() {
    let mut cluster = Cluster::with_objects();
    let mut wait = Command::new(env!("CARGO_BIN_EXE_settled"))
        .args(["wait", "deploy/web", "-n", "shop", "--timeout", "5s"])
        .env("KUBECONFIG", &cluster.server.kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(wait.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("Deployment/web") {
        assert_ne!(errors.read_line(&mut text).unwrap(), 0, "{text}");
    }
    cluster.server.kill();
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(wait.wait().unwrap().code(), Some(4), "{text}");
    assert!(text.contains("has been unreachable for"), "{text}");
}

#[test]
fn what_has_no_namespace_is_shown_in_one() {
    let cluster = Cluster::with_objects();
    let names = |arguments: &str| -> Vec<String> {
        let lines = cluster.settled(arguments).stdout();
        let name = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            format!("{}/{}", row["kind"].as_str().unwrap(), row["name"].as_str().unwrap())
        };
        lines.lines().map(name).collect()
    };
    assert_eq!(names("status ns/shop -n default -o jsonl"), ["Namespace/shop"]);
    let both = names("status configmaps,namespaces -n shop -o jsonl");
    assert!(
        both.contains(&"ConfigMap/web".to_owned()) && both.contains(&"Namespace/shop".to_owned()),
        "{both:?}"
    );
    // No namespace would help.
    let output = cluster.settled("status persistentvolumes -n shop").output();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(!errors.contains("-n NAMESPACE"), "{errors}");
}

#[test]
fn namespaces_are_a_list_for_every_command() {
    let cluster = Cluster::with_objects();
    for command in ["status", "why", "tree"] {
        let output = cluster.settled(&format!("{command} cm/web -n shop,default")).output();
        let text = String::from_utf8(output.stdout).unwrap();
        // It is in one of them.
        assert!(text.contains("Current") && text.contains("NotFound"), "{command}: {text}");
        assert_eq!(output.status.code(), Some(3), "{command}: {text}");
    }
    assert_eq!(cluster.settled("wait cm/web -n shop,shop -q").code(), 0);
    assert_eq!(cluster.settled("wait cm/web -n shop, -q").code(), 2);
    assert_eq!(cluster.settled("wait -f web.yaml -n shop,default -q").code(), 2);
}

#[test]
fn a_mistyped_name_is_recognized() {
    let cluster = Cluster::with_objects();
    for command in ["status", "why", "tree"] {
        let output = cluster.settled(&format!("{command} cm/wbe -n shop")).output();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}: {errors}");
        let wanted = r#"no ConfigMap/wbe in namespace shop; there is "web""#;
        assert!(errors.contains(wanted), "{command}: {errors}");
    }
    let output = cluster.settled("status cm/web -n nowhere").output();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains(r#"namespace "nowhere" does not exist"#), "{errors}");
}
