//! Embedded profiles: each row is answered by a line of a table that was written from the sources, each change of version from both
//! of its sides.

#![allow(clippy::panic, reason = "a malformed line of the table fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use settled_netpol::feature::{Count, Feature};
use settled_netpol::model::Family;
use settled_netpol::profile::{
    Answer, CarriedOut, Checked, Circumstances, Direction, Profile, Profiles, ProviderRef, Row, Scope,
    Support,
};

const TABLE: &str = include_str!("profiles/rows.txt");

/// A line of the table, for one provider and one feature.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) provider: ProviderRef,
    pub(crate) feature: Feature,
    pub(crate) circumstances: Circumstances,
    pub(crate) support: Option<Support>,
    pub(crate) direction: String,
}

pub(crate) fn profiles() -> Profiles {
    let (profiles, errors) = Profiles::embedded();
    assert!(errors.is_empty(), "{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    profiles
}

pub(crate) fn table(profiles: &Profiles) -> Vec<Line> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (index, line) in TABLE.lines().enumerate() {
        let number = index + 1;
        if let Some(group) = line.strip_prefix("let ") {
            let (name, features) = group.split_once(" = ").expect("let NAME = FEATURES");
            groups.insert(name, features.split_whitespace().collect());
            continue;
        }
        if line.is_empty() || line.starts_with('#') || line.starts_with("limit ") {
            continue;
        }
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [providers, features, circumstances, support, direction] = cells.as_slice() else {
            panic!("line {number} has not 5 cells: {line}");
        };
        let circumstances = match *circumstances {
            "-" => Circumstances::default(),
            "ingress" => Circumstances { direction: Some(Direction::Ingress), ..Circumstances::default() },
            "egress" => Circumstances { direction: Some(Direction::Egress), ..Circumstances::default() },
            "ipv4" => Circumstances { family: Some(Family::V4), ..Circumstances::default() },
            "ipv6" => Circumstances { family: Some(Family::V6), ..Circumstances::default() },
            other => panic!("line {number}: no circumstances: {other}"),
        };
        let support = Support::ALL.iter().copied().find(|known| known.as_str() == *support).or_else(|| {
            assert_eq!(*support, "unknown", "line {number}");
            None
        });
        for provider in providers.split_whitespace() {
            let provider: ProviderRef =
                provider.parse().unwrap_or_else(|error| panic!("line {number}: {error}"));
            let profile =
                profiles.get(&provider.name).unwrap_or_else(|| panic!("line {number}: {}", provider.name));
            for word in features.split_whitespace() {
                let ids: Vec<Feature> = match (word, groups.get(word)) {
                    ("all", _) => profile.features.keys().copied().collect(),
                    (_, Some(group)) => group.iter().map(|id| feature(id, number)).collect(),
                    (id, None) => vec![feature(id, number)],
                };
                lines.extend(ids.into_iter().map(|feature| Line {
                    number,
                    provider: provider.clone(),
                    feature,
                    circumstances,
                    support,
                    direction: (*direction).to_owned(),
                }));
            }
        }
    }
    lines
}

fn feature(id: &str, number: usize) -> Feature {
    id.parse().unwrap_or_else(|error| panic!("line {number}: {error}"))
}

/// The direction of the error that the fields of a row imply, by the documented meaning of the words.
fn implied_direction(row: &Row) -> &'static str {
    match (row.support, row.scope, row.carried_out) {
        (Support::Supported, ..) => "-",
        (Support::Widened, ..) => "more",
        (Support::Narrowed, ..) | (Support::Dropped, _, Some(CarriedOut::DenyAll)) => "less",
        (Support::Dropped, Some(Scope::Port | Scope::Peer), _) => "less",
        (Support::Dropped | Support::Undefined, ..) => "either",
    }
}

fn key<'p>(profile: &'p Profile, row: &Row) -> (&'p str, usize) {
    (profile.name.as_str(), row.line)
}

