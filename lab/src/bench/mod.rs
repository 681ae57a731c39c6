//! Benchmarks with competitors, and their tables in the documentation.

mod apiserver;
mod cache;
mod callgrind;
mod faults;
mod generate;
mod load;
mod machines;
mod netpol;
mod page;
mod policies;
mod proxy;
mod reflector;
mod rehearse;
mod reporter;
mod rules;
mod status;
mod verdict;
mod wait;
mod waiters;

use crate::{Outcome, flagged};

/// Runs `bench NAME [FLAG…]`; false if a bar is missed.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    match words {
        ["verdict", "--train"] => verdict::train().map(|()| true),
        ["verdict", flags @ ..] => {
            let [smoke, callgrind, write_docs] = flagged(flags, ["--smoke", "--callgrind", "--write-docs"])?;
            let met = verdict::run(smoke, write_docs)?;
            if callgrind {
                callgrind::run()?;
            }
            Ok(met)
        }
        ["apiserver", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            apiserver::run(smoke, write_docs)
        }
        ["cache", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            cache::run(smoke, write_docs)
        }
        ["faults", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            faults::run(smoke, write_docs)
        }
        ["wait", words @ ..] => wait::run(words),
        ["rules", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            rules::run(smoke, write_docs)
        }
        ["netpol", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            netpol::run(smoke, write_docs)
        }
        ["machines", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            machines::run(smoke, write_docs)
        }
        ["rehearse", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            rehearse::run(smoke, write_docs)
        }
        ["status", flags @ ..] => {
            let [smoke, write_docs] = flagged(flags, ["--smoke", "--write-docs"])?;
            status::run(smoke, write_docs)
        }
        // Measured child processes.
        [reflector::CHILD, rest @ ..] => reflector::child(rest),
        [callgrind::CHILD, rest @ ..] => callgrind::child(rest),
        [rules::CHILD] => rules::child(),
        _ => Err(format!("no such benchmark: {}; `cargo xtask help` lists them", words.join(" ")).into()),
    }
}
