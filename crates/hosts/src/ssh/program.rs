//! Program of a host: its verbs, their arguments as one shell command, and the results that they print.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::ssh::secret::Secret;

/// Directory on the hosts.
pub const DIRECTORY: &str = "/var/lib/settled";

/// The program. It comes with each command: nothing of it is installed.
const PROGRAM: &str = include_str!("host.sh");
/// How long a command may take that transfers nothing and starts nothing.
const QUICK: Duration = Duration::from_secs(30);

/// Who a command is for: the claim that the host must have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// Identity of the API server.
    pub server: String,
    /// UID of the Machine.
    pub machine: String,
}

/// What is done on a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verb {
    /// Prints what is there.
    Inspect,
    /// Stores the claim, and prints which artifacts are there.
    Claim,
    /// Prints which artifacts are there.
    Artifacts,
    /// Stores an artifact, which is the input.
    Install {
        /// Name and version.
        name: String,
        /// SHA-256, in hexadecimal digits.
        digest: String,
    },
    /// Stores a file of the agent, which is the input.
    Configure {
        /// Name of the file.
        file: &'static str,
    },
    /// Starts the agent for the first time.
    Join {
        /// Version of the kubelet.
        kubelet: String,
        /// How long it may take to start.
        start: Duration,
        /// Name of the Node.
        node: String,
    },
    /// Puts a version of the kubelet in place, and steps back if it does not start.
    Kubelet {
        /// Version.
        version: String,
        /// How long it may take to start.
        start: Duration,
    },
    /// Puts a version of the container runtime in place, and steps back if it does not answer.
    Runtime {
        /// Name.
        name: String,
        /// Version.
        version: String,
        /// How long it may take to answer.
        start: Duration,
    },
    /// Stops and removes everything, the claim last.
    Clean,
}

/// What a command reads.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    None,
    /// A file.
    File(PathBuf),
    /// Something that nobody else may read.
    Secret(Secret),
}

/// A command for a host.
#[derive(Clone, Debug)]
pub struct Command {
    /// The claim that it is for.
    pub owner: Owner,
    /// What is done.
    pub verb: Verb,
    /// What it reads.
    pub input: Input,
    /// How long it may take.
    pub limit: Duration,
}

impl Command {
    /// A command without an input, with the time that its verb needs.
    #[must_use]
    pub fn new(owner: Owner, verb: Verb) -> Self {
        let limit = match &verb {
            // Twice: the version before is started again if need be.
            Verb::Join { start, .. } | Verb::Kubelet { start, .. } | Verb::Runtime { start, .. } => {
                QUICK + *start * 2
            }
            _ => QUICK,
        };
        Self { owner, verb, input: Input::None, limit }
    }

    /// With an input, and the time that it needs.
    #[must_use]
    pub fn input(self, input: Input, limit: Duration) -> Self {
        Self { input, limit, ..self }
    }

    /// The command line for the shell of a host, which ends it after its time.
    #[must_use]
    pub fn line(&self, directory: &str, is_root: bool) -> String {
        let seconds = |duration: &Duration| duration.as_secs().max(1).to_string();
        let (verb, arguments) = match &self.verb {
            Verb::Inspect => ("inspect", vec![]),
            Verb::Claim => ("claim", vec![]),
            Verb::Artifacts => ("artifacts", vec![]),
            Verb::Install { name, digest } => ("install", vec![name.clone(), digest.clone()]),
            Verb::Configure { file } => ("configure", vec![(*file).to_owned()]),
            Verb::Join { kubelet, start, node } => {
                ("join", vec![kubelet.clone(), seconds(start), node.clone()])
            }
            Verb::Kubelet { version, start } => ("kubelet", vec![version.clone(), seconds(start)]),
            Verb::Runtime { name, version, start } => {
                ("runtime", vec![name.clone(), version.clone(), seconds(start)])
            }
            Verb::Clean => ("clean", vec![]),
        };
        let sudo = if is_root { "" } else { "sudo -n " };
        let mut line = format!("exec {sudo}timeout -k 5 {} sh -c {}", seconds(&self.limit), quote(PROGRAM));
        let fixed = ["settled", verb, directory, &self.owner.server, &self.owner.machine];
        for argument in fixed.into_iter().chain(arguments.iter().map(String::as_str)) {
            line.push(' ');
            line.push_str(&quote(argument));
        }
        line
    }
}

