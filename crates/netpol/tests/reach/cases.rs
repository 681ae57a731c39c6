//! Semantics of the API documentation, as a table of cases in `cases.yaml`.

use serde_json::Value;
use settled_netpol::cluster::Cluster;
use settled_netpol::model::{Family, Policy, Protocol};
use settled_netpol::reach::{Ask, Endpoint, Evaluator, Outcome, Question, View};

use super::{cluster, pod_names, policy, yaml};

/// A line of expectations: `[FAMILY] FROM -> TO [PROTOCOL/PORT]`.
struct Pattern<'p> {
    text: &'p str,
    family: Option<Family>,
    from: &'p str,
    to: &'p str,
    protocol: Protocol,
    port: u16,
}

fn pattern(text: &str) -> Pattern<'_> {
    let (family, rest) = match text.split_once(' ').unwrap() {
        ("IPv4", rest) => (Some(Family::V4), rest),
        ("IPv6", rest) => (Some(Family::V6), rest),
        _ => (None, text),
    };
    let (from, rest) = rest.split_once(" -> ").unwrap();
    let (to, traffic) = rest.split_once(' ').unwrap_or((rest, "TCP/80"));
    let (protocol, port) = traffic.split_once('/').unwrap();
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        other => panic!("protocol {other}"),
    };
    Pattern { text, family, from, to, protocol, port: port.parse().unwrap() }
}

/// The names of pods that a part of a pattern means, or the part itself.
fn expand(part: &str) -> Vec<String> {
    if !part.contains('*') {
        return vec![part.to_owned()];
    }
    let (namespace, name) = part.split_once('/').unwrap();
    let matches = |pattern: &str, text: &str| pattern == "*" || pattern == text;
    let names = pod_names();
    let selected = names.into_iter().filter(|pod| {
        let (pod_namespace, pod_name) = pod.split_once('/').unwrap();
        matches(namespace, pod_namespace) && matches(name, pod_name)
    });
    selected.collect()
}

fn ask(cluster: &Cluster, policies: &[Policy], pattern: &Pattern<'_>, from: &str, to: &str) -> Vec<Outcome> {
    let view = View::as_written(policies);
    let endpoint = |text: &str| text.parse::<Endpoint>().unwrap();
    let question = Question {
        from: endpoint(from),
        to: endpoint(to),
        traffic: Ask::Port(pattern.protocol, pattern.port),
    };
    let answer = Evaluator::new(cluster, &view).ask(&question).unwrap();
    if !answer.unknown.is_empty() {
        return vec![Outcome::Unknown];
    }
    let connections = answer.connections.iter().map(|answered| &answered.connection);
    let connections =
        connections.filter(|connection| pattern.family.is_none_or(|family| family == connection.family));
    connections.map(|connection| connection.outcome).collect()
}

fn strings<'c>(case: &'c Value, key: &str) -> Vec<&'c str> {
    case.get(key).and_then(Value::as_array).into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn cases_of_the_api_documentation() {
    let cases = yaml(include_str!("cases.yaml"));
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 100);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let cluster = cluster(case.get("dual").is_some());
        let list = case.get("policies").and_then(Value::as_array).into_iter().flatten();
        let policies: Vec<Policy> = list.enumerate().map(|(index, short)| policy(short, index)).collect();
        let mut check = |pattern: &Pattern<'_>, from: &str, to: &str, expected: Outcome| {
            let outcomes = ask(&cluster, &policies, pattern, from, to);
            checked += 1;
            if outcomes.is_empty() || outcomes.iter().any(|outcome| *outcome != expected) {
                wrong.push(format!(
                    "{name}: {} ({from} -> {to}): expected {expected}, found {outcomes:?}",
                    pattern.text
                ));
            }
        };
        let mut named = Vec::new();
        for (key, expected) in
            [("allowed", Outcome::Allowed), ("denied", Outcome::Denied), ("unknown", Outcome::Unknown)]
        {
            for text in strings(case, key) {
                let pattern = pattern(text);
                for from in expand(pattern.from) {
                    for to in expand(pattern.to) {
                        if from == to && text.contains('*') {
                            continue;
                        }
                        check(&pattern, &from, &to, expected);
                        if (pattern.protocol, pattern.port) == (Protocol::Tcp, 80) {
                            named.push((from.clone(), to));
                        }
                    }
                }
            }
        }
        let Some(others) = case.get("others") else { continue };
        let others = match others.as_str() {
            Some("allowed") => Outcome::Allowed,
            Some("denied") => Outcome::Denied,
            other => panic!("{name}: others: {other:?}"),
        };
        let any = pattern("*/* -> */*");
        for from in pod_names() {
            for to in pod_names() {
                if from == to {
                    check(&any, &from, &to, Outcome::Allowed);
                } else if !named.contains(&(from.clone(), to.clone())) {
                    check(&any, &from, &to, others);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} expectations failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_matrix_has_the_outcomes_of_single_connections() {
    for case in yaml(include_str!("cases.yaml")).as_array().unwrap() {
        let cluster = cluster(case.get("dual").is_some());
        let list = case.get("policies").and_then(Value::as_array).into_iter().flatten();
        let policies: Vec<Policy> = list.enumerate().map(|(index, short)| policy(short, index)).collect();
        let view = View::as_written(&policies);
        let evaluator = Evaluator::new(&cluster, &view);
        for (protocol, port) in [(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Udp, 80)] {
            let matrix = evaluator.all_pairs(protocol, port).unwrap();
            for (source, from) in matrix.pods().iter().enumerate() {
                for (destination, to) in matrix.pods().iter().enumerate() {
                    let endpoint = |pod: &settled_netpol::cluster::Pod| Endpoint::Pods {
                        namespace: pod.namespace.clone(),
                        name: pod.name.clone(),
                    };
                    let question = Question {
                        from: endpoint(from),
                        to: endpoint(to),
                        traffic: Ask::Port(protocol, port),
                    };
                    for answered in evaluator.ask(&question).unwrap().connections {
                        let connection = answered.connection;
                        assert_eq!(
                            matrix.outcome(connection.family, source, destination),
                            Some(connection.outcome),
                            "{}: {}/{} -> {}/{} {protocol} {port}",
                            case["name"],
                            from.namespace,
                            from.name,
                            to.namespace,
                            to.name,
                        );
                    }
                }
            }
        }
    }
}
