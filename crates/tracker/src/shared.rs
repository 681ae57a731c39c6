//! Interning: values that thousands of objects have in common, kept once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// More different values are not remembered: then they have little in common, and what is remembered costs more than it saves.
const MAX_VALUES: usize = 1024;

/// Values of one type, each kept once.
#[derive(Debug)]
pub(crate) struct Pool<T: ?Sized>(HashSet<Arc<T>>);

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    /// The value, together with all that have the same.
    pub(crate) fn share(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(known) = self.0.get(value.borrow()) {
            return Arc::clone(known);
        }
        if self.0.len() >= MAX_VALUES {
            self.0.clear();
        }
        let value = value.into();
        self.0.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_once_and_not_for_ever() {
        let mut pool = Pool::<str>::default();
        let first = pool.share("shop");
        assert!(Arc::ptr_eq(&first, &pool.share("shop")));
        for number in 0..3 * MAX_VALUES {
            assert_eq!(*pool.share(number.to_string()), *number.to_string());
            assert!(pool.0.len() <= MAX_VALUES);
        }
    }
}
