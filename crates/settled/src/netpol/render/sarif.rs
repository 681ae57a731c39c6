//! SARIF of `netpol check`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::row::{FindingRow, PolicyRow, Report};
use crate::render::sarif::{self, Result};

/// The whole log. `title` describes a rule by its id.
pub(in crate::netpol) fn log(report: &Report, exit_code: u8, title: impl Fn(&str) -> String) -> Value {
    let policies: Vec<(&PolicyRow, String)> = report.policies.iter().map(|row| (row, row.policy())).collect();
    let findings = || {
        policies
            .iter()
            .flat_map(|(row, policy)| row.findings.iter().map(move |finding| (*row, &**policy, finding)))
    };
    let rules: BTreeSet<&'static str> = findings().map(|(_, _, finding)| finding.rule).collect();
    let rules: Vec<(&str, String)> = rules.into_iter().map(|id| (id, title(id))).collect();
    let results = findings().map(|(row, policy, finding)| result(row, policy, finding));
    let providers: Vec<&str> = report.providers.iter().map(|provider| &*provider.provider).collect();
    sarif::log("settled netpol", exit_code, &rules, results, json!({"providers": providers}))
}

fn result<'a>(row: &'a PolicyRow, policy: &'a str, finding: &'a FindingRow) -> Result<'a> {
    let mut properties = Map::new();
    properties.insert("policy".to_owned(), policy.into());
    properties.insert("provider".to_owned(), (*row.provider).into());
    for (key, value) in [
        ("support", finding.support.map(str::to_owned)),
        ("allows", finding.allows.map(str::to_owned)),
        ("supportedSince", finding.supported_since.as_deref().map(str::to_owned)),
        ("evidence", finding.evidence.as_deref().map(str::to_owned)),
    ] {
        properties.extend(value.map(|value| (key.to_owned(), Value::String(value))));
    }
    Result {
        rule: finding.rule,
        level: finding.level.as_str(),
        message: format!("{policy} with {}: {}: {}", row.provider, finding.path, finding.message),
        path: &finding.path,
        object: policy,
        source: row.source.as_deref(),
        place: finding.spot.or(row.spot).map(|spot| (spot.line, spot.column)),
        fingerprint: format!("{policy}|{}|{}|{}", row.provider, finding.path, finding.rule),
        properties: Value::Object(properties),
    }
}
