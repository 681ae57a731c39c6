//! Verdicts and their parts, with their serialized names.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Text of a verdict: borrowed from the program where it is always the same, owned where it names numbers.
pub type Text = Cow<'static, str>;

/// Declares an enum whose variants have one name each on the wire: `as_str`, `Display`, `FromStr`, `Serialize`.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($what:literal) { $($(#[$variant_meta:meta])* $variant:ident = $wire:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name used on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = $crate::UnknownName;

            /// Reads the name used on the wire; upper and lower case are the same.
            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                $(if name.eq_ignore_ascii_case($wire) { return Ok(Self::$variant); })+
                Err($crate::UnknownName { what: $what, name: name.to_owned(), known: &[$($wire,)+] })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use wire_enum;

/// A name that none of the known values has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; known are {}", known.join(", "))]
pub struct UnknownName {
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) known: &'static [&'static str],
}

wire_enum! {
    /// The state of an object against what its manifest asks for: one of the six words of kstatus.
    ///
    /// Declared, and so ordered, from the one that needs attention most to the one that needs none.
    ///
    /// ```
    /// use kstatus::Status;
    /// assert_eq!("NotFound".parse::<Status>(), Ok(Status::NotFound));
    /// assert_eq!(Status::InProgress.to_string(), "InProgress");
    /// assert!("Ready".parse::<Status>().is_err());
    /// ```
    pub enum Status ("status") {
        /// Reconciling has met an error, or does not get on.
        Failed = "Failed",
        /// The status is unknown.
        Unknown = "Unknown",
        /// The object does not exist in the cluster. Callers set this status; no object has it.
        NotFound = "NotFound",
        /// The object is being deleted.
        Terminating = "Terminating",
        /// The actual state has not reached the desired one yet.
        InProgress = "InProgress",
        /// The actual state is the desired one, at the latest generation.
        Current = "Current",
    }
}

wire_enum! {
    /// The evidence that decided a verdict.
    pub enum Basis ("basis") {
        /// `metadata.deletionTimestamp`.
        Deletion = "deletion",
        /// `metadata.generation` against an `observedGeneration`.
        Generation = "generation",
        /// The built-in rule for the kind.
        KindRule = "kind-rule",
        /// An annotation on the object itself that says when it is done.
        ObjectAnnotation = "object-annotation",
        /// A rule that the user gave.
        CustomRule = "custom-rule",
        /// An annotation on the CustomResourceDefinition of the object's kind.
        CrdAnnotation = "crd-annotation",
        /// A rule of the built-in pack.
        RulePack = "rule-pack",
        /// The conditions `Reconciling` and `Stalled` that kstatus defines.
        StandardCondition = "standard-condition",
        /// The condition `Ready`.
        Ready = "ready",
        /// Another condition whose type has a common meaning, such as `Available` or `Degraded`.
        CommonCondition = "common-condition",
        /// A word in `status.phase`, `status.state` or the like: weak evidence.
        PhaseWord = "phase-word",
        /// The kind has no status to wait for: it is done once it is stored.
        NoStatusKind = "no-status-kind",
        /// Nothing in the object says anything.
        Nothing = "nothing",
    }
}

wire_enum! {
    /// How far a verdict can be relied upon.
    ///
    /// Declared, and so ordered, from the least to the most.
    pub enum Confidence ("confidence") {
        /// There is no evidence.
        None = "none",
        /// A condition or a phase whose name has a common meaning. The controller may mean something else.
        Convention = "convention",
        /// The conditions `Ready`, `Reconciling` and `Stalled`, or an `observedGeneration`: as the API conventions and kstatus define them.
        StandardCondition = "standard-condition",
        /// A rule of the built-in pack that was written after documentation only.
        UnverifiedRule = "unverified-rule",
        /// A rule of Kubernetes' own kinds, one of the pack that was checked against the controller's source, or the user's own.
        VerifiedRule = "verified-rule",
    }
}

