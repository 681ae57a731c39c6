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

/// A health check. Clones share source and compiled code.
///
/// Each thread compiles it once, unless it uses more than a few hundred other scripts.
#[derive(Clone)]
pub struct Script(Arc<Source>);

/// Shared part of [`Script`] clones.
struct Source {
    /// Key of the compiled script in the virtual machines.
    id: u64,
    name: String,
    /// The name as Lua prints it.
    chunk: String,
    text: String,
    /// The source without `goto`, if it contained one.
    lowered: Option<String>,
}

impl Source {
    /// The source to compile.
    fn compiled_text(&self) -> &str {
        self.lowered.as_deref().unwrap_or(&self.text)
    }
}

impl Script {
    /// Maximum size of the source, in bytes.
    pub const MAX_SOURCE: usize = 256 * 1024;

    /// Compiles a script. Lua puts `name` before the line number in error messages.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] for byte code and oversized sources, [`Error::Syntax`] for invalid Lua, and [`Error::Memory`]
    /// if compiling needs more than 32 MiB.
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

    /// Evaluates the health of one JSON object. Scripts keep no state between runs.
    ///
    /// # Errors
    ///
    /// [`Error::Runtime`] if the script fails, [`Error::Instructions`], [`Error::Memory`] and [`Error::Time`] if it
    /// exceeds a limit, [`Error::Nothing`] if it returns nil, [`Error::Result`] if it returns anything but a health,
    /// [`Error::Object`] if the JSON is not an object.
    pub fn run(&self, object: &[u8], limits: &Limits) -> Result<Health, Error> {
        self.run_at(object, 0, limits)
    }

    /// As [`run`](Self::run), with the result of `os.time()` in seconds since 1970. Scripts have no other clock.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_at(&self, object: &[u8], now: i64, limits: &Limits) -> Result<Health, Error> {
        vm::with(|vm| vm.run(&self.0, object, now, limits))
    }

    /// The name passed to [`Script::new`].
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The source passed to [`Script::new`].
    pub fn source(&self) -> &str {
        &self.0.text
    }
}

/// Maximum number of `and`, `or`, `elseif`, `break` and `goto` in a script. Lua's parser keeps the resulting jumps in
/// linked lists that it walks for each new one, which takes seconds for a source full of them.
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

/// Limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions of the virtual machine. A step of pattern matching counts as one.
    pub instructions: u64,
    /// Bytes, including the object's tables. Also the maximum length of a string.
    pub memory: usize,
    /// Wall-clock time, since a single instruction can copy a string as large as the memory. Checked every 128
    /// instructions.
    pub time: Duration,
}

impl Default for Limits {
    /// A million instructions, 32 MiB and one second, as in Argo CD.
    fn default() -> Self {
        Self { instructions: 1_000_000, memory: 32 << 20, time: Duration::from_secs(1) }
    }
}

/// Health of an object, as returned by a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The health status.
    pub status: HealthStatus,
    /// The message, empty if the script returned none. Truncated to 32 KiB.
    pub message: String,
}

/// Argo CD's health statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthStatus {
    /// The resource is healthy.
    Healthy,
    /// Not healthy yet, but may become so.
    Progressing,
    /// Waiting for an external event, such as a paused rollout or a suspended Job.
    Suspended,
    /// The resource does not exist.
    Missing,
    /// The resource failed, or exceeded its deadline.
    Degraded,
    /// The health cannot be determined.
    Unknown,
}

impl HealthStatus {
    /// All statuses, from best to worst in Argo CD's order.
    pub const ALL: [Self; 6] =
        [Self::Healthy, Self::Suspended, Self::Progressing, Self::Missing, Self::Degraded, Self::Unknown];

    /// The name, as scripts write it.
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

/// Error of [`Script::new`] or of a run.
///
/// Messages have at most 400 characters. The only parts of the object in them are those the script put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source cannot be a script.
    #[error("script is {what}")]
    Source {
        /// The reason.
        what: String,
    },
    /// The source isn't Lua 5.1.
    #[error("syntax error{}: {message}", OnLine(*line))]
    Syntax {
        /// Lua's message, without the line.
        message: String,
        /// The line, counted from 1.
        line: Option<u32>,
    },
    /// The script failed.
    #[error("script failed{}: {message}", OnLine(*line))]
    Runtime {
        /// The message of Lua or the script, without the line.
        message: String,
        /// The line, counted from 1, if the error has one.
        line: Option<u32>,
    },
    /// The script ran more instructions than allowed.
    #[error("script used more than {limit} instructions")]
    Instructions {
        /// The limit.
        limit: u64,
    },
    /// The script or the object needs more memory than allowed.
    #[error("script used more than {limit} bytes of memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// The script ran longer than allowed.
    #[error("script ran for more than {limit:?}")]
    Time {
        /// The limit.
        limit: Duration,
    },
    /// The script returned something other than a health.
    #[error("script returned {what}")]
    Result {
        /// Description of the returned value.
        what: String,
    },
    /// The script returned nil. Argo CD then has no health for the object, which is no failure.
    #[error("script returned nil: no health")]
    Nothing,
    /// The object is not valid JSON.
    #[error("cannot read object: {what}")]
    Object {
        /// The reason.
        what: String,
    },
}

struct OnLine(Option<u32>);

impl fmt::Display for OnLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, " on line {line}"))
    }
}
