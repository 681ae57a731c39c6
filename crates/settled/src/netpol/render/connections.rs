//! Answers of `netpol reach`: each connection with its outcomes and the rules that decide, as text and JSON.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_netpol::profile::Direction;
use settled_netpol::reach::{
    Answer, Answered, Ask, Cause, Comparison, Connection, Decision, Deviation, Outcome, Question,
};

use crate::style::Palette;
use crate::text;

/// How many connections are listed as text.
const CONNECTIONS_MAX: usize = 200;

/// The answer for a provider; without one, as written.
pub(in crate::netpol) struct Answers {
    pub(in crate::netpol) provider: Option<Arc<str>>,
    pub(in crate::netpol) answer: Answer<Comparison>,
}

/// All answers as text.
pub(in crate::netpol) fn text(question: &Question, all: &[Answers]) -> String {
    let palette = Palette::stdout();
    let mut out = String::new();
    for Answers { provider, answer } in all {
        if !answer.unknown.is_empty() {
            let head = text::clean(&format!("{} -> {}:", question.from, question.to));
            let _infallible = writeln!(out, "{head} {}", outcome(Outcome::Unknown, palette));
        }
        let mut reasons: Vec<String> =
            answer.unknown.iter().map(|reason| text::clean(&reason.to_string())).collect();
        // Both ends may have the same.
        reasons.dedup();
        for reason in reasons {
            let _infallible = writeln!(out, "  {reason}");
        }
        for answered in answer.connections.iter().take(CONNECTIONS_MAX) {
            connection(answered, provider.as_deref(), palette, &mut out);
        }
        let more = answer.connections.len().saturating_sub(CONNECTIONS_MAX);
        if more > 0 {
            let _infallible = writeln!(out, "… and {more} more connections; -o json lists all");
        }
    }
    out
}

fn connection(answered: &Answered<Comparison>, provider: Option<&str>, palette: Palette, out: &mut String) {
    let Comparison { written, carried_out, because } = &answered.connection;
    let head = format!(
        "{} -> {} {} {} ({})",
        answered.from,
        answered.to,
        answered.protocol,
        ports(&answered.ports),
        written.family
    );
    let _infallible = writeln!(out, "{}", palette.heading(&text::clean(&head)));
    let _infallible = writeln!(out, "  as written: {}", outcome(written.outcome, palette));
    decisions(written, out);
    if let Some(provider) = provider {
        let same = written.outcome == carried_out.outcome;
        let word = if same { ", as written" } else { "" };
        let provider = text::clean(provider);
        let _infallible =
            writeln!(out, "  as carried out by {provider}: {}{word}", outcome(carried_out.outcome, palette));
        if !same {
            because.iter().for_each(|deviation| {
                let _infallible = writeln!(out, "    because of {}", text::clean(&describe(deviation)));
            });
            decisions(carried_out, out);
        }
    }
    for remark in &written.remarks {
        let _infallible = writeln!(out, "  note: {}", text::clean(&remark.to_string()));
    }
}

fn decisions(connection: &Connection, out: &mut String) {
    for decision in [&connection.egress, &connection.ingress].into_iter().flatten() {
        let end = match decision.direction {
            Direction::Egress => "egress of the source",
            Direction::Ingress => "ingress of the destination",
        };
        let why = if decision.causes.is_empty() && decision.unknown.is_empty() {
            ", no policy applies"
        } else {
            ""
        };
        let _infallible = writeln!(out, "    {end}: {}{why}", decision.outcome);
        for cause in &decision.causes {
            let _infallible = writeln!(out, "      {}", text::clean(&sentence(cause)));
        }
        for reason in &decision.unknown {
            let _infallible = writeln!(out, "      unknown: {}", text::clean(&reason.to_string()));
        }
    }
}

