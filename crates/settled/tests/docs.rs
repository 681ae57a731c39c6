//! Documentation: links, and completeness of the reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// Reasons that the cases' objects bring along, as a controller would: they are nobody's in particular.
const OF_OBJECTS: [&str; 2] = ["Odd", "InvalidParameters"];

#[test]
fn every_reason_of_a_built_in_rule_is_explained() {
    let mut reasons = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates/kstatus/tests/cases")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("=> ")) {
            // `Failed ErrImagePull kind-rule (image, recoverable): …`; other evidence carries the object's own words.
            let mut words = line.split([' ', ':']);
            let (_status, reason, basis) = (words.next(), words.next().unwrap(), words.next().unwrap());
            if ["kind-rule", "generation", "deletion", "nothing", "no-status-kind"].contains(&basis) {
                reasons.insert(reason.to_owned());
            }
        }
    }
    assert!(reasons.len() > 100, "{} reasons", reasons.len());
    let page = page("statuses.md");
    reasons.retain(|reason| !OF_OBJECTS.contains(&&**reason) && !page.contains(&format!("`{reason}`")));
    assert!(reasons.is_empty(), "docs/statuses.md does not explain {reasons:?}");
}

#[test]
fn links_lead_somewhere() {
    let docs = root().join("docs");
    let mut pages: Vec<PathBuf> = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    let mut broken = Vec::new();
    for path in &pages {
        let text = fs::read_to_string(path).unwrap();
        for (at, _) in text.match_indices("](") {
            let target: String = text[at + 2..].chars().take_while(|c| *c != ')').collect();
            if target.starts_with("http") || target.contains(' ') || target.contains('\n') {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let linked = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let found = linked.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&linked).unwrap()).contains(anchor));
            if !found {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// Demands of KEP-3, each a row of the table of requirements.
const REQUIREMENTS: [(&str, usize); 14] = [
    ("S", 3),
    ("G", 3),
    ("N", 4),
    ("Q", 6),
    ("U", 9),
    ("O", 1),
    ("C", 3),
    ("M", 5),
    ("R", 5),
    ("I", 4),
    ("X", 3),
    ("K", 1),
    ("T", 1),
    ("D", 1),
];

#[test]
fn every_requirement_of_machines_names_a_test_that_exists() {
    let page = page("machines.md");
    let (_, table) = page.split_once("## Requirements").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let wanted = REQUIREMENTS
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("| {letter}{number} |")));
    for row in wanted {
        assert_eq!(rows.iter().filter(|line| line.starts_with(&row)).count(), 1, "{row}");
    }
    assert_eq!(rows.len(), 49);
    let mut tests = 0;
    for row in rows {
        // `machines `file.rs`: `test``, one or several.
        for directory in ["machines", "settled", "hosts"] {
            for (at, _) in row.match_indices(&format!("{directory} `")) {
                let words: Vec<&str> = row[at..].split('`').collect();
                let path = root().join("crates").join(directory).join("tests").join(words[1]);
                let source = fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{row}: {}: {error}", path.display()));
                if words.get(2) == Some(&": ") {
                    assert!(
                        source.contains(&format!("fn {}()", words[3])),
                        "{row}: no test {} in {}",
                        words[3],
                        words[1]
                    );
                }
                tests += 1;
            }
        }
    }
    assert!(tests > 40, "{tests} tests");
}
