//! Streams of YAML and JSON in, Kubernetes objects as JSON bytes out, as Go's decoders read them.
//!
//! [`Splitter`] cuts a stream into [`Batch`]es of whole documents, serially and cheaply. [`Batch::objects`] turns a
//! batch into objects, on whichever thread has time. Nothing in here starts a thread, panics, or holds more than the
//! [`Limits`] allow.

mod batch;
mod cut;
mod detect;
mod emit;
mod head;
mod item;
mod lines;
mod split;
mod structure;
mod tokens;
mod yaml;

pub use batch::{Batch, Scratch};
pub use emit::{minify, write_yaml};
pub use item::{Item, Malformed, Object, Position};
pub use split::{Limits, Splitter};
pub use yaml::yaml_to_json;
