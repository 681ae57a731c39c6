//! Rehearsals when things go wrong: each kind of mishap ends with a report that names it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::serve::Served;
use crate::support::{Directory, Run, settled};

fn rehearse(directory: &Directory, arguments: &str) -> Run {
    settled(&format!("rehearse {arguments}")).dir(directory)
}

/// Exit code and report.
fn json(run: Run) -> (i32, Value) {
    let output = run.output();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), report)
}

fn played(directory: &Directory, arguments: &str) -> (i32, Value) {
    json(rehearse(directory, &format!("{arguments} -o json")))
}

/// `CHECK LINE FIELD` of each finding.
fn findings(report: &Value) -> Vec<String> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = report["findings"].as_array().unwrap().iter();
    rows.map(|row| format!("{} {} {}", text(row, "check"), row["line"], text(row, "field"))).collect()
}

/// The messages of a check's findings.
fn messages(report: &Value, check: &str) -> Vec<String> {
    let rows = report["findings"].as_array().unwrap().iter().filter(|row| row["check"] == check);
    rows.map(|row| row["message"].as_str().unwrap().to_owned()).collect()
}

const CALLS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prices.example.com}
spec:
  group: example.com
  names: {kind: Price, plural: prices}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: convert, namespace: default}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Price
metadata: {name: a}
spec: {amount: 1}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: strict}
webhooks:
- name: strict.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: \"https://127.0.0.1:1/\"}
  rules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: policy}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: \"false\"}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system}
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
";

#[test]
fn webhooks_and_policies_are_not_called_and_said() {
    let directory = Directory::new(&[("a.yaml", CALLS)]);
    let (code, report) = played(&directory, "-f a.yaml");
    assert_eq!((code, &report["outcome"]), (0, &"settled".into()), "{report}");
    assert_eq!(
        findings(&report),
        [
            "not-called 9 spec.conversion",
            "not-called 28 webhooks",
            "not-called 38 spec",
            "not-called 46 spec.service",
            "opaque 20 kind",
        ]
    );
}

#[test]
fn generated_names_follow_from_the_seed() {
    let job = "\
apiVersion: batch/v1
kind: Job
metadata: {generateName: migrate-}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
";
    let directory = Directory::new(&[("a.yaml", &*format!("{job}---\n{job}"))]);
    let names = |seed: &str| {
        let (code, report) = played(&directory, &format!("-f a.yaml --seed {seed}"));
        assert_eq!(code, 0, "{report}");
        let targets = report["targets"].as_array().unwrap().iter();
        let names: Vec<_> =
            targets.map(|target| target["object"]["name"].as_str().unwrap().to_owned()).collect();
        assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
        assert!(names.iter().all(|name| name.strip_prefix("migrate-").unwrap().len() == 5), "{names:?}");
        names
    };
    assert_eq!(names("7"), names("7"));
    assert_ne!(names("7"), names("8"));
}

#[test]
fn hooks_that_come_too_early_are_found() {
    let hook = |name: &str, when: &str| {
        format!(
            "\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{helm.sh/hook: {when}}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: b
        envFrom:
        - configMapRef: {{name: settings}}
---
"
        )
    };
    let settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n";
    let before = Directory::new(&[("a.yaml", &*(hook("before", "pre-install") + settings))]);
    let (code, report) = played(&before, "-f a.yaml");
    assert_eq!(code, 1, "{report}");
    let found = findings(&report);
    let field = "spec.template.spec.containers[0].envFrom[0].configMapRef.name";
    assert!(found.contains(&format!("hook-order 14 {field}")), "{found:?}");
    // It is played as well, and does not end.
    assert!(found.contains(&"hook-order 1 ".to_owned()), "{found:?}");
    let after = Directory::new(&[("a.yaml", &*(hook("after", "post-install") + settings))]);
    let (code, report) = played(&after, "-f a.yaml");
    assert_eq!((code, findings(&report)), (0, Vec::new()), "{report}");
}

