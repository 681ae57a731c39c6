//! Draft: a parsed rule of any dialect, with its match and the text of its expressions.

use kstatus::FailureClass;

use crate::cel::source::Names;
use crate::document::{Fields, Item, LoadError, Sourced};
use crate::matching::Match;
use crate::provenance::Provenance;

/// Verdict of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Suspended,
    Failed,
    InProgress,
    /// The controller itself says that it can't tell.
    Unknown,
    Current,
}

impl Says {
    /// In the order in which branches of a pack are tried.
    pub(crate) const ALL: [Self; 5] =
        [Self::Suspended, Self::Failed, Self::InProgress, Self::Unknown, Self::Current];

    /// The key of a pack.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Failed => "failed",
            Self::InProgress => "inProgress",
            Self::Unknown => "unknown",
            Self::Current => "current",
        }
    }

    /// The reason of a branch that gives none.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Failed => "Failed",
            Self::InProgress => "InProgress",
            Self::Unknown => "Unknown",
            Self::Current => "Current",
        }
    }
}

/// Whether a check of the engine is made before the rule.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    On,
    Off,
    /// If this expression is true.
    When(Sourced),
}

impl Check {
    fn read(item: Option<Item<'_, '_>>, errors: &mut Vec<LoadError>) -> Self {
        let Some(item) = item else { return Self::On };
        match item.node.as_bool() {
            Some(true) => Self::On,
            Some(false) => Self::Off,
            None => match item.sourced() {
                Ok(when) => Self::When(when),
                Err(_) => {
                    errors.push(
                        item.error("expected true, false, or the expression for when the check is made"),
                    );
                    Self::On
                }
            },
        }
    }
}

/// One branch as it is written.
#[derive(Clone, Debug)]
pub(crate) struct DraftBranch {
    pub(crate) says: Says,
    pub(crate) when: Sourced,
    pub(crate) words: DraftWords,
}

/// Reason, message and failure of a branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct DraftWords {
    /// The type of a condition, or `${…}` around an expression that gives one.
    pub(crate) from: Option<Sourced>,
    pub(crate) reason: Option<Sourced>,
    pub(crate) message: Option<Sourced>,
    pub(crate) class: Option<FailureClass>,
    pub(crate) terminal: bool,
}

/// A rule as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) matches: Match,
    /// The line of its file, counted from 1.
    pub(crate) line: usize,
    /// None if the rule says nothing of it, and for the built-in pack, which keeps it apart.
    pub(crate) provenance: Option<Provenance>,
    pub(crate) checks_deletion: Check,
    pub(crate) checks_generation: Check,
    /// In the order in which they are tried.
    pub(crate) branches: Vec<DraftBranch>,
    pub(crate) otherwise: Option<DraftWords>,
    pub(crate) names: Names,
}

impl Draft {
    pub(crate) fn new(matches: Match, line: usize, names: Names) -> Self {
        Self {
            matches,
            line,
            provenance: None,
            checks_deletion: Check::On,
            checks_generation: Check::On,
            branches: Vec::new(),
            otherwise: None,
            names,
        }
    }

    const KEYS: [&'static str; 9] =
        ["match", "source", "checks", "suspended", "failed", "inProgress", "unknown", "current", "otherwise"];

    /// A rule of a pack.
    pub(crate) fn read(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        if let Err(error) = item.map() {
            errors.push(error);
            return None;
        }
        let fields = item.fields();
        let Some(matches) = fields.get("match") else {
            errors.push(item.error("`match` is missing: the group and kind that the rule is for"));
            return None;
        };
        fields.only(&Self::KEYS, errors);
        let matches = Match::read(matches, errors);
        let provenance = fields.get("source").map(|source| Provenance::read(source, errors));
        let body = Self::of_fields(item, &fields, errors);
        let mut draft = body?;
        draft.provenance = provenance.flatten();
        draft.matches = matches?;
        Some(draft)
    }

    /// Branches of a rule, without its match.
    pub(crate) fn body(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        Self::of_fields(item, &item.fields(), errors)
    }

    fn of_fields(item: Item<'_, '_>, fields: &Fields<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        let before = errors.len();
        let mut draft = Self::new(Match::default(), item.line(), Names::Known);
        if let Some(checks) = fields.get("checks") {
            errors.extend(checks.map().err());
            checks.only(&["deletion", "generation"], errors);
            draft.checks_deletion = Check::read(checks.get("deletion"), errors);
            draft.checks_generation = Check::read(checks.get("generation"), errors);
        }
        for says in Says::ALL {
            for branch in fields.get(says.key()).map(|item| item.one_or_many()).unwrap_or_default() {
                draft.branches.extend(DraftBranch::read(says, branch, errors));
            }
        }
        if let Some(otherwise) = fields.get("otherwise") {
            errors.extend(otherwise.map().err());
            let fields = otherwise.fields();
            fields.only(&["reason", "message", "from", "class"], errors);
            draft.otherwise = Some(DraftWords::read(&fields, errors));
        }
        if draft.branches.is_empty() && errors.len() == before {
            errors.push(item.error("the rule says nothing: give it `failed`, `inProgress` or `current`"));
        }
        (errors.len() == before).then_some(draft)
    }
}

impl DraftBranch {
    fn read(says: Says, item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        use kstatus::NodeKind as K;
        match item.node.kind() {
            K::String => {
                let when = item.sourced().map_err(|error| errors.push(error)).ok()?;
                Some(Self { says, when, words: DraftWords::default() })
            }
            K::Map => {
                let fields = item.fields();
                fields.only(&["when", "from", "reason", "message", "class", "terminal"], errors);
                let words = DraftWords::read(&fields, errors);
                if words.terminal && says != Says::Failed {
                    errors.push(item.error("`terminal` is for `failed` only"));
                }
                let Some(when) = fields.get("when") else {
                    errors.push(item.error("`when` is missing: the expression that decides"));
                    return None;
                };
                let when = when.sourced().map_err(|error| errors.push(error)).ok()?;
                Some(Self { says, when, words })
            }
            kind => {
                let hint =
                    if kind == K::Bool { "; put an expression such as \"true\" in quotes" } else { "" };
                errors.push(item.error(format!(
                    "expected an expression or a map with `when`, found {}{hint}",
                    kind.name()
                )));
                None
            }
        }
    }
}

impl DraftWords {
    fn read(fields: &Fields<'_, '_>, errors: &mut Vec<LoadError>) -> Self {
        let mut words = Self::default();
        let slots =
            [("from", &mut words.from), ("reason", &mut words.reason), ("message", &mut words.message)];
        for (key, slot) in slots {
            match fields.get(key).map(|item| item.sourced()) {
                Some(Ok(text)) => *slot = Some(text),
                Some(Err(error)) => errors.push(error),
                None => {}
            }
        }
        if let Some(class) = fields.get("class") {
            match class.text().map(|text| text.parse()) {
                Ok(Ok(known)) => words.class = Some(known),
                Ok(Err(error)) => errors.push(class.error(error.to_string())),
                Err(error) => errors.push(error),
            }
        }
        match fields.get("terminal").map(|item| item.boolean()) {
            Some(Ok(terminal)) => words.terminal = terminal,
            Some(Err(error)) => errors.push(error),
            None => {}
        }
        words
    }
}
