//! Persistent ordered map: clones share nodes.
//!
//! A weight-balanced tree with one node per object. A clone costs one reference count; a write copies the path from the
//! root to its node, unless it is unshared. Nodes know the size of their subtree, so the number of remaining objects
//! after a page is known without iteration.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::entry::Entry;

type Link = Option<Arc<Node>>;

#[derive(Clone)]
struct Node {
    size: usize,
    entry: Arc<Entry>,
    left: Link,
    right: Link,
}

/// Objects of one resource, ordered by path.
#[derive(Clone, Default)]
pub(crate) struct Map {
    root: Link,
}

impl Map {
    pub(crate) fn len(&self) -> usize {
        size(&self.root)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<Entry>> {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match path.cmp(node.entry.key.path()) {
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
                Ordering::Equal => return Some(&node.entry),
            };
        }
        None
    }

    pub(crate) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        insert(&mut self.root, entry)
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<Entry>> {
        // Checking first avoids copies if there is nothing to remove.
        self.get(path)?;
        remove(&mut self.root, path)
    }

    /// Number of smaller keys.
    pub(crate) fn rank(&self, path: &str) -> usize {
        let mut link = &self.root;
        let mut rank = 0;
        while let Some(node) = link {
            if node.entry.key.path() < path {
                rank += size(&node.left) + 1;
                link = &node.right;
            } else {
                link = &node.left;
            }
        }
        rank
    }

    /// All objects from a path on.
    pub(crate) fn iter_from(&self, path: &str) -> Iter<'_> {
        let mut stack = Vec::new();
        let mut link = &self.root;
        while let Some(node) = link {
            if node.entry.key.path() < path {
                link = &node.right;
            } else {
                stack.push(&**node);
                link = &node.left;
            }
        }
        Iter { stack }
    }
}

/// Goes up the paths.
pub(crate) struct Iter<'a> {
    stack: Vec<&'a Node>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.stack.pop()?;
        let mut link = &node.right;
        while let Some(node) = link {
            self.stack.push(node);
            link = &node.left;
        }
        Some(&node.entry)
    }
}

fn size(link: &Link) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

fn insert(link: &mut Link, entry: Arc<Entry>) -> Option<Arc<Entry>> {
    let Some(node) = link else {
        *link = Some(Arc::new(Node { size: 1, entry, left: None, right: None }));
        return None;
    };
    let node = Arc::make_mut(node);
    let old = match entry.key.path().cmp(node.entry.key.path()) {
        Ordering::Less => insert(&mut node.left, entry),
        Ordering::Greater => insert(&mut node.right, entry),
        Ordering::Equal => return Some(std::mem::replace(&mut node.entry, entry)),
    };
    if old.is_none() {
        balance(node);
    }
    old
}

fn remove(link: &mut Link, path: &str) -> Option<Arc<Entry>> {
    let node = Arc::make_mut(link.as_mut()?);
    let old = match path.cmp(node.entry.key.path()) {
        Ordering::Less => remove(&mut node.left, path),
        Ordering::Greater => remove(&mut node.right, path),
        Ordering::Equal => {
            let Some(next) = remove_first(&mut node.right) else {
                let old = node.entry.clone();
                *link = node.left.take();
                return Some(old);
            };
            Some(std::mem::replace(&mut node.entry, next))
        }
    };
    balance(node);
    old
}

fn remove_first(link: &mut Link) -> Option<Arc<Entry>> {
    let node = Arc::make_mut(link.as_mut()?);
    let first = remove_first(&mut node.left);
    if first.is_none() {
        let entry = node.entry.clone();
        *link = node.right.take();
        return Some(entry);
    }
    balance(node);
    first
}

/// Maximum ratio of the weights of both sides, where the weight is the size plus one.
const SIDES: usize = 3;
/// A double rotation is needed if the inner grandchild is this many times heavier than the outer one.
const GRANDCHILDREN: usize = 2;

