//! Estimated sizes of values, from the schema and the expression.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{ACCU, Ast, Id, Kind, Literal};
use crate::checker::Checked;
use crate::cost::range::Range;
use crate::schema::Declared;
use crate::types::Type;

#[derive(Clone, Copy)]
pub(super) struct EntrySize {
    pub(super) is_list: bool,
    pub(super) key: Range,
    pub(super) value: Range,
}

/// Path from a variable to the value of a node: persistent, since long chains share their prefixes.
pub(super) type Path = Vec<Arc<str>>;

#[derive(Clone)]
pub(super) struct Local {
    pub(super) path: Path,
    pub(super) size: Option<Range>,
    pub(super) entry: Option<EntrySize>,
}

/// An expression with the known sizes of its nodes.
pub(super) struct Coster<'c> {
    pub(super) checked: &'c Checked,
    root: &'c Declared,
    pub(super) paths: HashMap<Id, Path>,
    sizes: HashMap<Id, Range>,
    pub(super) entries: HashMap<Id, EntrySize>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

impl<'c> Coster<'c> {
    pub(super) fn new(checked: &'c Checked, root: &'c Declared) -> Self {
        Self {
            checked,
            root,
            paths: HashMap::new(),
            sizes: HashMap::new(),
            entries: HashMap::new(),
            locals: HashMap::new(),
        }
    }

    pub(super) fn ast(&self) -> &'c Ast {
        &self.checked.ast
    }

    pub(super) fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    pub(super) fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(Arc::clone(name)).or_default().push(local);
    }

    pub(super) fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    pub(super) fn type_of(&self, id: Id) -> &'c Type {
        self.checked.type_of(id)
    }

    pub(super) fn path(&self, id: Id) -> Path {
        if let Kind::Ident(name) = self.ast().kind(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    pub(super) fn set_size(&mut self, id: Id, size: Option<Range>) {
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
    }

    pub(super) fn copy_sizes(&mut self, to: Id, from: Id) {
        let (size, entry) = (self.size(from), self.entry(from));
        self.set_size(to, size);
        if let Some(entry) = entry {
            self.entries.insert(to, entry);
        }
    }

    pub(super) fn entry(&self, id: Id) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&id) {
            return Some(*entry);
        }
        match self.ast().kind(id) {
            Kind::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }

    pub(super) fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(size) = self.sizes.get(&id) {
            return Some(*size);
        }
        let count = match self.ast().kind(id) {
            Kind::Literal(Literal::Text(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List { elements, .. } => Some(elements.len()),
            Kind::Map { entries } => Some(entries.len()),
            _ => None,
        };
        if let Some(count) = count {
            return Some(Range::fixed(count as u64));
        }
        let path = self.path(id);
        if let Some(size) = self.declared_size(&path) {
            self.sizes.insert(id, size);
            return Some(size);
        }
        if self.type_of(id).is_scalar() {
            return Some(Range::ONE);
        }
        match self.ast().kind(id) {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    pub(super) fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    /// The size by the schema.
    pub(super) fn declared_size(&self, path: &[Arc<str>]) -> Option<Range> {
        let (_, rest) = path.split_first()?;
        let mut declared = self.root;
        for name in rest {
            declared = match &**name {
                "@items" | "@values" => declared.element.as_deref()?,
                "@keys" => declared.key.as_deref()?,
                field => declared.fields.get(field)?,
            };
        }
        Some(Range { min: 0, max: declared.max_elements as u64 })
    }

    /// The path available to an estimate: `None` via an accumulator variable.
    pub(super) fn visible_path(&self, id: Id) -> Path {
        let path = self.path(id);
        if path.first().is_some_and(|first| &**first == ACCU || &**first == "@result") {
            Path::new()
        } else {
            path
        }
    }

    pub(super) fn union_entries(&mut self, id: Id, a: Id, b: Id) {
        if let (Some(a), Some(b)) = (self.entry(a), self.entry(b)) {
            let entry =
                EntrySize { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) };
            self.entries.insert(id, entry);
        }
    }

    /// Type and size of a list's elements; `None` for other types.
    pub(super) fn elements(&self, list: Id) -> Option<(Type, Range)> {
        let element = match self.type_of(list) {
            Type::List(of) => (**of).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Opaque(_, params) => params.first()?.clone(),
            _ => return None,
        };
        let mut path = self.visible_path(list);
        if path.is_empty() {
            return Some((element, Range::UNKNOWN));
        }
        path.push("@items".into());
        Some((element, self.declared_size(&path).unwrap_or(Range::UNKNOWN)))
    }
}
