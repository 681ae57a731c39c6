//! The log: a line for each request and each change, and nothing that is secret at any level.

use std::fs::{self, File};

use insta::assert_snapshot;

use crate::live::Cluster;
use crate::serve::{self, Served};
use crate::support::{Directory, settled};

const TOKEN: &str = "4711-token-of-jane";
const SECRET: &str = "what-nobody-may-read";
/// The same in base64.
const ENCODED: &str = "d2hhdC1ub2JvZHktbWF5LXJlYWQ=";

/// The lines of a log with `T` for the time of day and for durations.
fn timeless(log: &str) -> String {
    let is_time = |word: &str| word.len() == 24 && word.ends_with('Z') && word.starts_with("20");
    let word = |word: &str| match word.split_once('=') {
        Some((name @ ("latency_ms" | "elapsed_ms"), _)) => format!("{name}=T"),
        Some((name @ ("server" | "address"), _)) => format!("{name}=URL"),
        None if is_time(word) => "T".to_owned(),
        _ => word.to_owned(),
    };
    let lines = log.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_server_logs_each_request_once() {
    let server = Served::start(&["--memory", "--log-level", "info"]);
    for path in [
        "/api/v1/namespaces/default?pretty=false",
        "/apis/apps/v1/deployments?limit=5",
        "/api/v1/namespaces/shop/secrets/none",
        "/nothing?token=unlogged",
        "/api/v1/namespaces?watch=true&timeoutSeconds=1&resourceVersion=0",
    ] {
        server.request(&format!("GET {path}"), "");
    }
    let config_map = r#"{"metadata":{"name":"a"},"data":{"a":"unlogged"}}"#;
    server.request("POST /api/v1/namespaces/default/configmaps", config_map);
    let (_, errors) = server.end("TERM");
    let log: Vec<&str> = errors.lines().filter(|line| line.contains(" INFO ")).collect();
    assert_snapshot!(timeless(&log.join("\n")), @"
    T INFO settled_apiserver::server: listening address=URL
    T INFO settled_apiserver::http::trace: response verb=get version=v1 resource=namespaces namespace=default name=default user=kubernetes-admin code=200 latency_ms=T
    T INFO settled_apiserver::http::trace: response verb=list group=apps version=v1 resource=deployments user=kubernetes-admin code=200 latency_ms=T
    T INFO settled_apiserver::http::trace: response verb=get version=v1 resource=secrets namespace=shop name=none user=kubernetes-admin code=404 latency_ms=T
    T INFO settled_apiserver::http::trace: response verb=get path=/nothing user=kubernetes-admin code=404 latency_ms=T
    T INFO settled_apiserver::http::trace: response verb=watch version=v1 resource=namespaces user=kubernetes-admin code=200 latency_ms=T events=4
    T INFO settled_apiserver::http::trace: response verb=create version=v1 resource=configmaps namespace=default user=kubernetes-admin code=201 latency_ms=T
    T INFO settled_apiserver::server: stopped drained=true
    ");
    assert!(!errors.contains("unlogged"), "{errors}");
}

#[test]
fn nothing_secret_is_logged_at_any_level() {
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: top, namespace: default}}\nstringData: {{a: {SECRET}}}\n"
    );
    let users = format!("{TOKEN},jane,1,\"system:masters\"\n");
    let directory = Directory::new(&[("secret.yaml", &secret), ("users.csv", &users)]);
    let (users, log) = (directory.path().join("users.csv"), directory.path().join("server.log"));
    let mut command = serve::command(&["--memory", "--token-auth-file", users.to_str().unwrap()]);
    // A pipe that nobody reads would stop the server.
    command.env("RUST_LOG", "trace").stderr(File::create(&log).unwrap());
    let server = Served::spawn(command);

    let run = |arguments: &str| {
        let run = settled(arguments).arg("--token").arg(TOKEN).dir(&directory);
        let run = run.env("KUBECONFIG", server.kubeconfig.to_str().unwrap()).env("RUST_LOG", "trace");
        let output = run.output();
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        String::from_utf8(output.stderr).unwrap()
    };
    let mut logs = run("apply -f secret.yaml --wait");
    logs.push_str(&run("wait secret/top --for=jsonpath={.data.a} -o jsonl"));
    logs.push_str(&run("status secrets"));
    // It is there, for those who ask.
    assert!(server.request("GET /api/v1/namespaces/default/secrets/top", "").contains(ENCODED));
    drop(server);

    let served = fs::read_to_string(log).unwrap();
    let expected = [
        (&logs, "settled_watch::cluster: response"),
        (&logs, "settled_watch::stream: listed resource=secrets"),
        (&logs, "settled_watch::stream: event "),
        (&logs, "settled_tracker::tracker::log: state changed object=Secret/top namespace=default"),
        // Those of the libraries below are in it.
        (&logs, "TRACE h2::"),
        (&served, "settled_apiserver::http::trace: response verb=patch"),
        (&served, "TRACE h2::"),
    ];
    for (log, text) in expected {
        assert!(log.contains(text), "no {text:?} in:\n{log}");
    }
    for text in [TOKEN, SECRET, ENCODED] {
        for line in logs.lines().chain(served.lines()) {
            assert!(!line.contains(text), "{line}");
        }
    }
}

#[test]
fn a_wait_logs_what_changes() {
    let cluster = Cluster::with_objects();
    let errors = |arguments: &str| {
        let output = cluster.settled(arguments).output();
        String::from_utf8(output.stderr).unwrap()
    };
    let log = errors("wait cm/web -n shop --log-level info -q");
    assert_snapshot!(timeless(&log), @r#"
    T INFO settled_watch::cluster: connected server=URL
    T INFO settled_watch::stream: listed resource=configmaps namespace=shop fields="metadata.name=web" objects=1
    T INFO settled_tracker::tracker::log: all targets read total=1 done=0 waiting=1 failed=0
    T INFO settled_tracker::tracker::log: state changed object=ConfigMap/web namespace=shop before=Waiting state=Done status=Current reason=NoStatusKind
    T INFO settled_tracker::tracker::log: wait ended outcome=Settled total=1 done=1 waiting=0 failed=0 elapsed_ms=T
    "#);
    let debug = errors("wait cm/web -n shop --log-level debug -q");
    for text in [
        " DEBUG settled_watch::cluster: response verb=discovery method=GET path=/apis code=200 ",
        " DEBUG settled_watch::cluster: response resource=configmaps namespace=shop fields=\"metadata.name=web\" initial_list=true verb=watch ",
    ] {
        assert!(debug.contains(text), "no {text:?} in:\n{debug}");
    }
    assert_eq!(errors("wait cm/web -n shop -q"), "");
    assert_eq!(errors("wait cm/web -n shop -q --log-level off"), "");
    // A level that there isn't is the caller's error; a variable may be about other programs.
    assert_eq!(cluster.settled("wait cm/web -n shop -q --log-level loud").code(), 2);
    let output = cluster.settled("wait cm/web -n shop -q").env("RUST_LOG", "settled=loud").output();
    assert_eq!(output.status.code(), Some(0));
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r#"warning: RUST_LOG is ignored: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5; use a list such as settled=info,settled_watch=debug"#);
}
