//! Parser with cel-go's grammar.

use std::borrow::Cow;

use crate::ast::{Ast, Entry, Field, Id, Issue, Kind, Literal, MAX_TREE, NOWHERE, Name};
use crate::functions::Function;
use crate::lexer::{Lexeme, Mark, Token, tokens, unescape};
use crate::macros::Macro;

/// Maximum length of an expression: cel-go's limit.
const MAX_LENGTH: usize = 100_000;
/// Maximum nesting: cel-go's limit for each rule of its grammar.
const MAX_DEPTH: usize = 250;
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                          STRING, BYTES, IDENTIFIER}";

const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Syntax extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Syntax of Kubernetes' CRD environment.
    Typed,
    /// With quoted identifiers (backquotes).
    Untyped,
}

pub(crate) fn parse(source: &str) -> Result<Ast, Vec<Issue>> {
    parse_as(source, Dialect::Typed)
}

pub(crate) fn parse_as(source: &str, dialect: Dialect) -> Result<Ast, Vec<Issue>> {
    let size = if source.len() > MAX_LENGTH { source.chars().count() } else { 0 };
    if size > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}");
        return Err(vec![Issue { at: NOWHERE, message }]);
    }
    let mut issues = Vec::new();
    let lexemes = tokens(source, &mut issues);
    let mut parser = Parser {
        source,
        next: 0,
        ast: Ast::with_capacity(lexemes.len()),
        lexemes,
        issues,
        depth: 0,
        members: 0,
        dialect,
    };
    let root = parser.expression().and_then(|root| {
        let last = parser.peek();
        if last.token == Token::End {
            return Ok(root);
        }
        let text = parser.text(last);
        let end = parser.lexemes.get(parser.next + 1).is_some_and(|next| next.token == Token::End);
        let what = if end { "extraneous" } else { "mismatched" };
        Err(parser.syntax(last, format!("{what} input '{text}' expecting <EOF>")))
    });
    match root {
        Ok(root) if parser.issues.is_empty() => {
            parser.ast.root = root;
            // The depth of a tree is at most its number of nodes.
            if parser.ast.len() > MAX_TREE && parser.ast.depth() > MAX_TREE {
                return Err(vec![too_deep()]);
            }
            Ok(parser.ast)
        }
        _ => Err(parser.issues),
    }
}

fn too_deep() -> Issue {
    Issue { at: NOWHERE, message: format!("expression recursion limit exceeded: {MAX_DEPTH}") }
}

/// Marker: an issue was recorded.
struct Stopped;

type Parsed<T = Id> = Result<T, Stopped>;

struct Parser<'s> {
    source: &'s str,
    lexemes: Vec<Lexeme>,
    next: usize,
    ast: Ast,
    issues: Vec<Issue>,
    depth: usize,
    /// Depth of member selections of the last operand.
    members: usize,
    dialect: Dialect,
}

/// Function and precedence of an operator.
fn binary(mark: Mark) -> Option<(&'static str, u8)> {
    Some(match mark {
        Mark::Less => ("_<_", 1),
        Mark::LessOrEqual => ("_<=_", 1),
        Mark::Greater => ("_>_", 1),
        Mark::GreaterOrEqual => ("_>=_", 1),
        Mark::Equal => ("_==_", 1),
        Mark::Unequal => ("_!=_", 1),
        Mark::In => ("@in", 1),
        Mark::Plus => ("_+_", 2),
        Mark::Minus => ("_-_", 2),
        Mark::Star => ("_*_", 3),
        Mark::Slash => ("_/_", 3),
        Mark::Percent => ("_%_", 3),
        _ => return None,
    })
}

/// Name of a function; known names are not copied.
fn name_of(text: &str) -> Name {
    Function::named(text).map_or_else(|| Name::Written(text.into()), |function| Name::Known(function.name()))
}

