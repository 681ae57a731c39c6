//! One binary: it links once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of tests fails like a test")]

mod health;
mod limits;
mod patterns;
mod sandbox;

use std::time::Duration;

use settled_lua::{Error, Health, Limits, Script};

/// The default but for the time, which depends on what else the machine does.
const LIMITS: Limits = Limits { instructions: 1_000_000, memory: 32 << 20, time: Duration::from_secs(600) };

/// Runs a script once, on an object.
fn run(source: &str, object: &str) -> Result<Health, Error> {
    Script::new("health.lua", source)?.run(object.as_bytes(), &LIMITS)
}

/// The message of a script that must come to an end.
#[track_caller]
fn message(source: &str, object: &str) -> String {
    match run(source, object) {
        Ok(health) => health.message,
        Err(why) => panic!("{why}\n{source}"),
    }
}

/// What a list of statements leaves in `say`, which takes any number of values.
#[track_caller]
fn said(statements: &str) -> String {
    let source = format!(
        "local said = {{}}
         local function say(...)
           for i = 1, select('#', ...) do said[#said + 1] = tostring((select(i, ...))) end
         end
         {statements}
         return {{ status = 'Healthy', message = table.concat(said, ' ') }}"
    );
    message(&source, "{}")
}
