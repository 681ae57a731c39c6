//! `status`, `why` and `events` with `--watch` in a pipe.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::live::{AVAILABLE, Cluster};
use crate::support::settled;

/// A command that watches, and what it prints.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(cluster: &Cluster, arguments: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_settled"))
            .env_clear()
            .env("KUBECONFIG", &cluster.server.kubeconfig)
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn interrupt(mut self) -> i32 {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

#[test]
fn status_prints_a_line_per_change() {
    let cluster = Cluster::with_objects();
    // In an overview, what is done is news only when it was not before.
    for arguments in ["status deploy/web -n shop -w -o jsonl", "status -n shop -w -o jsonl"] {
        let mut watching = Watching::start(&cluster, arguments);
        let status = |row: Value| (row["name"].clone(), row["status"].clone());
        assert_eq!(status(watching.json()), ("web".into(), "InProgress".into()), "{arguments}");
        cluster.report_status(AVAILABLE);
        assert_eq!(status(watching.json()), ("web".into(), "Current".into()), "{arguments}");
        assert_eq!(watching.interrupt(), 130, "{arguments}");
        cluster.report_status(r#"{"status":null}"#);
    }
}

#[test]
fn why_explains_what_changes() {
    let cluster = Cluster::with_objects();
    let mut watching = Watching::start(&cluster, "why deploy/web cm/web -n shop --watch -o json");
    let mut first = [watching.json(), watching.json()].map(|target| target["object"]["kind"].to_string());
    first.sort();
    assert_eq!(first, ["\"ConfigMap\"", "\"Deployment\""]);
    cluster.report_status(AVAILABLE);
    let second = watching.json();
    assert_eq!((&second["object"]["kind"], &second["status"]), (&"Deployment".into(), &"Current".into()));
    assert_eq!(watching.interrupt(), 130);
}

#[test]
fn what_has_failed_is_watched_on() {
    let cluster = Cluster::with_objects();
    let given_up = AVAILABLE.replace(
        r#""status":"True","reason":"NewReplicaSetAvailable""#,
        r#""status":"False","reason":"ProgressDeadlineExceeded""#,
    );
    cluster.report_status(&given_up);
    let mut watching = Watching::start(&cluster, "status deploy/web -n shop -w -o jsonl");
    assert_eq!(watching.json()["status"], "Failed");
    cluster.report_status(AVAILABLE);
    assert_eq!(watching.json()["status"], "Current");
    assert_eq!(watching.interrupt(), 130);
}

#[test]
fn events_come_below_the_others() {
    let cluster = Cluster::with_objects();
    let record = |name: &str, reason: &str| {
        let event = format!(
            r#"{{"metadata":{{"name":"{name}"}},"involvedObject":{{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"web"}},
                "reason":"{reason}","message":"m","type":"Warning","lastTimestamp":"2026-11-21T10:00:00Z"}}"#
        );
        let answer = cluster.server.request("POST /api/v1/namespaces/shop/events", &event);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    };
    record("one", "First");
    let mut watching = Watching::start(&cluster, "events cm/web -n shop -w");
    assert!(watching.line().contains("First"));
    record("two", "Second");
    assert!(watching.line().contains("Second"));
    assert_eq!(watching.interrupt(), 130);
}

#[test]
fn files_are_not_watched() {
    let text = settled("status -f examples -w").transcript();
    assert!(
        text.starts_with(
            "exit code: 2\n--- stderr ---\nerror: --watch only applies to objects of a cluster\n"
        ),
        "{text}"
    );
}
