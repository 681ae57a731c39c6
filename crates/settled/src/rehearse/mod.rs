//! `settled rehearse` and `settled demo`: a deployment on an API server in this process, with simulated controllers and virtual time.

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

pub(crate) fn run(args: &RehearseArgs) -> Result<ExitCode, CommandError> {
    let before = match args.from.is_empty() {
        true => Vec::new(),
        false => sources::read(&args.from, None, &args.namespace)?,
    };
    let sources = sources::read(&args.files, args.kustomize.as_deref(), &args.namespace)?;
    let play = Play {
        options: &args.options,
        namespace: &args.namespace,
        speed: args.options.speed.unwrap_or(Speed::Max),
        before,
        sources,
        deletes: None,
    };
    play.run()
}
