//! The project's own tasks. `cargo xtask` without arguments says which there are.
//!
//! What needs no other crate of the project is done here; all else is a task of the lab, which is built when it is first needed.

#![allow(clippy::print_stdout, reason = "these tasks talk to whoever started them")]

mod code_map;
mod structure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a task ends with: whether all was well, or why it could not be done at all.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks
  ci                          everything that .ci/run does
  conformance [--full] [SUITE]
                              ours against reference implementations; all but the last two, in a quick size, unless one is named:
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
  structure [--write-docs]    import cycles, imports of a higher layer, and whether docs/code-map.md is current; --write-docs prints it anew
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
    --rounds N                  so many rounds (5)
    --smoke                     few, small rounds; what comes out is checked, how fast is not
  bench status                `settled status` on dumps of 1 GB
    --smoke                     dumps of 50 MB; nothing fails
  All benchmarks but smoke runs know
    --write-docs                put the tables into docs/performance.md, as they were printed

environment
  SETTLED_BINARY              another `settled` than the one that is built here
  SETTLED_CACHE               where built oracles and generated dumps are kept
                              (default: $XDG_CACHE_HOME/settled or ~/.cache/settled)
  CI=true                     a missing oracle is a failure instead of a skipped suite
";

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["help" | "-h" | "--help", ..] => {
            println!("{USAGE}");
            Ok(0)
        }
        ["ci"] => code(Command::new("bash").arg(root().join(".ci/run"))),
        ["structure"] => holds(&[&structure::run, &|| code_map::run(false)]),
        ["structure", "--write-docs"] => holds(&[&|| code_map::run(true)]),
        _ => lab(&words),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// 0 if all checks hold, else 1; each of them reports what does not.
fn holds(checks: &[&dyn Fn() -> Outcome<bool>]) -> Outcome<u8> {
    let results: Vec<bool> = checks.iter().map(|check| check()).collect::<Outcome<_>>()?;
    Ok(u8::from(!results.iter().all(|holds| *holds)))
}

/// Builds the lab and runs a task of it. Figures are those of the profile that packages are built in.
fn lab(words: &[String]) -> Outcome<u8> {
    let is_measured =
        words.first().is_some_and(|task| task == "bench") && !words.iter().any(|word| word == "--smoke");
    let profile = if is_measured { "dist" } else { "release" };
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "settled-lab", "--profile", profile]);
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--").args(words);
    code(&mut command)
}

/// The exit code of a command; 2 where a signal ended it.
fn code(command: &mut Command) -> Outcome<u8> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}
