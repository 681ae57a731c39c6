//! The project's own tasks. `cargo xtask` without arguments says which there are.

#![allow(clippy::print_stdout, reason = "these tasks talk to whoever started them")]

mod accuracy;
mod apiserver;
mod apply;
mod argo;
mod bench_apiserver;
mod bench_rules;
mod bench_status;
mod bench_verdict;
mod builtins;
mod callgrind;
mod cel;
mod clients;
mod corpora;
mod faults;
mod generate;
mod load;
mod measure;
mod oracle;
mod parity;
mod patch;
mod process;
mod protobuf;
mod schema;
mod selectors;
mod server;
mod wire;
mod yaml_golden;

use std::error::Error;
use std::process::ExitCode;

/// What a task ends with: whether all was well, or why it could not be done at all.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks
  ci                          everything that .ci/run does
  conformance [SUITE…]        foreign oracles against ours; the first four unless named:
    kstatus [FILE…]             the profile `kstatus` against upstream's recorded answers
    yaml                        the golden file of Go's YAML reader against the committed one
    managed-fields              server-side apply against structured-merge-diff and apimachinery
    cel                         validation rules of CRDs against apiextensions-apiserver
    patch                       the API's patches against apimachinery and evanphx/json-patch
    selectors                   selectors, JSON paths and Accept headers against Go's libraries
    protobuf                    bodies in protobuf against Kubernetes' own libraries
      --record                    write the sample of the tests anew
    apiserver [FLAG…]           the API server against the real kube-apiserver
      --record                    run the real one only, and write its answers anew
      --recorded                  compare with the recorded answers: no Go is needed
      --at-most N                 let N answers differ without a reason
      --case PATTERN              only the cases FILE/CASE that fit (`*` is any text)
      --walk SEED [--operations N]
                                  only the random walk of that seed (20,000 operations)
      --server URL --token TOKEN --ca FILE
                                  compare a server that runs already instead of starting ours
    schema                      schemas of CustomResourceDefinitions against apiextensions-apiserver
    argo                        Argo CD's health checks in our sandbox against their published tests
  clients [SUITE[/SCRIPT]…]   real clients' scripts on ours, against what they said on the real kube-apiserver:
                              kubectl, helm, control-plane (kube-controller-manager, kube-scheduler, kwok), restart
    --record                    run them on the real one only, and write their recordings anew
    --real                      compare the real one with its recordings
  accuracy                    how often verdicts are right on the corpus, per kind, beside upstream's
    --differences               also each case that differs
    --markdown                  the table as docs/accuracy.md has it
  generate builtins           the data of the API server's built-in kinds, from upstream's published documents
  faults [--cycles N] [--seed N]
                              `settled serve`, killed again and again while it writes
  faults watchers [--seed N]  200 writers and 50 watchers: each watcher ends with what a list has
  bench rules                 what a compiled rule costs, and the pack's load, and the same rule in Lua
    --smoke                     few, short rounds; nothing fails
  bench verdict               bytes to verdict, side by side with Go's decoder
    --smoke                     few, short rounds; only the allocations can fail
    --callgrind                 also count instructions, where valgrind is installed
  bench apiserver             `settled serve` beside kube-apiserver on an etcd that syncs
    --smoke                     seconds of everything, ours alone; nothing fails
  bench status                `settled status` on dumps of 1 GB
    --smoke                     dumps of 50 MB; nothing fails

environment
  SETTLED_CACHE               where built oracles and generated dumps are kept
                              (default: $XDG_CACHE_HOME/settled or ~/.cache/settled)
  CI=true                     a missing oracle is a failure instead of a skipped suite
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Outcome<bool> {
    match words {
        [] | ["help" | "-h" | "--help", ..] => {
            println!("{USAGE}");
            Ok(true)
        }
        ["ci"] => process::passes(std::process::Command::new("bash").arg(corpora::root().join(".ci/run"))),
        ["conformance"] => {
            // All of them, whatever the first ones say.
            let all = [parity::run(&[])?, yaml_golden::run()?, argo::run()?, apply::run()?];
            Ok(all.iter().all(|equal| *equal))
        }
        ["faults", flags @ ..] => faults::run(flags),
        ["conformance", "kstatus", files @ ..] => parity::run(files),
        ["conformance", "yaml"] => yaml_golden::run(),
        ["conformance", "argo"] => argo::run(),
        ["conformance", "managed-fields"] => apply::run(),
        ["conformance", "cel"] => cel::run(),
        ["conformance", "patch"] => patch::run(),
        ["conformance", "selectors"] => selectors::run(),
        ["conformance", "protobuf", flags @ ..] => {
            let [record] = flagged(flags, ["--record"])?;
            protobuf::run(record)
        }
        ["conformance", "apiserver", flags @ ..] => apiserver::run(flags),
        ["conformance", "schema"] => schema::run(),
        ["clients", words @ ..] => clients::run(words),
        ["accuracy", flags @ ..] => {
            let [markdown, differences] = flagged(flags, ["--markdown", "--differences"])?;
            accuracy::run(markdown, differences)
        }
        ["generate", "builtins"] => builtins::run(),
        ["bench", "verdict", flags @ ..] => {
            let [smoke, callgrind] = flagged(flags, ["--smoke", "--callgrind"])?;
            let met = bench_verdict::run(smoke)?;
            if callgrind {
                callgrind::run()?;
            }
            Ok(met)
        }
        ["bench", "apiserver", flags @ ..] => {
            let [smoke] = flagged(flags, ["--smoke"])?;
            bench_apiserver::run(smoke)
        }
        ["bench", "rules", flags @ ..] => {
            let [smoke] = flagged(flags, ["--smoke"])?;
            bench_rules::run(smoke)
        }
        ["bench", "status", flags @ ..] => {
            let [smoke] = flagged(flags, ["--smoke"])?;
            bench_status::run(smoke)
        }
        [callgrind::CHILD, rest @ ..] => callgrind::child(rest),
        _ => Err(format!("no such task: {}\n\n{USAGE}", words.join(" ")).into()),
    }
}

/// Which of the known flags were given.
fn flagged<const N: usize>(given: &[&str], known: [&str; N]) -> Outcome<[bool; N]> {
    if let Some(unknown) = given.iter().find(|flag| !known.contains(flag)) {
        return Err(format!("no such flag: {unknown}; there are {}", known.join(", ")).into());
    }
    Ok(known.map(|flag| given.contains(&flag)))
}
