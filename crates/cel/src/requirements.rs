//! What a condition requires to be true, as clauses of literals: each literal is decided by a look at one value.

use crate::functions::Function;
use crate::plan::{Attr, Base, Op, OpId, Program, Step};
use crate::scope::Plain;
use crate::value::{Const, Val};

/// Disjunctions that would become more clauses than this are kept in part.
const MAX_PRODUCT: usize = 4;

/// At least one of the literals has to hold.
pub type Clause<'p> = Vec<Literal<'p>>;

/// What an expression over data without types requires to be true.
#[derive(Clone, Debug)]
pub struct Requirements<'p> {
    /// Where no literal of one of them holds, the expression is false or absent, and its evaluation has no error but for its budget.
    pub clauses: Vec<Clause<'p>>,
    /// Where all clauses hold, the expression is this conjunction.
    pub rest: Rest,
    /// The expression is true where all clauses hold.
    is_exact: bool,
    /// Its evaluation may have an error.
    may_fail: bool,
}

/// A conjunction of operations of a program; true if there are none.
#[derive(Clone, Debug, Default)]
pub struct Rest(pub(crate) Box<[OpId]>);

impl Rest {
    /// Whether it is true without an evaluation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The value that a literal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'p> {
    /// A variable of the scope.
    Variable(u32),
    /// The result of [`Function::IsTrue`], [`Function::IsFalse`] or [`Function::IsUnknown`] for a constant text.
    Call(Function, &'p str),
}

/// A test of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal<'p> {
    /// The value.
    pub subject: Subject<'p>,
    test: Test<'p>,
    /// The result of the test for which the literal holds.
    wanted: bool,
    if_absent: IfAbsent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test<'p> {
    Present,
    True,
    Among(Vec<&'p str>),
}

/// Whether a literal holds for an absent value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfAbsent {
    Holds(bool),
    /// It does not, and the expression is absent, which does not absorb errors.
    Absent,
    Unknown,
}

impl<'p> Literal<'p> {
    /// The texts that the value is compared with.
    #[must_use]
    pub fn texts(&self) -> &[&'p str] {
        match &self.test {
            Test::Among(texts) => texts,
            Test::Present | Test::True => &[],
        }
    }

    /// Whether it holds for a value; `None` if the expression must be evaluated.
    #[must_use]
    pub fn holds(&self, value: Plain<'_>) -> Option<bool> {
        let result = match (&self.test, value) {
            (_, Plain::Absent) => {
                return match self.if_absent {
                    IfAbsent::Holds(holds) => Some(holds),
                    IfAbsent::Absent => Some(false),
                    IfAbsent::Unknown => None,
                };
            }
            (Test::Present, _) => true,
            (Test::True, Plain::Bool(value)) => value,
            (Test::Among(texts), Plain::Text(text)) => texts.iter().any(|known| known.as_bytes() == text),
            _ => return None,
        };
        Some(result == self.wanted)
    }
}

impl<'p> Requirements<'p> {
    /// Those of a program without types.
    #[must_use]
    pub fn of(program: &'p Program) -> Self {
        let mut rest = Vec::new();
        let requirements = Reader(program).read_conjunction(program.root, &mut rest);
        Self { rest: Rest(rest.into()), ..requirements }
    }

    fn none() -> Self {
        Self { clauses: Vec::new(), is_exact: false, may_fail: true, rest: Rest::default() }
    }

    fn one(subject: Subject<'p>, test: Test<'p>, wanted: bool, if_absent: IfAbsent) -> Self {
        let literal = Literal { subject, test, wanted, if_absent };
        Self { clauses: vec![vec![literal]], is_exact: true, may_fail: false, ..Self::none() }
    }

    /// Of a conjunction in this order. An absent operand does not absorb an error of the one before it.
    fn and(mut self, mut other: Self) -> Self {
        if self.may_fail {
            for literal in other.clauses.iter_mut().flatten() {
                if literal.if_absent == IfAbsent::Absent {
                    literal.if_absent = IfAbsent::Unknown;
                }
            }
        }
        self.clauses.append(&mut other.clauses);
        self.is_exact &= other.is_exact;
        self.may_fail |= other.may_fail;
        self
    }

    fn or(mut self, other: Self) -> Self {
        let may_fail = self.may_fail || other.may_fail;
        let mut is_exact = self.is_exact && other.is_exact;
        let clauses = match (self.clauses.as_mut_slice(), other.clauses.as_slice()) {
            ([mine], [theirs]) => {
                mine.extend_from_slice(theirs);
                self.clauses
            }
            (mine, theirs) => {
                let is_small = mine.len() * theirs.len() <= MAX_PRODUCT;
                is_exact &= is_small;
                let limit = if is_small { MAX_PRODUCT } else { 1 };
                let pairs =
                    mine.iter().take(limit).flat_map(|a| theirs.iter().take(limit).map(move |b| [a, b]));
                pairs.map(|[a, b]| [&**a, b].concat()).collect()
            }
        };
        Self { clauses, is_exact, may_fail, ..Self::none() }
    }
}

struct Reader<'p>(&'p Program);

/// A variable, and the constant that stands for it if it is absent.
type Operand<'p> = (u32, Option<&'p Const>);