impl<'s> Parser<'s> {
    fn peek(&self) -> Lexeme {
        let end = Lexeme { token: Token::End, at: self.source.len() as u32, end: self.source.len() as u32 };
        self.lexemes.get(self.next).copied().unwrap_or(end)
    }

    fn take(&mut self) -> Lexeme {
        let lexeme = self.peek();
        self.next += 1;
        lexeme
    }

    fn text(&self, lexeme: Lexeme) -> &'s str {
        if lexeme.token == Token::End {
            return "<EOF>";
        }
        self.source.get(lexeme.at as usize..lexeme.end as usize).unwrap_or_default()
    }

    fn is(&self, mark: Mark) -> bool {
        self.peek().token == Token::Mark(mark)
    }

    fn eat(&mut self, mark: Mark) -> Option<Lexeme> {
        self.is(mark).then(|| self.take())
    }

    fn expect(&mut self, mark: Mark, expecting: &str) -> Parsed<Lexeme> {
        if let Some(lexeme) = self.eat(mark) {
            return Ok(lexeme);
        }
        let found = self.peek();
        let text = self.text(found);
        if found.token == Token::End && matches!(expecting, "')'" | "']'") {
            return Err(self.syntax(found, format!("missing {expecting} at '<EOF>'")));
        }
        Err(self.syntax(found, format!("mismatched input '{text}' expecting {expecting}")))
    }

    fn syntax(&mut self, lexeme: Lexeme, message: String) -> Stopped {
        self.issue(lexeme.at, format!("Syntax error: {message}"))
    }

    fn issue(&mut self, at: u32, message: impl Into<String>) -> Stopped {
        self.issues.push(Issue { at, message: message.into() });
        Stopped
    }

    fn push(&mut self, at: u32, kind: Kind) -> Id {
        self.ast.push(at, kind)
    }

    fn call(&mut self, at: u32, function: &'static str, args: Vec<Id>) -> Id {
        self.push(at, Kind::Call { function: Name::Known(function), target: None, args })
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.issues.push(too_deep());
            return Err(Stopped);
        }
        let condition = self.or()?;
        let parsed = match self.eat(Mark::Question) {
            None => condition,
            Some(mark) => {
                let yes = self.or()?;
                self.expect(Mark::Colon, "':'")?;
                let no = self.expression()?;
                self.call(mark.at, "_?_:_", vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn or(&mut self) -> Parsed {
        self.chain(Mark::Or, "_||_", |parser| parser.chain(Mark::And, "_&&_", |parser| parser.binary_from(1)))
    }

    /// A chain of `||` or `&&`, balanced to limit the depth of the tree.
    fn chain(&mut self, mark: Mark, function: &'static str, operand: impl Fn(&mut Self) -> Parsed) -> Parsed {
        let first = operand(self)?;
        if !self.is(mark) {
            return Ok(first);
        }
        let (mut terms, mut marks) = (vec![first], Vec::new());
        while let Some(found) = self.eat(mark) {
            marks.push(found.at);
            terms.push(operand(self)?);
        }
        Ok(self.balanced(function, &terms, &marks))
    }

    fn balanced(&mut self, function: &'static str, terms: &[Id], marks: &[u32]) -> Id {
        let Some(middle) = marks.len().checked_sub(1).map(|last| last.div_ceil(2)) else {
            return terms.first().copied().unwrap_or_default();
        };
        let (left_terms, right_terms) = terms.split_at(middle + 1);
        let left = self.balanced(function, left_terms, marks.get(..middle).unwrap_or_default());
        let right = self.balanced(function, right_terms, marks.get(middle + 1..).unwrap_or_default());
        self.call(marks.get(middle).copied().unwrap_or_default(), function, vec![left, right])
    }

    fn binary_from(&mut self, least: u8) -> Parsed {
        self.members = 0;
        let mut left = self.unary()?;
        let mut operators = self.members;
        loop {
            let Token::Mark(mark) = self.peek().token else { return Ok(left) };
            let Some((function, level)) = binary(mark).filter(|(_, level)| *level >= least) else {
                return Ok(left);
            };
            operators += 1;
            if operators > MAX_DEPTH {
                self.issues.push(Issue { at: NOWHERE, message: "max recursion depth exceeded".to_owned() });
                return Err(Stopped);
            }
            let lexeme = self.take();
            let right = self.binary_from(level + 1)?;
            left = self.call(lexeme.at, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed {
        let (mark, function) = match self.peek().token {
            Token::Mark(Mark::Not) => (Mark::Not, "!_"),
            Token::Mark(Mark::Minus) => (Mark::Minus, "-_"),
            _ => return self.member(),
        };
        let first = self.peek();
        // A sign is part of the following number.
        let number = self.lexemes.get(self.next + 1).map(|next| next.token);
        if mark == Mark::Minus && matches!(number, Some(Token::Int | Token::Float)) {
            return self.member();
        }
        let mut count = 0;
        while self.eat(mark).is_some() {
            count += 1;
        }
        let operand = self.member()?;
        Ok(if count % 2 == 0 { operand } else { self.call(first.at, function, vec![operand]) })
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        let mut members = 0;
        loop {
            members += 1;
            if members > MAX_DEPTH {
                self.issues.push(Issue { at: NOWHERE, message: "max recursion depth exceeded".to_owned() });
                return Err(Stopped);
            }
            if let Some(dot) = self.eat(Mark::Dot) {
                let is_optional = self.eat(Mark::Question).is_some();
                let name = self.take();
                let field = match name.token {
                    Token::Ident => self.text(name),
                    Token::EscapedIdent if self.dialect == Dialect::Untyped => {
                        self.text(name).trim_matches('`')
                    }
                    Token::EscapedIdent => {
                        self.issue(name.at, "unsupported syntax: '`'");
                        ""
                    }
                    _ => {
                        let text = self.text(name);
                        let what = if is_optional {
                            format!("mismatched input '{text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}")
                        } else if matches!(name.token, Token::True | Token::False | Token::Null) {
                            format!("mismatched input '{text}' expecting IDENTIFIER")
                        } else {
                            format!(
                                "no viable alternative at input '.{}'",
                                if text == "<EOF>" { "" } else { text }
                            )
                        };
                        return Err(self.syntax(name, what));
                    }
                };
                if is_optional {
                    let key = self.push(name.at, Kind::Literal(Literal::Text(field.into())));
                    operand = self.call(dot.at, "_?._", vec![operand, key]);
                } else if let Some(open) = self.eat(Mark::OpenParen) {
                    let args = self.arguments()?;
                    operand = self.member_call(open.at, field, operand, args)?;
                } else {
                    operand =
                        self.push(dot.at, Kind::Select { operand, field: field.into(), is_test: false });
                }
            } else if let Some(open) = self.eat(Mark::OpenBracket) {
                let is_optional = self.eat(Mark::Question).is_some();
                let index = self.expression()?;
                self.expect(Mark::CloseBracket, "']'")?;
                operand =
                    self.call(open.at, if is_optional { "_[?_]" } else { "_[_]" }, vec![operand, index]);
            } else {
                self.members = members - 1;
                return Ok(operand);
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Id>> {
        let mut args = Vec::new();
        if self.eat(Mark::CloseParen).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.eat(Mark::Comma).is_none() {
                self.expect(Mark::CloseParen, "')'")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let first = self.take();
        match first.token {
            Token::Mark(Mark::OpenParen) => {
                let inner = self.expression()?;
                self.expect(Mark::CloseParen, "')'")?;
                Ok(inner)
            }
            Token::Mark(Mark::OpenBracket) => self.list(first),
            Token::Mark(Mark::OpenBrace) => self.map(first),
            Token::Mark(Mark::Dot) => {
                let name = self.take();
                if name.token == Token::Ident {
                    return self.name(name, Some(first));
                }
                let text = self.text(name);
                Err(self.syntax(name, format!("mismatched input '{text}' expecting IDENTIFIER")))
            }
            Token::Mark(Mark::Minus) => {
                let number = self.take();
                self.number(number, Some(first))
            }
            Token::Ident => self.name(first, None),
            Token::Int | Token::Float | Token::Uint => self.number(first, None),
            Token::True => Ok(self.push(first.at, Kind::Literal(Literal::Bool(true)))),
            Token::False => Ok(self.push(first.at, Kind::Literal(Literal::Bool(false)))),
            Token::Null => Ok(self.push(first.at, Kind::Literal(Literal::Null))),
            Token::Text | Token::Bytes => self.quoted(first),
            _ => {
                let text = self.text(first);
                Err(self.syntax(first, format!("mismatched input '{text}' expecting {EXPRESSION}")))
            }
        }
    }

    fn quoted(&mut self, lexeme: Lexeme) -> Parsed {
        let text = self.text(lexeme);
        let is_bytes = lexeme.token == Token::Bytes;
        let body = if is_bytes { text.get(1..).unwrap_or_default() } else { text };
        let literal = match unescape(body, is_bytes) {
            Ok(bytes) if is_bytes => Literal::Bytes((&*bytes).into()),
            Ok(bytes) => Literal::Text((&*String::from_utf8_lossy(&bytes)).into()),
            Err(message) => {
                self.issue(lexeme.at, message);
                Literal::Null
            }
        };
        Ok(self.push(lexeme.at, Kind::Literal(literal)))
    }

    fn number(&mut self, lexeme: Lexeme, sign: Option<Lexeme>) -> Parsed {
        let text = self.text(lexeme);
        let at = sign.unwrap_or(lexeme).at;
        let minus = if sign.is_some() { "-" } else { "" };
        let literal = match lexeme.token {
            Token::Float => {
                let value: Option<f64> = format!("{minus}{text}").parse().ok();
                value.filter(|value| value.is_finite()).map(Literal::Double).ok_or("invalid double literal")
            }
            Token::Uint => {
                let text = text.trim_end_matches(['u', 'U']);
                let value = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                };
                value.map(Literal::Uint).map_err(|_| "invalid uint literal")
            }
            Token::Int => {
                let value = match text.strip_prefix("0x") {
                    Some(hex) => i64::from_str_radix(&format!("{minus}{hex}"), 16),
                    None => format!("{minus}{text}").parse(),
                };
                value.map(Literal::Int).map_err(|_| "invalid int literal")
            }
            _ => {
                let message = format!("mismatched input '{text}' expecting {EXPRESSION}");
                return Err(self.syntax(lexeme, message));
            }
        };
        let kind = match literal {
            Ok(literal) => Kind::Literal(literal),
            Err(message) => {
                self.issue(at, message);
                Kind::Unspecified
            }
        };
        Ok(self.push(at, kind))
    }

    fn name(&mut self, lexeme: Lexeme, dot: Option<Lexeme>) -> Parsed {
        let text = self.text(lexeme);
        let start = dot.unwrap_or(lexeme).at;
        let full = if dot.is_some() { Cow::Owned(format!(".{text}")) } else { Cow::Borrowed(text) };
        if let Some(size) = self.message_start() {
            let mut name = full.into_owned();
            for _ in 0..size {
                self.take();
                let part = self.take();
                name = format!("{name}.{}", self.text(part));
            }
            let open = self.take();
            return self.message(open, &name);
        }
        if RESERVED.contains(&text) {
            self.issue(start, format!("reserved identifier: {text}"));
            if let Some(open) = self.eat(Mark::OpenParen) {
                self.arguments()?;
                return Ok(self.push(open.at, Kind::Unspecified));
            }
            return Ok(self.push(start, Kind::Unspecified));
        }
        if let Some(open) = self.eat(Mark::OpenParen) {
            let args = self.arguments()?;
            if let ("has", [arg]) = (&*full, args.as_slice()) {
                let arg = *arg;
                if let Kind::Select { operand, field, is_test: false } = self.ast.kind(arg).clone() {
                    return Ok(self.push(open.at, Kind::Select { operand, field, is_test: true }));
                }
                let at = self.ast.at(arg);
                self.issue(at, "invalid argument to has() macro");
                return Ok(self.push(open.at, Kind::Unspecified));
            }
            return Ok(self.push(open.at, Kind::Call { function: name_of(&full), target: None, args }));
        }
        Ok(self.push(lexeme.at, Kind::Ident((&*full).into())))
    }

    /// Whether `.b.c {` follows, and the number of names.
    fn message_start(&self) -> Option<usize> {
        let mut at = self.next;
        let mut names = 0;
        loop {
            match self.lexemes.get(at)?.token {
                Token::Mark(Mark::OpenBrace) => return Some(names),
                Token::Mark(Mark::Dot) if self.lexemes.get(at + 1)?.token == Token::Ident => {
                    names += 1;
                    at += 2;
                }
                _ => return None,
            }
        }
    }

    fn message(&mut self, open: Lexeme, name: &str) -> Parsed {
        let mut fields = Vec::new();
        loop {
            if self.eat(Mark::CloseBrace).is_some() {
                break;
            }
            self.eat(Mark::Question);
            let field = self.take();
            if !matches!(field.token, Token::Ident | Token::EscapedIdent) {
                let text = self.text(field);
                return Err(self.syntax(field, format!("extraneous input '{text}' expecting {{'}}', ','}}")));
            }
            self.expect(Mark::Colon, "':'")?;
            fields.push(Field { value: self.expression()? });
            if self.eat(Mark::Comma).is_none() {
                self.expect(Mark::CloseBrace, "{'}', ','}")?;
                break;
            }
        }
        Ok(self.push(open.at, Kind::Struct { name: name.into(), fields }))
    }

    fn list(&mut self, open: Lexeme) -> Parsed {
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        if self.is(Mark::Comma) {
            self.take();
            self.expect(Mark::CloseBracket, "']'")?;
        } else {
            loop {
                if self.eat(Mark::CloseBracket).is_some() {
                    break;
                }
                if !elements.is_empty() && self.peek().token == Token::End {
                    self.expect(Mark::CloseBracket, "']'")?;
                }
                optional.push(self.eat(Mark::Question).is_some());
                elements.push(self.expression()?);
                if self.eat(Mark::Comma).is_none() {
                    self.expect(Mark::CloseBracket, "{']', ','}")?;
                    break;
                }
            }
        }
        Ok(self.push(open.at, Kind::List { elements, optional }))
    }

    fn map(&mut self, open: Lexeme) -> Parsed {
        let mut entries = Vec::new();
        loop {
            if self.eat(Mark::CloseBrace).is_some() {
                break;
            }
            let is_optional = self.eat(Mark::Question).is_some();
            let key = self.expression()?;
            self.expect(Mark::Colon, "':'")?;
            let value = self.expression()?;
            entries.push(Entry { key, value, is_optional });
            if self.eat(Mark::Comma).is_none() {
                self.expect(Mark::CloseBrace, "{'}', ','}")?;
                break;
            }
        }
        Ok(self.push(open.at, Kind::Map { entries }))
    }

    fn member_call(&mut self, at: u32, function: &str, target: Id, args: Vec<Id>) -> Parsed {
        let expanded = Macro { ast: &mut self.ast, at }.expand(function, target, &args);
        match expanded {
            None => Ok(self.push(at, Kind::Call { function: name_of(function), target: Some(target), args })),
            Some(Ok(id)) => Ok(id),
            Some(Err((at, message))) => {
                self.issues.push(Issue { at, message });
                Ok(self.push(at, Kind::Unspecified))
            }
        }
    }
}