/// A word for a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What a command has printed, and its exit code.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// The end of standard error.
    pub stderr: String,
}

/// Exit codes that decide something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExitCode {
    /// Done.
    Done,
    /// The host has another claim, or none.
    Claimed,
    /// The new version does not work, and the one before runs again.
    SteppedBack,
    /// Neither the new version works, nor the one before.
    NothingWorks,
    /// The version does not work, and there is none before.
    DoesNotStart,
    /// Something cannot be stopped or removed.
    NotClean,
    /// The version is not installed.
    NotInstalled,
    /// Another command still runs.
    Busy,
    /// The time was over.
    TimedOut,
    /// Something else failed.
    Failed,
}

impl Output {
    /// The meaning of the exit code.
    #[must_use]
    pub const fn exit(&self) -> ExitCode {
        match self.code {
            0 => ExitCode::Done,
            10 => ExitCode::Claimed,
            12 => ExitCode::SteppedBack,
            13 => ExitCode::NothingWorks,
            14 => ExitCode::DoesNotStart,
            15 => ExitCode::NotClean,
            16 => ExitCode::NotInstalled,
            75 => ExitCode::Busy,
            124 | 137 => ExitCode::TimedOut,
            _ => ExitCode::Failed,
        }
    }

    /// Whether the disk of the host is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        self.stderr.contains("No space left on device")
    }

    /// What it says about the failure: the last lines of standard error.
    #[must_use]
    pub fn message(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => format!("exit code {}", self.code),
            count => lines[count.saturating_sub(4)..].join("; "),
        }
    }

    /// Values of a key, in order.
    fn values<'o>(&'o self, key: &'o str) -> impl Iterator<Item = &'o str> {
        self.stdout.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
    }

    fn value(&self, key: &str) -> String {
        self.values(key).next().unwrap_or_default().to_owned()
    }

    /// The claim of the host, if it has printed one.
    #[must_use]
    pub fn claim(&self) -> Option<Owner> {
        let text = self.value("claim");
        let (server, machine) = text.split_once(' ')?;
        Some(Owner { server: server.to_owned(), machine: machine.to_owned() })
    }

    /// What [`Verb::Inspect`] has found.
    #[must_use]
    pub fn inspection(&self) -> Inspection {
        Inspection {
            claim: self.claim(),
            kubelet: self.value("kubelet"),
            runtime: self
                .value("runtime")
                .split_once('@')
                .map(|(name, version)| (name.to_owned(), version.to_owned())),
            joined: self.values("joined").next().map(str::to_owned),
        }
    }

    /// What [`Verb::Claim`] and [`Verb::Artifacts`] have found.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let artifacts = self.values("artifact").filter_map(|line| line.split_once(' '));
        Inventory {
            arch: self.value("arch"),
            digests: artifacts.map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect(),
        }
    }
}

/// What runs on a host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inspection {
    /// Its claim.
    pub claim: Option<Owner>,
    /// Version that the agent reports; empty if it does not run.
    pub kubelet: String,
    /// Name and version of the container runtime.
    pub runtime: Option<(String, String)>,
    /// Name of the Node, once the agent has started for the first time.
    pub joined: Option<String>,
}

/// Artifacts of a host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inventory {
    /// Architecture, as `uname -m` has it.
    pub arch: String,
    /// SHA-256 by name and version.
    pub digests: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        assert_eq!(quote("a'b; $(c)"), r"'a'\''b; $(c)'");
    }

    #[test]
    fn results_are_parsed() {
        let output = Output {
            stdout: "claim=s m\nkubelet=v1.36.0\nruntime=cri-o@1.30.1\nwanted=v1.36.0\njoined=a\n".to_owned(),
            ..Output::default()
        };
        let expected = Inspection {
            claim: Some(Owner { server: "s".to_owned(), machine: "m".to_owned() }),
            kubelet: "v1.36.0".to_owned(),
            runtime: Some(("cri-o".to_owned(), "1.30.1".to_owned())),
            joined: Some("a".to_owned()),
        };
        assert_eq!(output.inspection(), expected);
        assert_eq!(Output::default().inspection(), Inspection::default());
    }
}
