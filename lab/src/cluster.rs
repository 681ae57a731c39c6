//! Cluster fixture: controllers, scheduler and kwok for a server, and the environment of client commands.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use settled_conformance::IDENTITIES;

use crate::oracle::{self, Oracle, Program};
use crate::server::{self, Server};
use crate::{Outcome, corpora, examples, process};

/// Real controllers beside a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Only those that `settled serve` has built in, and only beside kube-apiserver.
    BuiltIn,
    /// All of kube-controller-manager's, the scheduler, and kwok as kubelets.
    All,
    /// Only kwok: the server simulates the others.
    Kubelets,
}

/// Controllers built into `settled serve`, by kube-controller-manager's names.
const BUILT_IN: &str = "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,\
    root-ca-certificate-publisher-controller,resourcequota-controller,clusterrole-aggregation-controller";
/// The module of kwok, which contains its stages.
const KWOK: oracle::Module = oracle::Module {
    path: "sigs.k8s.io/kwok",
    version: "v0.8.0",
    sum: "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
};
/// Stages of fake kubelets: nodes and their leases, and Pods that run at once and complete if they belong to a Job.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
];

/// Clients and cluster components, by the names that commands use.
pub(crate) const ALL_PROGRAMS: [(&str, Program); 5] = [
    ("kubectl", Program::Kubectl),
    ("helm", Program::Helm),
    ("kube-controller-manager", Program::KubeControllerManager),
    ("kube-scheduler", Program::KubeScheduler),
    ("kwok", Program::Kwok),
];

/// Environment of commands: programs by name, a kubeconfig, a home directory.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) bin: PathBuf,
    pub(crate) kubeconfig: PathBuf,
}

impl Place {
    /// An environment with these programs. `None`, after printing the reason, if one is not available.
    pub(crate) fn new(server: &Server, programs: &[(&str, Program)]) -> Outcome<Option<Self>> {
        let directory = server.directory.join("clients");
        let bin = directory.join("bin");
        fs::create_dir_all(&bin)?;
        for (name, program) in programs.iter().copied() {
            match oracle::program(program)? {
                Oracle::Ready(path) => symlink(path, bin.join(name))?,
                Oracle::Skipped(why) => {
                    println!("SKIPPED: {why}");
                    return Ok(None);
                }
            }
        }
        let kubeconfig = directory.join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_text(&server.url, &server.ca, "default"))?;
        Ok(Some(Self { directory, bin, kubeconfig }))
    }

    /// Adds examples of `crates/controller` as programs.
    pub(crate) fn add_examples(&self, names: &[&str]) -> Outcome<()> {
        for name in names {
            symlink(
                examples::build("settled-controller", name, examples::Beside::Tests)?,
                self.bin.join(name),
            )?;
        }
        Ok(())
    }

    /// Sets the environment of a command: cluster and programs.
    pub(crate) fn environment(&self, command: &mut Command) {
        command.env("PATH", self.path()).env("HOME", &self.directory).env("KUBECONFIG", &self.kubeconfig);
        command.env("LC_ALL", "C").env("TZ", "UTC").current_dir(&self.directory);
    }

    /// `PATH` with the programs first.
    fn path(&self) -> String {
        format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap_or_default())
    }

    /// Output, errors and exit code of a shell command; 124 after a timeout. Concurrent commands in the same directory
    /// need different names.
    pub(crate) fn command(
        &self,
        work: &Path,
        name: &str,
        command: &str,
        within: u64,
    ) -> Outcome<(String, String, i32)> {
        // Files, since background processes of the command would keep pipes open.
        let (output, errors) = (work.join(format!(".{name}.output")), work.join(format!(".{name}.errors")));
        let mut shell = Command::new("timeout");
        shell
            .args(["--kill-after=2", &within.to_string(), "sh", "-c", command])
            .current_dir(work)
            .env("PATH", self.path())
            .env("HOME", work.join("home"))
            .env("KUBECONFIG", work.join("kubeconfig"))
            .env("ADMIN_KUBECONFIG", &self.kubeconfig)
            .env("CHART", corpora::root().join("conformance/clients/chart"))
            .env("EXAMPLES", corpora::root().join("crates/controller/examples"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        let status = process::started(shell.status(), &shell)?;
        let read = |file: &Path| fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((read(&output)?, read(&errors)?, status.code().unwrap_or(-1)))
    }
}

/// The command that waits for the objects that controllers create in a new namespace, for so many seconds each. One object at a time:
/// `kubectl wait --for=create` fails immediately if more than one of several objects is missing.
pub(crate) fn wait_for_namespace(seconds: u64) -> String {
    let wait = |object| format!("kubectl wait --for=create {object} --timeout={seconds}s");
    ["serviceaccount/default", "configmap/kube-root-ca.crt"].map(wait).join(" && ")
}

/// All identities as users; the administrator is current.
pub(crate) fn kubeconfig_text(url: &str, ca: &Path, namespace: &str) -> String {
    let users: Vec<Value> = IDENTITIES
        .iter()
        .map(|one| serde_json::json!({"name": one.name, "user": {"token": one.token}}))
        .collect();
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": users,
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin", "namespace": namespace}}],
        "current-context": "it",
    })
    .to_string()
}