impl<'p> Reader<'p> {
    /// What an operation requires to be true; those of its conjuncts that have to be evaluated are added to `rest`.
    fn read_conjunction(&self, id: OpId, rest: &mut Vec<OpId>) -> Requirements<'p> {
        if let Op::And(a, b) = self.0.op(id) {
            return self.read_conjunction(*a, rest).and(self.read_conjunction(*b, rest));
        }
        let requirements = self.read(id, true);
        if !requirements.is_exact {
            rest.push(id);
        }
        requirements
    }

    /// What an operation requires to be `wanted`.
    fn read(&self, id: OpId, wanted: bool) -> Requirements<'p> {
        match self.0.op(id) {
            Op::Const(Val::Bool(value)) => Requirements {
                // A clause without literals never holds.
                clauses: if *value == wanted { Vec::new() } else { vec![Vec::new()] },
                is_exact: true,
                may_fail: false,
                ..Requirements::none()
            },
            Op::And(a, b) if wanted => self.read(*a, true).and(self.read(*b, true)),
            Op::And(a, b) => self.read(*a, false).or(self.read(*b, false)),
            Op::Or(a, b) if wanted => self.read(*a, true).or(self.read(*b, true)),
            Op::Or(a, b) => self.read(*a, false).and(self.read(*b, false)),
            Op::Equal(a, b) => self.equal(*a, *b, wanted).unwrap_or_else(|| self.present(id)),
            Op::Unequal(a, b) => self.equal(*a, *b, !wanted).unwrap_or_else(|| self.present(id)),
            Op::Among(among) => match (&among.keys, self.operand(among.value)) {
                (Some(keys), Some(operand)) => among_texts(operand, keys.texts().collect(), wanted),
                _ => self.present(id),
            },
            Op::Attr(Attr { base: Base::Variable(variable), steps, is_test: true }) if steps.is_empty() => {
                let if_absent = IfAbsent::Holds(!wanted);
                Requirements::one(Subject::Variable(*variable), Test::Present, wanted, if_absent)
            }
            Op::Attr(_) | Op::Default(..) => {
                let if_absent = match self.operand(id) {
                    Some((variable, None)) => Some((variable, IfAbsent::Absent)),
                    Some((variable, Some(Val::Bool(value)))) => {
                        Some((variable, IfAbsent::Holds(*value == wanted)))
                    }
                    _ => None,
                };
                let Some((variable, if_absent)) = if_absent else { return self.present(id) };
                let is_true = Requirements::one(Subject::Variable(variable), Test::True, wanted, if_absent);
                // Other values are no condition.
                Requirements { may_fail: true, ..is_true }
            }
            Op::Scoped(call) => match (call.function, call.is_member, call.args.as_slice()) {
                (Function::IsTrue | Function::IsFalse | Function::IsUnknown, false, [arg]) => {
                    let Op::Const(Val::Text(text)) = self.0.op(*arg) else { return Requirements::none() };
                    let subject = Subject::Call(call.function, text);
                    let if_absent = IfAbsent::Holds(false);
                    Requirements::one(subject, Test::True, wanted, if_absent)
                }
                _ => Requirements::none(),
            },
            Op::Call(call) if call.function == Function::Not => match call.args.as_slice() {
                [arg] => self.read(*arg, !wanted),
                _ => Requirements::none(),
            },
            _ => self.present(id),
        }
    }

    fn operand(&self, id: OpId) -> Option<Operand<'p>> {
        match self.0.op(id) {
            Op::Attr(Attr { base: Base::Variable(variable), steps, is_test: false }) if steps.is_empty() => {
                Some((*variable, None))
            }
            Op::Default(value, fallback) => match (self.operand(*value)?, self.0.op(*fallback)) {
                ((variable, None), Op::Const(fallback)) => Some((variable, Some(fallback))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Of a comparison with a constant.
    fn equal(&self, a: OpId, b: OpId, wanted: bool) -> Option<Requirements<'p>> {
        let operand = self.operand(a)?;
        match self.0.op(b) {
            Op::Const(Val::Text(text)) => Some(among_texts(operand, vec![&**text], wanted)),
            Op::Const(Val::Bool(value)) => {
                let if_absent = match operand.1 {
                    None => IfAbsent::Absent,
                    Some(fallback) => IfAbsent::Holds(
                        matches!(fallback, Val::Bool(fallback) if fallback == value) == wanted,
                    ),
                };
                Some(Requirements::one(Subject::Variable(operand.0), Test::True, *value == wanted, if_absent))
            }
            _ => None,
        }
    }

    /// The variable that is read first has to be present.
    fn present(&self, id: OpId) -> Requirements<'p> {
        let Some(variable) = self.first(id) else { return Requirements::none() };
        let is_present =
            Requirements::one(Subject::Variable(variable), Test::Present, true, IfAbsent::Absent);
        Requirements { is_exact: false, may_fail: true, ..is_present }
    }

    /// The variable that is read before all others, and without which an operation is absent.
    fn first(&self, id: OpId) -> Option<u32> {
        match self.0.op(id) {
            // Optional members of what is absent are not absent.
            Op::Attr(attr) if attr.is_test || attr.steps.iter().any(Step::is_optional) => None,
            Op::Attr(attr) => match attr.base {
                Base::Variable(variable) => Some(variable),
                Base::Value(id) => self.first(id),
                Base::Slot(_) | Base::Choice { .. } => None,
            },
            Op::Equal(a, _) | Op::Unequal(a, _) => self.first(*a),
            Op::Among(among) => self.first(among.value),
            Op::Fold(fold) => self.first(fold.range),
            Op::Call(call) => {
                let is_constant = |arg: &OpId| matches!(self.0.op(*arg), Op::Const(_));
                self.first(*call.args.iter().find(|arg| !is_constant(arg))?)
            }
            _ => None,
        }
    }
}

fn among_texts<'p>((variable, fallback): Operand<'p>, texts: Vec<&'p str>, wanted: bool) -> Requirements<'p> {
    let if_absent = match fallback {
        None => IfAbsent::Absent,
        Some(Val::Text(text)) => IfAbsent::Holds(texts.contains(&&**text) == wanted),
        Some(_) => IfAbsent::Unknown,
    };
    Requirements::one(Subject::Variable(variable), Test::Among(texts), wanted, if_absent)
}
