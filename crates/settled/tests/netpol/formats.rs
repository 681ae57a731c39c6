//! Output formats of `netpol check`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MYEGRESS, directory, json, netpol};
use crate::support::Directory;

const CHECK: &str = "check -f k8s --provider cilium@1.15";

/// What SARIF 2.1.0's schema requires, and what GitHub's code scanning asks for in addition.
#[test]
fn sarif_has_what_its_schema_requires() {
    let (code, log) = json(netpol(&format!("{CHECK} -o sarif")).dir(&directory()));
    assert_eq!(code, 1);
    let only = |value: &Value, known: &[&str]| {
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert!(keys.iter().all(|key| known.contains(&key.as_str())), "{keys:?}");
    };
    only(&log, &["$schema", "version", "runs"]);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    only(run, &["tool", "columnKind", "invocations", "properties", "results"]);
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let driver = &run["tool"]["driver"];
    only(driver, &["name", "semanticVersion", "rules"]);
    assert!(driver["name"].is_string());
    let rules = driver["rules"].as_array().unwrap();
    let ids: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rules.len(), "ids are unique");
    for rule in rules {
        only(rule, &["id", "name", "shortDescription"]);
        assert!(rule["shortDescription"]["text"].as_str().is_some_and(|text| !text.is_empty()));
    }
    for invocation in run["invocations"].as_array().unwrap() {
        assert!(invocation["executionSuccessful"].is_boolean());
    }
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        only(
            result,
            &["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties"],
        );
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        for fingerprint in result["partialFingerprints"].as_object().unwrap().values() {
            assert!(fingerprint.is_string());
        }
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("k8s/") && !uri.contains(' '), "{uri}");
        for number in ["startLine", "startColumn"] {
            assert!(place["region"][number].as_u64().unwrap() >= 1);
        }
    }
    let end = results.iter().find(|result| result["ruleId"] == "port.end").unwrap();
    let region = &end["locations"][0]["physicalLocation"]["region"];
    assert_eq!((&region["startLine"], &region["startColumn"]), (&17.into(), &16.into()));
}

#[test]
fn sarif_of_good_policies_has_no_results() {
    let (code, log) =
        json(netpol("check -f k8s/plain.yaml --provider cilium@1.16 -o sarif").dir(&directory()));
    assert_eq!(code, 0);
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));
    // GitHub closes the alerts of a run only if the run is there.
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn junit_has_a_case_per_policy_and_provider() {
    let run = netpol("check -f k8s --provider cilium@1.15 --provider cilium@1.16 -o junit");
    let text = run.dir(&directory()).stdout();
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"), "{text}");
    assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{text}");
    assert_eq!(text.matches("<testcase ").count(), 4, "{text}");
    assert!(text.contains("classname=\"cilium@1.15.shop.NetworkPolicy\""), "{text}");
    assert!(text.contains("type=\"FeatureNotSupported\""), "{text}");
    assert!(text.contains("k8s/myegress.yaml:17:16: spec.egress[0].ports[0].endPort: "), "{text}");
    assert!(text.trim_end().ends_with("</testsuites>"), "{text}");
}

#[test]
fn annotations_stand_at_the_line() {
    let directory = directory();
    let summary = directory.path().join("summary.md");
    let run = netpol(&format!("{CHECK} -o github"));
    let text = run.env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()).dir(&directory).stdout();
    let line = text.lines().find(|line| line.contains("endPort")).unwrap();
    let wanted = "file=k8s/myegress.yaml,line=17,col=16,title=shop/myegress with cilium@1.15%3A port.end::";
    assert!(line.starts_with("::warning ") && line.contains(wanted), "{line}");
    let summary = std::fs::read_to_string(summary).unwrap();
    assert!(summary.starts_with("### 2 policies, cilium\\@1.15: "), "{summary}");
    assert!(summary.contains("| PartialFailure | shop/myegress |"), "{summary}");
}

#[test]
fn a_name_cannot_forge_an_annotation() {
    let evil = MYEGRESS.replace("myegress", "\"x\\n::error::forged\"");
    let directory = Directory::new(&[("k8s/evil.yaml", &evil)]);
    for format in ["github", "table", "wide", "junit", "sarif", "jsonl"] {
        let text = netpol(&format!("{CHECK} -o {format}")).dir(&directory).stdout();
        assert!(!text.lines().any(|line| line.starts_with("::error::forged")), "{format}: {text}");
    }
}

#[test]
fn tables_have_a_line_per_finding() {
    let directory = directory();
    let table = netpol(CHECK).dir(&directory).stdout();
    let heading = table.lines().next().unwrap();
    for word in ["STATUS", "POLICY", "FIELD", "ALLOWS", "MESSAGE"] {
        assert!(heading.contains(word), "{table}");
    }
    assert!(!heading.contains("PROVIDER") && !heading.contains("SOURCE"), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    // What needs attention stands first.
    assert!(
        lines[1].starts_with("PartialFailure  shop/myegress  spec.egress[0].ports[0].endPort"),
        "{table}"
    );
    assert!(lines.last().unwrap().starts_with("Accepted "), "{table}");
    let wide = netpol(&format!("{CHECK} --provider cilium@1.16 -o wide")).dir(&directory).stdout();
    for word in ["PROVIDER", "RULE", "SOURCE", "port.end", "k8s/myegress.yaml:17:16", "https://"] {
        assert!(wide.contains(word), "{word}: {wide}");
    }
    let narrow = netpol(&format!("{CHECK} --width 80")).dir(&directory).stdout();
    assert!(narrow.lines().count() > table.lines().count(), "{narrow}");
}

#[test]
fn json_yaml_and_lines_say_the_same() {
    let directory = directory();
    let (_, report) = json(netpol(&format!("{CHECK} -o json")).dir(&directory));
    assert_eq!(report["summary"]["PartialFailure"], 1, "{report}");
    assert_eq!(report["summary"]["Accepted"], 1, "{report}");
    assert_eq!(report["providers"][0]["title"], "Cilium", "{report}");
    let lines = netpol(&format!("{CHECK} -o jsonl")).dir(&directory).stdout();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(rows), report["policies"]);
    let yaml = netpol(&format!("{CHECK} -o yaml")).dir(&directory).stdout();
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), report);
}

#[test]
fn quiet_is_quiet() {
    let output = netpol(&format!("{CHECK} -q")).dir(&directory()).output();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}
