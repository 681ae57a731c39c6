//! Project tasks. `cargo xtask` without arguments lists them.
//!
//! Tasks that need other crates of the project belong to the lab, which is built when it is first needed.

#![allow(clippy::print_stdout, reason = "the tasks print their results")]

mod code_map;
mod structure;

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Result of a task: an exit condition, or the error that prevented it.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks
  ci                          run all steps of CI (.ci/run)
  conformance [--full] [SUITE]
                              compare with reference implementations; without a suite, all but apiserver, live and rehearse with few random cases:
    kstatus [FILE…]             profile `kstatus` with recorded upstream answers
    yaml                        golden file of Go's YAML reader with new answers
    argo                        Lua sandbox with Argo CD's published health checks and tests
    managed-fields              server-side apply with structured-merge-diff and apimachinery
    cel                         CRD validation rules with apiextensions-apiserver
    patch                       patches with apimachinery and evanphx/json-patch
    schema                      CRD schemas with apiextensions-apiserver
    selectors                   selectors, JSONPath and Accept headers with Go's libraries
    protobuf                    protobuf request bodies with Kubernetes' libraries
      --record                    write the sample for the tests
      of the last six:
      --quick                     as few cases as without a suite
      --seed N                    other random cases
    apiserver [FLAG…]           API server with kube-apiserver
      --record                    run kube-apiserver only, and record its responses
      --recorded                  compare with the recorded responses, without Go
      --at-most N                 accept N unexplained differences
      --case PATTERN              select cases as FILE/CASE (`*` is any text)
      --walk SEED [--operations N]
                                  only the random walk with this seed (20,000 operations)
      --server URL --token TOKEN --ca FILE
                                  compare a running server
    live [SCENARIO…] [FLAG…]    results of `settled wait`, kubectl and Helm on a real control plane, and on `settled serve` with its controllers
      --quick                     on `settled serve`, without slow scenarios
      --server settled|kube-apiserver
                                  only on this server
      --competitors               only the other tools
      --show                      print the output of each tool
      --write-docs                only write the table of differences into docs/comparison.md
    rehearse [SCENARIO…] [FLAG…]
                                what simulated controllers do, and kube-controller-manager and kube-scheduler
      --quick                     a quarter of the scenarios
      --show                      print all lines, not only those that differ
  clients [SUITE[/SCRIPT]…]   client scripts on `settled serve` with their recorded output on kube-apiserver:
                              kubectl, controllers (the kit's examples), helm, control-plane (kube-controller-manager,
                              kube-scheduler, kwok), restart
    --record                    run kube-apiserver only, and record the output
    --real                      compare kube-apiserver with its recordings
    --meant                     show intended differences, too
  accuracy                    accuracy of verdicts and of upstream kstatus: on the test cases of the pack, and by kind on the published cases
    --differences               list each case that differs
    --markdown                  print the table of docs/accuracy.md
  structure [--write-docs]    check import cycles, layers, features and docs/code-map.md; --write-docs prints the code map
  generate builtins           generate the data of the built-in kinds from upstream's published documents
  faults [FAULT…] [--quick] [--seed N]
                              inject faults into `settled serve`; all unless named:
    connections                 half-open connections: half a handshake, request or body
    kill [--cycles N]           repeated kills during writes (1,000 cycles)
    watchers                    200 writers and 50 watches that end with the state of a list
    disk                        full disk, and starts on it
    clock                       clock jumps by hours and by centuries
    slow                        watches that are not read
    garbage                     bytes that are no TLS, HTTP/1.1 or HTTP/2
    hostile                     maximally expensive requests, and endless bodies
    --quick                     the size that CI runs
  faults controllers [SCHEDULES [SEED]]
                              every fault at every write of the example controllers and of the built-in controllers, and pairs of faults:
                              at most SCHEDULES (10,000) of each scenario
  bench rules                 evaluation of a compiled rule, startup time of the pack, and the same rules in Lua
    --smoke                     few short rounds, without bars
  bench verdict               time from bytes to verdict, and Go's decoder
    --smoke                     few short rounds; only allocations can fail
    --callgrind                 also count instructions, with valgrind
  bench apiserver             `settled serve`, and kube-apiserver with a synced etcd
    --smoke                     seconds of each part, without kube-apiserver and bars
  bench wait [PART…]          `settled wait`, kubectl, Helm 4, a polling loop, an informer and a reflector; all parts unless named:
    detect                      latency from the last status to the exit
    fail                        latency from a failure to the exit
    requests                    requests by verb
    memory                      memory with some or all of many Pods tracked
    large                       thousands of large Pods in every state: time and memory of `status` and `wait`
    earlier                     latency, memory and large beside an earlier binary, if SETTLED_EARLIER is set
    --server settled|kube-apiserver
                                server (both; requests, memory and large on settled)
    --competitors               only the other tools
    --rounds N                  number of rounds (5)
    --smoke                     few small rounds; checks results, not times
  bench cache                 filtered cache of 15,000 Pods, kube-rs' reflector, client-go's informer, controller-runtime's cache
    --smoke                     500 Pods; bars are not checked
  bench faults                schedules per minute of `faults controllers`
    --smoke                     few schedules, without the bar
  bench status                `settled status` on dumps of 1 GB
  bench netpol                10,000 network policies, and the connections between 1,000 Pods
  bench machines              10,000 simulated Machines, rollouts of 1,000, plans, and hosts in network namespaces
    --smoke                     a hundredth of them, without bars
  bench rehearse              rehearsals of a small shop, and of 1,000 Deployments with 10,000 Pods
    --smoke                     dumps of 50 MB, without bars
  all benchmarks without --smoke:
    --write-docs                write the tables into docs/performance.md