fn balance(node: &mut Node) {
    let (left, right) = (size(&node.left) + 1, size(&node.right) + 1);
    if right > SIDES * left {
        if let Some(child) = &mut node.right
            && size(&child.left) + 1 >= GRANDCHILDREN * (size(&child.right) + 1)
        {
            rotate_right(Arc::make_mut(child));
        }
        rotate_left(node);
    } else if left > SIDES * right {
        if let Some(child) = &mut node.left
            && size(&child.right) + 1 >= GRANDCHILDREN * (size(&child.left) + 1)
        {
            rotate_left(Arc::make_mut(child));
        }
        rotate_right(node);
    } else {
        resize(node);
    }
}

fn resize(node: &mut Node) {
    node.size = size(&node.left) + size(&node.right) + 1;
}

/// Rotation: the right child replaces the node, which becomes its left child.
fn rotate_left(node: &mut Node) {
    let Some(mut child) = node.right.take() else { return resize(node) };
    let below = Arc::make_mut(&mut child);
    node.right = below.left.take();
    std::mem::swap(node, below);
    resize(below);
    node.left = Some(child);
    resize(node);
}

fn rotate_right(node: &mut Node) {
    let Some(mut child) = node.left.take() else { return resize(node) };
    let below = Arc::make_mut(&mut child);
    node.left = below.right.take();
    std::mem::swap(node, below);
    resize(below);
    node.right = Some(child);
    resize(node);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::OnceLock;

    use proptest::prelude::*;

    use super::*;
    use crate::key::Key;
    use crate::key::Resource;
    use crate::key::Revision;

    fn entry(path: &str, revision: u64) -> Arc<Entry> {
        Arc::new(Entry {
            key: Key::from_path(&Resource::new("r").unwrap(), path).unwrap(),
            value: Arc::new([]),
            create_revision: Revision(revision),
            mod_revision: Revision(revision),
            attachment: OnceLock::new(),
        })
    }

    /// Checks order, sizes and balance; returns the height.
    fn check(link: &Link) -> usize {
        let Some(node) = link else { return 0 };
        let (left, right) = (size(&node.left) + 1, size(&node.right) + 1);
        assert!(left <= SIDES * right && right <= SIDES * left, "{left} {right}");
        assert_eq!(node.size, left + right - 1);
        check(&node.left).max(check(&node.right)) + 1
    }

    fn content(map: &Map) -> Vec<(String, u64)> {
        map.iter_from("").map(|e| (e.key.path().to_owned(), e.mod_revision.0)).collect()
    }

    #[test]
    fn stays_flat() {
        let mut map = Map::default();
        for i in 0..4096 {
            map.insert(entry(&format!("{i:05}"), 1));
        }
        assert!(check(&map.root) <= 24);
        for i in 0..4000 {
            map.remove(&format!("{i:05}"));
            check(&map.root);
        }
        assert_eq!(map.len(), 96);
    }

    proptest! {
        #[test]
        fn is_a_map_whose_copies_never_change(operations in prop::collection::vec((0u8..3, 0u8..40), 0..200)) {
            let mut map = Map::default();
            let mut model = BTreeMap::new();
            let mut copies = Vec::new();
            for (revision, (operation, key)) in operations.into_iter().enumerate() {
                let (revision, path) = (revision as u64, format!("{}/{}", key % 3, key));
                if operation == 0 {
                    let removed = map.remove(&path).map(|e| e.mod_revision.0);
                    prop_assert_eq!(removed, model.remove(&path));
                } else {
                    let replaced = map.insert(entry(&path, revision)).map(|e| e.mod_revision.0);
                    prop_assert_eq!(replaced, model.insert(path.clone(), revision));
                }
                check(&map.root);
                prop_assert_eq!(map.rank(&path), model.range(..path.clone()).count());
                prop_assert_eq!(map.get(&path).map(|e| e.mod_revision.0), model.get(&path).copied());
                let from: Vec<_> = map.iter_from(&path).map(|e| e.key.path().to_owned()).collect();
                prop_assert_eq!(from, model.range(path..).map(|(k, _)| k.clone()).collect::<Vec<_>>());
                copies.push((map.clone(), model.clone()));
            }
            for (map, model) in copies {
                prop_assert_eq!(content(&map), model.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
