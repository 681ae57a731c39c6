//! `settled netpol reach`: whether one end may connect to another, as written and as carried out.

use std::process::ExitCode;
use std::sync::Arc;

use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::model::Policy;
use settled_netpol::profile::Profiles;
use settled_netpol::reach::{Answer, Ask, Comparison, Endpoint, Outcome, Question, QuestionError, compare};

use super::detection;
use super::evaluate;
use super::explain::worse;
use super::files::{self, Contents};
use super::live::{self, Scope, Wanted};
use super::notices;
use super::providers::{self, Chosen};
use super::render::connections::{self, Answers};
use super::render::json;
use crate::cli::netpol::{ReachArgs, TextOutput};
use crate::cluster;
use crate::error::CommandError;
use crate::output;
use crate::session;

pub(super) fn run(args: &ReachArgs) -> Result<ExitCode, CommandError> {
    let question = question(args)?;
    let loaded = providers::load(&args.provider.profiles);
    let named = providers::named(&loaded.profiles, &args.provider.providers)?;
    let Some(Gathered { mut contents, chosen, undetected }) =
        gather(args, &question, &loaded.profiles, named)?
    else {
        return Ok(ExitCode::from(session::INTERRUPTED));
    };
    let snapshot = contents
        .cluster(args.input.names_files())
        .unwrap_or_else(|| unknown_cluster("the files have no pods"));
    let policies: Vec<Policy> =
        contents.policies.iter().filter_map(|entry| entry.parsed.policy.clone()).collect();
    let unread = evaluate::unread_policies(&contents);
    let mut answers = Vec::new();
    let ask = |deviations: &[_]| {
        compare(&snapshot, &policies, &unread, deviations, &question).map_err(|error| no_answer(&error))
    };
    if chosen.is_empty() {
        answers.push(Answers { provider: None, answer: ask(&[])? });
    }
    for chosen in &chosen {
        let deviations = evaluate::deviations(chosen, &contents.policies, Some(&snapshot));
        answers.push(Answers { provider: Some(Arc::clone(&chosen.label)), answer: ask(&deviations)? });
    }
    match args.output {
        TextOutput::Text => output::print(connections::text(&question, &answers).as_bytes())?,
        TextOutput::Json => json::print(&connections::value(&question, &answers), false)?,
        TextOutput::Yaml => json::print(&connections::value(&question, &answers), true)?,
    }
    chosen.iter().map(Chosen::row).for_each(|row| notices::provider(&row));
    notices::not_evaluated(&contents.not_evaluated());
    if !args.input.names_files() {
        notices::unread(&contents.unread);
    }
    let mut code = answers.iter().map(|answers| code_of(&answers.answer)).fold(0, worse);
    if contents.unreadable > 0 || loaded.errors > 0 {
        code = worse(code, 2);
    }
    if let Some(error) = undetected {
        error.report();
        code = worse(code, error.exit_code());
    }
    Ok(ExitCode::from(code))
}

fn question(args: &ReachArgs) -> Result<Question, CommandError> {
    let namespaces = cluster::namespaces(args.input.namespace.as_deref())?;
    let end = |option: &str, text: &str| {
        let is_name = !text.contains('/') && !text.contains(':') && text != "internet";
        let is_address = text.parse::<std::net::IpAddr>().is_ok();
        let text = match (&*namespaces, is_name && !is_address) {
            (_, false) => text.to_owned(),
            ([namespace], true) => format!("{namespace}/{text}"),
            ([], true) if args.input.names_files() => format!("default/{text}"),
            (_, true) => {
                return Err(CommandError::usage(format!("{option} {text}: the namespace is missing"))
                    .hint(format!("write {option} NAMESPACE/{text}, or set -n NAMESPACE")));
            }
        };
        text.parse::<Endpoint>().map_err(|error| CommandError::usage(format!("{option}: {error}")))
    };
    let (to, port) = match (split_port(&args.to), &args.port) {
        (Some((_, port)), Some(option)) => {
            return Err(CommandError::usage(format!(
                "--to {}: the port is {port} here and {option} in --port",
                args.to
            ))
            .hint("name it once"));
        }
        (Some((to, port)), None) => (to, Some(("--to", port))),
        (None, port) => (&*args.to, port.as_deref().map(|port| ("--port", port))),
    };
    if let Some((_, port)) = split_port(&args.from) {
        let error = CommandError::usage(format!("--from {}: a source has no port", args.from));
        return Err(error.hint(format!("the port of the destination is --port {port}")));
    }
    let from = end("--from", &args.from)?;
    if matches!(from, Endpoint::Service { .. }) {
        let error = CommandError::usage(format!("--from {from}: a Service does not open connections"));
        return Err(error.hint("name the pods or the workload that do"));
    }
    let traffic = match port {
        None => Ask::AllPorts,
        Some((option, port)) => port.parse::<Ask>().map_err(|error| {
            CommandError::usage(format!("{option} {port}: {error}"))
                .hint("one port at a time; without --port, all ports are answered in ranges")
        })?,
    };
    Ok(Question { from, to: end("--to", to)?, traffic })
}

