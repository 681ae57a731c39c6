//! Evaluation of expressions on one object.

use std::cell::{Cell, RefCell};

use jiff::Timestamp;
use kstatus::Object;
use settled_cel::{Budget, Fault, Function, Place, Plain, Program, Rest, Truth};

use super::bytes::{Bytes, Val, plain, value};
use super::conditions::Conditions;
use super::limits;
use super::maps::Maps;
use super::paths::{Fields, Paths};
use super::shown::Quoted;

/// Steps of one evaluation: a node of the expression, an element that is gone over, or 64 bytes of text are one each.
/// Rules need some dozens; this many take a few milliseconds.
pub(crate) const STEPS: u64 = 100_000;

/// Bytes that one evaluation may allocate in all.
pub(crate) const ROOM: u64 = 1 << 20;

/// Fields and values read by expressions.
pub(crate) type Seen = Vec<(String, String)>;

/// Evaluation of a rule on an object. Its expressions share the budget.
pub(crate) struct Run<'e> {
    pub(crate) object: &'e Object<'e>,
    now: Timestamp,
    pub(crate) conditions: Conditions<'e>,
    maps: Maps<'e>,
    budget: Budget,
    /// Values read by expressions, if requested.
    seen: Option<RefCell<Seen>>,
}

impl<'e> Run<'e> {
    pub(crate) fn new(object: &'e Object<'e>, now: Timestamp) -> Self {
        let conditions = Conditions::of(object);
        Self { object, now, conditions, maps: Maps::default(), budget: Budget::new(STEPS, ROOM), seen: None }
    }

    /// Creates one that records the values read by expressions.
    pub(crate) fn traced(object: &'e Object<'e>, now: Timestamp) -> Self {
        Self { seen: Some(RefCell::default()), ..Self::new(object, now) }
    }

    /// Begins another evaluation on the same object: with a new budget.
    pub(crate) fn restart(&self) {
        self.budget.refill(STEPS, ROOM);
    }

    /// Takes the values recorded so far.
    pub(crate) fn take_seen(&self) -> Seen {
        self.seen.as_ref().map(RefCell::take).unwrap_or_default()
    }
}

/// Numbers of values, or of clauses.
pub(crate) type Set = u64;

/// What a [prefilter](super::prefilter) knows of an object so far.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) values: Cell<Set>,
    /// Clauses that hold, or may hold.
    pub(crate) hold: Cell<Set>,
    /// Of them, those that only an evaluation can decide.
    pub(crate) may_hold: Cell<Set>,
}

/// View of an object for expressions that were compiled with the same paths.
pub(crate) struct Scope<'e> {
    pub(crate) run: &'e Run<'e>,
    fields: Fields<'e>,
    paths: &'e Paths,
    pub(crate) inspected: Inspected,
}

impl<'e> Scope<'e> {
    pub(crate) fn new(run: &'e Run<'e>, paths: &'e Paths) -> Self {
        Self { run, fields: Fields::new(run.object, paths), paths, inspected: Inspected::default() }
    }

    /// Inspects a field in place.
    pub(crate) fn inspect(&self, variable: u32) -> Plain<'e> {
        plain(self.fields.get(variable))
    }

    /// The value of an expression.
    pub(crate) fn evaluate(&self, program: &'e Program) -> Result<Val<'e>, Fault> {
        settled_cel::run(program, self, &self.run.budget)
    }

    /// The value of an expression that should be true or false.
    pub(crate) fn holds(&self, program: &'e Program) -> Truth<'e, Bytes<'e>> {
        settled_cel::holds(program, self, &self.run.budget)
    }

    /// As [`holds`](Self::holds), of an expression of which only this is not known.
    pub(crate) fn rest_holds(&self, program: &'e Program, rest: &Rest) -> Truth<'e, Bytes<'e>> {
        settled_cel::rest_holds(program, rest, self, &self.run.budget)
    }

    /// As [`holds`](Self::holds), apart from the budget of the evaluation.
    pub(crate) fn holds_apart(&self, program: &'e Program) -> Truth<'e, Bytes<'e>> {
        settled_cel::holds(program, self, &Budget::new(STEPS, ROOM))
    }

    fn text_of<'v>(&self, arg: Option<&'v Result<Val<'e>, Fault>>) -> Result<&'v str, Fault> {
        match arg {
            Some(Ok(Val::Text(text))) => {
                self.run.budget.step(text.len() as u64 / 256)?;
                Ok(text)
            }
            Some(Ok(value)) => Err(Fault::error(format!("expected text, found {}", value.type_name()))),
            Some(Err(fault)) => Err(fault.clone()),
            None => Err(Fault::error("expected text")),
        }
    }

    fn seconds_since(&self, text: &str) -> Result<Val<'e>, Fault> {
        let time: Timestamp = text
            .parse()
            .map_err(|_| Fault::error("secondsSince: expected a time such as 2026-01-31T12:00:00Z"))?;
        Ok(Val::Int(self.run.now.duration_since(time).as_secs()))
    }
}

