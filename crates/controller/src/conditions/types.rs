//! Declarations of a controller: condition types and reasons.

use std::fmt;

/// Meaning of a condition's `True`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Polarity {
    /// True is the good state: `Available`.
    Positive,
    /// True is the bad state, abnormal-true: `Degraded`.
    Negative,
    /// Neutral: `Paused`. The summary ignores it.
    Neutral,
}

/// Effect of a condition's bad state on the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// None.
    Info,
    /// The summary stays True and mentions it in its message.
    Warning,
    /// The summary becomes False, or Unknown while the condition is Unknown.
    Error,
}

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`: the controller cannot determine it, or not yet.
    Unknown,
}

impl Status {
    /// The string in metav1.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Parses a status. Other values are Unknown.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// The negated status.
    #[must_use]
    pub const fn inverted(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Declaration of a condition type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Value of `type`: a qualified name.
    pub name: &'static str,
    /// Meaning of True.
    pub polarity: Polarity,
    /// Effect of its bad state on the summary.
    pub severity: Severity,
    /// Description, one sentence.
    pub description: &'static str,
}

impl Declaration {
    /// The bad status.
    pub(crate) fn bad(&self) -> Option<Status> {
        match self.polarity {
            Polarity::Positive => Some(Status::False),
            Polarity::Negative => Some(Status::True),
            Polarity::Neutral => None,
        }
    }
}

/// The condition types of a controller: an enum with `#[derive(ConditionType)]`.
///
/// ```
/// use settled_controller::conditions::{ConditionType, Polarity, Severity};
///
/// #[derive(ConditionType)]
/// enum BucketCondition {
///     /// All objects are stored.
///     Stored,
///     /// Writes take longer than they should.
///     #[condition(polarity = "negative", severity = "warning")]
///     Degraded,
/// }
///
/// assert_eq!(BucketCondition::SUMMARY, "Ready");
/// let degraded = BucketCondition::Degraded.declaration();
/// assert_eq!((degraded.name, degraded.polarity, degraded.severity), ("Degraded", Polarity::Negative, Severity::Warning));
/// assert_eq!(degraded.description, "Writes take longer than they should.");
/// ```
///
/// Types that metav1 rejects do not compile:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::ConditionType)]
/// enum BucketCondition {
///     #[condition(name = "all stored")]
///     Stored,
/// }
/// ```
///
/// Nor do types that [`Conditions`](super::Conditions) sets itself:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::ConditionType)]
/// enum BucketCondition {
///     Ready,
/// }
/// ```
pub trait ConditionType {
    /// Type of the summary condition: `Ready`, or `Succeeded` for work that runs to completion.
    const SUMMARY: &'static str;
    /// All types, in the order in which the summary lists them.
    const DECLARATIONS: &'static [Declaration];

    /// The declaration of this type.
    fn declaration(&self) -> &'static Declaration;
}

/// A reason and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonDeclaration {
    /// Value of `reason`.
    pub name: &'static str,
    /// Description, one sentence.
    pub description: &'static str,
}

/// Reason of a condition: an enum with `#[derive(Reason)]`, or a text if reasons cannot be declared, as for mirrored
/// conditions. Texts are validated by [`Conditions::finish`](super::Conditions::finish).
///
/// ```
/// use settled_controller::conditions::Reason;
///
/// #[derive(Reason)]
/// enum BucketReason {
///     /// All objects are stored.
///     Written,
///     /// The quota of the namespace is used up.
///     QuotaExceeded,
/// }
///
/// assert_eq!(BucketReason::QuotaExceeded.as_str(), "QuotaExceeded");
/// assert_eq!(BucketReason::DECLARATIONS[0].description, "All objects are stored.");
/// ```
///
/// Reasons that metav1 rejects do not compile:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::Reason)]
/// enum BucketReason {
///     #[reason(name = "quota exceeded")]
///     QuotaExceeded,
/// }
/// ```
pub trait Reason {
    /// All reasons of an enum; empty for texts.
    const DECLARATIONS: &'static [ReasonDeclaration];

    /// Value of `reason`.
    fn as_str(&self) -> &str;
}

impl Reason for &str {
    const DECLARATIONS: &'static [ReasonDeclaration] = &[];

    fn as_str(&self) -> &str {
        self
    }
}

impl Reason for String {
    const DECLARATIONS: &'static [ReasonDeclaration] = &[];

    fn as_str(&self) -> &str {
        self
    }
}

/// Finding of a reconcile about one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Status of the condition.
    pub status: Status,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

impl Finding {
    /// A finding with these values.
    pub fn new(status: impl Into<Status>, reason: impl Reason, message: impl Into<String>) -> Self {
        Self { status: status.into(), reason: reason.as_str().to_owned(), message: message.into() }
    }

    /// The negated finding: a child's `Available` as the parent's `Unavailable`.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self { status: self.status.inverted(), ..self }
    }
}
