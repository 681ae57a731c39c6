//! Live view: rows at the bottom of the terminal for objects that are not done.

pub(crate) mod echo;
pub(crate) mod screen;
pub(crate) mod terminal;
pub(crate) mod view;
