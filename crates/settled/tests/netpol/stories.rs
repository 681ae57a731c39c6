//! The two user stories of KEP-2943.

use serde_json::json;

use super::{directory, json, netpol, row};

/// Mary has written `endPort`, and it does not work: which field, what happens instead, and from which version on it works.
#[test]
fn the_developer_learns_why_her_policy_does_not_work() {
    let directory = directory();
    let (code, report) = json(netpol("check -f k8s --provider cilium@1.15 -o json").dir(&directory));
    assert_eq!(code, 1, "{report}");
    let mine = row(&report, "myegress");
    assert_eq!(mine["status"], "PartialFailure", "{mine}");
    assert_eq!(mine["reason"], "FeatureNotSupported", "{mine}");
    assert_eq!(mine["source"], "k8s/myegress.yaml");
    assert_eq!(mine["provider"], "cilium@1.15");
    let findings = mine["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["rule"] == "port.end").unwrap();
    assert_eq!(finding["path"], "spec.egress[0].ports[0].endPort", "{finding}");
    assert_eq!((&finding["line"], &finding["column"]), (&json!(17), &json!(16)), "{finding}");
    assert_eq!(finding["allows"], "less");
    assert_eq!(finding["carriedOut"], "first-port");
    assert_eq!(finding["supportedSince"], "1.16");
    let message = finding["message"].as_str().unwrap();
    for word in ["Cilium 1.15", "30000", "32000", "1.16"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert_eq!(row(&report, "plain")["status"], "Accepted", "{report}");

    let (code, report) = json(netpol("check -f k8s --provider cilium@1.16 -o json").dir(&directory));
    assert_eq!(row(&report, "myegress")["status"], "Accepted", "{report}");
    assert_eq!(code, 0, "{report}");
    // In sentences.
    let text = netpol("explain myegress -f k8s --provider cilium@1.15").dir(&directory).stdout();
    assert!(text.contains("30000 to 32000") && text.contains("Cilium 1.15"), "{text}");
}

/// Samantha plans to replace the provider: which policies change their meaning, and in which direction.
#[test]
fn the_administrator_learns_what_a_migration_changes() {
    let directory = directory();
    let arguments = "check -f k8s --from-provider calico@3.25 --to-provider cilium@1.15 -o json";
    let (code, report) = json(netpol(arguments).dir(&directory));
    assert_eq!(code, 1, "{report}");
    let changed = row(&report, "myegress");
    assert_eq!(changed["status"], "Changed", "{changed}");
    assert_eq!(changed["provider"], "calico@3.25 -> cilium@1.15");
    assert_eq!(changed["message"], "allows less than before");
    assert_eq!(changed["findings"][0]["rule"], "port.end");
    assert_eq!(changed["findings"][0]["allows"], "less");
    assert_eq!(row(&report, "plain")["status"], "Accepted", "{report}");
    // As the documentation shows it.
    let table =
        netpol("check -f k8s --from-provider calico@3.25 --to-provider cilium@1.15").dir(&directory).output();
    let table = String::from_utf8(table.stdout).unwrap();
    let words: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(words, ["STATUS", "POLICY", "FIELD", "ALLOWS", "MESSAGE"], "{table}");
    // Back, it allows more.
    let arguments = "check -f k8s --from-provider cilium@1.15 --to-provider calico@3.25 -o json";
    let (code, report) = json(netpol(arguments).dir(&directory));
    let changed = row(&report, "myegress");
    assert_eq!((code, &changed["message"]), (1, &json!("allows more than before")), "{changed}");
    // To a version that carries it out as well, nothing changes.
    let arguments = "check -f k8s --from-provider calico@3.25 --to-provider cilium@1.17 -o json";
    let (code, report) = json(netpol(arguments).dir(&directory));
    assert_eq!(code, 0, "{report}");
}

/// Who names one provider for a migration has forgotten the other.
#[test]
fn a_migration_has_two_providers() {
    let directory = directory();
    for arguments in [
        "check -f k8s --from-provider calico@3.25",
        "check -f k8s --to-provider calico@3.25",
        "check -f k8s --from-provider calico@3.25 --to-provider cilium@1.17 --provider cilium@1.16",
    ] {
        assert_eq!(netpol(arguments).dir(&directory).code(), 2, "{arguments}");
    }
}
