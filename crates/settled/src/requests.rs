//! Request log and server warnings on standard error, as kubectl prints them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use settled_tracker::connection::{Exchange, Verb};

use crate::cli::args::ClusterArgs;
use crate::stderr;
use crate::style::Palette;
use crate::text;

/// From this level on, `-v` prints requests. kubectl prints headers and bodies from 7 on; nothing here prints the content of objects.
const REQUESTS_LEVEL: u8 = 6;

/// Whether the warnings of a server are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// Those about what is written.
    Printed,
    Ignored,
}

/// Whether requests are printed while a command runs.
pub(crate) fn are_logged(args: &ClusterArgs) -> bool {
    args.verbosity >= REQUESTS_LEVEL
}

/// Prints requests if the arguments say so, and each warning once.
pub(crate) fn observer(
    args: &ClusterArgs,
    server: String,
    warnings: Warnings,
) -> impl Fn(&Exchange) + Send + Sync + 'static {
    let logged = are_logged(args);
    let seen = Mutex::new(HashSet::new());
    move |exchange: &Exchange| {
        if logged {
            stderr::print_line(&line(&server, exchange));
        }
        // An overview lists kinds that may be deprecated; the user did not choose them.
        if warnings == Warnings::Ignored || exchange.verb != Verb::Write {
            return;
        }
        for warning in &exchange.warnings {
            if seen.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.clone()) {
                let label = Palette::stderr().warning("Warning:");
                stderr::print_line(&format!("{label} {}", text::clean(warning)));
            }
        }
    }
}

/// `GET https://127.0.0.1:6443/api 200 OK in 8 milliseconds`
fn line(server: &str, exchange: &Exchange) -> String {
    let answer = match exchange.status {
        Some(status) => format!("{status} {}", exchange.status_text()),
        None => "no answer".to_owned(),
    };
    let line = format!(
        "{} {server}{} {} in {} milliseconds",
        exchange.method,
        exchange.path,
        answer.trim_end(),
        exchange.elapsed.as_millis()
    );
    text::clean(&line)
}
