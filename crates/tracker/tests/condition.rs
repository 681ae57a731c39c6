//! `--for`, against kubectl's answers and by itself.
//!
//! `golden/for.yaml` has a table of conditions and objects with what kubectl answers. To ask it anew, after adding rows without `kubectl`:
//!
//! ```sh
//! KUBECTL=path/to/kubectl cargo test -p settled-tracker --test main -- --ignored kubectl_is_asked
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use kstatus::{Basis, Object, Options, Status, Verdict, compute_value};
use proptest::prelude::*;
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_tracker::WaitCondition;
use settled_tracker::request::ConditionResult;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/for.yaml")
}

fn read(text: &str) -> Value {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(text.as_bytes(), &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn whole(name: &str, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = "example.com/v1".into();
    object["kind"] = "Widget".into();
    object["metadata"]["name"] = name.to_lowercase().into();
    object
}

fn flags(case: &Value) -> Vec<&str> {
    match &case["for"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        one => vec![one.as_str().unwrap()],
    }
}

/// `met`, `not met`, or what is wrong.
fn ours(flags: &[&str], object: Option<&Value>) -> String {
    let list = match WaitCondition::parse_all(flags) {
        Ok(list) => list,
        Err(error) => return error.to_string(),
    };
    let verdict = compute_value(object.unwrap_or(&Value::Null), &Options::new(now()));
    let met =
        |object: Option<&Object<'_>>| WaitCondition::met_in_order(&list, &mut 0, object, &verdict, now());
    let text = object.map(Value::to_string);
    let parsed = text.as_deref().map(|text| Object::parse(text.as_bytes()).unwrap());
    let by_bytes = met(parsed.as_ref());
    let by_value = met(object.map(|object| Object::from_value(object).unwrap()).as_ref());
    assert_eq!(by_bytes, by_value, "{flags:?}");
    match by_bytes {
        ConditionResult::Yes => "met".to_owned(),
        ConditionResult::No(_) => "not met".to_owned(),
        ConditionResult::Error(error) => error,
    }
}

#[test]
fn answers_are_kubectls() {
    let table = read(&std::fs::read_to_string(golden()).unwrap());
    let cases = table["cases"].as_array().unwrap();
    let mut differing = Vec::new();
    for case in cases {
        let name = case["object"].as_str();
        let object = name.map(|name| whole(name, &table["objects"][name]));
        let ours = ours(&flags(case), object.as_ref());
        let kubectl = case["kubectl"].as_str().unwrap();
        assert_eq!(case.get("ours").is_some(), case.get("why").is_some(), "{case}");
        let agrees = match case["ours"].as_str() {
            Some(text) => ours == text && text != kubectl,
            // An error may have more words than upstream's.
            None => ours == kubectl || (!["met", "not met"].contains(&kubectl) && ours.contains(kubectl)),
        };
        if !agrees {
            differing.push(format!("{case}\n    ours: {ours}"));
        }
    }
    assert!(cases.len() > 180);
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

/// Writes the answers of a kubectl into the table. It is no test, but it needs the server.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kubectl 1.36.3 in KUBECTL, and writes golden/for.yaml"]
async fn kubectl_is_asked() {
    let kubectl = std::env::var_os("KUBECTL").expect("KUBECTL names kubectl");
    let server = Server::in_memory().await.unwrap();
    let kubeconfig = server.kubeconfig_file().await.unwrap();
    let run = |args: &[&str], input: Option<&Value>| {
        let mut command = Command::new(&kubectl);
        command.args(args).env("KUBECONFIG", kubeconfig.path());
        let file = std::env::temp_dir().join(format!("settled-for-{}.json", std::process::id()));
        if let Some(input) = input {
            std::fs::write(&file, input.to_string()).unwrap();
            command.arg("-f").arg(&file);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    assert_eq!(run(&["create"], Some(&crd)), (true, String::new()));
    let established = ["wait", "--for=condition=Established", "crd/widgets.example.com"];
    assert_eq!(run(&established, None), (true, String::new()));

    let text = std::fs::read_to_string(golden()).unwrap();
    let table = read(&text);
    for (name, object) in table["objects"].as_object().unwrap() {
        assert_eq!(run(&["create"], Some(&whole(name, object))), (true, String::new()));
    }
    let (head, _) = text.split_once("\ncases:\n").unwrap();
    let mut written = format!("{head}\ncases:\n");
    for case in table["cases"].as_array().unwrap() {
        let target = format!("widget/{}", case["object"].as_str().unwrap_or("missing").to_lowercase());
        let conditions: Vec<String> = flags(case).iter().map(|flag| format!("--for={flag}")).collect();
        let mut args = vec!["wait", "--timeout=0s", &target];
        args.extend(conditions.iter().map(String::as_str));
        let (success, error) = run(&args, None);
        let error = error.trim().strip_prefix("error: ").unwrap_or_else(|| error.trim());
        let answer = match success {
            true => "met",
            false if error.starts_with("condition not met for ") => "not met",
            false => error,
        };
        // JSON in the order of reading.
        let mut line = format!(
            "- {{\"object\": {}, \"for\": {}, \"kubectl\": {}",
            case["object"],
            case["for"],
            json!(answer)
        );
        for key in ["ours", "why"] {
            if let Some(value) = case.get(key) {
                line.push_str(&format!(", {}: {value}", json!(key)));
            }
        }
        written.push_str(&line);
        written.push_str("}\n");
    }
    std::fs::write(golden(), written).unwrap();
}

fn met(wanted: &str, object: Option<&Value>) -> String {
    let wanted: WaitCondition = wanted.parse().unwrap();
    let text = object.map(Value::to_string);
    let object = text.as_deref().map(|text| Object::parse(text.as_bytes()).unwrap());
    let options = Options::new(now());
    let not_there = || Verdict::new(Status::NotFound, Basis::Nothing, "NotFound", "it does not exist");
    let verdict = object.as_ref().map_or_else(not_there, |object| object.verdict(&options));
    match wanted.evaluate(object.as_ref(), &verdict, now()) {
        ConditionResult::Yes => "yes".to_owned(),
        ConditionResult::No(reason) => reason,
        ConditionResult::Error(error) => format!("error: {error}"),
    }
}

#[test]
fn reasons_are_short() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 3},
        "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 3, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 1, "availableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
                {"type": "Progressing", "status": "True", "observedGeneration": 2},
            ],
        },
    });
    let mut deleted = deployment.clone();
    deleted["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z".into();
    let mut ignored = deployment.clone();
    ignored["metadata"]["annotations"] = json!({"settled.dev/ignore": "true"});
    let wanted = [
        "ready",
        "current",
        "failed",
        "create",
        "delete",
        "condition=available",
        "condition=Available=false",
        "condition=Progressing",
        "condition=Ready",
        "jsonpath=.status.readyReplicas=3",
        "jsonpath=.status.phase",
        "jsonpath=.status.conditions[*].type",
        "cel=atLeast(status.readyReplicas, spec.replicas)",
        "cel=status.readyReplicas == 1",
        "cel=status.phase == 'Up'",
        "cel=status.readyReplicas",
        "cel=self.metadata.name == 'web'",
        "cel=1 == 2",
        "any(failed, condition=Ready)",
        "any(failed, condition=Available=False)",
        "all(create, current, condition=Available)",
        "any(jsonpath=.status.conditions[*].type, failed)",
        "any(jsonpath=.status.conditions[*].type)",
        "all(jsonpath=.status.conditions[*].type, failed)",
    ];
    let table: String =
        wanted.iter().map(|text| format!("{text}: {}\n", met(text, Some(&deployment)))).collect();
    insta::assert_snapshot!(table, @r#"
    ready: it is InProgress (LessAvailable)
    current: it is InProgress (LessAvailable)
    failed: it is InProgress (LessAvailable)
    create: yes
    delete: it is still there
    condition=available: condition Available is False (MinimumReplicasUnavailable)
    condition=Available=false: yes
    condition=Progressing: condition Progressing is True at generation 2, the latest is 3
    condition=Ready: condition Ready is not there
    jsonpath=.status.readyReplicas=3: .status.readyReplicas is 1, wanted 3
    jsonpath=.status.phase: .status.phase is not there
    jsonpath=.status.conditions[*].type: error: given jsonpath expression matches more than one value: .status.conditions[*].type finds 2, narrow it with an index or a filter
    cel=atLeast(status.readyReplicas, spec.replicas): status.readyReplicas is 1, spec.replicas is 3, atLeast(status.readyReplicas, spec.replicas) is false
    cel=status.readyReplicas == 1: yes
    cel=status.phase == 'Up': status.phase is not there
    cel=status.readyReplicas: error: status.readyReplicas: it gives int, not true or false
    cel=self.metadata.name == 'web': yes
    cel=1 == 2: 1 == 2 is false
    any(failed, condition=Ready): it is InProgress (LessAvailable); condition Ready is not there
    any(failed, condition=Available=False): yes
    all(create, current, condition=Available): it is InProgress (LessAvailable); condition Available is False (MinimumReplicasUnavailable)
    any(jsonpath=.status.conditions[*].type, failed): it is InProgress (LessAvailable)
    any(jsonpath=.status.conditions[*].type): error: given jsonpath expression matches more than one value: .status.conditions[*].type finds 2, narrow it with an index or a filter
    all(jsonpath=.status.conditions[*].type, failed): error: given jsonpath expression matches more than one value: .status.conditions[*].type finds 2, narrow it with an index or a filter
    "#);
    let absent: String =
        ["ready", "create", "delete", "condition=Ready", "any(delete, failed)", "all(delete, ready)"]
            .iter()
            .map(|text| format!("{text}: {}\n", met(text, None)))
            .collect();
    insta::assert_snapshot!(absent, @r#"
    ready: it does not exist
    create: it does not exist
    delete: yes
    condition=Ready: it does not exist
    any(delete, failed): yes
    all(delete, ready): it does not exist
    "#);
    insta::assert_snapshot!(met("delete", Some(&deleted)), @"being deleted for 1m");
    assert_eq!(met("ready", Some(&json!({"kind": "ConfigMap", "apiVersion": "v1"}))), "yes");
}

#[test]
fn texts_that_name_nothing_are_explained() {
    let texts = [
        "",
        "available",
        "pod is ready",
        "condition",
        "any()",
        "any(ready",
        "any(ready,)",
        "any(ready, nope)",
        "any(ready) x",
        "all(ready, any(current, condition=))",
        "any(cel=status.x == 'a)",
        "any(cel=foo(a[0)])",
        "cel=",
        "cel=status.a &&",
        "cel=a===3",
        "any(ready, cel=é === 'x')",
        "cel=status.a == 'x",
        "cel=stauts.a",
        "cel=nope(1)",
        "any(ready, cel=has(a b))",
        "jsonpath={.a[}",
        "any(ready, jsonpath={.a=b=c)",
        "any(ready))",
    ];
    let table: String = texts
        .iter()
        .map(|text| format!("{text}: {}\n", text.parse::<WaitCondition>().expect_err(text)))
        .collect();
    insta::assert_snapshot!(table, @r#"
    : unrecognized condition: ""; write ready, current, failed, create, delete, condition=NAME[=VALUE], jsonpath=PATH[=VALUE], cel=EXPRESSION, any(A, B) or all(A, B)
    available: unrecognized condition: "available"; for the condition of this name write condition=available
    pod is ready: unrecognized condition: "pod is ready"; write ready, current, failed, create, delete, condition=NAME[=VALUE], jsonpath=PATH[=VALUE], cel=EXPRESSION, any(A, B) or all(A, B)
    condition: unrecognized condition: "condition"; write ready, current, failed, create, delete, condition=NAME[=VALUE], jsonpath=PATH[=VALUE], cel=EXPRESSION, any(A, B) or all(A, B)
    any(): a condition is missing here (at character 5)
    any(ready: `)` is missing at the end (at character 10)
    any(ready,): a condition is missing here (at character 11)
    any(ready, nope): unrecognized condition: "nope"; for the condition of this name write condition=nope (at character 12)
    any(ready) x: nothing may follow the closing parenthesis (at character 11)
    all(ready, any(current, condition=)): a condition has a name: write condition=Ready or condition=Ready=False (at character 25)
    any(cel=status.x == 'a): the quote ' is not closed (at character 21)
    any(cel=foo(a[0)]): expected `]`, found `)` (at character 16)
    cel=: CEL: the expression is empty (column 1)
    cel=status.a &&: CEL: mismatched input the end of the expression (column 12)
    cel=a===3: CEL: unexpected "=" after "==" (column 4)
    any(ready, cel=é === 'x'): CEL: unexpected "é" (column 1)
    cel=status.a == 'x: CEL: the text is not ended: `'` is missing (column 13)
    cel=stauts.a: CEL: unknown name `stauts`; known are self, apiVersion, kind, metadata, spec, status, data; write `self.stauts` for another field of the object (column 1)
    cel=nope(1): CEL: unknown function `nope`; did you mean `type`? (column 1)
    any(ready, cel=has(a b)): CEL: mismatched input 'b' (column 7)
    jsonpath={.a[}: unterminated array (at character 10)
    any(ready, jsonpath={.a=b=c): expected `}`, found `)` (at character 28)
    any(ready)): nothing may follow the closing parenthesis (at character 11)
    "#);
    let deep = format!("{}ready{}", "any(".repeat(17), ")".repeat(17));
    insta::assert_snapshot!(deep.parse::<WaitCondition>().unwrap_err(), @"any(…) and all(…) are nested deeper than 16 levels (at character 65)");
    insta::assert_snapshot!("x".repeat(100_000).parse::<WaitCondition>().unwrap_err(), @"the condition is longer than 65536 bytes");
}

#[test]
fn conditions_are_written_as_they_are_read() {
    for text in [
        "ready",
        "current",
        "failed",
        "create",
        "delete",
        "condition=Ready",
        "condition=Ready=False",
        "jsonpath={.status.phase}",
        "jsonpath={.status.phase}='Up'",
        "cel=status.phase in ['a', 'b']",
        "any(cel=status.phase in ['a', 'b)'], all(condition=A=False, jsonpath={.status.c[?(@.t==\"x,y\")].s}='Up'), delete)",
    ] {
        assert_eq!(text.parse::<WaitCondition>().unwrap().to_string(), text);
    }
    assert_eq!(
        "any( READY ,jsonpath=status.a=\"b\")".parse::<WaitCondition>().unwrap().to_string(),
        "any(ready, jsonpath={.status.a}='b')"
    );
}

#[test]
fn conditions_are_met_one_after_another() {
    let list = WaitCondition::parse_all(["condition=Complete", "delete"]).unwrap();
    let job = |status: &str| json!({"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": status}]}});
    let verdict = Verdict::new(Status::InProgress, Basis::Nothing, "A", "");
    let mut passed = 0;
    let mut step = |object: Option<Value>| {
        let object = object.as_ref().map(|object| Object::from_value(object).unwrap());
        let met = WaitCondition::met_in_order(&list, &mut passed, object.as_ref(), &verdict, now());
        (met.is_met(), passed)
    };
    assert_eq!(step(Some(job("False"))), (false, 0));
    assert_eq!(step(Some(job("True"))), (false, 1));
    assert_eq!(step(Some(job("False"))), (false, 1));
    assert_eq!(step(None), (true, 2));
}

proptest! {
    #[test]
    fn any_text_is_read_or_explained(text in "(any|all|cel=|jsonpath=|condition=|ready|[(){}\\[\\],'\"=.?@ ab\\\\ſ]){0,24}") {
        match text.parse::<WaitCondition>() {
            Ok(wanted) => {
                let object = json!({"metadata": {"generation": 1}, "status": {"a": [1, "b"], "b": {"a": 1}, "conditions": [{"type": "a", "status": "b"}]}});
                let object = Object::from_value(&object).unwrap();
                let verdict = Verdict::new(Status::InProgress, Basis::Nothing, "A", "");
                drop(wanted.evaluate(Some(&object), &verdict, now()));
                drop(wanted.evaluate(None, &verdict, now()));
            }
            Err(error) => prop_assert!(error.column <= text.len() + 1 && !error.message.is_empty()),
        }
    }
}
