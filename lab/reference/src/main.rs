//! Comparisons of libraries with reference implementations: `settled-reference SUITE PROGRAM ...`. A suite generates inputs from a seed,
//! compares its results with those of a Go program of `conformance/`, and ends with 1 if they differ.

#![allow(clippy::print_stdout, reason = "it prints for the process that started it")]

mod cel;
mod managed_fields;
mod patch;
mod program;
mod protobuf;
mod schema;
mod selectors;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((suite, arguments)) = words.split_first() else { return unknown() };
    let result = match suite.as_str() {
        "cel" => cel::run(arguments),
        "managed-fields" => managed_fields::run(arguments),
        "patch" => patch::run(arguments),
        "schema" => schema::run(arguments),
        "protobuf" => protobuf::run(arguments),
        "selectors" => selectors::run(arguments),
        _ => return unknown(),
    };
    result.unwrap_or_else(|error| {
        println!("{suite}: {error}");
        ExitCode::from(2)
    })
}

fn unknown() -> ExitCode {
    println!("usage: settled-reference cel|managed-fields|patch|protobuf|schema|selectors PROGRAM ...");
    ExitCode::from(2)
}
