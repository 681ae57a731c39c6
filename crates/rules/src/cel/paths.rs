//! The fields of an object that a rule names. They are all that is read of it.

use std::cell::Cell;
use std::fmt;

use kstatus::{Known, Node, NodeKind, Object};

/// The fields that the expressions of a rule name, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<Path>,
}

#[derive(Debug)]
struct Path {
    parent: Option<u32>,
    key: Box<str>,
    /// Where its place was noted when the object was read.
    known: Option<Known>,
    /// Another path begins with this one.
    has_children: bool,
}

impl Paths {
    pub(crate) fn add(&mut self, parent: Option<u32>, key: &str) -> u32 {
        if let Some(at) = self.list.iter().position(|path| path.parent == parent && *path.key == *key) {
            return at as u32;
        }
        let known = match parent {
            None => Known::find("", key),
            Some(parent) => match self.list.get(parent as usize) {
                Some(Path { parent: None, key: parent, .. }) => Known::find(parent, key),
                _ => None,
            },
        };
        if let Some(parent) = parent.and_then(|parent| self.list.get_mut(parent as usize)) {
            parent.has_children = true;
        }
        self.list.push(Path { parent, key: key.into(), known, has_children: false });
        (self.list.len() - 1) as u32
    }

    pub(crate) fn show(&self, path: u32) -> impl fmt::Display + '_ {
        Shown { paths: self, path }
    }

    /// All paths that no other one begins with.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = String> + '_ {
        let leaves = self.list.iter().enumerate().filter(|(_, path)| !path.has_children);
        leaves.map(|(index, _)| self.show(index as u32).to_string())
    }
}

struct Shown<'p> {
    paths: &'p Paths,
    path: u32,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path == ROOT {
            return f.write_str("self");
        }
        let Some(path) = self.paths.list.get(self.path as usize) else { return Ok(()) };
        match path.parent {
            Some(parent) => write!(f, "{}.{}", self.paths.show(parent), path.key),
            None => f.write_str(&path.key),
        }
    }
}

/// The whole object, as a variable.
pub(crate) const ROOT: u32 = u32::MAX;

/// What was read of one object so far.
pub(crate) struct Fields<'e> {
    pub(crate) object: &'e Object<'e>,
    paths: &'e Paths,
    slots: Box<[Cell<Slot<'e>>]>,
}

#[derive(Clone, Copy, Default)]
enum Slot<'e> {
    #[default]
    Unread,
    Absent,
    Found(Node<'e>),
}

impl<'e> Fields<'e> {
    pub(crate) fn new(object: &'e Object<'e>, paths: &'e Paths) -> Self {
        let slots = paths.list.iter().map(|_| Cell::default()).collect();
        Self { object, paths, slots }
    }

    /// The field's value; none where it, or one of its parents, is absent or null.
    pub(crate) fn get(&self, path: u32) -> Option<Node<'e>> {
        if path == ROOT {
            return Some(self.object.root());
        }
        let slot = self.slots.get(path as usize)?;
        match slot.get() {
            Slot::Found(node) => return Some(node),
            Slot::Absent => return None,
            Slot::Unread => {}
        }
        let Path { parent, key, known, .. } = self.paths.list.get(path as usize)?;
        let found = match (known, parent) {
            (Some(known), _) => self.object.known(*known),
            (None, None) => self.object.root().get(key),
            (None, Some(parent)) => self.get(*parent).and_then(|parent| parent.get(key)),
        };
        let found = found.filter(|node| node.kind() != NodeKind::Null);
        slot.set(found.map_or(Slot::Absent, Slot::Found));
        found
    }
}
