//! Decides most conditions of a rule without an evaluation: each value that they require is inspected once for all of them.

use settled_cel::{Clause, Function, Literal, Plain, Program, Requirements, Rest, Subject};

use super::conditions::ConditionStatus;
use super::scope::{Scope, Set};

/// No more values and clauses are considered.
const MAX_NUMBERS: usize = Set::BITS as usize;

/// What the conditions of a rule require.
#[derive(Debug)]
pub(crate) struct Prefilter {
    values: Box<[Value]>,
    /// Of each condition.
    required: Box<[Required]>,
}

/// What one condition requires.
#[derive(Debug, Default)]
struct Required {
    values: Set,
    clauses: Set,
    /// What remains if all clauses hold; `None` if some of them are not considered.
    rest: Option<Rest>,
}

/// What is known of a condition without an evaluation.
#[derive(Debug)]
pub(crate) enum Decision<'p> {
    Is(bool),
    /// It is what this part of it is.
    Rest(&'p Rest),
    Unknown,
}

/// A value, and the effect of each form that it may have.
#[derive(Debug)]
enum Value {
    Field { variable: u32, absent: Effect, yes: Effect, no: Effect, texts: Texts, other: Effect },
    Condition { type_: Box<str>, statuses: [Effect; ConditionStatus::ALL.len()] },
}

#[derive(Debug)]
struct Texts {
    known: Box<[(Box<str>, Effect)]>,
    other: Effect,
}

/// The clauses that hold, or may hold.
#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    hold: Set,
    /// Of them, those that only an evaluation can decide.
    may_hold: Set,
}

impl Prefilter {
    pub(crate) fn of<'p>(conditions: impl Iterator<Item = &'p Program>) -> Self {
        let mut builder = Builder::default();
        let required = conditions.map(|condition| builder.add(condition)).collect();
        Self { values: builder.values.iter().map(|value| builder.value(*value)).collect(), required }
    }

    /// Decides a condition, by its number, as far as it can be decided without an evaluation.
    pub(crate) fn decide(&self, condition: usize, scope: &Scope<'_>) -> Decision<'_> {
        let Some(required) = self.required.get(condition) else { return Decision::Unknown };
        let known = &scope.inspected;
        let mut new = required.values & !known.values.get();
        known.values.set(known.values.get() | new);
        while new != 0 {
            if let Some(value) = self.values.get(new.trailing_zeros() as usize) {
                let effect = value.inspect(scope);
                known.hold.set(known.hold.get() | effect.hold);
                known.may_hold.set(known.may_hold.get() | effect.may_hold);
            }
            new &= new - 1;
        }
        if required.clauses & !known.hold.get() != 0 {
            return Decision::Is(false);
        }
        match &required.rest {
            Some(rest) if required.clauses & known.may_hold.get() == 0 => {
                if rest.is_empty() {
                    Decision::Is(true)
                } else {
                    Decision::Rest(rest)
                }
            }
            _ => Decision::Unknown,
        }
    }
}

impl Value {
    fn inspect(&self, scope: &Scope<'_>) -> Effect {
        match self {
            Self::Field { variable, absent, yes, no, texts, other } => match scope.inspect(*variable) {
                Plain::Absent => *absent,
                Plain::Bool(true) => *yes,
                Plain::Bool(false) => *no,
                Plain::Text(text) => texts.effect(text),
                Plain::Other => *other,
            },
            Self::Condition { type_, statuses } => {
                let status = scope.run.conditions.status(type_);
                statuses.get(status as usize).copied().unwrap_or_default()
            }
        }
    }
}

impl Texts {
    fn effect(&self, text: &[u8]) -> Effect {
        let known = self.known.iter().find(|(known, _)| known.as_bytes() == text);
        known.map_or(self.other, |(_, effect)| *effect)
    }
}

/// Collects what conditions require.
#[derive(Debug, Default)]
struct Builder<'p> {
    values: Vec<Subject<'p>>,
    clauses: Vec<Clause<'p>>,
}

/// The value that a literal is about: a condition has one for all its functions.
fn value_of<'p>(literal: &Literal<'p>) -> Subject<'p> {
    match literal.subject {
        Subject::Call(_, type_) => Subject::Call(Function::Condition, type_),
        variable => variable,
    }
}

/// The number of an item, which is added if it is new and there is room.
fn number<T: PartialEq>(list: &mut Vec<T>, item: T) -> Option<usize> {
    if let Some(number) = list.iter().position(|known| *known == item) {
        return Some(number);
    }
    let number = list.len();
    (number < MAX_NUMBERS).then(|| {
        list.push(item);
        number
    })
}

impl<'p> Builder<'p> {
    /// Adds a condition.
    fn add(&mut self, condition: &'p Program) -> Required {
        let Requirements { clauses, rest, .. } = Requirements::of(condition);
        let mut required = Required { rest: Some(rest), ..Required::default() };
        for clause in clauses {
            match self.add_clause(clause) {
                Some((values, number)) => {
                    required.values |= values;
                    required.clauses |= 1 << number;
                }
                None => required.rest = None,
            }
        }
        required
    }

    fn add_clause(&mut self, clause: Clause<'p>) -> Option<(Set, usize)> {
        let mut values = 0;
        for literal in &clause {
            values |= 1 << number(&mut self.values, value_of(literal))?;
        }
        Some((values, number(&mut self.clauses, clause)?))
    }

    fn value(&self, value: Subject<'p>) -> Value {
        let mut literals = Vec::new();
        for (number, clause) in self.clauses.iter().enumerate() {
            literals.extend(
                clause.iter().filter(|literal| value_of(literal) == value).map(|literal| (number, literal)),
            );
        }
        let effect = |holds: &dyn Fn(&Literal<'p>) -> Option<bool>| {
            let mut effect = Effect::default();
            for (number, literal) in &literals {
                let holds = holds(literal);
                effect.hold |= Set::from(holds != Some(false)) << number;
                effect.may_hold |= Set::from(holds.is_none()) << number;
            }
            effect
        };
        let of = |plain: Plain<'_>| effect(&|literal| literal.holds(plain));
        match value {
            Subject::Variable(variable) => {
                let mut texts: Vec<&str> =
                    literals.iter().flat_map(|(_, literal)| literal.texts()).copied().collect();
                texts.sort_unstable();
                texts.dedup();
                // It is longer than each of them.
                let other = texts.concat() + "?";
                Value::Field {
                    variable,
                    absent: of(Plain::Absent),
                    yes: of(Plain::Bool(true)),
                    no: of(Plain::Bool(false)),
                    other: of(Plain::Other),
                    texts: Texts {
                        known: texts
                            .iter()
                            .map(|text| (Box::from(*text), of(Plain::Text(text.as_bytes()))))
                            .collect(),
                        other: of(Plain::Text(other.as_bytes())),
                    },
                }
            }
            Subject::Call(_, type_) => {
                let statuses = ConditionStatus::ALL.map(|status| {
                    effect(&|literal| match literal.subject {
                        Subject::Call(function, _) => {
                            literal.holds(Plain::Bool(ConditionStatus::of(function) == Some(status)))
                        }
                        Subject::Variable(_) => None,
                    })
                });
                Value::Condition { type_: type_.into(), statuses }
            }
        }
    }
}
