//! `settled augment`.

use insta::assert_snapshot;

use crate::support::{Directory, augment, config_map, failed_pod, pending_claim};

#[test]
fn json_in_json_lines_out() {
    let input = [config_map("a"), pending_claim("b"), failed_pod("c")].join("\n");
    assert_snapshot!(augment("-f -").stdin(input).transcript(), @r#"
    exit code: 0
    --- stdout ---
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a"}}
    {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"b"},"status":{"phase":"Pending","conditions":[{"type":"Reconciling","status":"True","reason":"NotBound","message":"PVC is Pending","lastTransitionTime":"2026-11-21T10:05:00Z","lastUpdateTime":"2026-11-21T10:05:00Z"}]}}
    {"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"c"},"spec":{},"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory.","conditions":[{"type":"Stalled","status":"True","reason":"Evicted","message":"Pod was evicted: The node was low on resource: memory.","lastTransitionTime":"2026-11-21T10:05:00Z","lastUpdateTime":"2026-11-21T10:05:00Z"}]}}
    --- stderr ---
    3 objects written, 2 of them changed (1 file, [TIME])
    "#);
}

#[test]
fn yaml_in_yaml_out() {
    let input = "\
# a comment
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: b, labels: {on: 'yes', n: '1.0'}}
spec: {resources: {requests: {storage: 10Gi}}, mode: 0644}
status: {phase: Pending}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  script: |
    #!/bin/sh
    echo hello
";
    assert_snapshot!(augment("-f -").stdin(input).transcript(), @r#"
    exit code: 0
    --- stdout ---
    ---
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: b
      labels:
        "true": "yes"
        "false": "1.0"
    spec:
      resources:
        requests:
          storage: 10Gi
      mode: 420
    status:
      phase: Pending
      conditions:
      - type: Reconciling
        status: "True"
        reason: NotBound
        message: PVC is Pending
        lastTransitionTime: "2026-11-21T10:05:00Z"
        lastUpdateTime: "2026-11-21T10:05:00Z"
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: a
    data:
      script: |
        #!/bin/sh
        echo hello
    --- stderr ---
    2 objects written, 1 of them changed (1 file, [TIME])
    "#);
}

#[test]
fn the_format_can_be_chosen() {
    let input = [config_map("a"), pending_claim("b")].join("\n");
    assert_snapshot!(augment("-f - -o json -q").stdin(input.clone()).transcript(), @r#"
    exit code: 0
    --- stdout ---
    {"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a"}},
    {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"b"},"status":{"phase":"Pending","conditions":[{"type":"Reconciling","status":"True","reason":"NotBound","message":"PVC is Pending","lastTransitionTime":"2026-11-21T10:05:00Z","lastUpdateTime":"2026-11-21T10:05:00Z"}]}}
    ]}
    "#);
    assert_snapshot!(augment("-f - -o yaml -q").stdin(input).transcript(), @r#"
    exit code: 0
    --- stdout ---
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      namespace: shop
      name: a
    ---
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      namespace: shop
      name: b
    status:
      phase: Pending
      conditions:
      - type: Reconciling
        status: "True"
        reason: NotBound
        message: PVC is Pending
        lastTransitionTime: "2026-11-21T10:05:00Z"
        lastUpdateTime: "2026-11-21T10:05:00Z"
    "#);
    assert_eq!(
        augment("-f - -o json -q").stdin("{\"a\": ]}").stdout(),
        "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}\n",
    );
}

#[test]
fn the_first_input_decides_the_format() {
    let directory = Directory::new(&[
        ("blank.json", " \n"),
        ("a.yaml", "apiVersion: v1\nkind: ConfigMap\n"),
        ("b.json", &config_map("b")),
    ]);
    assert_snapshot!(augment("-f blank.json a.yaml b.json").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    ---
    apiVersion: v1
    kind: ConfigMap
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      namespace: shop
      name: b
    --- stderr ---
    2 objects written, 0 of them changed (3 files, [TIME])
    ");
    assert_snapshot!(augment("-f b.json a.yaml").dir(&directory).transcript(), @r#"
    exit code: 0
    --- stdout ---
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"b"}}
    {"apiVersion":"v1","kind":"ConfigMap"}
    --- stderr ---
    2 objects written, 0 of them changed (2 files, [TIME])
    "#);
}

/// What cannot be amended is named. An object is written as it is; what is no object cannot be written.
#[test]
fn nothing_is_lost_in_silence() {
    let odd = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"odd"},"status":{"conditions":"none"}}"#;
    let input = [config_map("a"), odd.to_owned(), "{\"a\": ]}".to_owned(), config_map("b")].join("\n");
    assert_snapshot!(augment("--profile kstatus -f - missing.json").stdin(input).transcript(), @r#"
    exit code: 2
    --- stdout ---
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a"},"status":{"conditions":[]}}
    {"apiVersion":"v1","kind":"Pod","metadata":{"name":"odd"},"status":{"conditions":"none"}}
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"b"},"status":{"conditions":[]}}
    --- stderr ---
    error: -#1: Pod/odd: cannot restore slice from string; written unchanged
    error: -#2: line 3, column 7: expected a value; omitted
    error: -#3: line 3, column 8: expected a JSON object, or '---' before YAML; omitted
    error: cannot read missing.json: No such file or directory
    3 objects written, 2 of them changed (1 file, [TIME])
    "#);
}

/// A settled object stays what it was, to the byte; its JSON lines come out as they went in.
#[test]
fn nothing_else_changes() {
    let input = r#"{"kind":"ConfigMap","apiVersion":"v1","z":1,"metadata":{"name":"a"},"n":1.50,"big":123456789012345678901234567890,"e":"\u00e9\/"}"#;
    assert_eq!(augment("-f -").stdin(input).stdout(), format!("{input}\n"));
}

#[test]
fn twice_is_once() {
    let input = [config_map("a"), pending_claim("b"), failed_pod("c")].join("\n");
    let once = augment("-f -").stdin(input).stdout();
    assert_eq!(augment("-f -").stdin(once.clone()).stdout(), once);
}
