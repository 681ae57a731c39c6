//! Waiting tools: `settled` and competitors, with the command lines that users would write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Place;
use crate::{Outcome, process, server};

/// A program that waits, and its invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `settled wait`.
    Settled,
    /// The same of an earlier binary.
    Earlier,
    /// `kubectl wait --for=condition=…`.
    KubectlWait,
    /// `kubectl rollout status`, which supports three kinds.
    RolloutStatus,
    /// `helm install --wait` of Helm 4.
    Helm,
    /// `kubectl get` once a second.
    Polling,
}

impl Tool {
    pub(crate) const ALL: [Self; 5] =
        [Self::Settled, Self::KubectlWait, Self::RolloutStatus, Self::Helm, Self::Polling];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Settled => "settled wait",
            Self::Earlier => "earlier settled wait",
            Self::KubectlWait => "kubectl wait",
            Self::RolloutStatus => "kubectl rollout status",
            Self::Helm => "helm install --wait",
            Self::Polling => "kubectl get, each second",
        }
    }

    /// The program of [`Self::Settled`] or [`Self::Earlier`].
    pub(crate) fn settled(self) -> Outcome<PathBuf> {
        if self == Self::Earlier {
            Ok(server::earlier().ok_or("SETTLED_EARLIER is not set")?)
        } else {
            server::binary()
        }
    }

    /// Whether it supports objects of this kind.
    pub(crate) fn knows(self, kind: Waited) -> bool {
        self != Self::RolloutStatus || kind == Waited::Deployments
    }
}

/// Kind of the target objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Pods,
    Deployments,
}

impl Waited {
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Deployments => "deployments",
        }
    }

    /// The condition of a ready object.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Pods => "Ready",
            Self::Deployments => "Available",
        }
    }

    /// API path of the objects.
    pub(crate) fn path(self, namespace: &str) -> String {
        match self {
            Self::Pods => format!("/api/v1/namespaces/{namespace}/pods"),
            Self::Deployments => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        }
    }
}

/// Directory of objects in a chart.
pub(crate) const OBJECTS: &str = "templates/all.yaml";

/// How a tool selects its targets, if it can. Helm waits for the objects of its chart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'w> {
    /// All objects in the namespace.
    All,
    /// Objects with the label.
    Label(&'w str),
    /// Objects in the chart's file.
    File,
}

/// A wait for readiness.
pub(crate) struct Wait<'w> {
    pub(crate) kind: Waited,
    pub(crate) namespace: &'w str,
    pub(crate) by: By<'w>,
    /// Number of objects.
    pub(crate) count: usize,
    /// Timeout of the tool.
    pub(crate) limit: Duration,
    /// The chart that Helm installs.
    pub(crate) chart: &'w Path,
    /// Additional arguments of settled.
    pub(crate) more: &'w [&'w str],
}

