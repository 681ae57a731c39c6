//! Texts that are allocated once with their final size.

use std::fmt::{self, Write as _};

/// As `format!`, without growing on the way: what is written is measured first.
macro_rules! text {
    ($($arguments:tt)*) => { $crate::text::exact(format_args!($($arguments)*)) };
}
pub(crate) use text;

/// The text of `arguments` in one allocation.
pub(crate) fn exact(arguments: fmt::Arguments<'_>) -> String {
    let mut length = Length(0);
    // Neither counting nor writing to a String can fail.
    let _ = length.write_fmt(arguments);
    let mut text = String::with_capacity(length.0);
    let _ = text.write_fmt(arguments);
    text
}

struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}
