//! Formats parts of a program as source text.

use std::fmt::{self, Display as _};

use crate::budget::Place;
use crate::functions::Function;
use crate::plan::{Attr, Base, Call, Fold, Op, OpId, Program, Step};
use crate::value::{Const, Map, Val};

/// Quotes a string as a CEL literal.
struct Quoted<'c>(&'c Const);

/// An operation, with the names of variables.
struct Shown<'p> {
    program: &'p Program,
    names: &'p dyn Fn(u32) -> String,
    op: OpId,
    /// Number of attribute steps to format; all if not set.
    steps: Option<usize>,
}

impl Program {
    /// Formats an operation of the program; `names` has the names of variables.
    pub fn show<'p>(&'p self, place: Place, names: &'p dyn Fn(u32) -> String) -> impl fmt::Display + 'p {
        Shown { program: self, names, op: place.op, steps: Some(place.steps) }
    }
}

impl Shown<'_> {
    fn inner(&self, op: OpId) -> Self {
        Shown { op, steps: None, ..*self }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, ops: &[OpId]) -> fmt::Result {
        for (index, op) in ops.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            self.inner(*op).fmt(f)?;
        }
        Ok(())
    }

    fn attr(&self, f: &mut fmt::Formatter<'_>, attr: &Attr) -> fmt::Result {
        let count = self.steps.unwrap_or(attr.steps.len());
        // The operand of the test is formatted by itself too.
        let is_test = attr.is_test && count == attr.steps.len();
        f.write_str(if is_test { "has(" } else { "" })?;
        match &attr.base {
            Base::Variable(variable) => f.write_str(&(self.names)(*variable))?,
            Base::Slot(slot) => f.write_str(self.program.slot_names.get(*slot).map_or("?", |name| name))?,
            Base::Value(op) => self.inner(*op).fmt(f)?,
            Base::Choice { condition, yes, no } => {
                write!(f, "({} ? {} : {})", self.inner(*condition), self.inner(*yes), self.inner(*no))?;
            }
        }
        for step in attr.steps.iter().take(count) {
            let mark = if step.is_optional() { "?" } else { "" };
            match step {
                Step::Field { key, .. } | Step::Test(key) => write!(f, ".{mark}{key}")?,
                Step::Key { key, .. } => write!(f, "[{mark}{}]", Quoted(key))?,
                Step::Computed { key, .. } => write!(f, "[{mark}{}]", self.inner(*key))?,
            }
        }
        f.write_str(if is_test { ")" } else { "" })
    }

    fn call(&self, f: &mut fmt::Formatter<'_>, call: &Call) -> fmt::Result {
        let name = call.function.name();
        match (call.function, call.args.as_slice()) {
            (Function::Not, [value]) => write!(f, "!{}", self.inner(*value)),
            (Function::Negate, [value]) => write!(f, "-{}", self.inner(*value)),
            (Function::In, [value, of]) => write!(f, "{} in {}", self.inner(*value), self.inner(*of)),
            (
                Function::Less | Function::LessOrEqual | Function::Greater | Function::GreaterOrEqual,
                [a, b],
            ) => {
                write!(f, "{} {} {}", self.inner(*a), name.trim_matches('_'), self.inner(*b))
            }
            (_, [a, b]) if name.starts_with('_') => {
                write!(f, "({} {} {})", self.inner(*a), name.trim_matches('_'), self.inner(*b))
            }
            (_, [target, args @ ..]) if call.is_member => {
                write!(f, "{}.{name}(", self.inner(*target))?;
                self.list(f, args)?;
                f.write_str(")")
            }
            (_, args) => {
                write!(f, "{name}(")?;
                self.list(f, args)?;
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |op: &OpId| self.inner(*op);
        match self.program.op(self.op) {
            Op::Const(value) => Quoted(value).fmt(f),
            Op::Attr(attr) => self.attr(f, attr),
            Op::And(a, b) => write!(f, "({} && {})", show(a), show(b)),
            Op::Or(a, b) => write!(f, "({} || {})", show(a), show(b)),
            Op::Equal(a, b) => write!(f, "{} == {}", show(a), show(b)),
            Op::Unequal(a, b) => write!(f, "{} != {}", show(a), show(b)),
            Op::Among(among) => write!(f, "{} in {}", show(&among.value), Quoted(&among.list)),
            Op::OptionalOr(a, b) => write!(f, "{}.or({})", show(a), show(b)),
            Op::OptionalOrValue(a, b) => write!(f, "{}.orValue({})", show(a), show(b)),
            Op::Default(a, b) => write!(f, "default({}, {})", show(a), show(b)),
            Op::List(elements) => {
                f.write_str("[")?;
                for (index, (element, is_optional)) in elements.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{}{}", if *is_optional { "?" } else { "" }, show(element))?;
                }
                f.write_str("]")
            }
            Op::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value, is_optional)) in entries.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{}{}: {}", if *is_optional { "?" } else { "" }, show(key), show(value))?;
                }
                f.write_str("}")
            }
            Op::Fold(fold) => {
                let Fold { range, var, name, .. } = &**fold;
                let var = self.program.slot_names.get(*var).map_or("?", |name| name);
                write!(f, "{}.{name}({var}, ...)", show(range))
            }
            Op::NotStrictlyFalse(value) => show(value).fmt(f),
            Op::Call(call) | Op::Scoped(call) => self.call(f, call),
        }
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Val::Null => f.write_str("null"),
            Val::Uint(value) => write!(f, "{value}u"),
            Val::Double(value) => write!(f, "{value:?}"),
            Val::Text(text) => write!(f, "'{}'", text.escape_debug()),
            Val::List(list) => {
                f.write_str("[")?;
                for (index, item) in list.iter().flatten().enumerate() {
                    write!(f, "{}{}", if index > 0 { ", " } else { "" }, Quoted(&item))?;
                }
                f.write_str("]")
            }
            Val::Map(Map::Made(map)) => {
                f.write_str("{")?;
                for (index, (key, value)) in map.values().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{}: {}", Quoted(key), Quoted(value))?;
                }
                f.write_str("}")
            }
            other => other.fmt(f),
        }
    }
}
