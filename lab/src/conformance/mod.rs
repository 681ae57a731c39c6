//! Conformance with reference implementations: recorded answers, Go programs around upstream's libraries, real servers
//! and clients.

mod apiserver;
mod argo;
mod differential;
mod kstatus;
mod live;
mod protobuf;
mod rehearse;
mod yaml;

use std::time::Instant;

use differential::Size;

use crate::Outcome;
use crate::measure::Table;

/// Runs `conformance [--full] [SUITE [FLAG…]]`; false if results differ.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    match words {
        [] => all(Size::QUICK),
        ["--full"] => all(Size::FULL),
        ["kstatus", files @ ..] => kstatus::run(files),
        ["yaml"] => yaml::run(),
        ["argo"] => argo::run(),
        ["apiserver", flags @ ..] => apiserver::run(flags),
        ["live", words @ ..] => live::run(words),
        ["rehearse", words @ ..] => rehearse::run(words),
        ["protobuf", "--record"] => protobuf::record(),
        [suite, flags @ ..] => {
            let suite = differential::find(suite).ok_or_else(|| format!("no such suite: {suite}"))?;
            suite.run(Size::parse(flags)?)
        }
    }
}

/// All suites except those of servers. Continues after a failed suite.
fn all(size: Size) -> Outcome<bool> {
    let mut equal = true;
    let mut table = Table::new(["suite", "seconds", ""]);
    let mut suite = |name: &str, run: &dyn Fn() -> Outcome<bool>| -> Outcome<()> {
        let start = Instant::now();
        let passed = run()?;
        equal &= passed;
        let outcome = if passed { "" } else { "FAILED" };
        table.row([name.to_owned(), format!("{:.1}", start.elapsed().as_secs_f64()), outcome.to_owned()]);
        Ok(())
    };
    suite("kstatus", &|| kstatus::run(&[]))?;
    suite("yaml", &yaml::run)?;
    suite("argo", &argo::run)?;
    for differential in &differential::SUITES {
        suite(differential.name, &|| differential.run(size))?;
    }
    println!();
    table.print();
    Ok(equal)
}
