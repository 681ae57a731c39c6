//! Machine-readable output.

use insta::assert_snapshot;

use crate::support::{augment, config_map, deleted_secret, failed_pod, pending_claim, silent, status};

fn all() -> String {
    [
        config_map("a"),
        pending_claim("b"),
        failed_pod("c"),
        deleted_secret("d"),
        silent("e"),
        "{\"a\": ]}".into(),
    ]
    .join("\n")
}

#[test]
fn json_lines() {
    assert_snapshot!(status("-f - -o jsonl").stdin(all()).transcript(), @r#"
    exit code: 1
    --- stdout ---
    {"source":"-","document":0,"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"a","status":"Current","reason":"NoStatusKind","message":"ConfigMap has no status to wait for","basis":"no-status-kind","confidence":"verified-rule","conditions":[]}
    {"source":"-","document":1,"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"shop","name":"b","status":"InProgress","reason":"NotBound","message":"PVC is Pending","basis":"kind-rule","confidence":"verified-rule","failureClass":"storage","terminal":false,"conditions":[{"type":"Reconciling","status":"True","reason":"NotBound","message":"PVC is Pending"}]}
    {"source":"-","document":2,"apiVersion":"v1","kind":"Pod","namespace":"shop","name":"c","status":"Failed","reason":"Evicted","message":"Pod was evicted: The node was low on resource: memory.","basis":"kind-rule","confidence":"verified-rule","failureClass":"scheduling","terminal":true,"conditions":[{"type":"Stalled","status":"True","reason":"Evicted","message":"Pod was evicted: The node was low on resource: memory."}]}
    {"source":"-","document":3,"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"d","status":"Terminating","reason":"FinalizersRemaining","message":"being deleted, held by finalizer example.com/hold for 5m","basis":"deletion","confidence":"verified-rule","failureClass":"deletion","terminal":false,"conditions":[]}
    {"source":"-","document":4,"apiVersion":"example.com/v1","kind":"Widget","namespace":"web","name":"e","status":"Unknown","reason":"NoSignal","message":"the object has no status, and its kind has no rule","basis":"nothing","confidence":"none","conditions":[]}
    {"source":"-","document":5,"status":"Unknown","reason":"Malformed","message":"line 6, column 7: expected a value","basis":"nothing","confidence":"none","conditions":[],"problems":[{"path":"","message":"line 6, column 7: expected a value"}]}
    {"source":"-","document":6,"status":"Unknown","reason":"Malformed","message":"line 6, column 8: expected a JSON object, or '---' before YAML","basis":"nothing","confidence":"none","conditions":[],"problems":[{"path":"","message":"line 6, column 8: expected a JSON object, or '---' before YAML"}]}
    --- stderr ---
    7 objects: 1 Failed, 3 Unknown, 1 Terminating, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    "#);
}

#[test]
fn json() {
    assert_snapshot!(status("-f - -o json").stdin(all()).transcript(), @r#"
    exit code: 1
    --- stdout ---
    [
    {"source":"-","document":0,"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"a","status":"Current","reason":"NoStatusKind","message":"ConfigMap has no status to wait for","basis":"no-status-kind","confidence":"verified-rule","conditions":[]},
    {"source":"-","document":1,"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"shop","name":"b","status":"InProgress","reason":"NotBound","message":"PVC is Pending","basis":"kind-rule","confidence":"verified-rule","failureClass":"storage","terminal":false,"conditions":[{"type":"Reconciling","status":"True","reason":"NotBound","message":"PVC is Pending"}]},
    {"source":"-","document":2,"apiVersion":"v1","kind":"Pod","namespace":"shop","name":"c","status":"Failed","reason":"Evicted","message":"Pod was evicted: The node was low on resource: memory.","basis":"kind-rule","confidence":"verified-rule","failureClass":"scheduling","terminal":true,"conditions":[{"type":"Stalled","status":"True","reason":"Evicted","message":"Pod was evicted: The node was low on resource: memory."}]},
    {"source":"-","document":3,"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"d","status":"Terminating","reason":"FinalizersRemaining","message":"being deleted, held by finalizer example.com/hold for 5m","basis":"deletion","confidence":"verified-rule","failureClass":"deletion","terminal":false,"conditions":[]},
    {"source":"-","document":4,"apiVersion":"example.com/v1","kind":"Widget","namespace":"web","name":"e","status":"Unknown","reason":"NoSignal","message":"the object has no status, and its kind has no rule","basis":"nothing","confidence":"none","conditions":[]},
    {"source":"-","document":5,"status":"Unknown","reason":"Malformed","message":"line 6, column 7: expected a value","basis":"nothing","confidence":"none","conditions":[],"problems":[{"path":"","message":"line 6, column 7: expected a value"}]},
    {"source":"-","document":6,"status":"Unknown","reason":"Malformed","message":"line 6, column 8: expected a JSON object, or '---' before YAML","basis":"nothing","confidence":"none","conditions":[],"problems":[{"path":"","message":"line 6, column 8: expected a JSON object, or '---' before YAML"}]}
    ]
    --- stderr ---
    7 objects: 1 Failed, 3 Unknown, 1 Terminating, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    "#);
    assert_eq!(status("-f - -o json --status NotFound").stdin(all()).stdout(), "[]\n");
}

#[test]
fn yaml() {
    assert_snapshot!(status("-f - -o yaml").stdin(all()).transcript(), @r#"
    exit code: 1
    --- stdout ---
    ---
    source: '-'
    document: 0
    apiVersion: v1
    kind: ConfigMap
    namespace: shop
    name: a
    status: Current
    reason: NoStatusKind
    message: ConfigMap has no status to wait for
    basis: no-status-kind
    confidence: verified-rule
    conditions: []
    ---
    source: '-'
    document: 1
    apiVersion: v1
    kind: PersistentVolumeClaim
    namespace: shop
    name: b
    status: InProgress
    reason: NotBound
    message: PVC is Pending
    basis: kind-rule
    confidence: verified-rule
    failureClass: storage
    terminal: false
    conditions:
    - type: Reconciling
      status: "True"
      reason: NotBound
      message: PVC is Pending
    ---
    source: '-'
    document: 2
    apiVersion: v1
    kind: Pod
    namespace: shop
    name: c
    status: Failed
    reason: Evicted
    message: 'Pod was evicted: The node was low on resource: memory.'
    basis: kind-rule
    confidence: verified-rule
    failureClass: scheduling
    terminal: true
    conditions:
    - type: Stalled
      status: "True"
      reason: Evicted
      message: 'Pod was evicted: The node was low on resource: memory.'
    ---
    source: '-'
    document: 3
    apiVersion: v1
    kind: Secret
    namespace: shop
    name: d
    status: Terminating
    reason: FinalizersRemaining
    message: being deleted, held by finalizer example.com/hold for 5m
    basis: deletion
    confidence: verified-rule
    failureClass: deletion
    terminal: false
    conditions: []
    ---
    source: '-'
    document: 4
    apiVersion: example.com/v1
    kind: Widget
    namespace: web
    name: e
    status: Unknown
    reason: NoSignal
    message: the object has no status, and its kind has no rule
    basis: nothing
    confidence: none
    conditions: []
    ---
    source: '-'
    document: 5
    status: Unknown
    reason: Malformed
    message: 'line 6, column 7: expected a value'
    basis: nothing
    confidence: none
    conditions: []
    problems:
    - path: ""
      message: 'line 6, column 7: expected a value'
    ---
    source: '-'
    document: 6
    status: Unknown
    reason: Malformed
    message: 'line 6, column 8: expected a JSON object, or ''---'' before YAML'
    basis: nothing
    confidence: none
    conditions: []
    problems:
    - path: ""
      message: 'line 6, column 8: expected a JSON object, or ''---'' before YAML'
    --- stderr ---
    7 objects: 1 Failed, 3 Unknown, 1 Terminating, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    "#);
}

/// The YAML says what the JSON says, as our own reader reads it.
#[test]
fn yaml_is_json() {
    let lines = status("-f - -o jsonl").stdin(all()).stdout();
    let yaml = status("-f - -o yaml").stdin(all()).stdout();
    let again = augment("--profile kstatus -o jsonl -f -").stdin(yaml).stdout();
    for (line, again) in lines.lines().zip(again.lines()) {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut again: serde_json::Value = serde_json::from_str(again).unwrap();
        // A row is no object with a map as its status: whatever augment did about that does not matter here.
        for row in [&mut line, &mut again] {
            row.as_object_mut().unwrap().remove("status");
        }
        assert_eq!(line, again);
    }
    assert_eq!(lines.lines().count(), again.lines().count());
}

#[test]
fn exit_codes() {
    #[track_caller]
    fn check(objects: &[String], expected: i32) {
        assert_eq!(status("-q -f -").stdin(objects.join("\n")).code(), expected, "{objects:?}");
    }
    let (current, waiting, failed) = (config_map("a"), pending_claim("b"), failed_pod("c"));
    check(std::slice::from_ref(&current), 0);
    check(&[current.clone(), waiting.clone()], 3);
    check(&[deleted_secret("d")], 3);
    check(&[silent("e")], 3);
    check(&["{\"a\": ]}".to_owned()], 3);
    check(&[waiting.clone(), failed.clone()], 1);
    check(&[failed, "{\"a\": ]}".to_owned(), current], 1);
    assert_eq!(status("-q -f - missing.yaml").stdin(waiting).code(), 2);
}

#[test]
fn quiet_says_nothing() {
    assert_snapshot!(status("-q -f -").stdin(all()).transcript(), @"exit code: 1");
}

/// What the README shows.
#[test]
fn examples() {
    assert_snapshot!("examples", status("-f examples").transcript());
    assert_snapshot!("examples-100", status("-f examples --width 100").transcript());
}
