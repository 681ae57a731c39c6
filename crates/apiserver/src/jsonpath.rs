//! JSON paths in the dialect of Kubernetes, as far as definitions of custom resources use it: printer columns,
//! selectable fields, paths of the scale subresource.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// Longer paths are refused, as are filters nested deeper.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 16;
/// How many values an evaluation may touch: `..` and `*` multiply.
const BUDGET: usize = 100_000;

/// Why a path can't be read, or has no result in an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// Not a path.
    #[error("{0}")]
    Syntax(String),
    /// A list was expected, an index is out of bounds, or two things can't be compared.
    #[error("the path does not fit the object")]
    Mismatch,
    /// It would take too long.
    #[error("the path selects too much")]
    TooMuch,
}

/// A path that can be looked up in objects.
///
/// Keys that are missing are no error: there is no result then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(String),
    Literal(Value),
    Slice([Option<i64>; 3], Derived),
    Filter(Vec<Self>, String, Vec<Self>),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Self>>),
    /// `range`, which needs an end that is not in the same braces: there is no result.
    Range,
    /// Any other word, which means nothing here.
    Word,
}

/// The end of a slice was not written: it is the start plus one.
type Derived = bool;

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Reads a path, with or without braces around it.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let braced;
        let text = if text.starts_with('{') {
            text
        } else {
            braced = format!("{{{text}}}");
            &braced
        };
        if text.len() > MAX_LENGTH {
            return Err(syntax("the path is too long"));
        }
        Ok(Self { nodes: action(text, 0)? })
    }

    /// All results in an object, in order.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Result<Found<'a>, PathError> {
        let mut budget = BUDGET;
        let results = walk_all(vec![Cow::Borrowed(object)], &self.nodes, &mut budget)?;
        Ok(if self.nodes.contains(&Node::Range) { Vec::new() } else { results })
    }
}

fn syntax(text: impl Into<String>) -> PathError {
    PathError::Syntax(text.into())
}

