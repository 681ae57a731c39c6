//! `settled rehearse` and `settled demo`: a deployment on an API server in this process, with simulated controllers and virtual time.

mod against;
pub(crate) mod cast;
mod customs;
mod demo;
mod ending;
mod network;
mod play;
mod refusal;
mod report;
mod sources;
mod stage;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use settled_rehearsal::{Scenario, Speed};

pub(crate) use self::demo::run as demo;
use self::play::Play;
use crate::cli::rehearse::RehearseArgs;
use crate::error::CommandError;
use crate::session;

/// Longest scenario.
const SCENARIO_BYTES_MAX: u64 = 4 << 20;

/// Reads a scenario. All that is wrong with it is reported.
pub(crate) fn scenario(path: &Path) -> Result<Scenario, CommandError> {
    let unreadable = |error| CommandError::input_error(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    File::open(path)
        .map_err(unreadable)?
        .take(SCENARIO_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    parse(&path.display().to_string(), &text)
}

fn parse(file: &str, text: &str) -> Result<Scenario, CommandError> {
    Scenario::parse(file, text).map_err(|errors| {
        let error =
            CommandError::input("the scenario has errors").hint("docs/scenarios.md describes the format");
        errors.to_string().lines().fold(error, |error, line| error.detail(line.to_owned()))
    })
}

pub(crate) fn run(args: &RehearseArgs) -> Result<ExitCode, CommandError> {
    let before = match args.from.is_empty() {
        true => Vec::new(),
        false => sources::read(&args.from, None, &args.namespace)?,
    };
    let mut sources = sources::read(&args.files, args.kustomize.as_deref(), &args.namespace)?;
    let against::Read { mut before, mut notes, nodes, unread } = match &args.against {
        None => against::Read { before, notes: Vec::new(), nodes: None, unread: 0 },
        Some(context) => {
            let wants_nodes = args.options.nodes.is_none();
            match against::read(context, args.kubeconfig.as_deref(), &sources, wants_nodes)? {
                Some(read) => read,
                None => return Ok(ExitCode::from(session::INTERRUPTED)),
            }
        }
    };
    sources::adapt(&mut before, args.options.seed);
    notes.extend(sources::adapt(&mut sources, args.options.seed));
    let play = Play {
        scenario: args.options.scenario.as_deref().map(scenario).transpose()?.unwrap_or_default(),
        notes,
        nodes,
        unread,
        options: &args.options,
        namespace: &args.namespace,
        speed: args.options.speed.unwrap_or(Speed::Max),
        before,
        sources,
        deletes: None,
    };
    play.run()
}
