//! Benchmarks, comparisons with reference implementations, fault injection: what takes servers, Go programs and time. Run by
//! `cargo xtask`, which lists the tasks.

#![allow(clippy::print_stdout, reason = "these tasks talk to whoever started them")]

mod accuracy;
mod bench;
mod builtins;
mod clients;
mod cluster;
mod conformance;
mod corpora;
mod faults;
mod measure;
mod oracle;
mod process;
mod server;

use std::error::Error;
use std::process::ExitCode;

/// What a task ends with: whether all was well, or why it could not be done at all.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks
  ci                          everything that .ci/run does
  conformance [--full] [SUITE]
                              foreign oracles against ours; all but the last, in a quick size, unless one is named:
    kstatus [FILE…]             the profile `kstatus` against upstream's recorded answers
    yaml                        the golden file of Go's YAML reader against the committed one
    argo                        Argo CD's health checks in our sandbox against their published tests
    managed-fields              server-side apply against structured-merge-diff and apimachinery
    cel                         validation rules of CRDs against apiextensions-apiserver
    patch                       the API's patches against apimachinery and evanphx/json-patch
    schema                      schemas of CustomResourceDefinitions against apiextensions-apiserver
    selectors                   selectors, JSON paths and Accept headers against Go's libraries
    protobuf                    bodies in protobuf against Kubernetes' own libraries
      --record                    write the sample of the tests anew
      the last six:
      --quick                     as many questions as a run of all suites asks; all of them unless said
      --seed N                    other questions
    apiserver [FLAG…]           the API server against the real kube-apiserver
      --record                    run the real one only, and write its answers anew
      --recorded                  compare with the recorded answers: no Go is needed
      --at-most N                 let N answers differ without a reason
      --case PATTERN              only the cases FILE/CASE that fit (`*` is any text)
      --walk SEED [--operations N]
                                  only the random walk of that seed (20,000 operations)
      --server URL --token TOKEN --ca FILE
                                  compare a server that runs already instead of starting ours
    live [SCENARIO…] [FLAG…]    what `settled wait`, kubectl and Helm come to, on a real control plane and with its controllers on ours
      --quick                     on ours only, without slow scenarios
      --server settled|kube-apiserver
                                  on that one only
      --rivals                    without ours
      --show                      what each of them says, too
      --write-docs                run nothing; write the table of differences into docs/comparison.md
  clients [SUITE[/SCRIPT]…]   real clients' scripts on ours, against what they said on the real kube-apiserver:
                              kubectl, helm, control-plane (kube-controller-manager, kube-scheduler, kwok), restart
    --record                    run them on the real one only, and write their recordings anew
    --real                      compare the real one with its recordings
    --meant                     show what differs as the scripts say, too
  accuracy                    how often verdicts are right, beside upstream's: on the pack's own cases, and per kind on the published ones
    --differences               also each case that differs
    --markdown                  the table as docs/accuracy.md has it
  structure [--write-docs]    files that import each other in a circle: no others than the known ones; the code map in docs/code-map.md
  generate builtins           the data of the API server's built-in kinds, from upstream's published documents
  faults [FAULT…] [--quick] [--seed N]
                              what befalls `settled serve`, and what it keeps to; all unless named:
    connections                 half open ones: half a greeting, half a request, half a body
    kill [--cycles N]           killed again and again while it writes (1,000 cycles)
    watchers                    200 writers and 50 watchers: each watcher ends with what a list has
    disk                        a full one, and starts on it
    clock                       jumps by hours and by centuries
    slow                        watchers that don't read
    garbage                     bytes that are no TLS, no HTTP/1.1, no HTTP/2
    hostile                     requests as expensive as can be, and bodies that never end
    --quick                     as much as fits into CI
  bench rules                 what a compiled rule costs, and the pack's load, and the same rule in Lua
    --smoke                     few, short rounds; nothing fails
  bench verdict               bytes to verdict, side by side with Go's decoder
    --smoke                     few, short rounds; only the allocations can fail
    --callgrind                 also count instructions, where valgrind is installed
  bench apiserver             `settled serve` beside kube-apiserver on an etcd that syncs
    --smoke                     seconds of everything, ours alone; nothing fails
  bench wait [PART…]          `settled wait` beside kubectl, Helm 4, a polling loop, an informer and a reflector; all parts unless named:
    detect                      from the last status to the exit
    fail                        from a failure to the exit
    requests                    what is asked of the server, by verb
    memory                      with some or all of many Pods tracked
    large                       thousands of large Pods in every state: time and memory of a look and of a wait
    --server settled|kube-apiserver
                                on which server (both; requests, memory and large on settled)
    --rivals                    without ours
    --rounds N                  so many rounds (10)
    --smoke                     few, small rounds; what comes out is checked, how fast is not
  bench status                `settled status` on dumps of 1 GB
    --smoke                     dumps of 50 MB; nothing fails
  All benchmarks but smoke runs know
    --write-docs                put the tables into docs/performance.md, as they were printed

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
        ["conformance", words @ ..] => conformance::run(words),
        ["faults", flags @ ..] => faults::run(flags),
        ["clients", words @ ..] => clients::run(words),
        ["accuracy", flags @ ..] => {
            let [markdown, differences] = flagged(flags, ["--markdown", "--differences"])?;
            accuracy::run(markdown, differences)
        }
        ["generate", "builtins"] => builtins::run(),
        ["bench", words @ ..] => bench::run(words),
        _ => unknown(words),
    }
}

fn unknown(words: &[&str]) -> Outcome<bool> {
    Err(format!("no such task: {}\n\n{USAGE}", words.join(" ")).into())
}

/// Which of the known flags were given.
fn flagged<const N: usize>(given: &[&str], known: [&str; N]) -> Outcome<[bool; N]> {
    if let Some(unknown) = given.iter().find(|flag| !known.contains(flag)) {
        return Err(format!("no such flag: {unknown}; there are {}", known.join(", ")).into());
    }
    Ok(known.map(|flag| given.contains(&flag)))
}