/// Parses a text that begins with `{`, and answers what is in its first braces.
fn action(text: &str, depth: usize) -> Result<Vec<Node>, PathError> {
    if depth > MAX_DEPTH {
        return Err(syntax("filters are nested too deeply"));
    }
    let mut parser = Parser { text, position: 0, depth };
    let mut first = None;
    // What follows the first braces has no part in the result, but it has to be correct.
    while let Some(start) = text[parser.position..].find('{') {
        parser.position += start + 1;
        let nodes = parser.inside()?;
        first.get_or_insert(nodes);
    }
    first.ok_or_else(|| syntax("unclosed action"))
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Up to and including the closing brace.
    fn inside(&mut self) -> Result<Vec<Node>, PathError> {
        let mut nodes = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.position += 1;
                return Ok(nodes);
            }
            if rest.starts_with("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if rest.starts_with("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return Err(syntax("invalid multiple recursive descent"));
                }
                self.position += 2;
                nodes.push(Node::Recursive);
                if let Some(c) = self.peek().filter(|&c| is_word(c)) {
                    // As upstream: the first character is stepped over as if it were the dot, and kept.
                    let start = self.position;
                    self.position += c.len_utf8();
                    nodes.push(self.field(start));
                }
                continue;
            }
            match self.next() {
                None | Some('\r' | '\n') => return Err(syntax("unclosed action")),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.brackets(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
                Some('.') => {
                    let start = self.position;
                    nodes.push(self.field(start));
                }
                Some(c) if c == '+' || c == '-' || c.is_numeric() => {
                    self.position -= c.len_utf8();
                    nodes.push(self.number()?);
                }
                Some(c) if is_word(c) => {
                    let start = self.position - c.len_utf8();
                    let end = self.rest().find(is_terminator).ok_or_else(|| syntax("unclosed action"))?;
                    self.position += end;
                    nodes.push(match &self.text[start..self.position] {
                        "true" => Node::Literal(true.into()),
                        "false" => Node::Literal(false.into()),
                        "range" => Node::Range,
                        _ => Node::Word,
                    });
                }
                Some(c) => return Err(syntax(format!("unrecognized character in action: {c:?}"))),
            }
        }
    }

    /// A field's name, which begins at `start`.
    fn field(&mut self, start: usize) -> Node {
        while let Some(c) = self.peek() {
            if is_terminator(c) {
                break;
            }
            self.position += c.len_utf8();
            if c == '\\' {
                self.next();
            }
        }
        match &self.text[start..self.position] {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    fn number(&mut self) -> Result<Node, PathError> {
        let start = self.position;
        if matches!(self.peek(), Some('+' | '-')) {
            self.position += 1;
        }
        let end =
            self.rest().find(|c: char| c != '.' && !c.is_numeric()).unwrap_or_else(|| self.rest().len());
        self.position += end;
        let text = &self.text[start..self.position];
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Node::Literal(number.into()));
        }
        match text.parse::<f64>() {
            Ok(number) => Ok(Node::Literal(number.into())),
            Err(_) => Err(syntax(format!("cannot parse number {text}"))),
        }
    }

    /// A quoted text, whose opening quote has been read.
    fn quoted(&mut self, quote: char) -> Result<Node, PathError> {
        let start = self.position;
        loop {
            match self.next() {
                None | Some('\n') => return Err(syntax("unterminated quoted string")),
                Some(c) if c == quote && self.text.as_bytes()[self.position - 2] != b'\\' => break,
                Some(_) => {}
            }
        }
        Ok(Node::Literal(unquote(&self.text[start..self.position - 1], quote)?.into()))
    }

    /// `[…]`, whose opening bracket has been read.
    fn brackets(&mut self, nodes: &mut Vec<Node>) -> Result<(), PathError> {
        let end = self.rest().find([']', '\n']).ok_or_else(|| syntax("unterminated array"))?;
        let text = &self.rest()[..end];
        self.position += end + 1;
        if self.text.as_bytes()[self.position - 1] == b'\n' {
            return Err(syntax("unterminated array"));
        }
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let part = format!("{{[{}]}}", part.trim_matches(' '));
                action(&part, self.depth + 1)
            });
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''))
            && !key.contains('\'')
        {
            nodes.extend(action(&format!("{{.{key}}}"), self.depth + 1)?);
            return Ok(());
        }
        nodes.push(slice(text)?);
        Ok(())
    }

    fn filter(&mut self) -> Result<Node, PathError> {
        self.position += "[?(".len();
        let start = self.position;
        let (mut begin, mut end, mut pair) = (false, false, '"');
        loop {
            match self.next() {
                None | Some('\n') => return Err(syntax("unterminated filter")),
                Some(c @ ('"' | '\'')) if !begin => (begin, pair) = (true, c),
                Some(c @ ('"' | '\'')) => {
                    end |= self.text.as_bytes()[self.position - 2] != b'\\' && c == pair;
                }
                Some(')') if begin == end => break,
                Some(_) => {}
            }
        }
        let text = &self.text[start..self.position - 1];
        if self.next() != Some(']') {
            return Err(syntax("unclosed array expect ]"));
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let parse = |text: &str| action(&format!("{{{text}}}"), self.depth + 1);
        if let Some(at) = text.find(is_operator).filter(|&at| at > 0) {
            let (left, rest) = text.split_at(at);
            let mut end = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            if end == rest.len() {
                // Something has to be left for the right side.
                end -= 1;
            }
            if end > 0 {
                let (operator, right) = rest.split_at(end);
                return Ok(Node::Filter(parse(left)?, operator.to_owned(), parse(right)?));
            }
        }
        Ok(Node::Filter(parse(text)?, "exists".to_owned(), Vec::new()))
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// `1`, `-1`, `1:3`, `::2`.
fn slice(text: &str) -> Result<Node, PathError> {
    let invalid = || syntax(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(invalid());
    }
    let mut numbers = [None; 3];
    for (number, part) in numbers.iter_mut().zip(&parts) {
        let digits = part.strip_prefix('-').unwrap_or(part);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        if !part.is_empty() {
            let value = part.parse().map_err(|_| syntax(format!("array index {part} is not a number")))?;
            *number = Some(value);
        }
    }
    let derived = parts.len() < 2;
    if derived {
        numbers[1] = Some(numbers[0].map_or(1, |start: i64| start.saturating_add(1)));
    }
    Ok(Node::Slice(numbers, derived))
}

/// A quoted text without its quotes, its escapes resolved as Go resolves them.
fn unquote(text: &str, quote: char) -> Result<String, PathError> {
    let invalid = || syntax(format!("unquote string {text} error invalid syntax"));
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return Err(invalid());
        }
        if c != '\\' {
            result.push(c);
            continue;
        }
        let escape = match chars.next().ok_or_else(invalid)? {
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            '\\' => Some('\\'),
            'x' => code(&mut chars, 2),
            'u' => code(&mut chars, 4),
            'U' => code(&mut chars, 8),
            c => (c == quote).then_some(c),
        };
        result.push(escape.ok_or_else(invalid)?);
    }
    Ok(result)
}

