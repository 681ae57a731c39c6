//! An expression, ready to run: what the parser of `cel` gives, turned into a flat program.
//!
//! The interpreter of `cel` 0.13 copies every part of an object that it looks at, has no budget, and knows a missing
//! field only as an error. So the syntax tree is run by [`eval`](super::eval) instead; the functions of Kubernetes'
//! libraries still are `kube-cel`'s.

use std::fmt;

use kube_cel::cel::common::ast::CallExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use kube_cel::cel::parser::Parser;

use super::functions::{Function, Native, Pattern, library};
use super::paths::Paths;

/// No longer expression is read.
pub(crate) const MAX_LENGTH: usize = 4096;
/// No deeper nesting of brackets is read, and no more operators.
const MAX_BRACKETS: usize = 32;
const MAX_OPERATORS: usize = 400;
/// Each `a ? b : c` in the last place of another one is as deep as a bracket. The parser gives up at 96 levels of both,
/// and in a debug build with a panic.
const MAX_CHOICES: usize = 60;
/// No deeper tree is run.
const MAX_TREE: usize = 120;

/// The number of a node of a program.
pub(crate) type Id = u32;

#[derive(Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    All,
    Exists,
    ExistsOne,
    /// `map` with a filter or without, and `filter`.
    Collect,
}

#[derive(Debug)]
pub(crate) enum Op {
    Literal(Literal),
    /// `self`
    Root,
    /// A field of the object, by its number among the [`Paths`].
    Path(u32),
    Local(usize),
    Select {
        of: Id,
        key: Box<str>,
    },
    /// Whether a field of the object is there.
    HasPath(u32),
    Has {
        of: Id,
        key: Box<str>,
    },
    OptSelect {
        of: Id,
        key: Box<str>,
    },
    Index {
        of: Id,
        key: Id,
    },
    OptIndex {
        of: Id,
        key: Id,
    },
    Not(Id),
    Negate(Id),
    And(Id, Id),
    Or(Id, Id),
    If(Id, Id, Id),
    Compare(Compare, Id, Id),
    Arithmetic(Arithmetic, Id, Id),
    In(Id, Id),
    List(Vec<(Id, bool)>),
    Map(Vec<(Id, Id, bool)>),
    Each {
        quantifier: Quantifier,
        range: Id,
        local: usize,
        filter: Option<Id>,
        body: Id,
    },
    Native {
        function: Native,
        target: Option<Id>,
        args: Vec<Id>,
    },
    /// A literal pattern, compiled once.
    Matches {
        of: Id,
        pattern: Box<Pattern>,
    },
    /// A call of a library: with variables `a0`, `a1` and so on for what it is given.
    Library {
        name: Box<str>,
        args: Vec<Id>,
        call: Box<IdedExpr>,
    },
}

/// An expression, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    ops: Vec<Op>,
    root: Id,
    /// How many variables of comprehensions there are at most.
    pub(crate) locals: usize,
    local_names: Vec<Box<str>>,
}

/// What is wrong with an expression, and at which byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileError {
    pub(crate) message: String,
    pub(crate) at: Option<usize>,
}

impl CompileError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }
}

/// Which names an expression may use besides `self`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// `metadata`, `spec`, `status` and so on: a misspelt name is an error.
    Known,
    /// Any top-level field, as Flux has it.
    Any,
}

const KNOWN: [&str; 6] = ["apiVersion", "kind", "metadata", "spec", "status", "data"];