/// A Service whose address comes only if the scenario lets it.
const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: lb}
spec: {type: LoadBalancer, ports: [{port: 80}]}
";
const NO_ADDRESS: &str = "addresses:\n- {kind: Service, name: lb, takes: never}\n";

#[test]
fn what_never_settles_ends_with_the_virtual_time() {
    let directory = Directory::new(&[("a.yaml", SERVICE), ("never.scenario", NO_ADDRESS)]);
    let (code, report) = played(&directory, "-f a.yaml --scenario never.scenario");
    assert_eq!((code, &report["outcome"]), (3, &"timedOut".into()), "{report}");
    assert_eq!(report["elapsed"], 3600.0);
    assert_eq!(findings(&report), ["unfinished 1 "]);
    let text = rehearse(&directory, "-f a.yaml --scenario never.scenario --timeout 5m").transcript();
    assert!(text.contains("timed out after 5m") && text.contains("NoAddress"), "{text}");
    assert!(text.contains("does the cluster have a load balancer controller?"), "{text}");
}

#[test]
fn errors_in_a_scenario_have_their_places() {
    let bad = "images:\n- image: a\n  fails: sometimes\n- {image: b, color: red}\nnodes:\n- {node: a, dies: soon}\n";
    let directory = Directory::new(&[("a.yaml", SERVICE), ("bad.scenario", bad)]);
    let text = rehearse(&directory, "-f a.yaml --scenario bad.scenario").transcript();
    assert!(text.starts_with("exit code: 2\n"), "{text}");
    for error in ["bad.scenario:3:10: ", "bad.scenario:4:14: ", "bad.scenario:6:19: "] {
        assert!(text.contains(error), "{error}: {text}");
    }
}

#[test]
fn entries_without_effect_are_warnings() {
    let scenario = "images:\n- {image: nothing, fails: not-found}\n- {image: nginx, takes: 2s}\n";
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: nginx}]}}\n";
    let directory = Directory::new(&[("a.yaml", pod), ("some.scenario", scenario)]);
    let (code, report) = played(&directory, "-f a.yaml --scenario some.scenario");
    assert_eq!(code, 0, "{report}");
    let found = messages(&report, "unused-scenario");
    assert!(found.len() == 1 && found[0].starts_with("some.scenario:2:3: "), "{found:?}");
    assert_eq!(played(&directory, "-f a.yaml --scenario some.scenario --strict").0, 1);
}

/// One Pod on a Node that it names, whatever the scheduler would say.
fn pinned(node: &str) -> String {
    format!(
        "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{nodeName: {node}, containers: [{{name: a, image: nginx}}]}}
"
    )
}

#[test]
fn controllers_in_an_endless_loop_are_named() {
    // The eviction of Pods that do not tolerate the taint, and the ReplicaSet, which creates them anew.
    let directory = Directory::new(&[("a.yaml", &*pinned("node-1"))]);
    let text = rehearse(&directory, "-f a.yaml --nodes 1x4cpu,16Gi,taint=a=b:NoExecute").transcript();
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("replicasets default/web was "), "{text}");
    // Programs get the report, too.
    let (code, report) =
        played(&directory, "-f a.yaml --nodes 1x4cpu,16Gi,taint=a=b:NoExecute --report junit=junit.xml");
    assert_eq!((code, &report["outcome"]), (1, &"failed".into()), "{report}");
    let found = messages(&report, "endless-loop");
    assert!(found.len() == 1 && found[0].starts_with("replicasets default/web was "), "{found:?}");
    let junit = std::fs::read_to_string(directory.path().join("junit.xml")).unwrap();
    assert!(junit.contains("endless-loop"), "{junit}");
}

#[test]
fn a_node_that_does_not_exist_ends_in_a_slow_cycle() {
    let directory = Directory::new(&[("a.yaml", &*pinned("missing"))]);
    let (code, report) = played(&directory, "-f a.yaml --timeout 10m");
    assert_eq!((code, &report["outcome"]), (3, &"timedOut".into()), "{report}");
}