/// The character of an escape with so many hexadecimal digits.
fn code(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let text: String = chars.by_ref().take(digits).collect();
    let complete = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if complete { u32::from_str_radix(&text, 16).ok().and_then(char::from_u32) } else { None }
}

fn spend(budget: &mut usize, count: usize) -> Result<(), PathError> {
    *budget = budget.checked_sub(count).ok_or(PathError::TooMuch)?;
    Ok(())
}

fn walk_all<'a>(mut values: Found<'a>, nodes: &[Node], budget: &mut usize) -> Result<Found<'a>, PathError> {
    for node in nodes {
        values = walk(values, node, budget)?;
    }
    Ok(values)
}

fn walk<'a>(input: Found<'a>, node: &Node, budget: &mut usize) -> Result<Found<'a>, PathError> {
    spend(budget, input.len() + 1)?;
    let mut results = Vec::new();
    match node {
        Node::Range => results = input,
        Node::Word => return Err(PathError::Mismatch),
        Node::Literal(value @ Value::String(_)) => results.push(Cow::Owned(value.clone())),
        Node::Literal(value) => results.extend(input.iter().map(|_| Cow::Owned(value.clone()))),
        Node::Field(name) => {
            for value in input {
                // Only literals are owned, and they have no fields.
                if let Cow::Borrowed(Value::Object(map)) = value {
                    results.extend(map.get(name).map(Cow::Borrowed));
                }
            }
        }
        Node::Wildcard => {
            for value in input {
                match value {
                    Cow::Borrowed(Value::Object(map)) => {
                        spend(budget, map.len())?;
                        results.extend(map.values().map(Cow::Borrowed));
                    }
                    Cow::Borrowed(Value::Array(list)) => {
                        spend(budget, list.len())?;
                        results.extend(list.iter().map(Cow::Borrowed));
                    }
                    // In Go, a text is a list of bytes.
                    Cow::Borrowed(Value::String(text)) => bytes(text, &mut results, budget)?,
                    Cow::Owned(Value::String(text)) => bytes(&text, &mut results, budget)?,
                    _ => {}
                }
            }
        }
        Node::Recursive => {
            for value in input {
                match value {
                    Cow::Borrowed(value) => descend(value, &mut results, budget)?,
                    Cow::Owned(Value::String(ref text)) if !text.is_empty() => results.push(value),
                    Cow::Owned(_) => {}
                }
            }
        }
        Node::Union(paths) => {
            for path in paths {
                results.extend(walk_all(input.clone(), path, budget)?);
            }
        }
        Node::Slice(numbers, derived) => {
            for value in input {
                match value {
                    Cow::Borrowed(Value::Array(list)) => {
                        spend(budget, list.len())?;
                        select(list, numbers, *derived, &mut results)?;
                    }
                    Cow::Borrowed(Value::Null) => {}
                    _ => return Err(PathError::Mismatch),
                }
            }
        }
        Node::Filter(left, operator, right) => {
            for value in input {
                let Cow::Borrowed(Value::Array(list)) = value else { return Err(PathError::Mismatch) };
                for item in list {
                    if passes(item, left, operator, right, budget)? {
                        results.push(Cow::Borrowed(item));
                    }
                }
            }
        }
    }
    Ok(results)
}

