//! Commands for clusters against a real API server.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;

use crate::serve::Served;
use crate::support::{Directory, Run, settled};

/// Two kinds that are done once they are there, one that waits for a user, and the namespace for them.
const MANIFESTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: web}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
";

/// What a controller would say of the Deployment once all of it is there.
pub(crate) const AVAILABLE: &str = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,
    "availableReplicas":2,"conditions":[
    {"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."},
    {"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"ReplicaSet has successfully progressed."}]}}"#;
/// And once it has given up.
const GIVEN_UP: &str = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"unavailableReplicas":2,
    "conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"ReplicaSet \"web-5d9\" has timed out progressing."}]}}"#;

/// A server, and a directory with manifests.
pub(crate) struct Cluster {
    pub(crate) server: Served,
    pub(crate) directory: Directory,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self { server: Served::start(&["--memory"]), directory: Directory::new(&[("web.yaml", MANIFESTS)]) }
    }

    /// With the objects of the manifests in it.
    pub(crate) fn with_objects() -> Self {
        let cluster = Self::start();
        assert_eq!(cluster.settled("apply -f web.yaml -q").code(), 0);
        cluster
    }

    pub(crate) fn settled(&self, arguments: &str) -> Run {
        let kubeconfig = self.server.kubeconfig.to_str().unwrap();
        settled(arguments).env("KUBECONFIG", kubeconfig).dir(&self.directory)
    }

    /// What a command came to, with `[T]` for times.
    pub(crate) fn transcript(&self, arguments: &str) -> String {
        timeless(&self.settled(arguments).transcript())
    }

    pub(crate) fn report_status(&self, status: &str) {
        let head = "PATCH /apis/apps/v1/namespaces/shop/deployments/web/status";
        let answer = self.server.request_of_type("application/merge-patch+json", head, status);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// `[T]` for what looks like a duration.
pub(crate) fn timeless(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_end_matches([',', ':', ')']);
        word.strip_suffix('s').is_some_and(|number| {
            number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'm'))
        })
    };
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let mut words: Vec<String> = line[indent..].split(' ').map(str::to_owned).collect();
        for word in &mut words {
            if is_time(word) {
                let end = word.trim_end_matches([',', ':', ')']).len();
                word.replace_range(..end, "[T]");
            }
        }
        // Times at the beginning of lines are filled up.
        let indent = if words[0] == "[T]" { 2 } else { indent };
        format!("{}{}\n", " ".repeat(indent), words.join(" "))
    };
    text.lines().map(line).collect()
}