#[test]
fn cycles_of_owners_are_found() {
    let map = |name: &str, owner: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  ownerReferences:\n  - apiVersion: v1\n    kind: ConfigMap\n    name: {owner}\n    uid: 11111111-1111-1111-1111-111111111111\n---\n"
        )
    };
    let directory = Directory::new(&[("a.yaml", &*(map("a", "b") + &map("b", "a")))]);
    let (code, report) = played(&directory, "-f a.yaml");
    assert_eq!((code, &report["outcome"]), (1, &"failed".into()), "{report}");
    let found = findings(&report);
    for line in [9, 19] {
        let expected = format!("missing-reference {line} metadata.ownerReferences[0].uid");
        assert!(found.contains(&expected), "{found:?}");
    }
}

/// So many ConfigMaps.
fn many(count: usize) -> Directory {
    let maps = (0..count)
        .map(|number| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\n"));
    Directory::new(&[("a.yaml", &*maps.collect::<String>())])
}

/// How many objects are rehearsed: the bar is 50,000, which take a minute with optimizations.
const OBJECTS: &str = "SETTLED_REHEARSE_OBJECTS";

#[test]
fn many_objects_are_rehearsed() {
    let count = std::env::var(OBJECTS).map_or(1000, |count| count.parse().unwrap());
    let (code, report) = played(&many(count), "-f a.yaml");
    assert_eq!(code, 0);
    assert_eq!(report["counts"]["done"], count);
}

#[test]
fn an_interrupt_ends_with_the_state_so_far() {
    let directory = Directory::new(&[("a.yaml", SERVICE), ("never.scenario", NO_ADDRESS)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    command.env_clear().current_dir(directory.path());
    command.args(["rehearse", "-f", "a.yaml", "--scenario", "never.scenario", "--speed", "1x"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("NoAddress") {
        assert_ne!(errors.read_line(&mut text).unwrap(), 0, "{text}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("interrupted after"), "{text}");
}

#[test]
fn two_rehearsals_at_once_do_not_disturb_each_other() {
    let directory = Directory::new(&[("a.yaml", SERVICE)]);
    std::thread::scope(|scope| {
        let play = || played(&directory, "-f a.yaml --seed 3");
        let (one, other) = (scope.spawn(play), scope.spawn(play));
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        assert_eq!((one.0, other.0), (0, 0));
        // Times of day differ.
        assert_eq!(one.1["targets"][0]["message"], other.1["targets"][0]["message"]);
        assert_eq!(one.1["elapsed"], other.1["elapsed"]);
    });
}

#[test]
fn no_directory_is_written_to() {
    let directory = Directory::new(&[("a.yaml", SERVICE)]);
    let run =
        rehearse(&directory, "-f a.yaml -o json").env("HOME", "/nonexistent").env("TMPDIR", "/nonexistent");
    assert_eq!(json(run).0, 0);
    let files: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["a.yaml"]);
    // Where one is asked for, it is said before anything is played.
    let text = rehearse(&directory, "-f a.yaml --record missing/a.cast").transcript();
    assert!(text.contains("cannot write missing/a.cast"), "{text}");
    assert!(!text.contains("service/lb"), "{text}");
}

#[test]
fn a_dead_node_is_named_as_the_cause() {
    let set = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 10, containers: [{name: db, image: \"postgres:1\"}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
";
    let update = set.replace("postgres:1", "postgres:2");
    // While its Pod on that Node ends.
    let scenario = "nodes:\n- {node: node-2, dies: 10s}\n";
    let directory =
        Directory::new(&[("old/a.yaml", set), ("new/a.yaml", &*update), ("dead.scenario", scenario)]);
    let text = rehearse(&directory, "--from old -f new --scenario dead.scenario").transcript();
    assert!(text.starts_with("exit code: 3\n"), "{text}");
    assert!(text.contains("→ Pod/db-1  Terminating"), "{text}");
    assert!(text.contains("Node/node-2 does not respond"), "{text}");
}

/// A cluster with a Deployment's secret in it, two Nodes, and one that is not ready.
fn live() -> Served {
    let server = Served::start(&["--memory"]);
    let post = |path: &str, body: &str| {
        let answer = server.request(&format!("POST {path}"), body);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    };
    let node = |name: &str, ready: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}},"status":{{"allocatable":{{"cpu":"1","memory":"2Gi","pods":"10"}},"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
        )
    };
    post("/api/v1/nodes", &node("small", "True"));
    post("/api/v1/nodes", &node("off", "Unknown"));
    post("/api/v1/namespaces", r#"{"metadata":{"name":"shop"}}"#);
    post("/api/v1/namespaces/shop/secrets", r#"{"metadata":{"name":"db"},"data":{"password":"c2VjcmV0"}}"#);
    server
}

const USES_A_SECRET: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx
        resources: {requests: {cpu: CPU}}
        env:
        - name: PASSWORD
          valueFrom: {secretKeyRef: {name: db, key: password}}
";

/// Name of the context in a kubeconfig.
fn context(kubeconfig: &str) -> &str {
    let line = kubeconfig.lines().find_map(|line| line.strip_prefix("current-context:")).unwrap();
    line.trim().trim_matches('"')
}

#[test]
fn the_nodes_of_a_cluster_are_those_of_the_rehearsal() {
    let server = live();
    let kubeconfig = std::fs::read_to_string(&server.kubeconfig).unwrap();
    let against = |cpu: &str, more: &str| {
        let directory =
            Directory::new(&[("a.yaml", &*USES_A_SECRET.replace("CPU", cpu)), ("kubeconfig", &*kubeconfig)]);
        let context = context(&kubeconfig);
        played(&directory, &format!("-f a.yaml --kubeconfig kubeconfig --against {context} {more}"))
    };
    let (code, report) = against("500m", "");
    assert_eq!((code, &report["complete"]), (0, &true.into()), "{report}");
    assert_eq!(
        messages(&report, "left-out-node"),
        ["Node off of the cluster is not ready: no Pod is put on it"]
    );
    let (code, report) = against("2", "--timeout 10m");
    assert_eq!(code, 1, "{report}");
    let found = messages(&report, "unschedulable");
    assert!(found.len() == 1 && found[0].contains("0/1 nodes available: Insufficient cpu"), "{found:?}");
    // Other Nodes, because the user says so.
    let (code, report) = against("2", "--nodes 1x4cpu,16Gi");
    assert_eq!((code, findings(&report)), (0, Vec::new()), "{report}");
}

#[test]
fn what_cannot_be_read_of_a_cluster_is_listed_and_assumed() {
    let server = live();
    let kubeconfig = std::fs::read_to_string(&server.kubeconfig).unwrap();
    let client_key = kubeconfig.lines().find(|line| line.contains("client-key-data:")).unwrap();
    let indent = &client_key[..client_key.len() - client_key.trim_start().len()];
    let limited = kubeconfig.replace(client_key, &format!("{client_key}\n{indent}as: nobody"));
    let directory =
        Directory::new(&[("a.yaml", &*USES_A_SECRET.replace("CPU", "2")), ("kubeconfig", &*limited)]);
    let arguments = format!("-f a.yaml --kubeconfig kubeconfig --against {}", context(&kubeconfig));
    let (code, report) = played(&directory, &arguments);
    assert_eq!((code, &report["complete"]), (0, &false.into()), "{report}");
    let unread = messages(&report, "unread");
    for expected in [
        "the rehearsal assumes that Secret \"db\" exists",
        "cannot read nodes of the cluster: nodes is forbidden",
        "cannot read secrets in namespace shop of the cluster, so that nothing is known of them: secrets is forbidden",
    ] {
        assert!(unread.iter().any(|message| message.starts_with(expected)), "{expected}: {unread:?}");
    }
    assert!(findings(&report).iter().all(|row| !row.starts_with("missing")), "{report}");
    let text = rehearse(&directory, &arguments).transcript();
    assert!(text.contains("warning: the rehearsal is incomplete: "), "{text}");
}
