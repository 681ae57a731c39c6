//! Indexes of targets and of streams, which cannot be mixed up. Four bytes each: thousands of targets and records hold some.

use std::marker::PhantomData;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl From<u32> for $name {
            fn from(index: u32) -> Self {
                Self(index)
            }
        }

        impl From<$name> for u32 {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id! {
    /// A target of a wait: the same one in the policy and in the tracker.
    TargetId
}

id! {
    /// A stream of objects: a list and watch, or repeated gets.
    StreamId
}

/// A list whose items are found by ids of their own type.
#[derive(Debug)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), ids: PhantomData }
    }
}

impl<I: From<u32> + Into<u32>, T> IdVec<I, T> {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The id that the next item gets.
    pub(crate) fn next_id(&self) -> I {
        // Four thousand million items do not fit into memory.
        I::from(u32::try_from(self.items.len()).unwrap_or(u32::MAX))
    }

    pub(crate) fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.items.push(item);
        id
    }

    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.into() as usize)
    }

    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.into() as usize)
    }

    /// All ids so far.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.next_id().into()).map(I::from)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// The items with their ids.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (I, &T)> {
        self.ids().zip(&self.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_ids() {
        let mut items: IdVec<StreamId, &str> = IdVec::default();
        let (a, b) = (items.push("a"), items.push("b"));
        assert_eq!((items.get(a), items.get(b), items.get(items.next_id())), (Some(&"a"), Some(&"b"), None));
        assert_eq!(items.entries().collect::<Vec<_>>(), [(a, &"a"), (b, &"b")]);
        assert_eq!(items.ids().collect::<Vec<_>>(), [a, b]);
        *items.get_mut(a).unwrap() = "c";
        assert_eq!(items.iter().copied().collect::<String>(), "cb");
        assert_eq!((items.len(), size_of::<StreamId>(), size_of::<TargetId>()), (2, 4, 4));
    }
}
