//! Rendering of rows: JSON, YAML or a table.
//!
//! The workers write a row's body; the calling thread, which alone knows the row's place in its source, its head.

mod chains;
#[cfg(any(feature = "machines", feature = "netpol"))]
pub(crate) mod columns;
pub(crate) mod diff;
mod envelope;
pub(crate) mod explain;
pub(crate) mod github;
mod json;
pub(crate) mod junit;
#[cfg(feature = "netpol")]
pub(crate) mod sarif;
pub(crate) mod spans;
pub(crate) mod table;
pub(crate) mod timeline;
pub(crate) mod tree;
mod yaml;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use kstatus::Verdict;
use settled_tracker::{ObjectId, Report};

pub(crate) use envelope::Envelope;
pub(crate) use table::{Measure, Table};

use crate::names::Names;
use crate::row::Identity;

pub(crate) use json::{json_line, write_json_line};

/// A wait that is over, for what is written at its end.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) report: &'a Report,
    pub(crate) names: Names,
    /// When each of the targets that are done or failed became so, counted from the beginning of the wait.
    pub(crate) times: &'a HashMap<ObjectId, Duration>,
    /// The end.
    pub(crate) now: Timestamp,
}

/// The forms that rows can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON line each, or one array.
    Json,
    /// A YAML document each.
    Yaml,
    /// A line of a table each.
    Table,
    /// None: only the statuses count.
    Nothing,
}

impl Form {
    /// Appends a row's body. Ages count to `now`.
    pub(crate) fn push_body(
        self,
        identity: &Identity<'_>,
        verdict: &Verdict,
        now: Timestamp,
        measure: &mut Measure,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Json => json::push_body(identity, verdict, out),
            Self::Yaml => yaml::push_body(identity, verdict, out),
            Self::Table => table::push_body(identity, verdict, now, measure, out),
            Self::Nothing => {}
        }
    }

    /// Puts the head of a row into `head`: where the object was found.
    pub(crate) fn head(self, source: &str, document: u64, head: &mut Vec<u8>) {
        head.clear();
        match self {
            Self::Json => json::push_head(source, document, head),
            Self::Yaml => yaml::push_head(source, document, head),
            Self::Table => table::push_head(source, document, head),
            Self::Nothing => {}
        }
    }
}
