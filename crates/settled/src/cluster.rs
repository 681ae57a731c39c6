//! Cluster access: from arguments to a connection, targets and a request to the tracker; errors with their remedy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kstatus::FailureClass;
use settled_manifest::{Batch, Splitter};
use settled_rules::RuleSet;
use settled_tracker::connection::ConnectError;
use settled_tracker::release::{Release, ReleaseError};
use settled_tracker::report::Notice;
use settled_tracker::request::{
    EvaluationOptions, EvidenceOptions, KindName, Missing, Selection, TargetError,
};
use settled_tracker::{
    Cluster, KubeconfigOptions, Limits, Request, RequestError, StartError, Target, Tracker, WaitCondition,
};

use crate::cli::args::{ClusterArgs, EvaluationArgs, OnMissing, PolicyArgs, SelectArgs, TargetArgs};
use crate::error::CommandError;
use crate::inputs::Inputs;
use crate::overview;
use crate::patience::{self, Patience};
use crate::requests::{self, Warnings};
use crate::row::Reader;
use crate::stderr;
use crate::targets::{self, BareType, Which};

/// Which cluster is meant, and as whom.
pub(crate) fn access(args: &ClusterArgs) -> KubeconfigOptions {
    KubeconfigOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        cluster: args.cluster.clone(),
        user: args.user.clone(),
        impersonate: args.as_user.clone(),
        impersonate_groups: args.as_groups.clone(),
        impersonate_uid: args.as_uid.clone(),
        server: args.server.clone(),
        tls_server_name: args.tls_server_name.clone(),
        certificate_authority: args.certificate_authority.clone(),
        insecure_skip_tls_verify: args.insecure_skip_tls_verify,
        client_certificate: args.client_certificate.clone(),
        client_key: args.client_key.clone(),
        token: args.token.clone(),
        ..KubeconfigOptions::default()
    }
}

/// A client for the cluster that is meant, whose requests last no longer than the command may. Nothing is sent yet.
pub(crate) async fn connect(
    args: &ClusterArgs,
    patience: Patience,
    warnings: Warnings,
) -> Result<Cluster, CommandError> {
    let access = access(args);
    let waiting = "waiting for the kubeconfig, or for its plugin for credentials";
    let Some(connected) = patience.within(waiting, access.connect()).await else {
        let limit = patience.limit();
        return Err(CommandError::cluster(format!("no credentials within {limit}"))
            .hint("check the credential plugin of the kubeconfig, and that the kubeconfig is a file"));
    };
    let cluster = connected.map_err(|error| {
        let failed = CommandError::cluster(error.to_string());
        match error {
            ConnectError::Exec(_) => failed.hint("run the credential plugin separately to see its error"),
            _ => failed.hint("select another one with --kubeconfig FILE and --context NAME"),
        }
    })?;
    let server = cluster.server().unwrap_or_default().to_owned();
    let cluster = cluster.with_observer(requests::observer(args, server, warnings));
    Ok(cluster.with_deadline(patience.deadline()).with_request_timeout(args.request_timeout))
}

/// The targets that the arguments name, but for releases, which only the cluster knows.
pub(crate) fn targets(args: &TargetArgs, bare: BareType) -> Result<Vec<Target>, CommandError> {
    let mut all = named(&args.names, &args.select, bare)?;
    let namespaces = namespaces(args.namespace.as_deref())?;
    if let [_, _, ..] = &*namespaces {
        if !args.files.is_empty() || args.kustomize.is_some() || !args.select.releases.is_empty() {
            return Err(CommandError::usage("-f and --release accept only one namespace"));
        }
        all = in_each(&all, &namespaces);
    }
    if !args.files.is_empty() || args.kustomize.is_some() {
        all.extend(read(&args.files, args.kustomize.as_deref(), |_, target| target)?);
    }
    if all.is_empty() && args.select.releases.is_empty() {
        return Err(CommandError::usage("no targets given").hint(
            "name them (deploy/web), select them (pods -l app=web), or pass their manifests (-f FILE, -f -)",
        ));
    }
    Ok(all)
}

/// The targets that the arguments name; an overview if they name none.
pub(crate) fn targets_or_overview(args: &TargetArgs) -> Result<Vec<Target>, CommandError> {
    let TargetArgs { names, files, kustomize, namespace, select, .. } = args;
    let names_none = names.is_empty() && files.is_empty() && kustomize.is_none() && select.selects_nothing();
    if !names_none || (!select.all_namespaces && overview::input_is_piped()) {
        return targets(args, BareType::All);
    }
    let overview = vec![overview::target(select)];
    Ok(match &*namespaces(namespace.as_deref())? {
        [] | [_] => overview,
        many => in_each(&overview, many),
    })
}

/// The namespaces of `-n`, which is a list everywhere.
pub(crate) fn namespaces(list: Option<&str>) -> Result<Vec<String>, CommandError> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err(CommandError::usage(format!("--namespace {list:?}: empty name"))),
        false => Ok(names),
    }
}