environment
  SETTLED_BINARY              another `settled` binary
  SETTLED_EARLIER             an earlier binary, with which `bench apiserver` compares instead of kube-apiserver,
                              and `bench wait earlier`
  SETTLED_CACHE               directory of built reference implementations and generated dumps
                              (default: $XDG_CACHE_HOME/settled or ~/.cache/settled)
  CI=true                     missing reference implementations are failures instead of skipped
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
        ["ci"] => code(program("bash").arg(root().join(".ci/run"))),
        ["faults", "controllers", ref numbers @ ..] => {
            worst(&[("settled-faults", "controllers"), ("settled-controller", "faults")], numbers)
        }
        ["structure"] => holds(&[&structure::run, &|| code_map::run(false), &features]),
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

/// Runs examples with the same arguments, all of them; the highest exit code.
fn worst(examples: &[(&str, &str)], arguments: &[&str]) -> Outcome<u8> {
    let run = |(package, example): &(&str, &str)| {
        let mut command = program("cargo");
        // Optimized as by its users, whose release profile has no other levels.
        command.args([
            "run",
            "--profile",
            "dist",
            "--quiet",
            "--package",
            package,
            "--example",
            example,
            "--",
        ]);
        code(command.args(arguments).current_dir(root()))
    };
    let codes: Vec<u8> = examples.iter().map(run).collect::<Outcome<_>>()?;
    Ok(codes.into_iter().max().unwrap_or_default())
}

/// 0 if all checks hold, else 1; each of them reports what does not.
fn holds(checks: &[&dyn Fn() -> Outcome<bool>]) -> Outcome<u8> {
    let results: Vec<bool> = checks.iter().map(|check| check()).collect::<Outcome<_>>()?;
    Ok(u8::from(!results.iter().all(|holds| *holds)))
}

/// The programs of the lab, and the binary that they start. Built together, and with the features that the binary has alone, so that no
/// dependency is built twice; `structure` checks that.
const LAB: [&str; 4] = ["settled", "settled-lab", "settled-allocations", "settled-reference"];

/// Builds the lab and runs a task of it. Figures are those of what packages hold: of their profile, and with their options.
fn lab(words: &[String]) -> Outcome<u8> {
    let is_measured =
        words.first().is_some_and(|task| task == "bench") && !words.iter().any(|word| word == "--smoke");
    let profile = if is_measured { "dist" } else { "release" };
    // Beside the directory of this program's profile.
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).ok_or("this program is in no target directory")?;
    let mut directory = target.join(profile);
    let mut options = Vec::new();
    if is_measured {
        let host = output(program("rustc").args(["--print", "host-tuple"]))?;
        let flags = output(program("bash").arg(root().join("packaging/flags.sh")).arg(&host))?;
        if !flags.contains("profile-use") {
            println!(
                "Measured without the profile that packages have: packaging/profile.sh {host} writes it."
            );
        }
        directory = target.join(&host).join(profile);
        // Examples that the lab builds get them, too.
        options = vec![("CARGO_BUILD_TARGET", host), ("CARGO_ENCODED_RUSTFLAGS", flags)];
    }
    let mut command = program("cargo");
    command.args(["build", "--quiet", "--locked", "--profile", profile]);
    command.args(LAB.iter().flat_map(|package| ["--package", package]));
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).envs(options.clone());
    let built = code(&mut command)?;
    if built != 0 {
        return Ok(built);
    }
    code(program(directory.join("settled-lab")).args(words).envs(options))
}

/// Whether what `settled` is built from has the same features beside the lab as alone.
fn features() -> Outcome<bool> {
    let tree = |packages: &[&str]| -> Outcome<BTreeSet<String>> {
        let mut command = program("cargo");
        command.args(["tree", "--quiet", "--locked", "--edges", "normal,build", "--prefix", "none"]);
        command.args(["--format", "{p} {f}"]);
        command.args(packages.iter().flat_map(|package| ["--package", package])).current_dir(root());
        Ok(output(&mut command)?.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
    };
    let (alone, all) = (tree(&LAB[..1])?, tree(&LAB)?);
    for package in alone.difference(&all) {
        println!("the lab adds features to a dependency of `settled`, which is built twice then: {package}");
    }
    Ok(alone.is_subset(&all))
}

/// A command without the variables that cargo sets for this package: build scripts look at it, and `ring`, with all that stands on it, would
/// be built anew whenever another program had started cargo.
fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&variable);
        }
    }
    command
}

/// What a command prints, without the end of the last line.
fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// The exit code of a command; 2 where a signal ended it.
fn code(command: &mut Command) -> Outcome<u8> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}
