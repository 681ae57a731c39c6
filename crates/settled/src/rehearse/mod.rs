//! `settled rehearse`: a deployment on an API server in this process, with simulated controllers and virtual time.

use std::process::ExitCode;

use settled_rehearsal::{Environment, Options, Speed, runtime};
use settled_tracker::apply::{ApplyOptions, ApplyReport};
use settled_tracker::request::EvidenceOptions;
use settled_tracker::{Cluster, apply};

use crate::apply::{Reporter, Watched};
use crate::arguments;
use crate::cli::rehearse::RehearseArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::progress::Signals;
use crate::time;
use crate::wait::{self, Output};

pub(crate) fn run(args: &RehearseArgs) -> Result<ExitCode, CommandError> {
    let (conditions, limits) = cluster::policy(&args.policy)?;
    let rules = arguments::rule_set(&args.rules)?;
    let objects = cluster::objects(&args.files, args.kustomize.as_deref())?;
    let output = Output::of_rehearsal(args.output, &args.show, &args.policy, args.speed != Speed::Max)?;
    let runtime =
        runtime(args.speed).map_err(|error| CommandError::input_error("cannot start the runtime", error))?;
    let code = runtime.block_on(async {
        let mut signals = Signals::of_process()
            .map_err(|error| CommandError::input_error("cannot receive signals", error))?;
        let mut options = Options::default();
        options.seed = args.seed;
        options.speed = args.speed;
        let environment = Environment::start(options)
            .await
            .map_err(|error| CommandError::input_error("cannot start the rehearsal", error))?;
        let clock = environment.clock().clone();
        time::follow(move || clock.now());
        let clock = environment.clock().clone();
        let cluster = Cluster::with_clock(environment.client(), move || clock.now());
        let mut reporter = Reporter::new(args.output, args.show.quiet);
        let options = ApplyOptions { namespace: Some(args.namespace.clone()), ..ApplyOptions::default() };
        let applied = tokio::select! {
            applied = apply(&cluster, objects, &options, |event| reporter.event(&event)) => applied,
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        let report = applied.map_err(|error| CommandError::input_error("cannot apply the objects", error))?;
        reporter.finish()?;
        let ApplyReport { targets, states, .. } = report;
        let mut request = cluster::look(targets, Some(&args.namespace), rules, args.evaluation);
        request.conditions = conditions;
        request.limits = limits;
        request.evidence = EvidenceOptions { events: true, log_lines: args.evidence.log_lines() };
        request.live_logs = args.evidence.live_logs();
        request.causes = output.causes();
        let tracker = cluster::start(cluster.clone(), request).await?;
        wait::follow(Watched::new(tracker, cluster, states), output, &mut signals).await
    });
    // Nothing that still waits keeps the process.
    std::mem::forget(runtime);
    code
}
