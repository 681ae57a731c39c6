//! `settled demo`: built-in examples.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use settled_rehearsal::Speed;
use settled_tracker::Target;

use super::play::Play;
use super::sources;
use crate::cli::rehearse::{DemoArgs, DemoName};
use crate::error::CommandError;
use crate::output;
use crate::stderr;

/// An example.
struct Demo {
    /// What happens.
    title: &'static str,
    /// The version before.
    before: Option<&'static str>,
    manifests: &'static str,
    scenario: Option<&'static str>,
    /// Namespace that is deleted at the end.
    deletes: Option<&'static str>,
    /// How fast it is played on a terminal.
    speed: f64,
}

const SHOP: &str = include_str!("../../../../demo/good/shop.yaml");

fn demo(name: DemoName) -> Demo {
    let plain = Demo { title: "", before: None, manifests: SHOP, scenario: None, deletes: None, speed: 5.0 };
    match name {
        DemoName::Good => Demo { title: "a small shop is deployed, and becomes ready", ..plain },
        DemoName::Image => Demo {
            title: "the shop is updated to an image that does not exist",
            before: Some(SHOP),
            manifests: include_str!("../../../../demo/broken/shop.yaml"),
            speed: 20.0,
            ..plain
        },
        DemoName::Crash => Demo {
            title: "a container crashes at its start",
            manifests: include_str!("../../../../demo/crash/shop.yaml"),
            scenario: Some(include_str!("../../../../demo/crash/scenario.yaml")),
            speed: 20.0,
            ..plain
        },
        DemoName::Quota => Demo {
            title: "a quota allows fewer Pods than the shop needs",
            manifests: include_str!("../../../../demo/quota/shop.yaml"),
            speed: 20.0,
            ..plain
        },
        DemoName::Finalizer => Demo {
            title: "the shop is deleted, and a finalizer keeps its namespace",
            manifests: include_str!("../../../../demo/finalizer/shop.yaml"),
            deletes: Some("/api/v1/namespaces/shop"),
            speed: 20.0,
            ..plain
        },
        DemoName::Node => Demo {
            title: "a Node dies while the shop is running on it",
            before: Some(SHOP),
            manifests: include_str!("../../../../demo/node/shop.yaml"),
            scenario: Some(include_str!("../../../../demo/node/scenario.yaml")),
            speed: 60.0,
            ..plain
        },
    }
}

pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode, CommandError> {
    let Demo { title, before, manifests, scenario, deletes, speed } = demo(args.name);
    if args.print {
        let scenario =
            scenario.map(|scenario| format!("# The scenario, for --scenario FILE:\n{scenario}---\n"));
        output::print(scenario.unwrap_or_default().as_bytes())?;
        output::print(manifests.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.options.show.quiet {
        stderr::print_line(&format!("Demo: {title}. Nothing of it happens outside of this process."));
    }
    let paced = if io::stderr().is_terminal() { Speed::Times(speed) } else { Speed::Max };
    let namespace = "shop";
    let parse = |text: &'static str| sources::parse("demo.yaml", text, namespace);
    let own = match &args.options.scenario {
        Some(path) => Some(super::scenario(path)?),
        None => scenario.map(|text| super::parse("scenario.yaml", text)).transpose()?,
    };
    let play = Play {
        scenario: own.unwrap_or_default(),
        notes: Vec::new(),
        nodes: None,
        unread: 0,
        options: &args.options,
        namespace,
        speed: args.options.speed.unwrap_or(paced),
        before: before.map(parse).transpose()?.unwrap_or_default(),
        sources: parse(manifests)?,
        deletes: deletes.map(|path| (path, Target::object("namespace", None, namespace))),
    };
    play.run()
}
