//! The built-in pack.

use std::collections::BTreeSet;
use std::path::Path;

use kstatus::Basis;
use settled_rules::{RuleInfo, RuleSet, check_builtin, run_cases};

use crate::engine::NOW;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rules");

/// Each group with the text of its file.
type Files = Vec<(String, String)>;

/// The files of the pack and those of its cases.
fn files() -> (Files, Files) {
    let (mut rules, mut cases) = (Files::new(), Files::new());
    for entry in Path::new(FOLDER).read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        match name.strip_suffix(".test.yaml") {
            Some(group) => cases.push((group.to_owned(), text)),
            None => rules.push((name.strip_suffix(".yaml").expect("only YAML is here").to_owned(), text)),
        }
    }
    rules.sort();
    cases.sort();
    (rules, cases)
}

fn listed() -> Vec<RuleInfo> {
    RuleSet::default().list()
}

#[track_caller]
fn none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}: {}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_rule_compiles() {
    let count = check_builtin().unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(count, listed().len());
    assert!(count > 500, "{count} rules");
}

/// Also where a file is read as a user's, no two rules are for the same objects.
#[test]
fn every_file_can_be_read_as_a_users() {
    for (group, text) in files().0 {
        if let Err(errors) = RuleSet::builder().builtin(false).add(&group, &text) {
            panic!("{errors}");
        }
    }
}

#[test]
fn every_case_holds_and_every_branch_is_reached() {
    let rules = RuleSet::default();
    let cases = files().1;
    let named: Vec<(String, &str)> =
        cases.iter().map(|(group, text)| (format!("{group}.test.yaml"), &**text)).collect();
    let named: Vec<(&str, &str)> = named.iter().map(|(name, text)| (&**name, *text)).collect();
    let report = run_cases(&rules, &named, NOW.parse().unwrap());
    assert!(report.cases > 1000, "{} cases", report.cases);
    let errors = report.errors.iter().map(ToString::to_string);
    let failures = report.failures.iter().map(ToString::to_string);
    let wrong: Vec<String> = errors.chain(failures).chain(report.warnings.iter().cloned()).collect();
    none("cases that fail, and branches without a case", &wrong);
}

#[test]
fn every_file_has_cases() {
    let (rules, cases) = files();
    let groups =
        |files: &Files| -> BTreeSet<String> { files.iter().map(|(group, _)| group.clone()).collect() };
    let (rules, cases) = (groups(&rules), groups(&cases));
    none("files without cases", &rules.difference(&cases).cloned().collect::<Vec<_>>());
    none("cases without a file", &cases.difference(&rules).cloned().collect::<Vec<_>>());
}

/// The comment says where the rule comes from.
#[test]
fn every_rule_has_a_comment() {
    let bare = listed().into_iter().filter(|rule| !rule.text.starts_with('#'));
    none(
        "rules without a comment",
        &bare.map(|rule| format!("{}:{}", rule.file, rule.line)).collect::<Vec<_>>(),
    );
}

#[test]
fn rules_are_listed_by_group() {
    let list = listed();
    assert!(list.iter().all(|rule| rule.basis == Basis::RulePack));
    let files: Vec<&str> = list.iter().map(|rule| &*rule.file).collect();
    assert!(files.is_sorted(), "{files:?}");
    for rule in &list {
        let group = rule.group.replacen("*.", "_.", 1);
        assert_eq!(rule.file, format!("builtin:{group}.yaml"), "line {}", rule.line);
    }
}

/// Done, in progress, failed, suspended, without a status, and at an older generation, as far as the rule knows them; and each kind.
#[test]
fn every_rule_has_the_cases_that_it_needs() {
    let (rules, cases) = files();
    let mut missing = Vec::new();
    for (group, text) in &rules {
        let alone = RuleSet::builder().builtin(false).add(&format!("{group}.yaml"), text).unwrap().build();
        let cases = cases.iter().filter(|(known, _)| known == group);
        let cases: Vec<(&str, &str)> = cases.map(|(_, cases)| ("cases", &**cases)).collect();
        missing.extend(run_cases(&alone, &cases, NOW.parse().unwrap()).missing);
    }
    none("missing cases", &missing);
}

#[test]
fn every_rule_says_what_it_was_checked_against() {
    let silent = listed().into_iter().filter(|rule| rule.provenance.is_none());
    none(
        "rules without a source",
        &silent.map(|rule| format!("{}:{}", rule.file, rule.line)).collect::<Vec<_>>(),
    );
}

/// What stands still by choice is found by one reason; the message says which choice it is.
#[test]
fn suspended_objects_have_the_same_reason() {
    let mut wrong = Vec::new();
    for rule in listed() {
        let indentation = |line: &str| line.len() - line.trim_start().len();
        let mut lines = rule.text.lines().skip_while(|line| !line.trim_start().starts_with("suspended:"));
        let Some(first) = lines.next() else { continue };
        let rest = lines.take_while(|line| indentation(line) > indentation(first));
        if std::iter::once(first).chain(rest).any(|line| line.contains("reason: ")) {
            wrong.push(format!("{}:{}", rule.file, rule.line));
        }
    }
    none("rules with a reason of their own in `suspended`", &wrong);
}
