#![doc = include_str!("../README.md")]

mod budget;
mod goto;
mod json;
mod lua_error;
mod pattern;
mod strings;
mod text;
mod vm;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A health check. Copies share everything.
///
/// Every thread that runs it compiles it once, as long as there are no more than a few hundred others.
#[derive(Clone)]
pub struct Script(Arc<Source>);

/// What [`Script`]s share.
struct Source {
    /// Under which the virtual machines find it compiled.
    id: u64,
    name: String,
    /// The name as Lua shows it.
    chunk: String,
    text: String,
    /// The text without `goto`, if there is one in it.
    lowered: Option<String>,
}

impl Source {
    /// What is compiled.
    fn compiled_text(&self) -> &str {
        self.lowered.as_deref().unwrap_or(&self.text)
    }
}

impl Script {
    /// The largest source, in bytes.
    pub const MAX_SOURCE: usize = 256 * 1024;

    /// Compiles a script. The name is what Lua puts before the line in errors that a script catches.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] for byte code and for what is too large, [`Error::Syntax`] for what isn't Lua, and
    /// [`Error::Memory`] for what takes more than 32 MiB to compile.
    pub fn new(name: &str, source: &str) -> Result<Self, Error> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        if source.len() > Self::MAX_SOURCE {
            let what = format!("larger than {} KiB", Self::MAX_SOURCE / 1024);
            return Err(Error::Source { what });
        }
        if source.starts_with('\x1b') {
            return Err(Error::Source { what: "byte code instead of text".to_owned() });
        }
        if jumps(source) > MAX_JUMPS {
            return Err(too_many_jumps());
        }
        let script = Source {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            chunk: text::chunk_name(name),
            text: source.to_owned(),
            lowered: goto::lower(source)?,
        };
        vm::with(|vm| vm.compile(&script).map(drop))?;
        Ok(Self(Arc::new(script)))
    }

    /// Judges one object, given as JSON. A script has no way to keep anything for the next run.
    ///
    /// # Errors
    ///
    /// [`Error::Runtime`] if the script fails, [`Error::Instructions`], [`Error::Memory`] and [`Error::Time`] if it uses
    /// too much, [`Error::Nothing`] if it returns nil, [`Error::Result`] if what it returns is no health, [`Error::Object`]
    /// if the JSON isn't an object.
    pub fn run(&self, object: &[u8], limits: &Limits) -> Result<Health, Error> {
        self.run_at(object, 0, limits)
    }

    /// As [`run`](Self::run), at a time in seconds since 1970: what `os.time()` gives. There is no other clock.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_at(&self, object: &[u8], now: i64, limits: &Limits) -> Result<Health, Error> {
        vm::with(|vm| vm.run(&self.0, object, now, limits))
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The source it was made from.
    pub fn source(&self) -> &str {
        &self.0.text
    }
}

/// How many `and`, `or`, `elseif`, `break` and `goto` a script may have. Lua's parser keeps the jumps that they become in
/// lists that it walks for every new one: with as many as fit into the source, it takes seconds.
const MAX_JUMPS: usize = 5000;

fn jumps(source: &str) -> usize {
    let words = source.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| matches!(*word, "and" | "or" | "elseif" | "break" | "goto")).count()
}

fn too_many_jumps() -> Error {
    Error::Source { what: format!("of more than {MAX_JUMPS} jumps") }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// What one run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many instructions of the virtual machine. A step of pattern matching counts as one.
    pub instructions: u64,
    /// How many bytes, the object's tables included. Also what one string may take.
    pub memory: usize,
    /// How long, for what instructions don't tell: a single one can copy a string as large as the memory. Looked at
    /// every 128 instructions.
    pub time: Duration,
}

impl Default for Limits {
    /// A million instructions, 32 MiB, and a second, as in Argo CD.
    fn default() -> Self {
        Self { instructions: 1_000_000, memory: 32 << 20, time: Duration::from_secs(1) }
    }
}

/// What a script says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The word.
    pub status: HealthStatus,
    /// Why; empty if the script gave none. At most 32 KiB, the rest is cut.
    pub message: String,
}

/// Argo CD's words for an object's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthStatus {
    /// It works.
    Healthy,
    /// It doesn't yet, and may still.
    Progressing,
    /// It waits for somebody: a paused rollout, a suspended job.
    Suspended,
    /// It isn't there.
    Missing,
    /// It failed, or takes too long.
    Degraded,
    /// The script can't tell.
    Unknown,
}

impl HealthStatus {
    /// All of them, from best to worst as Argo CD orders them.
    pub const ALL: [Self; 6] =
        [Self::Healthy, Self::Suspended, Self::Progressing, Self::Missing, Self::Degraded, Self::Unknown];

    /// The word, as scripts write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Suspended => "Suspended",
            Self::Missing => "Missing",
            Self::Degraded => "Degraded",
            Self::Unknown => "Unknown",
        }
    }

    fn from_bytes(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str().as_bytes() == word)
    }
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why there is no [`Script`], or no [`Health`].
///
/// Texts have at most 400 characters. Of the object, they hold what the script put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source can't be a script.
    #[error("script is {what}")]
    Source {
        /// What it is instead.
        what: String,
    },
    /// The source isn't Lua 5.1.
    #[error("syntax error{}: {message}", OnLine(*line))]
    Syntax {
        /// What Lua says, without the line.
        message: String,
        /// The line, counted from 1.
        line: Option<u32>,
    },
    /// The script failed.
    #[error("script failed{}: {message}", OnLine(*line))]
    Runtime {
        /// What Lua or the script says, without the line.
        message: String,
        /// The line, counted from 1, if the error has one.
        line: Option<u32>,
    },
    /// The script runs too long.
    #[error("script used more than {limit} instructions")]
    Instructions {
        /// The limit.
        limit: u64,
    },
    /// The script, or the object, is too large.
    #[error("script used more than {limit} bytes of memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// The script takes too long.
    #[error("script ran for more than {limit:?}")]
    Time {
        /// The limit.
        limit: Duration,
    },
    /// The script returned something else than a health.
    #[error("script returned {what}")]
    Result {
        /// What it returned.
        what: String,
    },
    /// The script returned nil: it has no word on this object. To Argo CD that is no health at all, and no failure.
    #[error("script returned nil: no health")]
    Nothing,
    /// The object can't be read.
    #[error("object is unreadable: {what}")]
    Object {
        /// Why.
        what: String,
    },
}

struct OnLine(Option<u32>);

impl fmt::Display for OnLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, " on line {line}"))
    }
}
