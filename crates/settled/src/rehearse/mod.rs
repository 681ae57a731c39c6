//! `settled rehearse` and `settled demo`: a deployment on an API server in this process, with simulated controllers and virtual time.

mod against;
pub(crate) mod cast;
mod demo;
mod ending;
mod network;
mod play;
mod refusal;
mod report;
mod sources;
mod stage;

use std::process::ExitCode;

use settled_rehearsal::Speed;

pub(crate) use self::demo::run as demo;
use self::play::Play;
use crate::cli::rehearse::RehearseArgs;
use crate::error::CommandError;
use crate::session;

pub(crate) fn run(args: &RehearseArgs) -> Result<ExitCode, CommandError> {
    let before = match args.from.is_empty() {
        true => Vec::new(),
        false => sources::read(&args.from, None, &args.namespace)?,
    };
    let mut sources = sources::read(&args.files, args.kustomize.as_deref(), &args.namespace)?;
    let (mut before, mut notes) = match &args.against {
        None => (before, Vec::new()),
        Some(context) => match against::read(context, args.kubeconfig.as_deref(), &sources)? {
            Some(read) => read,
            None => return Ok(ExitCode::from(session::INTERRUPTED)),
        },
    };
    sources::adapt(&mut before, args.options.seed);
    notes.extend(sources::adapt(&mut sources, args.options.seed));
    let play = Play {
        notes,
        options: &args.options,
        namespace: &args.namespace,
        speed: args.options.speed.unwrap_or(Speed::Max),
        before,
        sources,
        deletes: None,
    };
    play.run()
}