/// `shop/db:5432`, `10.0.0.1:53/UDP` and `[fd00::1]:443`: the end and its port.
fn split_port(text: &str) -> Option<(&str, &str)> {
    if let Some((address, port)) = text.strip_prefix('[').and_then(|text| text.split_once("]:")) {
        return Some((address, port));
    }
    // Two are those of an IPv6 address.
    let (end, port) = text.split_once(':').filter(|(_, port)| !port.contains(':'))?;
    Some((end, port))
}

struct Gathered<'p> {
    contents: Contents,
    chosen: Vec<Chosen<'p>>,
    /// Why the cluster's provider is not known.
    undetected: Option<CommandError>,
}

fn gather<'p>(
    args: &ReachArgs,
    question: &Question,
    profiles: &'p Profiles,
    named: Vec<Chosen<'p>>,
) -> Result<Option<Gathered<'p>>, CommandError> {
    if args.input.names_files() {
        // Without a provider, the answer is that as written.
        let contents = files::read(&args.input, profiles)?;
        let (chosen, undetected) = match detection::in_files(profiles, &contents) {
            _ if !named.is_empty() => (named, None),
            Ok(chosen) => (chosen.unwrap_or_default(), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        return Ok(Some(Gathered { contents, chosen, undetected }));
    }
    let detects = named.is_empty();
    let wanted = Wanted { profiles, policies: Some(scope(question)), providers: detects };
    let Some(live) = live::read(&args.input, &args.cluster, &wanted)? else { return Ok(None) };
    let (chosen, undetected) = match live.inventory.map(|inventory| detection::chosen(profiles, &inventory)) {
        Some(Ok(chosen)) => (chosen, None),
        Some(Err(error)) => (Vec::new(), Some(error)),
        None => (named, None),
    };
    Ok(Some(Gathered { contents: live.contents, chosen, undetected }))
}

/// The namespaces whose policies decide: those of the ends, if these are known before anything is read.
fn scope(question: &Question) -> Scope {
    let namespace = |end: &Endpoint| match end {
        Endpoint::Pods { namespace, .. } | Endpoint::Service { namespace, .. } => {
            Some(Some(namespace.to_string()))
        }
        Endpoint::Node(_) | Endpoint::Range(_) | Endpoint::Internet => Some(None),
        // It may be that of a pod.
        Endpoint::Address(_) => None,
    };
    match (namespace(&question.from), namespace(&question.to)) {
        (Some(from), Some(to)) => {
            let mut namespaces: Vec<String> = from.into_iter().chain(to).collect();
            namespaces.dedup();
            Scope::Namespaces(namespaces)
        }
        _ => Scope::Everywhere,
    }
}

/// A cluster of which nothing is known.
pub(super) fn unknown_cluster(reason: &str) -> Cluster {
    let reason: Arc<str> = reason.into();
    Cluster {
        namespaces: Known::Unread(Arc::clone(&reason)),
        pods: Known::Unread(Arc::clone(&reason)),
        nodes: Known::Unread(Arc::clone(&reason)),
        services: Known::Unread(reason),
    }
}

fn no_answer(error: &QuestionError) -> CommandError {
    let failed = CommandError::input(error.to_string());
    match error {
        QuestionError::NotFound(Endpoint::Pods { .. }) => failed.hint(
            "name a pod or a workload whose pods are in the cluster or in the files, as NAMESPACE/NAME",
        ),
        _ => failed,
    }
}

/// Exit code for the outcomes as carried out: allowed, denied or unknown.
fn code_of(answer: &Answer<Comparison>) -> u8 {
    // No connection is no answer.
    if !answer.unknown.is_empty() || answer.connections.is_empty() {
        return 3;
    }
    let outcomes = answer.connections.iter().map(|answered| match answered.connection.carried_out.outcome {
        Outcome::Allowed => 0,
        Outcome::Denied => 1,
        Outcome::Unknown => 3,
    });
    outcomes.fold(0, worse)
}
