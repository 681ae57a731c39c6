//! What a controller declares once: its condition types and reasons.

use std::fmt;

/// What a condition's `True` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Polarity {
    /// True is the good state: `Available`.
    Positive,
    /// True is the bad state, abnormal-true: `Degraded`.
    Negative,
    /// No state is bad: `Paused`. The summary does not read it.
    Neutral,
}

/// What the bad state of a condition means for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing.
    Info,
    /// The summary stays True and names it in its message.
    Warning,
    /// The summary is False; Unknown as long as the condition is.
    Error,
}

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`: the controller cannot tell, or cannot tell yet.
    Unknown,
}

impl Status {
    /// As metav1 writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads a condition's status. What metav1 does not know is Unknown.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// The status of the opposite statement.
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

/// One condition type of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// As it stands in `type`: a qualified name.
    pub name: &'static str,
    /// What True means.
    pub polarity: Polarity,
    /// What its bad state means for the summary.
    pub severity: Severity,
    /// What it is about, in a sentence.
    pub description: &'static str,
}

impl Declaration {
    /// The status that is the bad one.
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
/// A condition type that metav1 would refuse does not compile:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::ConditionType)]
/// enum BucketCondition {
///     #[condition(name = "all stored")]
///     Stored,
/// }
/// ```
///
/// Nor do those that [`Conditions`](super::Conditions) sets itself:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::ConditionType)]
/// enum BucketCondition {
///     Ready,
/// }
/// ```
pub trait ConditionType {
    /// The type of the condition that summarizes the others: `Ready`, or `Succeeded` for what runs to completion.
    const SUMMARY: &'static str;
    /// All of them, in the order in which the summary names them.
    const DECLARATIONS: &'static [Declaration];

    /// The declaration of this one.
    fn declaration(&self) -> &'static Declaration;
}

/// A reason and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonDeclaration {
    /// As it stands in `reason`.
    pub name: &'static str,
    /// What it means, in a sentence.
    pub description: &'static str,
}

/// The reason of a condition: an enum with `#[derive(Reason)]`, or a text where reasons cannot be declared, such as one of a mirrored condition.
/// Texts are validated by [`Conditions::finish`](super::Conditions::finish).
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
/// A reason that metav1 would refuse does not compile:
///
/// ```compile_fail
/// #[derive(settled_controller::conditions::Reason)]
/// enum BucketReason {
///     #[reason(name = "quota exceeded")]
///     QuotaExceeded,
/// }
/// ```
pub trait Reason {
    /// All reasons of an enum; none of a text.
    const DECLARATIONS: &'static [ReasonDeclaration];

    /// As it stands in `reason`.
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

/// What a reconcile found out about one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the condition holds.
    pub status: Status,
    /// Why, for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Finding {
    /// A finding from its parts.
    pub fn new(status: impl Into<Status>, reason: impl Reason, message: impl Into<String>) -> Self {
        Self { status: status.into(), reason: reason.as_str().to_owned(), message: message.into() }
    }

    /// The finding about the opposite statement: a child's `Available` as one's own `Unavailable`.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self { status: self.status.inverted(), ..self }
    }
}