impl Program {
    pub(crate) fn compile(source: &str, names: Names, paths: &mut Paths) -> Result<Self, CompileError> {
        check_size(source)?;
        let tree = Parser::new().enable_optional_syntax(true).parse(source).map_err(|errors| {
            let Some(error) = errors.errors.first() else { return CompileError::new("not an expression") };
            let at = offset(source, error.pos);
            let message = unexpected(&error.msg, source, at).unwrap_or_else(|| tidy(&error.msg));
            CompileError { message, at }
        })?;
        let mut lowering = Lowering {
            source,
            ops: Vec::new(),
            names,
            paths,
            scope: Vec::new(),
            locals: 0,
            local_names: Vec::new(),
            depth: 0,
        };
        let root = lowering.lower(&tree)?;
        let Lowering { ops, locals, local_names, .. } = lowering;
        Ok(Self { ops, root, locals, local_names })
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn op(&self, id: Id) -> &Op {
        const NULL: &Op = &Op::Literal(Literal::Null);
        self.ops.get(id as usize).unwrap_or(NULL)
    }

    /// The text of a node, as it might have been written.
    pub(crate) fn show<'p>(&'p self, id: Id, paths: &'p Paths) -> impl fmt::Display + 'p {
        Shown { program: self, paths, id }
    }
}

/// The byte of a line and a column, both counted from 1.
fn offset(source: &str, (line, column): (isize, isize)) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    Some((before + usize::try_from(column).ok()?.saturating_sub(1)).min(source.len()))
}

/// The lexer's message on a character with which no token begins: `unexpected "=" after "=="`.
fn unexpected(message: &str, source: &str, at: Option<usize>) -> Option<String> {
    let rest = message.strip_prefix("Syntax error: ").unwrap_or(message);
    let char = rest.strip_prefix("token recognition error at: '")?.chars().next()?;
    if matches!(char, '\'' | '"') {
        return Some(format!("the quote {char} is not closed"));
    }
    let before = source.get(..at?).unwrap_or_default();
    let operator = before.trim_end_matches(|char: char| "=!<>&|".contains(char)).len();
    let char = char.escape_debug();
    Some(match before.get(operator..) {
        Some(operator) if !operator.is_empty() => format!("unexpected \"{char}\" after \"{operator}\""),
        _ => format!("unexpected \"{char}\""),
    })
}

/// The parser's messages, in the words of this crate.
fn tidy(message: &str) -> String {
    if message == "invalid argument to has() macro" {
        return "has() takes a field, such as has(status.phase) or has(self.status); for a key with other characters, \
                write 'key' in map"
            .to_owned();
    }
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    // It lists every token that might follow.
    let short = message.split(" expecting ").next().unwrap_or(message);
    short.replace("'<EOF>'", "the end of the expression").replace("<EOF>", "the end of the expression")
}

/// Bounds what the parser gets to see: it recurses. Where texts and comments begin and end must be told exactly, else
/// brackets could hide in them.
fn check_size(source: &str) -> Result<(), CompileError> {
    if source.len() > MAX_LENGTH {
        return Err(CompileError::new(format!("the expression is longer than {MAX_LENGTH} bytes")));
    }
    if source.trim().is_empty() {
        return Err(CompileError::new("the expression is empty"));
    }
    let (mut open, mut operators, mut choices) = (Vec::new(), 0, 0);
    // The character just before, white space apart.
    let mut last: Option<char> = None;
    let mut after_sign = false;
    let mut at = 0;
    while let Some(char) = source.get(at..).and_then(|rest| rest.chars().next()) {
        let wrong = |message: String| Err(CompileError { message, at: Some(at) });
        let rest = source.get(at..).unwrap_or_default();
        let mut length = char.len_utf8();
        match char {
            '\'' | '"' => length = text_length(source, at)?,
            '/' if rest.starts_with("//") => length = rest.find('\n').unwrap_or(rest.len()),
            '(' | '[' | '{' => {
                open.push((char, at));
                if open.len() > MAX_BRACKETS {
                    return wrong("brackets are nested deeper than 32 levels".to_owned());
                }
            }
            ')' | ']' | '}' => {
                let wanted = match open.pop() {
                    Some(('(', _)) => ')',
                    Some(('[', _)) => ']',
                    Some(_) => '}',
                    None => return wrong(format!("`{char}` without a bracket that it closes")),
                };
                if char != wanted {
                    return wrong(format!("expected `{wanted}`, found `{char}`"));
                }
            }
            _ => {}
        }
        // A chain of indexes or of `in` is as deep a tree as one of other operators.
        let is_in = rest.strip_prefix("in").is_some_and(|after| !after.starts_with(is_of_word));
        if is_in
            || matches!(
                char,
                '[' | '.' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '?' | ':'
            )
        {
            operators += 1;
            if operators > MAX_OPERATORS {
                return wrong(format!("the expression has more than {MAX_OPERATORS} operators"));
            }
        }
        // `a.?b`, `a[?0]`, `[?a, ?b]` and `{?'a': b}` are no choices.
        if char == '?' && !matches!(last, Some('.' | '[' | ',' | '{')) {
            choices += 1;
            if choices > MAX_CHOICES {
                return wrong(format!("the expression has more than {MAX_CHOICES} choices `a ? b : c`"));
            }
        }
        // The parser reads two of them as one; but `2 - -1` is a difference.
        let is_sign = matches!(char, '!' | '-') && !last.is_some_and(ends_value);
        if is_sign && after_sign && last == Some(char) {
            return wrong("write `!` and `-` once: two of them cancel out".to_owned());
        }
        if !char.is_whitespace() {
            (last, after_sign) = (Some(char), is_sign);
        }
        at += length;
    }
    match open.pop() {
        None => Ok(()),
        Some((bracket, at)) => Err(CompileError {
            message: format!("`{bracket}` without the bracket that closes it"),
            at: Some(at),
        }),
    }
}