fn bytes(text: &str, results: &mut Found<'_>, budget: &mut usize) -> Result<(), PathError> {
    spend(budget, text.len())?;
    results.extend(text.bytes().map(|byte| Cow::Owned(byte.into())));
    Ok(())
}

/// A value and everything under it that has something under it.
fn descend<'a>(value: &'a Value, results: &mut Found<'a>, budget: &mut usize) -> Result<(), PathError> {
    spend(budget, 1)?;
    match value {
        Value::Object(map) if !map.is_empty() => {
            results.push(Cow::Borrowed(value));
            map.values().try_for_each(|value| descend(value, results, budget))
        }
        Value::Array(list) if !list.is_empty() => {
            results.push(Cow::Borrowed(value));
            list.iter().try_for_each(|value| descend(value, results, budget))
        }
        Value::String(text) if !text.is_empty() => {
            results.push(Cow::Borrowed(value));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn select<'a>(
    list: &'a [Value],
    numbers: &[Option<i64>; 3],
    derived: bool,
    results: &mut Found<'a>,
) -> Result<(), PathError> {
    let length = i64::try_from(list.len()).map_err(|_| PathError::TooMuch)?;
    let from_end = |number: i64| if number < 0 { number.saturating_add(length) } else { number };
    let start = from_end(numbers[0].unwrap_or(0));
    let mut end = from_end(numbers[1].unwrap_or(length));
    if derived && numbers[1] == Some(0) {
        end = length;
    }
    if start == end {
        return Ok(());
    }
    if !(0..length).contains(&start) || !(0..=length).contains(&end) || start > end {
        return Err(PathError::Mismatch);
    }
    let step = numbers[2].unwrap_or(1);
    let (Ok(start), Ok(end), Ok(step @ 1..)) =
        (usize::try_from(start), usize::try_from(end), usize::try_from(step))
    else {
        return Err(PathError::Mismatch);
    };
    results.extend(list[start..end].iter().step_by(step).map(Cow::Borrowed));
    Ok(())
}

fn passes(
    item: &Value,
    left: &[Node],
    operator: &str,
    right: &[Node],
    budget: &mut usize,
) -> Result<bool, PathError> {
    let lefts = walk_all(vec![Cow::Borrowed(item)], left, budget);
    if operator == "exists" {
        return match lefts {
            Ok(lefts) => Ok(!lefts.is_empty()),
            // As upstream: where a path does not fit, its input stands for its result.
            Err(PathError::Mismatch) => Ok(true),
            Err(error) => Err(error),
        };
    }
    let one = |mut values: Found<'_>| match values.len() {
        0 | 1 => Ok(values.pop().map(Cow::into_owned)),
        _ => Err(PathError::Mismatch),
    };
    let Some(left) = one(lefts?)? else { return Ok(false) };
    let Some(right) = one(walk_all(vec![Cow::Borrowed(item)], right, budget)?)? else { return Ok(false) };
    match operator {
        "==" => Ok(equal(&left, &right)?),
        "!=" => Ok(!equal(&left, &right)?),
        "<" => Ok(less(&left, &right)?),
        "<=" => Ok(less(&left, &right)? || equal(&left, &right)?),
        ">" => Ok(!(less(&left, &right)? || equal(&left, &right)?)),
        ">=" => Ok(!less(&left, &right)?),
        _ => Err(PathError::Mismatch),
    }
}