/// The command line of a tool. All tools use the place's kubeconfig unless another is set.
pub(crate) fn command(tool: Tool, place: &Place, wait: &Wait<'_>) -> Outcome<Command> {
    let Wait { kind, namespace, by, count, limit, chart, more } = *wait;
    let limit = format!("{}s", limit.as_secs());
    let resource = kind.resource().to_owned();
    let which = match by {
        By::All => vec![resource, "--all".to_owned()],
        By::Label(label) => vec![resource, "-l".to_owned(), label.to_owned()],
        By::File => vec!["-f".to_owned(), chart.join(OBJECTS).display().to_string()],
    };
    let mut command = match tool {
        Tool::Settled | Tool::Earlier => Command::new(tool.settled()?),
        Tool::KubectlWait | Tool::RolloutStatus => Command::new(place.bin.join("kubectl")),
        Tool::Helm => Command::new(place.bin.join("helm")),
        // The loop has no timeout of its own.
        Tool::Polling => Command::new("timeout"),
    };
    match tool {
        Tool::Settled | Tool::Earlier => {
            command.args(["wait", "-n", namespace, "--timeout", &limit]).args(which).args(more)
        }
        Tool::KubectlWait => command
            .args(["wait", "-n", namespace, "--timeout", &limit])
            .arg(format!("--for=condition={}", kind.condition()))
            .args(which),
        Tool::RolloutStatus => command
            .args(["rollout", "status", kind.resource(), "-n", namespace, "--timeout", &limit])
            .args(["-l", "app=waited"]),
        Tool::Helm => {
            command.args(["install", "release", "-n", namespace, "--wait", "--timeout", &limit]).arg(chart)
        }
        Tool::Polling => {
            let path =
                format!(r#"{{.items[*].status.conditions[?(@.type=="{}")].status}}"#, kind.condition());
            let kubectl = place.bin.join("kubectl");
            let list = format!("{} get {} -n {namespace}", kubectl.display(), kind.resource());
            let which = if let By::Label(label) = by { format!(" -l {label}") } else { String::new() };
            let script = format!(
                "until test $({list}{which} -o jsonpath='{path}' | tr ' ' '\\n' | grep -c True) -ge {count}; do sleep 1; done"
            );
            command.args([&limit, "sh", "-c", &script])
        }
    };
    place.environment(&mut command);
    Ok(command)
}

/// A running tool. It is killed when this is dropped.
pub(crate) struct Waiter {
    id: u32,
    ended: Receiver<Ended>,
    peak: Option<thread::JoinHandle<u64>>,
    log: PathBuf,
    gone: bool,
}

/// How a tool has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// `None` if it was killed.
    pub(crate) code: Option<i32>,
}

impl Waiter {
    /// Starts a tool with its output in a file. Its memory is polled only on request, since that costs time.
    pub(crate) fn start(mut command: Command, log: PathBuf, memory: bool) -> Outcome<Self> {
        let out = File::create(&log)?;
        command.stdin(Stdio::piped()).stdout(out.try_clone()?).stderr(out);
        let mut child: Child = process::started(command.spawn(), &command)?;
        let id = child.id();
        let (sender, ended) = channel();
        thread::spawn(move || {
            // Held until the exit: some tools stop at the end of their input.
            let input = child.stdin.take();
            let code = child.wait().ok().and_then(|status| status.code());
            let _nobody_waits = sender.send(Ended { at: Instant::now(), code });
            drop(input);
        });
        let peak = memory.then(|| {
            thread::spawn(move || {
                let mut peak = 0;
                // The kernel keeps the high-water mark, so only growth in the last interval can be missed.
                while let Some(bytes) = process::high_water_mark(id) {
                    peak = bytes.max(peak);
                    thread::sleep(Duration::from_millis(2));
                }
                peak
            })
        });
        Ok(Self { id, ended, peak, log, gone: false })
    }

    /// The exit, if it occurs within this time.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<Ended> {
        match self.ended.recv_timeout(within) {
            Ok(ended) => {
                self.gone = true;
                Some(ended)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Peak memory in bytes. Kills the tool if it is still running.
    pub(crate) fn peak(&mut self) -> u64 {
        self.kill();
        self.peak.take().and_then(|peak| peak.join().ok()).unwrap_or(0)
    }

    /// Processor time and peak memory so far, while it runs.
    pub(crate) fn used(&self) -> Outcome<(Duration, u64)> {
        let peak = process::high_water_mark(self.id).ok_or("it has ended")?;
        Ok((process::cpu_of(&self.id.to_string())?, peak))
    }

    /// Its output.
    pub(crate) fn said(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of its output.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn kill(&mut self) {
        if !self.gone {
            // Only its thread may reap it, so the PID cannot have been reused.
            let killed = Command::new("kill").args(["-9", &self.id.to_string()]).status();
            if killed.is_ok() {
                self.gone = self.ended.recv_timeout(Duration::from_secs(10)).is_ok();
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.kill();
    }
}
