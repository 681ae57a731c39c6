//! Abstract syntax tree of an expression, flat in one list.

use std::ops::Deref;
use std::sync::Arc;

/// Maximum depth of the tree: macros expand to several levels each.
pub(crate) const MAX_TREE: usize = 600;
/// Maximum size of the tree, since macros may duplicate a subtree.
pub(crate) const MAX_NODES: usize = 400_000;

/// The accumulator variable of comprehensions.
pub(crate) const ACCU: &str = "__result__";

/// Index of a node.
pub(crate) type Id = u32;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// The name of a function.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// In the table of functions, or an operator.
    Known(&'static str),
    /// An unknown function.
    Written(Arc<str>),
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Written(name) => name,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) is_optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) value: Id,
}

#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    /// The macro that it was expanded from.
    pub(crate) name: &'static str,
    pub(crate) range: Id,
    pub(crate) var: Arc<str>,
    pub(crate) var2: Option<Arc<str>>,
    pub(crate) accu: Arc<str>,
    pub(crate) init: Id,
    pub(crate) condition: Id,
    pub(crate) step: Id,
    pub(crate) result: Id,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Placeholder for a reported error.
    Unspecified,
    Literal(Literal),
    Ident(Arc<str>),
    Select {
        operand: Id,
        field: Arc<str>,
        is_test: bool,
    },
    Call {
        function: Name,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List {
        elements: Vec<Id>,
        optional: Vec<bool>,
    },
    Map {
        entries: Vec<Entry>,
    },
    Struct {
        name: Arc<str>,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Default)]
pub(crate) struct Ast {
    nodes: Vec<Kind>,
    /// Offset of a node in bytes.
    places: Vec<u32>,
    pub(crate) root: Id,
}

impl Ast {
    pub(crate) fn with_capacity(nodes: usize) -> Self {
        Self { nodes: Vec::with_capacity(nodes), places: Vec::with_capacity(nodes), root: 0 }
    }

    pub(crate) fn push(&mut self, at: u32, kind: Kind) -> Id {
        self.nodes.push(kind);
        self.places.push(at);
        (self.nodes.len() - 1) as Id
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn kind(&self, id: Id) -> &Kind {
        self.nodes.get(id as usize).unwrap_or(&Kind::Unspecified)
    }

    pub(crate) fn set(&mut self, id: Id, kind: Kind) {
        if let Some(node) = self.nodes.get_mut(id as usize) {
            *node = kind;
        }
    }

    pub(crate) fn at(&self, id: Id) -> u32 {
        self.places.get(id as usize).copied().unwrap_or_default()
    }

    pub(crate) fn literal(&self, id: Id) -> Option<&Literal> {
        match self.kind(id) {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// `a.b.c` as a qualified name, if the node has that form.
    pub(crate) fn qualified_name(&self, id: Id) -> Option<String> {
        match self.kind(id) {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field, is_test: false } => {
                let mut name = self.qualified_name(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    pub(crate) fn children(&self, id: Id) -> Vec<Id> {
        match self.kind(id) {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } => vec![*operand],
            Kind::Call { target, args, .. } => target.iter().chain(args).copied().collect(),
            Kind::List { elements, .. } => elements.clone(),
            Kind::Map { entries } => entries.iter().flat_map(|entry| [entry.key, entry.value]).collect(),
            Kind::Struct { fields, .. } => fields.iter().map(|field| field.value).collect(),
            Kind::Comprehension(each) => {
                vec![each.range, each.init, each.condition, each.step, each.result]
            }
        }
    }

    /// Checks the depth, which bounds all recursion over the tree.
    pub(crate) fn depth(&self) -> usize {
        // Children precede their parents, but a macro may use a node twice: so from the root down.
        let mut deepest = 0;
        let mut stack = vec![(self.root, 1)];
        let mut seen = 0;
        while let Some((id, depth)) = stack.pop() {
            deepest = deepest.max(depth);
            seen += 1;
            if seen > 4 * self.len() + 16 {
                break;
            }
            stack.extend(self.children(id).into_iter().map(|child| (child, depth + 1)));
        }
        deepest
    }
}

/// Offset of issues without a position.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Error in an expression and its byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) at: u32,
    pub(crate) message: String,
}

/// Formats issues as cel-go: each with its source line and a marker below it.
pub(crate) fn show(source: &str, issues: &mut [Issue]) -> String {
    const MAX_ISSUES: usize = 100;
    const MAX_LINE_LENGTH: usize = 16384;
    let chars: Vec<char> = source.chars().collect();
    // Issues without a position come first.
    issues.sort_by_key(|issue| issue.at.wrapping_add(1));
    let mut shown = Vec::new();
    for issue in issues.iter().take(MAX_ISSUES) {
        if issue.at == NOWHERE {
            shown.push(format!("ERROR: <input>:-1:0: {}", issue.message));
            continue;
        }
        let at = source.get(..issue.at as usize).map_or(chars.len(), |before| before.chars().count());
        let before = chars.get(..at).unwrap_or_default();
        let line = before.iter().filter(|char| **char == '\n').count();
        let start = before.iter().rposition(|char| *char == '\n').map_or(0, |at| at + 1);
        let rest = chars.get(start..).unwrap_or_default();
        let text: Vec<char> = rest.iter().take_while(|char| **char != '\n').copied().collect();
        let column = at - start;
        let mut message = format!("ERROR: <input>:{}:{}: {}", line + 1, column + 1, issue.message);
        let length: usize = text.iter().map(|char| char.len_utf8()).sum();
        if length <= MAX_LINE_LENGTH {
            message.push_str("\n | ");
            message.extend(text.iter().map(|char| if *char == '\t' { ' ' } else { *char }));
            message.push_str("\n | ");
            message.extend(
                text.iter().take(column).map(|char| if char.len_utf8() > 1 { '\u{ff0e}' } else { '.' }),
            );
            message.push(if text.get(column).is_some_and(|char| char.len_utf8() > 1) {
                '\u{ff3e}'
            } else {
                '^'
            });
        }
        shown.push(message);
    }
    if issues.len() > MAX_ISSUES {
        shown.push(format!("{} more errors were truncated", issues.len() - MAX_ISSUES));
    }
    shown.join("\n")
}