#[test]
fn apply_begins_with_what_others_need() {
    let cluster = Cluster::start();
    assert_snapshot!(cluster.transcript("apply -f web.yaml --dry-run"), @r#"
    exit code: 1
    --- stdout ---
    namespace/shop created (server dry run)
    --- stderr ---
    error: configmap/web: namespaces "shop" not found
    hint: a dry run does not create namespace shop; create it first
    error: deployment.apps/web: namespaces "shop" not found
    hint: a dry run does not create namespace shop; create it first
    error: 2 of 3 objects not applied
    "#);
    assert_snapshot!(cluster.transcript("apply -f web.yaml"), @"
    exit code: 0
    --- stdout ---
    namespace/shop created
    configmap/web created
    deployment.apps/web created
    --- stderr ---
    waiting for Namespace/shop before the rest
    ");
    let again = cluster.settled("apply -f web.yaml").stdout();
    // The server notes, the second time, who made the Namespace; that is no change of it.
    assert_eq!(again, "namespace/shop unchanged\nconfigmap/web unchanged\ndeployment.apps/web unchanged\n");
    // Another manager owns fields.
    cluster.directory.write("scaled.yaml", &MANIFESTS.replace("replicas: 2", "replicas: 5"));
    assert_snapshot!(cluster.transcript("apply -f scaled.yaml --field-manager other --wait"), @r#"
    exit code: 1
    --- stdout ---
    namespace/shop unchanged
    configmap/web unchanged
    --- stderr ---
    error: deployment.apps/web: .spec.replicas is owned by settled
    hint: remove these fields from the manifest to leave them to their owners, or take them over with --force-conflicts
    error: 1 of 3 objects not applied; not waiting
    "#);
    assert_eq!(cluster.settled("apply -f scaled.yaml --field-manager other --force-conflicts").code(), 0);
    let lines = cluster.settled("apply -f web.yaml --force-conflicts -o jsonl").stdout();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["result"]), (&"applied".into(), &"configured".into()), "{last}");
    assert_eq!(last["fields"], serde_json::json!(["spec.replicas"]));
}

#[test]
fn apply_and_wait_are_one_command() {
    let cluster = Cluster::start();
    let text = cluster.transcript("apply -f web.yaml --wait --timeout 0");
    assert!(text.starts_with("exit code: 3\n"), "{text}");
    assert!(text.contains("configmap/web created\n"), "{text}");
    assert!(text.contains("Deployment/web"), "{text}");
    assert_snapshot!(cluster.transcript("apply -f web.yaml --wait --dry-run=server"), @"
    exit code: 2
    --- stderr ---
    error: cannot combine --dry-run with --wait
    ");
}

#[test]
fn waiting_for_what_is_done_takes_no_time() {
    let cluster = Cluster::with_objects();
    cluster.report_status(AVAILABLE);
    assert_snapshot!(cluster.transcript("wait cm/web -n shop"), @"
    exit code: 0
    --- stderr ---
      [T]    watching 1 object: 1 done, 0 waiting
      [T]  ✓ done already: ConfigMap/web
    ✓ settled after [T] in shop: 1/1 done
    ");
    assert_snapshot!(cluster.transcript("wait deploy/web -n shop --for=condition=Available -q"), @"exit code: 0");
    assert_snapshot!(cluster.settled("wait deploy/web cm/web -n shop -o name").stdout(), @"
    deployment.apps/web
    configmap/web
    ");
    let text = cluster
        .settled("wait deploy web -n shop --for=condition=available --for jsonpath=.status.replicas=2");
    assert_snapshot!(text.stdout(), @"deployment.apps/web condition met");
    assert_snapshot!(cluster.settled("wait cm nope -n shop --for=delete").stdout(), @"configmap/nope condition met");
    assert_eq!(cluster.settled("wait -f web.yaml -q --timeout 20s").code(), 0);
    assert_eq!(cluster.settled("wait deploy -l app=none --all-namespaces --timeout 0 -q").code(), 3);
}

#[test]
fn a_wait_that_fails_says_why_in_every_format() {
    let cluster = Cluster::with_objects();
    cluster.report_status(GIVEN_UP);
    let summary = cluster.directory.path().join("summary.md");
    assert_snapshot!(cluster.transcript("wait -f web.yaml --report junit=out.xml --report jsonl=out.jsonl"), @"
    exit code: 1
    --- stderr ---
      [T]    watching 3 objects: 2 done, 0 waiting, 1 failed
      [T]  ✗ Failed      Deployment/web  ProgressDeadlineExceeded  no progress within progressDeadlineSeconds · won't recover by itself
      [T]  ✓ done already: ConfigMap/web, Namespace/shop

    ✗ Deployment/web  Failed  ProgressDeadlineExceeded  for [T]
        no progress within progressDeadlineSeconds
        won't recover by itself
        next: kubectl describe deployment web -n shop

    ✗ failed after [T] in shop (2/3 done, 1 failed): Deployment/web: ProgressDeadlineExceeded: no progress within progressDeadlineSeconds
    ");
    let junit = fs::read_to_string(cluster.directory.path().join("out.xml")).unwrap();
    assert!(junit.contains(r#"tests="3" failures="1" errors="0" skipped="0""#), "{junit}");
    assert!(junit.contains(r#"<failure type="ProgressDeadlineExceeded""#), "{junit}");
    let lines = fs::read_to_string(cluster.directory.path().join("out.jsonl")).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["outcome"]), (&"finished".into(), &"failed".into()), "{last}");

    let github =
        cluster.settled("wait -f web.yaml -o github").env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap());
    let github = github.output();
    assert_eq!(github.status.code(), Some(1));
    let log = String::from_utf8(github.stdout).unwrap();
    assert!(log.contains("\n::error title=Deployment/web failed%3A ProgressDeadlineExceeded::"), "{log}");
    let summary = fs::read_to_string(summary).unwrap();
    assert!(summary.starts_with("### ✗ failed after"), "{summary}");

    let json: Value = serde_json::from_str(&cluster.settled("wait -f web.yaml -o json").stdout()).unwrap();
    assert_eq!(json["counts"]["failed"], 1, "{json}");
    let yaml = cluster.settled("wait -f web.yaml -o yaml").stdout();
    assert!(yaml.contains("\nelapsed: ") || yaml.starts_with("outcome: failed\n"), "{yaml}");
    assert_eq!(cluster.settled("wait -f web.yaml -o jsonl").output().stderr, b"");
}

#[test]
fn a_wait_ends_with_the_time_it_was_given() {
    let cluster = Cluster::with_objects();
    assert_snapshot!(cluster.transcript("wait deploy/web cm/web -n shop --timeout 0"), @"
    exit code: 3
    --- stderr ---
      [T]    watching 2 objects: 1 done, 1 waiting
      [T]  ✓ done already: ConfigMap/web

    • Deployment/web  InProgress  NotObserved  for [T]
        the controller has not observed the object yet
        next: kubectl describe deployment web -n shop

    ✗ timed out after [T] in shop (1/2 done): Deployment/web: NotObserved: the controller has not observed the object yet
    ");
}

#[test]
fn what_is_wrong_with_the_arguments_is_said_before_anything_is_asked() {
    let directory = Directory::new(&[("bad.yaml", "kind: Pod\n---\n- 1\n")]);
    let transcript =
        |arguments: &str| settled(arguments).env("KUBECONFIG", "/nonexistent").dir(&directory).transcript();
    assert_snapshot!(transcript("wait"), @"
    exit code: 2
    --- stderr ---
    error: no targets given
    hint: name them (deploy/web), select them (pods -l app=web), or pass their manifests (-f FILE, -f -)
    ");
    assert_snapshot!(transcript("wait pods"), @"
    exit code: 2
    --- stderr ---
    error: no objects of type `pods` given
    hint: name them (pods/NAME), select them (-l app=web), or use --all
    ");
    assert_snapshot!(transcript("wait pods --all --for=redy"), @r#"
    exit code: 2
    --- stderr ---
    error: --for: unrecognized condition: "redy"; for the condition of this name write condition=redy
    hint: settled wait --help lists the conditions
    "#);
    assert_snapshot!(transcript("wait -f bad.yaml"), @"
    exit code: 2
    --- stderr ---
    error: the input contains documents that are not objects
      bad.yaml, object 0: the object has no metadata.name
      bad.yaml:3:1: expected an object as the item of a list
    ");
    assert_snapshot!(transcript("wait pods --all --grace crashes=1m"), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'crashes=1m' for '--grace <CLASS=DURATION>': unknown failure class `crashes`; known are image, crash, configuration, quota, scheduling, probe, deadline, job, storage, network, deletion, other

    For more information, try '--help'.
    ");
    assert_snapshot!(transcript("wait --release web"), @r#"
    exit code: 2
    --- stderr ---
    error: invalid value 'web' for '--release <TYPE/NAME>': "web" names no release; write one of helm/NAME, kustomization/NAME, helmrelease/NAME, application/NAME, inventory/NAME, applyset/NAME

    For more information, try '--help'.
    "#);
    assert_snapshot!(transcript("wait pod/a --report junit=no/such/directory/x.xml"), @"
    exit code: 2
    --- stderr ---
    error: cannot write no/such/directory/x.xml: No such file or directory
    ");
    assert_snapshot!(transcript("wait pod/a"), @r#"
    exit code: 4
    --- stderr ---
    error: no kubeconfig at /nonexistent (and not running inside a cluster)
    hint: select another one with --kubeconfig FILE and --context NAME
    "#);
}

#[test]
fn a_missing_permission_is_named() {
    let cluster = Cluster::with_objects();
    let text = cluster.transcript("wait deploy/web -n shop --as nobody");
    assert!(text.starts_with("exit code: 4\n"), "{text}");
    for word in ["nobody", "deployments", "shop"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(cluster.settled("why deploy/web -n shop --as nobody").code(), 4);
    assert_eq!(cluster.settled("status deploy/web -n shop --as nobody").code(), 4);
}

#[test]
fn a_kind_that_is_not_there_has_names_like_it() {
    let cluster = Cluster::start();
    assert_snapshot!(cluster.transcript("wait deploymets/web"), @"
    exit code: 2
    --- stderr ---
    error: the cluster has no kind `deploymets`
    hint: similar kinds: deployments.apps
    ");
    assert_snapshot!(cluster.transcript("wait --release helm/shop"), @"
    exit code: 2
    --- stderr ---
    error: helm/shop: namespace default has no such release; `helm list -A` shows where releases are
    ");
}

#[test]
fn why_tree_events_and_status() {
    let cluster = Cluster::with_objects();
    cluster.report_status(GIVEN_UP);
    let event = r#"{"metadata":{"name":"web.1","namespace":"shop"},"type":"Warning","reason":"Nonsense","message":"a\u001b[2J",
        "involvedObject":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"},
        "firstTimestamp":"2026-11-21T10:00:00Z","lastTimestamp":"2026-11-21T10:00:00Z","count":1}"#;
    let head = "POST /api/v1/namespaces/shop/events";
    let answer = cluster.server.request(head, event);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");

    let text = cluster.transcript("why deploy/web cm/web -n shop");
    assert!(text.starts_with("exit code: 1\n--- stdout ---\n"), "{text}");
    assert!(text.contains("Deployment/web  Failed  ProgressDeadlineExceeded"), "{text}");
    let json: Value =
        serde_json::from_str(&cluster.settled("why deploy/web -n shop -o json").stdout()).unwrap();
    assert_eq!(json["targets"][0]["reason"], "ProgressDeadlineExceeded");

    assert_snapshot!(cluster.transcript("tree deploy/web cm/web -n shop"), @"
    exit code: 1
    --- stdout ---
    OBJECT          STATUS   AGE  REASON
    Deployment/web  Failed   [T]   ProgressDeadlineExceeded  no progress within progressDeadlineSeconds
    ConfigMap/web   Current  [T]   NoStatusKind              ConfigMap has no status to wait for
    ");
    let text = cluster.settled("events deploy/web -n shop").stdout();
    assert!(text.contains(r"Warning  Deployment/web  Nonsense  a\u{1b}[2J"), "{text}");
    let json: Value =
        serde_json::from_str(&cluster.settled("events deploy/web -n shop --warnings -o json").stdout())
            .unwrap();
    assert_eq!(json[0]["reason"], "Nonsense");

    assert_snapshot!(cluster.transcript("status deploy,cm -n shop --not-current"), @r#"
    exit code: 1
    --- stdout ---
    STATUS  OBJECT          AGE  REASON                    MESSAGE
    Failed  Deployment/web  [T]   ProgressDeadlineExceeded  ReplicaSet "web-5d9" has timed out progressing. (updated: 2/2, available: 0/2)
    --- stderr ---
    1 object in shop: 1 Failed (2 not shown, [TIME])
    "#);
    assert_snapshot!(cluster.settled("status cm/web -n shop -o jsonl").stdout(), @r#"{"source":"cluster","document":0,"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"web","status":"Current","reason":"NoStatusKind","message":"ConfigMap has no status to wait for","basis":"no-status-kind","confidence":"verified-rule","conditions":[]}"#);
    assert_eq!(cluster.settled("status cm/nope -n shop -q").code(), 3);
    assert_snapshot!(cluster.transcript("status cm -n shop -f web.yaml"), @"
    exit code: 2
    --- stderr ---
    error: cannot combine -f with objects of a cluster
    hint: to evaluate the objects of files in a cluster, use settled wait -f FILE --timeout 0
    ");
}

#[test]
fn reports_are_files_that_can_be_written() {
    let cluster = Cluster::with_objects();
    let arguments = "wait cm/web -n shop -q --report github=s.md --report json=r.json";
    assert_eq!(cluster.settled(arguments).code(), 0);
    let directory: &Path = cluster.directory.path();
    assert!(fs::read_to_string(directory.join("s.md")).unwrap().contains("| ✓ | ConfigMap/web | Current |"));
    let json: Value = serde_json::from_str(&fs::read_to_string(directory.join("r.json")).unwrap()).unwrap();
    assert_eq!(json["outcome"], "settled");
}
