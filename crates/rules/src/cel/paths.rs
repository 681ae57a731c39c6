//! Fields that a rule reads. Nothing else of the object is read.

use std::cell::Cell;
use std::fmt;

use kstatus::{Known, Node, Object};

/// The fields that the expressions of a rule name, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<Path>,
    slots: u32,
}

#[derive(Debug)]
struct Path {
    parent: Option<u32>,
    key: Box<str>,
    place: Place,
    /// Another path begins with this one.
    has_children: bool,
}

/// Source of a value.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Its position was recorded when the object was parsed.
    Known(Known),
    /// It is searched for once, and stored in this slot.
    Slot(u32),
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
        let place = known.map_or(Place::Slot(self.slots), Place::Known);
        self.slots += u32::from(known.is_none());
        self.list.push(Path { parent, key: key.into(), place, has_children: false });
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

/// Fields of an object that have been read so far.
pub(crate) struct Fields<'e> {
    object: &'e Object<'e>,
    paths: &'e Paths,
    /// The first slots, which are enough for most rules.
    few: [Cell<Slot<'e>>; FEW],
    more: Box<[Cell<Slot<'e>>]>,
}

/// Number of slots without an allocation.
const FEW: usize = 6;

#[derive(Clone, Copy, Default)]
enum Slot<'e> {
    #[default]
    Unread,
    Absent,
    Found(Node<'e>),
}

impl<'e> Fields<'e> {
    pub(crate) fn new(object: &'e Object<'e>, paths: &'e Paths) -> Self {
        let more = (paths.slots as usize).saturating_sub(FEW);
        let more = if more == 0 { Box::default() } else { (0..more).map(|_| Cell::default()).collect() };
        Self { object, paths, few: std::array::from_fn(|_| Cell::default()), more }
    }

    /// The field's value; none where it, or one of its parents, is absent or null.
    pub(crate) fn get(&self, path: u32) -> Option<Node<'e>> {
        if path == ROOT {
            return Some(self.object.root());
        }
        let Path { parent, key, place, .. } = self.paths.list.get(path as usize)?;
        let is_there = |node: &Node<'_>| !node.is_null();
        let slot = match place {
            Place::Known(known) => return self.object.known(*known).filter(is_there),
            Place::Slot(slot) => {
                let slot = *slot as usize;
                self.few.get(slot).or_else(|| self.more.get(slot.checked_sub(FEW)?))?
            }
        };
        match slot.get() {
            Slot::Found(node) => return Some(node),
            Slot::Absent => return None,
            Slot::Unread => {}
        }
        let found = match parent {
            None => self.object.root().get(key),
            Some(parent) => self.get(*parent).and_then(|parent| parent.get(key)),
        };
        let found = found.filter(is_there);
        slot.set(found.map_or(Slot::Absent, Slot::Found));
        found
    }
}