/// Whether a value may end with this character.
fn ends_value(char: char) -> bool {
    is_of_word(char) || matches!(char, ')' | ']' | '}' | '\'' | '"' | '`')
}

fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// The bytes that a literal text occupies, from its quote on. What the lexer would not take is an error: it would go
/// on somewhere inside of the text.
fn text_length(source: &str, at: usize) -> Result<usize, CompileError> {
    let (before, rest) = source.split_at(at);
    let wrong = |message: String, at: usize| Err(CompileError { message, at: Some(at) });
    let word = before.len() - before.trim_end_matches(is_of_word).len();
    let prefix = before.get(at - word..).unwrap_or_default().to_ascii_lowercase();
    let is_raw = match &*prefix {
        "" | "b" => false,
        "r" | "br" => true,
        _ => return wrong("an operator is missing before this text".to_owned(), at),
    };
    let quote = rest.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let (end, is_block) = if rest.starts_with(&triple) { (&*triple, true) } else { (quote, false) };
    let mut length = end.len();
    loop {
        let inside = rest.get(length..).unwrap_or_default();
        if inside.starts_with(end) {
            return Ok(length + end.len());
        }
        let Some(char) = inside.chars().next().filter(|char| is_block || !matches!(char, '\n' | '\r')) else {
            return wrong(format!("the text is not ended: `{end}` is missing"), at);
        };
        length += match char {
            '\\' if !is_raw => match escape_length(inside) {
                Some(length) => length,
                None => {
                    let shown: String = inside.chars().take(2).collect();
                    let message = format!(
                        "there is no escape `{shown}`; write `\\{shown}`, or r'...' for the whole text"
                    );
                    return wrong(message, at + length);
                }
            },
            char => char.len_utf8(),
        };
    }
}

/// The bytes of the escape that a text begins with.
fn escape_length(text: &str) -> Option<usize> {
    let escape = text.as_bytes();
    let digits = |count: usize, is_digit: fn(&u8) -> bool| {
        let digits = escape.get(2..2 + count).filter(|digits| digits.iter().all(is_digit));
        digits.map(|_| 2 + count)
    };
    match escape.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => digits(2, u8::is_ascii_hexdigit),
        b'u' => digits(4, u8::is_ascii_hexdigit),
        b'U' => digits(8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => digits(2, |digit| matches!(digit, b'0'..=b'7')),
        _ => None,
    }
}

