//! Test support: runs the binary in a fixed environment.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The time that ages count from.
const NOW: &str = "2026-11-21T10:05:00Z";

/// A run of `settled` that is being put together.
pub(crate) struct Run {
    command: Command,
    stdin: Option<Vec<u8>>,
    no_stdin: bool,
}

/// `settled` with these arguments, separated by white space, in the repository's root.
pub(crate) fn settled(arguments: &str) -> Run {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    command.env_clear().current_dir(root).args(arguments.split_whitespace());
    Run { command, stdin: None, no_stdin: false }
}

/// `settled status` at a fixed time.
pub(crate) fn status(arguments: &str) -> Run {
    settled(&format!("status --now {NOW} {arguments}"))
}

/// `settled augment` at a fixed time.
pub(crate) fn augment(arguments: &str) -> Run {
    settled(&format!("augment --now {NOW} {arguments}"))
}

impl Run {
    pub(crate) fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Directory) -> Self {
        self.command.current_dir(&dir.path);
        self
    }

    pub(crate) fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(input.into());
        self
    }

    /// Without a pipe as standard input.
    pub(crate) fn no_stdin(mut self) -> Self {
        self.no_stdin = true;
        self
    }

    /// Everything that came of it.
    pub(crate) fn output(mut self) -> Output {
        if self.no_stdin {
            return self.command.stdin(Stdio::null()).output().unwrap();
        }
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = self.stdin.unwrap_or_default();
        // On a thread: neither side may wait for the other. The child need not read it to the end.
        let feeding = std::thread::spawn(move || pipe.write_all(&input).ok());
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        output
    }

    /// All of it as one text, with `[TIME]` for how long it took.
    pub(crate) fn transcript(self) -> String {
        let output = self.output();
        let mut text = format!(
            "exit code: {}\n",
            output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string())
        );
        for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !stream.is_empty() {
                let _ = write!(text, "--- {name} ---\n{}", timeless(&String::from_utf8_lossy(stream)));
            }
        }
        text
    }

    pub(crate) fn code(self) -> i32 {
        self.output().status.code().unwrap()
    }

    pub(crate) fn stdout(self) -> String {
        String::from_utf8(self.output().stdout).unwrap()
    }
}

fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.rfind(", ").map(|at| line.split_at(at)) {
        Some((head, tail)) if tail.ends_with(" ms)") || tail.ends_with(" s)") => format!("{head}, [TIME])"),
        _ => line.to_owned(),
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// A directory that is gone after the test.
pub(crate) struct Directory {
    path: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Directory {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Self { path: temporary.path().to_owned(), _temporary: temporary };
        for (name, content) in files {
            directory.write(name, content);
        }
        directory
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// An object whose verdict is beyond doubt: Current.
pub(crate) fn config_map(name: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"shop","name":"{name}"}}}}"#)
}

/// InProgress.
pub(crate) fn pending_claim(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"namespace":"shop","name":"{name}"}},"status":{{"phase":"Pending"}}}}"#
    )
}

/// Failed.
pub(crate) fn failed_pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"shop","name":"{name}"}},"spec":{{}},"status":{{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}}}"#
    )
}

/// Terminating.
pub(crate) fn deleted_secret(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"namespace":"shop","name":"{name}","deletionTimestamp":"2026-11-21T10:00:00Z","finalizers":["example.com/hold"]}}}}"#
    )
}

/// Unknown.
pub(crate) fn silent(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"namespace":"web","name":"{name}"}}}}"#
    )
}