fn equal(left: &Value, right: &Value) -> Result<bool, PathError> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        _ => Ok(order(left, right)? == Some(Ordering::Equal)),
    }
}

fn less(left: &Value, right: &Value) -> Result<bool, PathError> {
    Ok(order(left, right)? == Some(Ordering::Less))
}

/// The order of two texts, two integers or two floats. Integers and floats can't be compared, as upstream.
fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, PathError> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            (None, None) => Ok(left.as_f64().partial_cmp(&right.as_f64())),
            _ => Err(PathError::Mismatch),
        },
        _ => Err(PathError::Mismatch),
    }
}

/// A result as it is printed: a scalar's text, all else as JSON.
pub(crate) fn shown(value: &Value) -> String {
    if value.is_array() || value.is_object() {
        settled_go_text::json(value)
    } else {
        settled_go_text::plain(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, object: &Value) -> Result<Value, PathError> {
        let results = JsonPath::parse(path)?.find(object)?;
        Ok(results.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn paths_find_what_upstream_finds() {
        let object = json!({
            "a": {"b": 1, "x.y": 2, "n": null},
            "list": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Done", "status": "False", "n": 2}],
            "numbers": [0, 1, 2, 3, 4],
        });
        let cases = [
            (".a.b", json!([1])),
            ("{.a.b}", json!([1])),
            ("$.a['b']", json!([1])),
            (r".a.x\.y", json!([2])),
            (r".a['x\.y']", json!([2])),
            (".a.n", json!([null])),
            (".a.missing", json!([])),
            (".a.n.more", json!([])),
            (".list[0].type", json!(["Ready"])),
            (".list[-1].type", json!(["Done"])),
            (".list[*].type", json!(["Ready", "Done"])),
            (".list.*.type", json!(["Ready", "Done"])),
            (".numbers[1:3]", json!([1, 2])),
            (".numbers[::2]", json!([0, 2, 4])),
            (".numbers[0,2]", json!([0, 2])),
            (".numbers[-2:]", json!([3, 4])),
            (r#".list[?(@.type=="Ready")].status"#, json!(["True"])),
            (".list[?(@.type=='Done')].status", json!(["False"])),
            (".list[?(@.type!='Done')].status", json!(["True"])),
            (".list[?(@.n>1)].type", json!(["Done"])),
            (".list[?(@.n<=1)].type", json!(["Ready"])),
            (".list[?(@.n)].n", json!([1, 2])),
            (".list[?(@.none)].n", json!([])),
            ("..type", json!(["Ready", "Done"])),
            (".a['b','n']", json!([1, null])),
            ("'text'", json!(["text"])),
            ("range.a", json!([])),
        ];
        for (path, expected) in cases {
            assert_eq!(find(path, &object), Ok(expected), "{path}");
        }
        for path in [".list[5]", ".a[0]", ".a[?(@.b)]", ".list[?(@.n>1.5)].n", ".list[?(@.n=='1')].n", "end"]
        {
            assert_eq!(find(path, &object), Err(PathError::Mismatch), "{path}");
        }
        for path in [".a[", ".a[x]", ".a[?(@.b]", "....a", ".a^", "'a", ".a[1:2:3:4]", ".a[?(@.b==)]", "("] {
            assert!(matches!(JsonPath::parse(path), Err(PathError::Syntax(_)) | Ok(_)), "{path}");
        }
    }

    #[test]
    fn hostile_paths_end() {
        let wide = json!(vec![vec![vec![0; 40]; 40]; 40]);
        assert_eq!(find("..[*]..[*]..[*]..[*]", &wide), Err(PathError::TooMuch));
        assert!(JsonPath::parse(&"[?(".repeat(1000)).is_err());
        assert!(JsonPath::parse(&"['".repeat(3000)).is_err());
        assert!(JsonPath::parse(&format!(".a{}", "[?(@.a".repeat(40) + &")]".repeat(40))).is_err());
    }
}