struct Lowering<'p> {
    source: &'p str,
    ops: Vec<Op>,
    names: Names,
    paths: &'p mut Paths,
    /// The variables of the comprehensions around.
    scope: Vec<String>,
    locals: usize,
    local_names: Vec<Box<str>>,
    depth: usize,
}

type Lowered = Result<Id, CompileError>;

impl Lowering<'_> {
    fn push(&mut self, op: Op) -> Id {
        self.ops.push(op);
        (self.ops.len() - 1) as Id
    }

    fn lower(&mut self, tree: &IdedExpr) -> Lowered {
        self.depth += 1;
        if self.depth > MAX_TREE {
            return Err(CompileError::new("the expression is nested too deeply"));
        }
        let op = match &tree.expr {
            Expr::Literal(literal) => Op::Literal(literal_of(literal)?),
            Expr::Ident(name) => self.name(name)?,
            Expr::Select(select) => {
                let path = self.path_of(select);
                match (path, select.test) {
                    (Some(path), false) => Op::Path(path),
                    (Some(path), true) => Op::HasPath(path),
                    (None, test) => {
                        let of = self.lower(&select.operand)?;
                        let key = field_name(&select.field).into();
                        if test { Op::Has { of, key } } else { Op::Select { of, key } }
                    }
                }
            }
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => {
                let mut elements = Vec::new();
                for (index, element) in list.elements.iter().enumerate() {
                    elements.push((self.lower(element)?, list.optional_indices.contains(&index)));
                }
                Op::List(elements)
            }
            Expr::Map(map) => {
                let mut members = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(CompileError::new("expected `key: value`"));
                    };
                    members.push((self.lower(&entry.key)?, self.lower(&entry.value)?, entry.optional));
                }
                Op::Map(members)
            }
            Expr::Comprehension(each) => self.comprehension(each)?,
            Expr::Struct(structure) => {
                let message = format!("`{}{{...}}`: there are no messages here", structure.type_name);
                return Err(CompileError::new(message));
            }
            Expr::Unspecified => return Err(CompileError::new("not an expression")),
        };
        self.depth -= 1;
        Ok(self.push(op))
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.scope.iter().rposition(|known| known == name)
    }

    fn name(&mut self, name: &str) -> Result<Op, CompileError> {
        if let Some(local) = self.local(name) {
            return Ok(Op::Local(local));
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if name == "self" {
            return Ok(Op::Root);
        }
        if self.is_field(name) {
            return Ok(Op::Path(self.paths.add(None, name)));
        }
        if let "bool" | "int" | "uint" | "double" | "string" | "list" | "map" | "null_type" = name {
            return Ok(Op::Literal(Literal::Text(name.into())));
        }
        let known = KNOWN.join(", ");
        Err(self.wrong(
            name,
            format!(
                "unknown name `{name}`; known are self, {known}; write `self.{name}` for another field of the object"
            ),
        ))
    }

    /// An error at a name. The tree does not say where it stands: the first time that it is written is near.
    fn wrong(&self, name: &str, message: String) -> CompileError {
        let name = name.rsplit('.').next().unwrap_or(name);
        CompileError { message, at: find_word(self.source, name) }
    }

    fn is_field(&self, name: &str) -> bool {
        KNOWN.contains(&name) || self.names == Names::Any
    }

    /// The path of a field of the object that is written as one.
    fn path(&mut self, tree: &IdedExpr) -> Option<u32> {
        match &tree.expr {
            Expr::Ident(name) if self.local(name).is_none() && name != "self" && self.is_field(name) => {
                Some(self.paths.add(None, name))
            }
            Expr::Select(select) if !select.test => self.path_of(select),
            _ => None,
        }
    }

    fn path_of(&mut self, select: &SelectExpr) -> Option<u32> {
        let parent = match &select.operand.expr {
            Expr::Ident(name) if name == "self" && self.local(name).is_none() => None,
            _ => Some(self.path(&select.operand)?),
        };
        Some(self.paths.add(parent, field_name(&select.field)))
    }

    fn call(&mut self, call: &CallExpr) -> Result<Op, CompileError> {
        use Arithmetic as A;
        use Compare as C;
        let name = call.func_name.as_str();
        if call.target.is_none() {
            match (name, call.args.as_slice()) {
                (operators::CONDITIONAL, [a, b, c]) => {
                    return Ok(Op::If(self.lower(a)?, self.lower(b)?, self.lower(c)?));
                }
                (operators::LOGICAL_AND, [a, b]) => return Ok(Op::And(self.lower(a)?, self.lower(b)?)),
                (operators::LOGICAL_OR, [a, b]) => return Ok(Op::Or(self.lower(a)?, self.lower(b)?)),
                (operators::LOGICAL_NOT, [a]) => return Ok(Op::Not(self.lower(a)?)),
                (operators::NEGATE, [a]) => return Ok(Op::Negate(self.lower(a)?)),
                (operators::IN, [a, b]) => return Ok(Op::In(self.lower(a)?, self.lower(b)?)),
                (operators::INDEX, [a, b]) => {
                    return Ok(Op::Index { of: self.lower(a)?, key: self.lower(b)? });
                }
                (operators::OPT_INDEX, [a, b]) => {
                    return Ok(Op::OptIndex { of: self.lower(a)?, key: self.lower(b)? });
                }
                (
                    operators::OPT_SELECT,
                    [a, IdedExpr { expr: Expr::Literal(LiteralValue::String(key)), .. }],
                ) => {
                    return Ok(Op::OptSelect { of: self.lower(a)?, key: field_name(key.inner()).into() });
                }
                (_, [a, b]) => {
                    let compare = match name {
                        operators::EQUALS => Some(C::Equal),
                        operators::NOT_EQUALS => Some(C::Unequal),
                        operators::LESS => Some(C::Less),
                        operators::LESS_EQUALS => Some(C::LessOrEqual),
                        operators::GREATER => Some(C::Greater),
                        operators::GREATER_EQUALS => Some(C::GreaterOrEqual),
                        _ => None,
                    };
                    if let Some(compare) = compare {
                        return Ok(Op::Compare(compare, self.lower(a)?, self.lower(b)?));
                    }
                    let arithmetic = match name {
                        operators::ADD => Some(A::Add),
                        operators::SUBSTRACT => Some(A::Subtract),
                        operators::MULTIPLY => Some(A::Multiply),
                        operators::DIVIDE => Some(A::Divide),
                        operators::MODULO => Some(A::Remainder),
                        _ => None,
                    };
                    if let Some(arithmetic) = arithmetic {
                        return Ok(Op::Arithmetic(arithmetic, self.lower(a)?, self.lower(b)?));
                    }
                }
                _ => {}
            }
        }
        self.function(call)
    }

    fn function(&mut self, call: &CallExpr) -> Result<Op, CompileError> {
        // `math.greatest(…)`: the target is the name of a library.
        let space = match call.target.as_deref() {
            Some(IdedExpr { expr: Expr::Ident(space), .. }) if self.local(space).is_none() => {
                Some(format!("{space}.{}", call.func_name)).filter(|name| Function::find(name).is_some())
            }
            _ => None,
        };
        let name =
            space.as_deref().unwrap_or_else(|| call.func_name.strip_prefix('.').unwrap_or(&call.func_name));
        let is_method = call.target.is_some() && space.is_none();
        let target = match &call.target {
            Some(target) if is_method => Some(target.as_ref()),
            _ => None,
        };
        let usage = match name {
            "all" | "exists" | "exists_one" | "existsOne" | "filter" => "list.{}(x, condition)",
            "map" => "list.map(x, value) or list.map(x, condition, value)",
            "has" => "has(field)",
            _ => "",
        };
        if !usage.is_empty() {
            return Err(self.wrong(name, format!("`{name}` is written {}", usage.replace("{}", name))));
        }
        let Some(function) = Function::find(name) else {
            let near = Function::near(name).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(self.wrong(name, format!("unknown function `{name}`{near}")));
        };
        let count = call.args.len() + usize::from(is_method);
        if let Function::Native(_, shape) = function
            && !shape.fits(is_method, call.args.len())
        {
            return Err(self.wrong(name, format!("`{name}` is written {}", shape.usage)));
        }
        if let (Function::Native(Native::Matches, _), Some(of), [pattern]) =
            (function, target, call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr
        {
            let pattern = Pattern::new(pattern.inner()).map_err(CompileError::new)?;
            return Ok(Op::Matches { of: self.lower(of)?, pattern: Box::new(pattern) });
        }
        let mut args = Vec::with_capacity(count);
        for arg in target.into_iter().chain(&call.args) {
            args.push(self.lower(arg)?);
        }
        Ok(match function {
            Function::Native(function, _) => {
                let target = is_method.then(|| args.remove(0));
                Op::Native { function, target, args }
            }
            // `cel` takes the name of a time zone and leaves it out of account.
            Function::Library if name.starts_with("get") && count > 1 => {
                return Err(self.wrong(name, format!("`{name}` takes no time zone: times are in UTC")));
            }
            Function::Library => {
                let space = call.target.as_deref().filter(|_| !is_method);
                let call = library(&call.func_name, space, is_method, count);
                Op::Library { name: name.into(), args, call: Box::new(call) }
            }
        })
    }

    /// The macros make comprehensions of a few shapes, and nothing else does.
    fn comprehension(
        &mut self,
        each: &kube_cel::cel::common::ast::ComprehensionExpr,
    ) -> Result<Op, CompileError> {
        let strange = || CompileError::new("this comprehension can't be run");
        let Expr::Call(step) = &each.loop_step.expr else { return Err(strange()) };
        let range = self.lower(&each.iter_range)?;
        let local = self.scope.len();
        self.scope.push(each.iter_var.clone());
        self.locals = self.locals.max(self.scope.len());
        if self.local_names.len() <= local {
            self.local_names.push(each.iter_var.as_str().into());
        }
        /// What `map` collects: the element of `@result + [element]`.
        fn collected(step: &IdedExpr) -> Option<&IdedExpr> {
            let Expr::Call(add) = &step.expr else { return None };
            match add.args.as_slice() {
                [_, IdedExpr { expr: Expr::List(list), .. }] if add.func_name == operators::ADD => {
                    list.elements.first()
                }
                _ => None,
            }
        }
        let (quantifier, filter, body) = match (step.func_name.as_str(), step.args.as_slice()) {
            (operators::LOGICAL_OR, [_, body]) => (Quantifier::Exists, None, body),
            (operators::LOGICAL_AND, [_, body]) => (Quantifier::All, None, body),
            (operators::CONDITIONAL, [filter, then, _]) => match collected(then) {
                Some(element) => (Quantifier::Collect, Some(filter), element),
                None => (Quantifier::ExistsOne, None, filter),
            },
            (operators::ADD, _) => {
                (Quantifier::Collect, None, collected(&each.loop_step).ok_or_else(strange)?)
            }
            _ => return Err(strange()),
        };
        let filter = filter.map(|filter| self.lower(filter)).transpose()?;
        let body = self.lower(body)?;
        self.scope.pop();
        Ok(Op::Each { quantifier, range, local, filter, body })
    }
}

/// Where a word stands in an expression for the first time, texts apart.
fn find_word(source: &str, word: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(char) = source.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = source.get(at..).unwrap_or_default();
        let begins = !source.get(..at).unwrap_or_default().ends_with(is_of_word);
        if begins && rest.strip_prefix(word).is_some_and(|after| !after.starts_with(is_of_word)) {
            return Some(at);
        }
        at += match char {
            '\'' | '"' => text_length(source, at).unwrap_or(1),
            char => char.len_utf8(),
        };
    }
    None
}