#[test]
fn each_line_of_the_table_is_what_the_profile_answers() {
    let profiles = profiles();
    let mut wrong = Vec::new();
    for line in table(&profiles) {
        let provider =
            profiles.provider(&line.provider).unwrap_or_else(|error| panic!("line {}: {error}", line.number));
        let answer = provider.support(line.feature, line.circumstances);
        let (support, direction) = match &answer {
            Answer::Row(row) => (Some(row.support), implied_direction(row)),
            Answer::UnlistedSupported => (Some(Support::Supported), "-"),
            Answer::Unknown(_) => (None, "-"),
        };
        if (support, direction) != (line.support, line.direction.as_str()) {
            wrong.push(format!(
                "rows.txt:{}: {} {}: expected {:?} {}, found {answer:?}",
                line.number, line.provider, line.feature, line.support, line.direction
            ));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_limit_of_the_table_is_what_the_profile_answers_and_each_limit_has_a_line() {
    let profiles = profiles();
    let mut answered = BTreeSet::new();
    for (index, line) in TABLE.lines().enumerate() {
        let Some(line) = line.strip_prefix("limit ") else { continue };
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [providers, count, max, beyond] = cells.as_slice() else { panic!("{line}") };
        let count = Count::ALL.iter().copied().find(|known| known.as_str() == *count).expect("a count");
        for provider in providers.split_whitespace() {
            let provider = profiles.provider(&provider.parse().expect("a provider")).expect("a provider");
            let answers = provider.limits(count, Circumstances::default());
            let found: Vec<(String, &str)> = answers
                .iter()
                .map(|answer| match answer {
                    Ok(limit) => {
                        answered.insert((provider.profile.name.clone(), limit.line));
                        (limit.max.to_string(), limit.beyond.as_str())
                    }
                    Err(_) => ("unknown".to_owned(), "-"),
                })
                .collect();
            let expected: Vec<(String, &str)> =
                if *max == "none" { Vec::new() } else { vec![((*max).to_owned(), *beyond)] };
            assert_eq!(found, expected, "rows.txt:{}", index + 1);
        }
    }
    for profile in profiles.iter() {
        for limit in &profile.limits {
            let place = (profile.name.clone(), limit.line);
            assert!(answered.contains(&place), "{}:{}: no line in rows.txt", profile.file, limit.line);
        }
    }
}

#[test]
fn each_row_has_a_line_in_the_table() {
    let profiles = profiles();
    let mut answered: BTreeSet<(&str, usize)> = BTreeSet::new();
    let lines = table(&profiles);
    for line in &lines {
        let provider = profiles.provider(&line.provider).expect("a provider");
        if let Answer::Row(row) = provider.support(line.feature, line.circumstances) {
            answered.insert(key(provider.profile, row));
        }
    }
    let missing: Vec<String> = profiles
        .iter()
        .flat_map(|profile| profile.features.iter().map(move |(feature, rows)| (profile, feature, rows)))
        .flat_map(|(profile, feature, rows)| rows.iter().map(move |row| (profile, feature, row)))
        .filter(|(profile, _, row)| !answered.contains(&key(profile, row)))
        .map(|(profile, feature, row)| format!("{}:{}: {feature} {}", profile.file, row.line, row.versions))
        .collect();
    assert!(missing.is_empty(), "{} rows have no line in rows.txt:\n{}", missing.len(), missing.join("\n"));
}

/// Bounds of a range: `>=1.5 <1.9` has 1.5 and 1.9.
fn bounds(row: &Row) -> Vec<String> {
    let text = row.versions.to_string();
    let bounds = text.split([' ', '|']).filter(|bound| !bound.is_empty() && *bound != "*");
    bounds.map(|bound| bound.trim_start_matches(['<', '>', '=']).to_owned()).collect()
}

fn numbers(version: &str) -> Vec<u32> {
    let digits = version.trim_start_matches('v').split(['-', '+', '_']).next().unwrap_or_default();
    digits.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

#[test]
fn each_change_of_version_has_lines_on_both_sides() {
    let profiles = profiles();
    let lines = table(&profiles);
    let mut missing = Vec::new();
    for profile in profiles.iter() {
        for (feature, rows) in &profile.features {
            // Versions of the table for which a row answers.
            let versions: Vec<Vec<u32>> = lines
                .iter()
                .filter(|line| line.feature == *feature && line.support.is_some())
                .filter(|line| {
                    profiles.get(&line.provider.name).is_some_and(|other| other.name == profile.name)
                })
                .filter_map(|line| Some(numbers(line.provider.version.as_deref()?)))
                .collect();
            for bound in rows.iter().flat_map(bounds).collect::<BTreeSet<_>>() {
                let bound_numbers = numbers(&bound);
                let after = versions.iter().any(|version| {
                    version.starts_with(&bound_numbers)
                        || version.as_slice() > bound_numbers.as_slice() && is_next(&bound_numbers, version)
                });
                let before = versions.iter().any(|version| is_next(version, &bound_numbers));
                if !after || !before {
                    missing.push(format!(
                        "{}: {feature}: {bound} (before: {before}, after: {after})",
                        profile.name
                    ));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no line for a side of a change:\n{}", missing.join("\n"));
}

/// Whether the second version, shortened to the precision at which they differ, directly follows the first: 1.15.9 and 1.16, 1.9.4 and
/// 2.0, 0.5.0 and 0.5.1. Dates have gaps.
fn is_next(version: &[u32], next: &[u32]) -> bool {
    let differing = version.iter().zip(next).position(|(a, b)| a != b);
    differing.is_some_and(|index| match (version.get(index), next.get(index)) {
        (Some(a), Some(b)) if *a > 20_000_000 => b > a,
        (Some(a), Some(b)) => *b == a + 1 && next.iter().skip(index + 1).all(|part| *part == 0),
        _ => false,
    })
}

#[test]
fn an_unknown_version_is_unknown_for_every_feature_of_every_profile() {
    let profiles = profiles();
    let lines = table(&profiles);
    for profile in profiles.iter() {
        for feature in profile.features.keys() {
            let is_unknown = |line: &&Line| {
                line.feature == *feature
                    && line.support.is_none()
                    && profiles.get(&line.provider.name).is_some_and(|other| other.name == profile.name)
            };
            let unknown: Vec<&Line> = lines.iter().filter(is_unknown).collect();
            let later = unknown.iter().any(|line| line.provider.version.is_some());
            let absent = unknown.iter().any(|line| line.provider.version.is_none());
            assert!(later && absent, "{} {feature}: no line for an unknown version", profile.name);
        }
    }
}

#[test]
fn profiles_of_the_large_providers_cover_every_feature() {
    let profiles = profiles();
    let large = [
        "antrea",
        "aws-vpc-cni",
        "azure-npm",
        "calico",
        "cilium",
        "kube-router",
        "openshift-ovn-kubernetes",
        "ovn-kubernetes",
    ];
    for name in large {
        let profile = profiles.get(name).expect("a profile");
        let missing: Vec<&Feature> =
            Feature::ALL.iter().filter(|feature| !profile.features.contains_key(*feature)).collect();
        // No policy can ask for it: the API has TCP, UDP and SCTP only.
        assert_eq!(missing, [&Feature::ProtoOther], "{name}");
    }
}

#[test]
fn every_row_has_a_source_and_what_is_not_as_written_has_a_note() {
    for profile in profiles().iter() {
        for (feature, row) in
            profile.features.iter().flat_map(|(feature, rows)| rows.iter().map(move |row| (feature, row)))
        {
            let place = format!("{}:{}: {feature}", profile.file, row.line);
            assert!(row.source.as_deref().is_some_and(|source| source.starts_with("https://")), "{place}");
            assert!(row.checked != Checked::Unverified || row.support == Support::Undefined, "{place}");
            if row.support != Support::Supported {
                let note = row.note.as_deref().unwrap_or_else(|| panic!("{place}: no note"));
                assert!(note.ends_with('.') && note.len() <= 200, "{place}: {note}");
            }
        }
    }
}

#[test]
fn every_profile_is_found_by_a_workload() {
    use settled_netpol::profile::Detect;
    for profile in profiles().iter() {
        let workloads = profile.detect.iter().filter(|detect| matches!(detect, Detect::Workload { .. }));
        assert!(workloads.count() > 0, "{}", profile.name);
    }
}

const PAGE: &str = include_str!("../../../docs/netpol-profiles.md");

#[test]
fn the_example_of_the_documentation_is_a_valid_profile() {
    let example =
        PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut profiles = Profiles::default();
    let errors = profiles.add("example-cni.yaml", example);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(profiles.get("example-cni").is_some());
    // The example of limits stands in the same file format.
    let limits =
        PAGE.split("```yaml\n").nth(2).and_then(|rest| rest.split("```").next()).expect("an example");
    let errors = profiles.add("example-cni.yaml", &format!("{example}{limits}"));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(profiles.get("example-cni").expect("a profile").limits.len(), 1);
}

#[test]
fn the_documentation_lists_every_profile_and_word() {
    for profile in profiles().iter() {
        let (from, through) = (&profile.versions.from, &profile.versions.through);
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{}` |", profile.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not listed", profile.name));
        assert!(row.contains(&format!("{from} to {through} |")), "{row}: {from} to {through}");
    }
    let features = Feature::ALL.iter().map(|feature| feature.as_str());
    let words = CarriedOut::ALL.iter().map(|word| word.as_str());
    let counts = Count::ALL.iter().map(|count| count.as_str());
    for word in features.chain(words).chain(counts) {
        assert!(PAGE.contains(&format!("`{word}`")), "{word} is not listed");
    }
}