/// `NetworkPolicy/shop/web allows it: spec.ingress[0].from[1], spec.ingress[0].ports[0]`
fn sentence(cause: &Cause) -> String {
    let Cause { policy, effect, rule, peer, port, tier: _ } = cause;
    let places: Vec<String> = [peer, port].into_iter().flatten().map(ToString::to_string).collect();
    match rule {
        Some(rule) if places.is_empty() => format!("{policy} {effect}: {rule}"),
        Some(_) => format!("{policy} {effect}: {}", places.join(", ")),
        None => format!("{policy} {effect}"),
    }
}

fn describe(deviation: &Deviation) -> String {
    let Deviation { policy, place, message, .. } = deviation;
    format!("{policy} {place}: {message}")
}

fn outcome(outcome: Outcome, palette: Palette) -> String {
    let text = outcome.to_string();
    match outcome {
        Outcome::Allowed => palette.added(&text),
        Outcome::Denied => palette.removed(&text),
        Outcome::Unknown => palette.warning(&text),
    }
}

/// `80,443,30000-32000`
pub(in crate::netpol) fn ports(ranges: &[(u16, u16)]) -> String {
    let each = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    each.collect::<Vec<_>>().join(",")
}

/// All answers as JSON.
pub(in crate::netpol) fn value(question: &Question, all: &[Answers]) -> Value {
    let port = match &question.traffic {
        Ask::AllPorts => Value::Null,
        port => json!(port.to_string()),
    };
    let answers: Vec<Value> = all
        .iter()
        .map(|Answers { provider, answer }| {
            let connections = answer.connections.iter().map(|answered| one(answered, provider.is_some()));
            let mut map = Map::new();
            map.extend(provider.as_ref().map(|provider| ("provider".to_owned(), json!(**provider))));
            map.insert("connections".to_owned(), connections.collect());
            if !answer.unknown.is_empty() {
                let reasons = answer.unknown.iter().map(|reason| json!(reason.to_string()));
                map.insert("unknown".to_owned(), reasons.collect());
            }
            Value::Object(map)
        })
        .collect();
    json!({
        "from": question.from.to_string(),
        "to": question.to.to_string(),
        "port": port,
        "answers": answers,
    })
}

fn one(answered: &Answered<Comparison>, has_provider: bool) -> Value {
    let Comparison { written, carried_out, because } = &answered.connection;
    let mut value = json!({
        "from": answered.from.to_string(),
        "to": answered.to.to_string(),
        "family": written.family.to_string(),
        "protocol": answered.protocol.as_str(),
        "ports": answered.ports.iter().map(|range| ports(&[*range])).collect::<Vec<_>>(),
        "asWritten": side(written),
    });
    if let Some(map) = value.as_object_mut() {
        if has_provider {
            map.insert("asCarriedOut".to_owned(), side(carried_out));
            let because = because.iter().map(|deviation| {
                json!({
                    "policy": deviation.policy.to_string(),
                    "path": deviation.place.to_string(),
                    "feature": deviation.feature.map(|feature| feature.as_str()),
                    "message": &*deviation.message,
                })
            });
            map.insert("because".to_owned(), because.collect());
        }
        if !written.remarks.is_empty() {
            map.insert(
                "remarks".to_owned(),
                written.remarks.iter().map(|remark| json!(remark.to_string())).collect(),
            );
        }
    }
    value
}

fn side(connection: &Connection) -> Value {
    let decision = |decision: &Option<Decision>| {
        decision.as_ref().map(|decision| {
            let causes: Vec<Value> = decision
                .causes
                .iter()
                .map(|cause| {
                    json!({
                        "policy": cause.policy.to_string(),
                        "effect": cause.effect.to_string(),
                        "rule": cause.rule.as_ref().map(ToString::to_string),
                        "peer": cause.peer.as_ref().map(ToString::to_string),
                        "port": cause.port.as_ref().map(ToString::to_string),
                    })
                })
                .collect();
            let unknown: Vec<String> = decision.unknown.iter().map(ToString::to_string).collect();
            json!({"outcome": decision.outcome.to_string(), "causes": causes, "unknown": unknown})
        })
    };
    json!({
        "outcome": connection.outcome.to_string(),
        "egress": decision(&connection.egress),
        "ingress": decision(&connection.ingress),
    })
}
