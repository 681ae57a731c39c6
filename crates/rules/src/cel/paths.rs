//! Fields that a rule reads. Nothing else of the object is read.

use std::cell::Cell;
use std::fmt;

use kstatus::{Known, Node, Object};

/// The fields that the expressions of a rule name, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<Path>,
    slots: u32,
    /// Of the object itself.
    children: Children,
}

/// The paths with a slot that are one key longer than another one.
#[derive(Clone, Copy, Debug, Default)]
struct Children {
    last: Option<u32>,
    /// A bit for each length of a key, modulo 64: most members of a map need no comparison.
    lengths: u64,
}

#[derive(Debug)]
struct Path {
    parent: Option<u32>,
    key: Box<str>,
    place: Place,
    children: Children,
    /// The one of its parent's children before it.
    before: Option<u32>,
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
        let number = self.list.len() as u32;
        let children = match parent.and_then(|parent| self.list.get_mut(parent as usize)) {
            Some(parent) => {
                parent.has_children = true;
                &mut parent.children
            }
            None => &mut self.children,
        };
        let mut before = None;
        if known.is_none() {
            children.lengths |= 1 << (key.len() % 64);
            before = children.last.replace(number);
        }
        let place = known.map_or(Place::Slot(self.slots), Place::Known);
        self.slots += u32::from(known.is_none());
        self.list.push(Path {
            parent,
            key: key.into(),
            place,
            children: Children::default(),
            before,
            has_children: false,
        });
        number
    }

    /// The path that a member of a map has, of those that begin with the map's path and have a slot.
    fn child(&self, of: Children, length: Option<usize>, is: impl Fn(&str) -> bool) -> Option<u32> {
        if length.is_some_and(|length| of.lengths & (1 << (length % 64)) == 0) {
            return None;
        }
        let mut child = of.last;
        while let Some(path) = child.and_then(|number| self.list.get(number as usize)) {
            if is(&path.key) {
                return match path.place {
                    Place::Slot(slot) => Some(slot),
                    Place::Known(_) => None,
                };
            }
            child = path.before;
        }
        None
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
        let Path { parent, place, .. } = self.paths.list.get(path as usize)?;
        let is_there = |node: &Node<'_>| !node.is_null();
        let slot = match place {
            Place::Known(known) => return self.object.known(*known).filter(is_there),
            Place::Slot(slot) => self.slot(*slot)?,
        };
        if matches!(slot.get(), Slot::Unread) {
            match parent.and_then(|parent| self.paths.list.get(parent as usize)) {
                None => self.read(Some(self.object.root()), self.paths.children),
                Some(path) => match path.place {
                    Place::Known(known) if self.read_noted(known, path.children) => {}
                    _ => self.read(parent.and_then(|parent| self.get(parent)), path.children),
                },
            }
        }
        match slot.get() {
            Slot::Found(node) => Some(node),
            Slot::Absent | Slot::Unread => None,
        }
    }

    fn slot(&self, number: u32) -> Option<&Cell<Slot<'e>>> {
        let number = number as usize;
        self.few.get(number).or_else(|| self.more.get(number.checked_sub(FEW)?))
    }

    /// Fills the slots of all members of a map that some expression names: one pass, since a map's text is read from its
    /// beginning.
    fn read(&self, map: Option<Node<'e>>, children: Children) {
        self.clear(children);
        let Some(map) = map else { return };
        for (key, value) in map.entries() {
            self.fill(self.paths.child(children, key.plain_length(), |word| key.is(word)), value);
        }
    }

    /// The same for a map whose members were noted when the object was read. False if they were not.
    fn read_noted(&self, map: Known, children: Children) -> bool {
        let Some(members) = self.object.others(map) else { return false };
        self.clear(children);
        for (key, value) in members {
            self.fill(self.paths.child(children, Some(key.len()), |word| key == word.as_bytes()), value);
        }
        true
    }

    fn clear(&self, children: Children) {
        let mut child = children.last;
        while let Some(path) = child.and_then(|number| self.paths.list.get(number as usize)) {
            if let Place::Slot(slot) = path.place
                && let Some(slot) = self.slot(slot)
            {
                slot.set(Slot::Absent);
            }
            child = path.before;
        }
    }

    #[inline]
    fn fill(&self, slot: Option<u32>, value: Node<'e>) {
        if let Some(slot) = slot.and_then(|slot| self.slot(slot)) {
            // Of two members with one key the last counts.
            slot.set(if value.is_null() { Slot::Absent } else { Slot::Found(value) });
        }
    }
}