/// A name in backquotes is one with characters that names don't have: spec.`a-b`.
fn field_name(name: &str) -> &str {
    name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name)
}

fn literal_of(literal: &LiteralValue) -> Result<Literal, CompileError> {
    Ok(match literal {
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
        LiteralValue::Double(value) => Literal::Float(*value.inner()),
        LiteralValue::String(text) => Literal::Text(text.inner().into()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::Bytes(_) => {
            return Err(CompileError::new("there are no bytes in an object; write a text"));
        }
    })
}

/// A node written out.
struct Shown<'p> {
    program: &'p Program,
    paths: &'p Paths,
    id: Id,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |id: Id| self.program.show(id, self.paths);
        let list = |f: &mut fmt::Formatter<'_>, ids: &mut dyn Iterator<Item = Id>| -> fmt::Result {
            for (index, id) in ids.enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                show(id).fmt(f)?;
            }
            Ok(())
        };
        match self.program.op(self.id) {
            Op::Literal(literal) => literal.fmt(f),
            Op::Root => f.write_str("self"),
            Op::Path(path) => self.paths.show(*path).fmt(f),
            Op::Local(local) => f.write_str(self.program.local_names.get(*local).map_or("?", |name| name)),
            Op::Select { of, key } => write!(f, "{}.{key}", show(*of)),
            Op::HasPath(path) => write!(f, "has({})", self.paths.show(*path)),
            Op::Has { of, key } => write!(f, "has({}.{key})", show(*of)),
            Op::OptSelect { of, key } => write!(f, "{}.?{key}", show(*of)),
            Op::Index { of, key } => write!(f, "{}[{}]", show(*of), show(*key)),
            Op::OptIndex { of, key } => write!(f, "{}[?{}]", show(*of), show(*key)),
            Op::Not(a) => write!(f, "!{}", show(*a)),
            Op::Negate(a) => write!(f, "-{}", show(*a)),
            Op::And(a, b) => write!(f, "({} && {})", show(*a), show(*b)),
            Op::Or(a, b) => write!(f, "({} || {})", show(*a), show(*b)),
            Op::If(a, b, c) => write!(f, "({} ? {} : {})", show(*a), show(*b), show(*c)),
            Op::Compare(compare, a, b) => write!(f, "{} {compare} {}", show(*a), show(*b)),
            Op::Arithmetic(operator, a, b) => write!(f, "({} {operator} {})", show(*a), show(*b)),
            Op::In(a, b) => write!(f, "{} in {}", show(*a), show(*b)),
            Op::List(elements) => {
                f.write_str("[")?;
                list(f, &mut elements.iter().map(|(id, _)| *id))?;
                f.write_str("]")
            }
            Op::Map(members) => {
                f.write_str("{")?;
                for (index, (key, value, _)) in members.iter().enumerate() {
                    write!(f, "{}{}: {}", if index > 0 { ", " } else { "" }, show(*key), show(*value))?;
                }
                f.write_str("}")
            }
            Op::Each { quantifier, range, local, filter, body } => {
                let name = self.program.local_names.get(*local).map_or("?", |name| name);
                let word = match (quantifier, filter) {
                    (Quantifier::All, _) => "all",
                    (Quantifier::Exists, _) => "exists",
                    (Quantifier::ExistsOne, _) => "exists_one",
                    (Quantifier::Collect, _) => "map",
                };
                write!(f, "{}.{word}({name}, ", show(*range))?;
                if let Some(filter) = filter {
                    write!(f, "{}, ", show(*filter))?;
                }
                write!(f, "{})", show(*body))
            }
            Op::Native { function, target, args } => {
                if let Some(target) = target {
                    write!(f, "{}.", show(*target))?;
                }
                write!(f, "{}(", function.name())?;
                list(f, &mut args.iter().copied())?;
                f.write_str(")")
            }
            Op::Matches { of, pattern } => write!(f, "{}.matches('{}')", show(*of), pattern.source),
            Op::Library { name, args, .. } => {
                write!(f, "{name}(")?;
                list(f, &mut args.iter().copied())?;
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => write!(f, "{value}u"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "'{}'", text.escape_debug()),
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        })
    }
}
