//! The live view: rows at the bottom of the terminal that show what isn't done yet.

pub(crate) mod screen;
pub(crate) mod terminal;
pub(crate) mod view;
