//! Measures how long the evaluation of many policies against one provider takes, parsing included.
//!
//! `cargo run --release -p settled-netpol --example throughput -- 10000`

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::Instant;

use settled_netpol::parse::{Parsed, parse_policy};
use settled_netpol::profile::Profiles;
use settled_netpol::verdict::{Evaluator, Outcome};

const PROFILE: &str = "provider: sample
title: Sample
domain: sample.example.com
versions: {from: '1.0', through: '1.9'}
unlisted: supported
features:
  port.end: [{versions: '<1.6', support: narrowed, carried-out: first-port, checked: unverified}]
  port.named: [{versions: '*', support: dropped, scope: policy, checked: unverified}]
limits: [{of: ports.per-cidr-all-policies, max: 24, versions: '*', beyond: undefined, checked: unverified}]
";

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let texts: Vec<String> = (0..count).map(policy).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let mut profiles = Profiles::default();
    if let Some(error) = profiles.add("sample.yaml", PROFILE).into_iter().next() {
        return Err(error.into());
    }
    let provider = profiles.provider(&"sample@1.5".parse()?)?;
    let start = Instant::now();
    let mut policies: Vec<Parsed> = Vec::with_capacity(count);
    for text in &texts {
        policies.push(parse_policy(&serde_json::from_str(text)?, "default")?);
    }
    let parsed = start.elapsed();
    let evaluator = Evaluator::new(&provider, &policies, None);
    let accepted =
        policies.iter().filter(|policy| evaluator.check(policy).outcome == Outcome::Accepted).count();
    println!(
        "{count} policies of {bytes} bytes: {} ms to parse, {} ms in all; {accepted} are accepted",
        parsed.as_millis(),
        start.elapsed().as_millis()
    );
    Ok(())
}

fn policy(index: usize) -> String {
    format!(
        r#"{{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {{"name": "p{index}", "namespace": "ns{}", "generation": 1, "uid": "{index}"}},
            "spec": {{"podSelector": {{"matchLabels": {{"app": "a{}"}}}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{{"from": [{{"namespaceSelector": {{"matchLabels": {{"team": "t{}"}}}}}}, {{"podSelector": {{}}}}],
                          "ports": [{{"protocol": "TCP", "port": 80}}, {{"protocol": "TCP", "port": 8000, "endPort": {}}}]}}],
            "egress": [{{"to": [{{"ipBlock": {{"cidr": "10.{}.0.0/16", "except": ["10.{}.1.0/24"]}}}}],
                         "ports": [{{"protocol": "UDP", "port": {}}}]}}]}}}}"#,
        index % 100,
        index % 30,
        index % 9,
        8000 + index % 3,
        index % 200,
        index % 200,
        if index.is_multiple_of(10) { "\"dns\"" } else { "53" },
    )
}
