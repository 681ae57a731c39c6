//! JSON, JSON lines and YAML of `netpol` commands.

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::row::{Report, State};
use crate::error::CommandError;
use crate::output::{self, Stopped};
use crate::render::write_json_line;

/// Prints a report as one object.
pub(in crate::netpol) fn report(report: &Report, is_yaml: bool) -> Result<(), CommandError> {
    let Ok(Value::Object(mut value)) = serde_json::to_value(report) else { return Ok(()) };
    let counts = State::ALL.iter().map(|state| (state.as_str().to_owned(), json!(report.count(*state))));
    value.insert("summary".to_owned(), Value::Object(counts.collect()));
    print(&value, is_yaml)
}

/// Prints a line for each policy.
pub(in crate::netpol) fn lines(report: &Report) -> Result<(), CommandError> {
    let mut out = output::stdout();
    let written = report.policies.iter().try_for_each(|row| write_json_line(row, &mut out));
    Stopped::forgive(written.and_then(|()| out.flush()).map_err(Stopped::from))
}

/// Prints a value as JSON or YAML.
pub(in crate::netpol) fn print<T: Serialize>(value: &T, is_yaml: bool) -> Result<(), CommandError> {
    if !is_yaml {
        return output::print_json(value);
    }
    let (mut json, mut yaml) = (Vec::new(), Vec::new());
    // Neither fails: our own JSON is JSON, and memory takes all of it.
    write_json_line(value, &mut json).ok();
    settled_manifest::write_yaml(&json, &mut yaml).ok();
    output::print(&yaml)
}