/// The same targets in each of these namespaces.
pub(crate) fn in_each(targets: &[Target], namespaces: &[String]) -> Vec<Target> {
    let within = |target: &Target, namespace: &String| {
        let mut target = target.clone();
        match &mut target {
            Target::Object { namespace: place, .. } | Target::Select(Selection { namespace: place, .. }) => {
                *place = Some(namespace.clone());
            }
        }
        target
    };
    namespaces.iter().flat_map(|name| targets.iter().map(move |target| within(target, name))).collect()
}

/// The objects of releases, whose lists the cluster has.
pub(crate) async fn releases(
    cluster: &Cluster,
    releases: &[Release],
    namespace: Option<&str>,
) -> Result<Vec<Target>, CommandError> {
    if releases.is_empty() {
        return Ok(Vec::new());
    }
    let resources = cluster.resources().await.map_err(|error| unreachable_at(cluster, &error))?;
    let default = cluster.default_namespace();
    let namespace = namespace.unwrap_or(&default);
    let mut targets = Vec::new();
    for release in releases {
        let found = release.targets(cluster, &resources, namespace).await.map_err(|error| match error {
            ReleaseError::Request { source, .. } => unreachable_at(cluster, &source),
            error @ (ReleaseError::Inventory(_) | ReleaseError::Missing(_)) => {
                CommandError::input(error.to_string())
            }
        })?;
        for note in found.notes {
            warn(&[Notice { message: format!("{}: {note}", found.title), remedy: None }]);
        }
        if found.targets.is_empty() {
            return Err(CommandError::input(format!("{} has no objects", found.title)));
        }
        targets.extend(found.targets);
    }
    Ok(targets)
}

/// The targets that the positional arguments name.
pub(crate) fn named(
    names: &[String],
    select: &SelectArgs,
    bare: BareType,
) -> Result<Vec<Target>, CommandError> {
    let parsed = targets::parse(names, select, bare)?;
    let everywhere = select.all_namespaces;
    if everywhere && parsed.iter().any(|target| matches!(target.which, Which::Named(_))) {
        return Err(CommandError::usage(
            "an object has one namespace: --all-namespaces needs a selector or --all",
        ));
    }
    let targets = parsed.into_iter().map(|targets::Target { resource, which }| match which {
        Which::Named(name) => Target::object(resource, None, name),
        Which::Selected { labels, fields } => Target::Select(Selection {
            kind: KindName::Spoken(resource),
            namespace: None,
            everywhere,
            labels,
            fields,
        }),
    });
    Ok(targets.collect())
}

/// The objects in files, directories, URLs, a kustomization and standard input, as JSON.
pub(crate) fn objects(files: &[PathBuf], kustomization: Option<&Path>) -> Result<Vec<Vec<u8>>, CommandError> {
    read(files, kustomization, |json, _| json.to_vec())
}

/// Reads the objects of all inputs, and keeps what the function returns for each. A single malformed document is an error, since the
/// remaining objects must not pass for all of them.
fn read<T>(
    files: &[PathBuf],
    kustomization: Option<&Path>,
    keep: impl Fn(&[u8], Target) -> T,
) -> Result<Vec<T>, CommandError> {
    let mut objects = Vec::new();
    let mut malformed = Vec::new();
    let mut reader = Reader::default();
    for input in Inputs::of(files, kustomization) {
        let source = input.source;
        let unreadable = |error| CommandError::input_error(format!("cannot read {source}"), error);
        let mut splitter = Splitter::new(input.reader.map_err(unreadable)?);
        let mut number = 0;
        while let Some(batch) = splitter.next_batch(Batch::default()).map_err(unreadable)? {
            reader.objects(&batch, |found| {
                let object = match found {
                    Ok((_, json)) => Target::manifest(json).map(|target| keep(json, target)),
                    Err(malformed) => Err(TargetError::Malformed(malformed.to_string())),
                };
                match object {
                    Ok(object) => objects.push(object),
                    Err(error) => malformed.push(place(&source, number, &error.to_string())),
                }
                number += 1;
            });
        }
    }
    if !malformed.is_empty() {
        let more = malformed.len().saturating_sub(10);
        let error = CommandError::input("the input contains documents that are not objects");
        let error = malformed.into_iter().take(10).fold(error, CommandError::detail);
        return Err(if more > 0 { error.detail(format!("… and {more} more")) } else { error });
    }
    if objects.is_empty() {
        return Err(CommandError::input("no objects found in the files")
            .hint("in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read"));
    }
    Ok(objects)
}

/// `FILE:LINE:COLUMN: message`, if the error has a position.
fn place(source: &str, number: usize, error: &str) -> String {
    let found = || {
        let (line, rest) = error.strip_prefix("line ")?.split_once(", column ")?;
        let (column, message) = rest.split_once(": ")?;
        let numbers = line.parse::<u64>().is_ok() && column.parse::<u64>().is_ok();
        numbers.then(|| format!("{source}:{line}:{column}: {message}"))
    };
    found().unwrap_or_else(|| format!("{source}, object {number}: {error}"))
}