impl Basis {
    /// The confidence of a verdict with this basis. A rule of the pack counts as unverified here; it may say more of itself.
    #[must_use]
    pub const fn confidence(self) -> Confidence {
        match self {
            Self::Deletion
            | Self::KindRule
            | Self::ObjectAnnotation
            | Self::CustomRule
            | Self::CrdAnnotation
            | Self::NoStatusKind => Confidence::VerifiedRule,
            Self::RulePack => Confidence::UnverifiedRule,
            Self::Generation | Self::StandardCondition | Self::Ready => Confidence::StandardCondition,
            Self::CommonCondition | Self::PhaseWord => Confidence::Convention,
            Self::Nothing => Confidence::None,
        }
    }
}

wire_enum! {
    /// Class of a failure or obstacle.
    pub enum FailureClass ("failure class") {
        /// An image cannot be pulled or is not valid.
        Image = "image",
        /// A container exits or is killed, again and again.
        Crash = "crash",
        /// The object, or something it refers to, is wrong or missing.
        Configuration = "configuration",
        /// A quota or an admission limit forbids it.
        Quota = "quota",
        /// No node takes the Pod.
        Scheduling = "scheduling",
        /// A probe or a readiness gate does not pass.
        Probe = "probe",
        /// A deadline has passed.
        Deadline = "deadline",
        /// A Job has failed.
        Job = "job",
        /// A volume, a snapshot or a claim.
        Storage = "storage",
        /// An address, a load balancer, a backend.
        Network = "network",
        /// The deletion does not get on.
        Deletion = "deletion",
        /// None of the above.
        Other = "other",
    }
}

/// Failure or obstacle, and whether recovery needs a change of the spec.
///
/// With status Failed it is the failure; with InProgress or Terminating it is what is being waited for and may
/// become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// The kind of trouble.
    pub class: FailureClass,
    /// True when nothing but a change of the object (a new generation) or its replacement can help; false when the
    /// controller goes on trying and the object may still become Current.
    pub terminal: bool,
}

/// Something odd in the object that a reader should know, whether or not it decided the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where: a field's path such as `.status.observedGeneration`, empty for the whole object.
    pub path: Text,
    /// Description of the irregularity.
    pub message: Text,
}

/// A condition that the verdict stands for, in the terms of `status.conditions`: the `Reconciling` and `Stalled`
/// that kstatus defines, with status `True`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// `Reconciling` or `Stalled`.
    pub type_: &'static str,
    /// Always `True`: these conditions are absent when all is well ("abnormal-true").
    pub status: &'static str,
    /// A word in CamelCase.
    pub reason: &'a str,
    /// A sentence for people.
    pub message: &'a str,
}

impl Serialize for Condition<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("type", self.type_)?;
        map.serialize_entry("status", self.status)?;
        map.serialize_entry("reason", self.reason)?;
        map.serialize_entry("message", self.message)?;
        map.end()
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("path", &*self.path)?;
        map.serialize_entry("message", &*self.message)?;
        map.end()
    }
}

/// Whether one object is done, has failed, and why.
///
/// Serialised as a map with the keys of the command line's JSON contract: `status`, `reason`, `message`, `basis`,
/// `generation`, `observedGeneration`, `failureClass`, `terminal`, `blocking`, `conditions`, `problems`; the ones that
/// say nothing are left out.
///
/// ```
/// use kstatus::{compute, Options, Status};
/// let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
/// let verdict = compute(br#"{"apiVersion":"v1","kind":"PersistentVolumeClaim",
///     "metadata":{"name":"data"},"status":{"phase":"Pending"}}"#, &options);
/// assert_eq!(verdict.status, Status::InProgress);
/// assert_eq!(verdict.reason, "NotBound");
/// assert_eq!(verdict.condition().unwrap().type_, "Reconciling");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// One of the six words.
    pub status: Status,
    /// Why, as one word in CamelCase.
    pub reason: Text,
    /// Why, as a sentence for people.
    pub message: Text,
    /// The evidence that decided.
    pub basis: Basis,
    /// How far that evidence can be relied upon.
    pub confidence: Confidence,
    /// `metadata.generation`, where it is a number.
    pub generation: Option<i64>,
    /// `status.observedGeneration`, where it is a number (or, in the profile `settled`, a string that holds one).
    pub observed_generation: Option<i64>,
    /// Failure or obstacle, if any.
    pub failure: Option<Failure>,
    /// Irregularities of the object.
    pub problems: Vec<Problem>,
    /// False if an annotation asks not to wait for the object. The status is not affected.
    pub blocking: bool,
    /// The message of the condition where it is another than the verdict's: upstream's rule for a Deployment past
    /// its deadline.
    pub(crate) condition_message: Option<Text>,
}

