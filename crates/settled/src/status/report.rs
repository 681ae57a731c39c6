//! Status summary: counts by status, hints and the exit code.

use std::fmt::Write as _;
use std::time::Instant;

use kstatus::Status;

use crate::stderr;
use crate::style::Palette;
use crate::text::{self, plural};

/// Evaluated objects, counted by status.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) counts: [u64; Status::ALL.len()],
    /// Non-blocking objects among these.
    pub(super) non_blocking: [u64; Status::ALL.len()],
    /// Objects in the input, asked about or not.
    pub(super) read: u64,
    /// Objects that are only not shown because of their status.
    pub(super) hidden: u64,
    /// Some object says nothing about its state.
    pub(super) silent: bool,
    pub(super) inputs: u64,
    pub(super) unreadable: u64,
}

impl Report {
    pub(super) fn count(&mut self, status: Status, silent: bool, blocking: bool) {
        self.counts[status as usize] += 1;
        self.non_blocking[status as usize] += u64::from(!blocking);
        self.silent |= silent;
    }

    pub(super) fn shown(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn has(&self, status: Status) -> bool {
        self.counts[status as usize] > 0
    }

    /// How many objects in a status count for the exit code.
    fn waited_for(&self, status: Status) -> u64 {
        self.counts[status as usize] - self.non_blocking[status as usize]
    }

    /// Nothing was asked about that is there; to call that settled would hide a mistake. Unless something cannot be
    /// read, which was said already.
    pub(super) fn nothing_to_judge(&self) -> bool {
        self.shown() == 0 && self.hidden == 0 && self.unreadable == 0
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.unreadable > 0 {
            2
        } else if self.waited_for(Status::Failed) > 0 {
            1
        } else if Status::ALL.iter().any(|status| *status != Status::Current && self.waited_for(*status) > 0)
        {
            3
        } else {
            0
        }
    }

    pub(super) fn summary(&self, namespace: Option<&str>, started: Instant) {
        let palette = Palette::stderr();
        let mut line = plural(self.shown(), "object");
        if let Some(namespace) = namespace {
            let _ = write!(line, " in {namespace}");
        }
        let mut separator = ": ";
        for status in Status::ALL {
            if self.has(*status) {
                let count = format!("{} {status}", self.counts[*status as usize]);
                let _ = write!(line, "{separator}{}", palette.status(*status, &count));
                separator = ", ";
            }
        }
        let _ = match self.inputs {
            0 => write!(line, " ("),
            files => write!(line, " ({}, ", plural(files, "file")),
        };
        if self.read > self.shown() {
            let _ = write!(line, "{} not shown, ", self.read - self.shown());
        }
        let _ = write!(line, "{})", text::elapsed(started.elapsed()));
        stderr::print_line(&line);
    }

    pub(super) fn hints(&self, shortened: bool) {
        let label = Palette::stderr().hint("hint:");
        if self.silent {
            stderr::print_line(&format!(
                "{label} --assume-current counts objects without a status (NoSignal) as Current"
            ));
        }
        let ignored: u64 = self.non_blocking.iter().sum();
        let waiting = ignored - self.non_blocking[Status::Current as usize];
        if waiting > 0 {
            stderr::print_line(&format!(
                "{label} {} not counted for the exit code: annotations ask not to wait for them; --no-annotations counts them",
                plural(waiting, "object")
            ));
        }
        if shortened {
            stderr::print_line(&format!(
                "{label} some messages are truncated; -o yaml prints them completely"
            ));
        }
    }
}