/// Request for a single evaluation: it ends once all objects have been read.
pub(crate) fn look(
    targets: Vec<Target>,
    namespace: Option<&str>,
    rules: RuleSet,
    evaluation: EvaluationArgs,
) -> Request {
    let mut request = Request::new(targets);
    request.rules = rules;
    // In several, each target has its own.
    request.namespace = namespace.filter(|list| !list.contains(',')).map(str::to_owned);
    request.evaluation = EvaluationOptions {
        assume_current: evaluation.assume_current,
        require_address: !evaluation.address_optional,
        ..EvaluationOptions::default()
    };
    request.limits.timeout = Some(Duration::ZERO);
    request.limits.fail_fast = Vec::new();
    request.evidence = EvidenceOptions { events: false, log_lines: 0 };
    request
}

/// Request for a wait, with its conditions and limits.
pub(crate) fn policy(args: &PolicyArgs) -> Result<(Vec<WaitCondition>, Limits), CommandError> {
    let conditions = WaitCondition::parse_all(&args.conditions).map_err(|error| {
        CommandError::usage(format!("--for: {error}")).hint("settled wait --help lists the conditions")
    })?;
    let limits = Limits {
        timeout: Some(args.timeout),
        target_timeout: args.target_timeout,
        stable: args.stable,
        fail_fast: match &args.fail_fast {
            _ if args.no_fail_fast => Vec::new(),
            Some(classes) => classes.0.clone(),
            None => FailureClass::ALL.to_vec(),
        },
        grace: args.graces.iter().copied().collect(),
        missing: match args.on_missing {
            OnMissing::Auto => Missing::Auto,
            OnMissing::Wait => Missing::Wait,
            OnMissing::Fail => Missing::Fail,
            OnMissing::Done => Missing::Done,
        },
        // It was asked for by name.
        fail_fast_always: args.fail_fast.is_some(),
        ..Limits::default()
    };
    Ok((conditions, limits))
}

/// Starts to follow what the arguments name, releases included.
pub(crate) async fn follow(args: &TargetArgs, mut request: Request) -> Result<Tracker, CommandError> {
    let patience = Patience::of(&request.limits);
    let cluster = connect(&args.cluster, patience, Warnings::Ignored).await?;
    let releases = releases(&cluster, &args.select.releases, args.namespace.as_deref());
    let Some(releases) = patience.within("waiting for the release", releases).await else {
        return Err(CommandError::cluster(format!("the release was not read within {}", patience.limit())));
    };
    request.targets.extend(releases?);
    start(cluster, request).await
}

/// Starts to follow. The time counts from the start of the process.
pub(crate) async fn start(cluster: Cluster, mut request: Request) -> Result<Tracker, CommandError> {
    request.started.get_or_insert_with(patience::started);
    request.request_timeout = request.request_timeout.or_else(|| cluster.request_timeout());
    let patience = Patience::of(&request.limits);
    let started = patience.reach(&cluster, Tracker::start(cluster.clone(), request)).await;
    started.map_err(|error| match error {
        StartError::Cluster(error) => unreachable_at(&cluster, &error),
        StartError::NoKind { name, similar } => {
            let error = CommandError::usage(format!("the cluster has no kind `{name}`"));
            if similar.is_empty() {
                return error.hint("settled wait -f FILE also waits for kinds that do not exist yet");
            }
            error.hint(format!("similar kinds: {}", similar.join(", ")))
        }
    })
}

/// The error of a cluster that doesn't answer as it should.
pub(crate) fn unreachable(error: &RequestError) -> CommandError {
    refused("the cluster", error)
}

/// The same, with the cluster's URL.
pub(crate) fn unreachable_at(cluster: &Cluster, error: &RequestError) -> CommandError {
    match cluster.server() {
        Some(url) => refused(&format!("the cluster at {url}"), error),
        None => unreachable(error),
    }
}

fn refused(cluster: &str, error: &RequestError) -> CommandError {
    if error.code().is_some() {
        let failed = CommandError::cluster(format!("{cluster} rejected the request: {error}"));
        return match error.code() {
            Some(401) => failed.hint("log in again, or choose another --context"),
            Some(403) => failed.hint("ask for the permission in the message"),
            _ => failed,
        };
    }
    let text = error.to_string();
    let failed = CommandError::cluster(format!("cannot reach {cluster}: {text}"));
    let says = |words: &str| text.contains(words);
    failed.hint(if says("invalid peer certificate") {
        "the server's certificate is not signed by the certificate-authority of the kubeconfig, or is for another name"
    } else if says("corrupt message") || says("invalid HTTP version") {
        "the server does not use TLS: check http:// or https:// and the port in the kubeconfig"
    } else if matches!(error, RequestError::Misconfigured(_)) && !says("alert") {
        "check the host in the kubeconfig's server URL"
    } else {
        "check that the server of this context is running and reachable"
    })
}

/// Prints notices as warnings.
pub(crate) fn warn(notices: &[Notice]) {
    let width = crate::live::terminal::width();
    for notice in notices {
        for line in crate::render::explain::notice(notice, width, crate::style::Palette::stderr()) {
            stderr::print_line(&line);
        }
    }
}