/// `status.conditions` type: the controller is working on the latest changes.
pub const RECONCILING: &str = "Reconciling";
/// `status.conditions` type: the controller has met an error, or does not get on.
pub const STALLED: &str = "Stalled";

impl Verdict {
    /// A verdict without generation, failure and problems.
    #[must_use]
    pub fn new(status: Status, basis: Basis, reason: impl Into<Text>, message: impl Into<Text>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
            basis,
            confidence: basis.confidence(),
            generation: None,
            observed_generation: None,
            failure: None,
            problems: Vec::new(),
            blocking: true,
            condition_message: None,
        }
    }

    /// The same with a failure.
    #[must_use]
    pub fn failure(mut self, class: FailureClass, terminal: bool) -> Self {
        self.failure = Some(Failure { class, terminal });
        self
    }

    /// The verdict where nothing below a confidence counts as done: Unknown, `LowConfidence`, instead of Current.
    #[must_use]
    pub fn require(self, confidence: Confidence) -> Self {
        if self.status != Status::Current || self.confidence >= confidence {
            return self;
        }
        let message = format!(
            "Current ({}) with confidence {}, required is {confidence}",
            self.reason, self.confidence
        );
        Self { status: Status::Unknown, reason: "LowConfidence".into(), message: message.into(), ..self }
    }

    /// The verdict on something that is no object, or one whose fields cannot be read: Unknown, `Malformed`.
    pub(crate) fn malformed(path: impl Into<Text>, message: impl Into<Text>) -> Self {
        let message = message.into();
        let mut verdict = Self::new(Status::Unknown, Basis::Nothing, "Malformed", message.clone());
        verdict.problems.push(Problem { path: path.into(), message });
        verdict
    }

    /// The condition that says the same in the terms of `status.conditions`: `Reconciling` for InProgress,
    /// `Stalled` for Failed, none for the rest.
    #[must_use]
    pub fn condition(&self) -> Option<Condition<'_>> {
        let type_ = match self.status {
            Status::InProgress => RECONCILING,
            Status::Failed => STALLED,
            _ => return None,
        };
        let message = self.condition_message.as_deref().unwrap_or(&self.message);
        Some(Condition { type_, status: "True", reason: &self.reason, message })
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("status", &self.status)?;
        map.serialize_entry("reason", &*self.reason)?;
        map.serialize_entry("message", &*self.message)?;
        map.serialize_entry("basis", &self.basis)?;
        map.serialize_entry("confidence", &self.confidence)?;
        if let Some(generation) = self.generation {
            map.serialize_entry("generation", &generation)?;
        }
        if let Some(observed) = self.observed_generation {
            map.serialize_entry("observedGeneration", &observed)?;
        }
        if let Some(failure) = self.failure {
            map.serialize_entry("failureClass", &failure.class)?;
            map.serialize_entry("terminal", &failure.terminal)?;
        }
        if !self.blocking {
            map.serialize_entry("blocking", &false)?;
        }
        map.serialize_entry("conditions", self.condition().as_slice())?;
        if !self.problems.is_empty() {
            map.serialize_entry("problems", &self.problems)?;
        }
        map.end()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.reason, self.message)
    }
}
