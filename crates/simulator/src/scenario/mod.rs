//! Scenarios: what is to happen in a simulation other than success, from a file or from annotations.

mod annotations;
mod glob;
mod load;
mod matching;
mod script;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use annotations::AnnotationError;
pub(crate) use annotations::from_annotations;
pub use load::{ScenarioError, ScenarioErrors};
pub use matching::{PodFacts, Unmatched};
pub use script::{
    AddressScript, Autoscaler, ContainerScript, Eviction, Exit, Hook, ImageScript, Liveness, Metric,
    NodeScript, PodScript, Pull, PullFailure, Resize, ResourceScript, Start, StartFailure, Step, Stop,
    Unready,
};
pub use values::{After, Delay};

/// Prefix of the annotations that are read as a part of a scenario.
pub const ANNOTATION_PREFIX: &str = "simulator.settled.dev/";

/// An entry of a scenario, with its place in the file.
#[derive(Debug)]
pub struct Entry<T> {
    /// What it says.
    pub script: T,
    /// Line in the file, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    matched: AtomicBool,
}

impl<T> Entry<T> {
    fn mark(&self) -> &T {
        self.matched.store(true, Ordering::Relaxed);
        &self.script
    }

    fn is_matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Entries {
    file: String,
    images: Vec<Entry<ImageScript>>,
    containers: Vec<Entry<ContainerScript>>,
    pods: Vec<Entry<PodScript>>,
    nodes: Vec<Entry<NodeScript>>,
    resources: Vec<Entry<ResourceScript>>,
    addresses: Vec<Entry<AddressScript>>,
    autoscalers: Vec<Entry<Autoscaler>>,
}

/// A scenario. Of two entries for one thing the first one wins, and an entry wins over an annotation. Clones share
/// which entries have matched.
///
/// ```
/// use settled_simulator::scenario::{PullFailure, Scenario};
///
/// let scenario = Scenario::parse("broken.yaml", "images: [{image: '*/web:2', fails: not-found}]")?;
/// let pull = scenario.image("registry.example.com/web:2").ok_or("no entry")?;
/// assert_eq!(pull.fails, Some(PullFailure::NotFound));
/// assert!(scenario.unmatched().is_empty());
/// let errors = Scenario::parse("typo.yaml", "images:\n- imag: x\n").unwrap_err();
/// assert!(errors.to_string().starts_with("typo.yaml:2:3: unknown field `imag`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    seed: u64,
    entries: Arc<Entries>,
}

impl Scenario {
    /// Reads a scenario in YAML. `file` is its name in errors.
    ///
    /// # Errors
    /// All that is wrong with it, each with line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioErrors> {
        load::load(file, text)
    }

    /// What decides all jitter.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}
