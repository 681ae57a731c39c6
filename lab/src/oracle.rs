//! Reference implementations: Go programs, built once and cached outside of the repository, and files of Go modules.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;

use crate::{Outcome, corpora, process};

/// A reference implementation, or its absence.
pub(crate) enum Oracle {
    /// Path of the program, or of the module's directory.
    Ready(PathBuf),
    /// Not available on this machine. With `CI=true`, this is an error instead.
    Skipped(String),
}

/// Cache directory for builds and generated data.
pub(crate) fn cache() -> Outcome<PathBuf> {
    let directory = if let Some(directory) = std::env::var_os("SETTLED_CACHE") {
        PathBuf::from(directory)
    } else if let Some(directory) = std::env::var_os("XDG_CACHE_HOME") {
        Path::new(&directory).join("settled")
    } else {
        let home = std::env::home_dir().ok_or("no home directory: set SETTLED_CACHE")?;
        home.join(".cache/settled")
    };
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory)
}

/// Builds the Go module `conformance/NAME` unless the cache has the same version built with the same Go.
pub(crate) fn build(name: &str) -> Outcome<Oracle> {
    build_package(name, name, ".", &[])
}

/// An upstream program built from its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    Kwok,
    Helm,
}

/// Builds an upstream program in the versions of `conformance/{etcd,kubernetes,helm}`. The first program of Kubernetes
/// takes minutes.
pub(crate) fn program(program: Program) -> Outcome<Oracle> {
    let (module, name, package) = match program {
        Program::Etcd => ("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Program::KubeApiserver => ("kubernetes", "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program::KubeControllerManager => {
            ("kubernetes", "kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager")
        }
        Program::KubeScheduler => ("kubernetes", "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program::Kubectl => ("kubernetes", "kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        Program::Kwok => ("kubernetes", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program::Helm => ("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
    };
    let flags = match module {
        "kubernetes" => format!("-s -w {}", kubernetes_version()?),
        _ => "-s -w".to_owned(),
    };
    build_package(module, name, package, &["-ldflags", &flags])
}

/// Linker flags with the version of Kubernetes: without it kube-apiserver refuses to start.
fn kubernetes_version() -> Outcome<String> {
    let file = corpora::root().join("conformance/kubernetes/go.mod");
    let text = fs::read_to_string(&file)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let version = line.ok_or("conformance/kubernetes/go.mod requires no k8s.io/kubernetes")?;
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let flag = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    Ok([flag("gitVersion", &format!("v{version}")), flag("gitMajor", major), flag("gitMinor", minor)]
        .join(" "))
}

/// Builds a package in the context of the Go module `conformance/MODULE`, unless the cache has a build of the same
/// files with the same Go.
fn build_package(module: &str, name: &str, package: &str, flags: &[&str]) -> Outcome<Oracle> {
    let directory = corpora::root().join("conformance").join(module);
    let Some(go) = process::find("go") else {
        return missing(format!("conformance/{module} needs Go, and no `go` is in PATH"));
    };

    let mut hasher = DefaultHasher::new();
    let version = Command::new(&go).arg("version").output()?.stdout;
    version.hash(&mut hasher);
    hash_directory(&directory, &mut hasher)?;
    flags.hash(&mut hasher);
    let program = cache()?.join(format!("{name}-{:016x}", hasher.finish()));
    if program.is_file() {
        return Ok(Oracle::Ready(program));
    }

    println!("building {name} from conformance/{module} with {}", String::from_utf8_lossy(&version).trim());
    let start = Instant::now();
    // Built under a temporary name, so that concurrent or interrupted builds leave no incomplete program.
    let unfinished = program.with_extension(format!("{}.unfinished", std::process::id()));
    let built = process::passes(
        Command::new(&go)
            .args(["build", "-trimpath", "-mod=readonly"])
            .args(flags)
            .arg("-o")
            .arg(&unfinished)
            .arg(package)
            .env("CGO_ENABLED", "0")
            .current_dir(&directory),
    )?;
    if !built {
        return Err(format!("{name} of conformance/{module} does not build").into());
    }
    fs::rename(&unfinished, &program)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(Oracle::Ready(program))
}

/// An upstream module.
pub(crate) struct Module {
    pub(crate) path: &'static str,
    pub(crate) version: &'static str,
    /// Its checksum in `go.sum`: no other content is used.
    pub(crate) sum: &'static str,
}

/// The directory of a Go module's files in Go's module cache, downloaded if necessary. Nothing is built.
pub(crate) fn download(module: &Module) -> Outcome<Oracle> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Downloaded {
        dir: Option<PathBuf>,
        sum: String,
        error: String,
    }

    let Module { path, version, sum } = module;
    let name = format!("{path}@{version}");
    let Some(go) = process::find("go") else {
        return missing(format!("{name} needs Go, and no `go` is in PATH"));
    };
    // A module without dependencies, so that nothing else is downloaded.
    let directory = cache()?.join(format!("{}-{version}", path.replace('/', "-")));
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("go.mod"), "module settled.dev/throwaway\n")?;
    let mut command = Command::new(&go);
    command.current_dir(&directory);
    // Nothing is built, so no newer Go is downloaded.
    command.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    let output = process::started(command.args(["mod", "download", "-json", &name]).output(), &command)?;
    let answer: Downloaded = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if answer.sum.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = if answer.error.is_empty() { said.trim() } else { answer.error.trim() };
        return missing(format!("cannot download {name}: {why}"));
    }
    if answer.sum != *sum {
        return Err(format!("{name} has the checksum {}, expected {sum}", answer.sum).into());
    }
    // A Go older than the module requires unpacks it, but does not print its directory.
    let unpacked = match answer.dir {
        Some(directory) => directory,
        None => {
            let output = Command::new(&go).args(["env", "GOMODCACHE"]).output()?;
            Path::new(String::from_utf8(output.stdout)?.trim()).join(&name)
        }
    };
    if unpacked.is_dir() {
        return Ok(Oracle::Ready(unpacked));
    }
    missing(format!("cannot unpack {name}: {}", answer.error.trim()))
}

/// Reports a missing reference implementation: an error with `CI=true`.
fn missing(reason: String) -> Outcome<Oracle> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        return Err(reason.into());
    }
    Ok(Oracle::Skipped(reason))
}

/// Hash of the names and contents of a directory's files, independent of their order.
fn hash_directory(directory: &Path, hasher: &mut DefaultHasher) -> Outcome<()> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        path.file_name().hash(hasher);
        if path.is_dir() {
            hash_directory(&path, hasher)?;
        } else {
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
