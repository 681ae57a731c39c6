//! Where in a value we are: a chain on the stack, written out only for an error.

use std::fmt;

/// Upstream's `field.Path`. What lies below a nil path has no leading dot.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Nil,
    Child(&'a Self, &'a str),
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
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
