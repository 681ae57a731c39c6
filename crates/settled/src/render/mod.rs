//! How rows look: as JSON, YAML or a table.
//!
//! The workers write a row's body; the calling thread, which alone knows the row's place in its source, its head.

mod envelope;
pub(crate) mod explain;
mod json;
pub(crate) mod table;
mod yaml;

use kstatus::Verdict;

pub(crate) use envelope::Envelope;
pub(crate) use table::{Measure, Table};

use crate::row::Identity;

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
    /// Appends a row's body.
    pub(crate) fn push_body(
        self,
        identity: &Identity<'_>,
        verdict: &Verdict,
        measure: &mut Measure,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Json => json::push_body(identity, verdict, out),
            Self::Yaml => yaml::push_body(identity, verdict, out),
            Self::Table => table::push_body(identity, verdict, measure, out),
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
