//! The reader from outside.

mod go_yaml;
