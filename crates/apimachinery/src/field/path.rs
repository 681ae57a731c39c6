//! `field.Path`: the path of a field within a value.

use std::fmt;

/// `field.Path`: a linked list on the stack, formatted only for errors. Children of a nil path have no leading dot.
///
/// ```
/// use settled_apimachinery::field::Path;
///
/// let nil = Path::Nil;
/// let spec = nil.child("spec");
/// assert_eq!(spec.child("ports").to_string(), "spec.ports");
/// assert_eq!(spec.index(2).to_string(), "spec[2]");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The whole object, written `<nil>`.
    Nil,
    /// A field.
    Child(&'a Self, &'a str),
    /// A member of a map.
    Key(&'a Self, &'a str),
    /// An item of a list.
    Index(&'a Self, usize),
}

impl<'a> Path<'a> {
    /// `Child`: the path of a field.
    #[must_use]
    pub fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    /// `Key`: the path of a map entry.
    #[must_use]
    pub fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    /// `Index`: the path of a list item.
    #[must_use]
    pub fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => Ok(()),
            Self::Child(parent, name) => {
                parent.write(f)?;
                if name.is_empty() {
                    f.write_str("[]")
                } else if matches!(parent, Self::Nil) {
                    f.write_str(name)
                } else {
                    write!(f, ".{name}")
                }
            }
            Self::Key(parent, key) => {
                parent.write(f)?;
                write!(f, "[{key}]")
            }
            Self::Index(parent, index) => {
                parent.write(f)?;
                write!(f, "[{index}]")
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Self::Nil) { f.write_str("<nil>") } else { self.write(f) }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}
