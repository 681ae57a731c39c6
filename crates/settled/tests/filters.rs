//! Filters of `settled status`.

use insta::assert_snapshot;

use crate::support::{Run, config_map, deleted_secret, failed_pod, pending_claim, silent, status};

/// One object of each status that objects can have.
fn all() -> String {
    [config_map("a"), pending_claim("b"), failed_pod("c"), deleted_secret("d"), silent("e")].join("\n")
}

fn names(run: Run) -> String {
    let output = run.stdin(all()).output();
    let names: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["name"].as_str().unwrap().to_owned()
        })
        .collect();
    format!("{} exit code {}", names.join(" "), output.status.code().unwrap())
}

#[test]
fn filters_apply_to_what_is_shown_and_to_the_exit_code() {
    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        assert_eq!(names(status(&format!("-f - -o jsonl {arguments}"))), expected, "{arguments}");
    }
    check("", "a b c d e exit code 1");
    check("--kind pod", "c exit code 1");
    check("--kind pvc,cm", "a b exit code 3");
    check("--kind pvc --kind configmaps", "a b exit code 3");
    check("--kind widget.example.com", "e exit code 3");
    check("-n web", "e exit code 3");
    check("--namespace shop --kind cm,secrets", "a d exit code 3");
    check("--name a,b", "a b exit code 3");
    check("--name a", "a exit code 0");
    check("--status current", "a exit code 0");
    check("--status Failed,InProgress", "b c exit code 1");
    check("--not-current", "b c d e exit code 1");
    check("--not-current --kind cm", " exit code 0");
    check("--status Failed --kind cm,pvc", " exit code 0");
    check("--status notfound", " exit code 0");
    check("--assume-current --kind widget", "e exit code 0");
    check("--profile kstatus --kind widget", "e exit code 0");
}

/// A misspelled kind must not open a gate.
#[test]
fn a_selection_that_finds_nothing_is_an_error() {
    assert_snapshot!(status("-f - --kind deploymnt").stdin(all()).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no object matches the filters; read 5 objects
    hint: omit --kind, --namespace and --name to see all objects
    ");
    assert_snapshot!(status("-f - -n prod").stdin(all()).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no object matches the filters; read 5 objects
    hint: omit --kind, --namespace and --name to see all objects
    ");
}

/// It may be anything, also what was asked for.
#[test]
fn what_cannot_be_read_passes_every_selection() {
    let input = format!("{}\n{{\"kind\": \"Pod\", oops: [}}\n", config_map("a"));
    assert_snapshot!(status("-f - --kind configmap --name a").stdin(input).transcript(), @"
    exit code: 3
    --- stdout ---
    STATUS   NAMESPACE  OBJECT       REASON        MESSAGE
    Unknown             -#1          Malformed     line 3, column 1: unexpected end of input
    Current  shop       ConfigMap/a  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    2 objects: 1 Unknown, 1 Current (1 file, [TIME])
    ");
}

#[test]
fn sorts() {
    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        assert_eq!(names(status(&format!("-f - -o jsonl {arguments}"))), expected, "{arguments}");
    }
    check("--sort none", "a b c d e exit code 1");
    check("--sort status", "c e d b a exit code 1");
    check("--sort kind", "a b c d e exit code 1");
    check("--sort namespace", "a b c d e exit code 1");
    check("--sort name", "a b c d e exit code 1");
    check("--sort source", "a b c d e exit code 1");
    let output = status("-f - --sort name -o json").stdin(all()).stdout();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&output).unwrap();
    assert_eq!(rows.len(), 5);
}