/// A counter; 1 or 0 where it is absent.
fn count(arg: Option<&Result<Val<'_>, Fault>>, absent: i64) -> Result<i64, Fault> {
    let value = match arg {
        None | Some(Err(Fault::Absent(_)) | Ok(Val::Optional(None) | Val::Null)) => return Ok(absent),
        Some(Err(fault)) => return Err(fault.clone()),
        Some(Ok(Val::Optional(Some(value)))) => value,
        Some(Ok(value)) => value,
    };
    value.as_int().ok_or_else(|| Fault::error(format!("no count for {}", value.type_name())))
}

impl<'e> settled_cel::Scope<'e> for Scope<'e> {
    type Data = Bytes<'e>;

    fn variable(&self, variable: u32) -> Option<Result<Val<'e>, Fault>> {
        self.fields.get(variable).map(|node| Ok(value(node)))
    }

    fn plain(&self, variable: u32) -> Option<Plain<'e>> {
        if self.run.seen.is_some() {
            return None;
        }
        Some(self.inspect(variable))
    }

    fn member(&self, map: Bytes<'e>, key: &str) -> Result<Option<Val<'e>>, Fault> {
        Ok(self.run.maps.get(map.0, key).map(value))
    }

    fn plain_member(&self, map: Bytes<'e>, key: &str) -> Option<Plain<'e>> {
        Some(plain(self.run.maps.get(map.0, key)))
    }

    fn holds(&self, function: Function, text: &str, budget: &Budget) -> Option<Result<bool, Fault>> {
        if self.run.seen.is_some() {
            return None;
        }
        self.run.conditions.holds(function, text, budget)
    }

    fn check(&self, function: Function, args: &[Val<'e>], budget: &Budget) -> Result<(), Fault> {
        limits::check(function, args, budget)
    }

    fn call(
        &self,
        function: Function,
        is_member: bool,
        args: &[Result<Val<'e>, Fault>],
        budget: &Budget,
    ) -> Result<Option<Val<'e>>, Fault> {
        let (list, args) = match args {
            [list, args @ ..] if is_member => (Some(list), args),
            args => (None, args),
        };
        Ok(Some(match function {
            Function::AtLeast | Function::Ratio => {
                let (have, want) = (count(args.first(), 0)?, count(args.get(1), 1)?);
                if function == Function::AtLeast {
                    return Ok(Some(Val::Bool(have >= want)));
                }
                budget.allocate(32)?;
                Val::text(format!("{have}/{want}"))
            }
            Function::Observed => Val::Bool(self.run.conditions.is_observed()),
            Function::SecondsSince => self.seconds_since(self.text_of(args.first())?)?,
            Function::Worst => {
                let types = match args.first() {
                    Some(Ok(Val::List(types))) => types,
                    Some(Ok(value)) => {
                        return Err(Fault::error(format!("no `worst` for {}", value.type_name())));
                    }
                    Some(Err(fault)) => return Err(fault.clone()),
                    None => return Ok(None),
                };
                self.run.conditions.worst(list, types, budget)?
            }
            _ => {
                let type_ = self.text_of(args.first())?;
                let found = self.run.conditions.find(list, type_, budget)?;
                return self.run.conditions.answer(function, found, budget);
            }
        }))
    }

    fn call_with_text(
        &self,
        function: Function,
        text: &str,
        budget: &Budget,
    ) -> Option<Result<Option<Val<'e>>, Fault>> {
        let is_of_condition = !matches!(
            function,
            Function::AtLeast
                | Function::Ratio
                | Function::Observed
                | Function::SecondsSince
                | Function::Worst
        );
        is_of_condition.then(|| {
            budget.step(text.len() as u64 / 256)?;
            let found = self.run.conditions.find(None, text, budget)?;
            self.run.conditions.answer(function, found, budget)
        })
    }

    fn observe(&self, program: &Program, place: Place, value: &Result<Val<'e>, Fault>) {
        const MAX_OBSERVED: usize = 100;
        let Some(seen) = &self.run.seen else { return };
        let mut seen = seen.borrow_mut();
        let what = self.show(program, place);
        if seen.len() < MAX_OBSERVED && !seen.iter().any(|(known, _)| *known == what) {
            let value = match value {
                Ok(value) => Quoted(value, 0).to_string(),
                Err(Fault::Absent(_)) => "absent".to_owned(),
                Err(Fault::Error(error)) => format!("error: {error}"),
                Err(Fault::Limit | Fault::Room | Fault::Internal) => "not finished".to_owned(),
            };
            seen.push((what, value));
        }
    }
}

impl Scope<'_> {
    fn show(&self, program: &Program, place: Place) -> String {
        show(program, place, self.paths)
    }
}

/// A part of an expression, as it might have been written.
pub(crate) fn show(program: &Program, place: Place, paths: &Paths) -> String {
    program.show(place, &|path| paths.show(path).to_string()).to_string()
}