/// The controllers of a server. They are killed when this is dropped.
#[derive(Default)]
pub(crate) struct Components {
    pub(crate) running: Vec<(String, Child, PathBuf)>,
}

impl Drop for Components {
    fn drop(&mut self) {
        for (_, child, _) in &mut self.running {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Components {
    /// Starts them. kwok's behavior is defined by the stages of its module, and by these files.
    pub(crate) fn start(
        place: &Place,
        server: &Server,
        beside: Beside,
        more_stages: &[PathBuf],
    ) -> Outcome<Self> {
        let key = server.directory.join("sa.key");
        if !key.is_file() {
            server::service_account_keys(&server.directory)?;
        }
        let kubeconfig = format!("--kubeconfig={}", place.kubeconfig.display());
        let mut components = Self::default();
        let manager = [
            if beside == Beside::All { "--controllers=*" } else { BUILT_IN }.to_owned(),
            format!("--service-account-private-key-file={}", key.display()),
            format!("--root-ca-file={}", server.ca.display()),
        ];
        let alone = || [kubeconfig.clone()].into_iter().chain(ALONE.map(str::to_owned));
        if beside != Beside::Kubelets {
            components.add(place, "kube-controller-manager", alone().chain(manager))?;
        }
        match beside {
            Beside::BuiltIn => return Ok(components),
            Beside::All => components.add(place, "kube-scheduler", alone())?,
            Beside::Kubelets => {}
        }
        let stages = match oracle::download(&KWOK)? {
            Oracle::Ready(directory) => directory.join("kustomize/stage"),
            Oracle::Skipped(why) => return Err(why.into()),
        };
        let mut text = String::new();
        let own = STAGES.iter().map(|stage| stages.join(format!("{stage}.yaml")));
        for file in own.chain(more_stages.iter().cloned()) {
            text.push_str(&fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?);
            text.push_str("\n---\n");
        }
        let config = place.directory.join("stages.yaml");
        fs::write(&config, text)?;
        let kwok = [
            kubeconfig.clone(),
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--config={}", config.display()),
        ];
        components.add(place, "kwok", kwok.into_iter())?;
        Ok(components)
    }

    fn add(&mut self, place: &Place, name: &str, flags: impl Iterator<Item = String>) -> Outcome<()> {
        let log = place.directory.join(format!("{name}.log"));
        let mut command = Command::new(place.bin.join(name));
        command
            .args(flags)
            .env("HOME", &place.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let child = process::started(command.spawn(), &command)?;
        self.running.push((name.to_owned(), child, log));
        Ok(())
    }
}

/// Without leader election and without serving.
const ALONE: [&str; 4] = [
    "--leader-elect=false",
    "--secure-port=0",
    "--kube-api-content-type=application/json",
    "--kube-api-qps=1000",
];
