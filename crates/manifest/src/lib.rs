//! Reader of YAML and JSON streams: returns Kubernetes objects as JSON bytes, as Go's decoders read them.
//!
//! [`Splitter`] cuts a stream into [`Batch`]es of whole documents, serially and cheaply. [`Batch::objects`] converts a
//! batch to objects, on any thread. The crate starts no threads, does not panic, and holds no more memory than
//! [`Limits`] allow.
//!
//! # JSON
//!
//! A JSON document is returned as it is in the stream: cutting needs only its brackets and quotes, and its parser finds
//! all other errors, at an offset that [`Batch::position`] converts to line and column. Errors that would confuse
//! cutting (a line that ends within a string, a document that begins before the last one is closed) end a document
//! early, so that one broken document does not affect the next. A document that is not valid JSON can be read again
//! with [`Batch::objects_as_yaml`], as Go's decoder does.
//!
//! # YAML
//!
//! YAML is read as by `sigs.k8s.io/yaml`, which Kubernetes uses: YAML 1.1 by the rules of `go.yaml.in/yaml/v2`. So `on`
//! and `y` are true, `0644` is 420, `1_000` is 1000, `1:30` and dates are strings, keys become strings, and of a key
//! and a merged key (`<<`) the later one wins. `tests/golden/yaml-go.jsonl` has Go's results for more than 750 documents; a
//! test compares them. The differences are intentional:
//!
//! - Duplicate keys are an error, as in Go's strict variant. Go's default silently takes the last.
//! - An empty collection as a key (`[]: a`) is an error like all others. Go returns the key as the whole document, and
//!   drops the rest.
//! - Integers of more than 64 bits keep their digits. Go rounds them to a float.
//! - Keys keep their order, and `<`, `>`, `&` are not escaped. Go sorts the keys.
//! - `---` and `...` only count at the beginning of a line that ends with a line feed (or CR LF), and the text after
//!   `---` on its line is part of the document. kubectl drops the rest of such a line.
//! - A document that comes after `...` needs no `---`.
//! - Go limits only the nodes of alias bombs; here, the bytes that aliases and merges expand to are limited as well.
//!
//! Reading YAML is some 25 times slower than cutting JSON, and several times slower than parsing it: the end of a
//! scalar depends on indentation, on the text after its colons and on whether it is a key, which is only known later;
//! so every byte is inspected several times, and every scalar is compared with the forms of numbers. A parser for YAML
//! 1.2 would be no faster, and would have to be adapted to these rules. To measure: `cargo run --release -p
//! settled-manifest --example throughput -- FILE`.
//!
//! # Lists
//!
//! [`ListItems`] cuts the list response of an API server, which is one JSON document, and keeps its metadata.
//!
//! # Examples
//!
//! ```
//! use settled_manifest::{Batch, Item, Scratch, Splitter};
//!
//! let stream = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n---\nkind: [\n";
//! let mut splitter = Splitter::new(stream.as_bytes());
//! // Both are used again and again: in the long run, nothing is allocated.
//! let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
//! let mut lines = Vec::new();
//! while let Some(next) = splitter.next_batch(batch)? {
//!     // A batch is `Send`: this could happen on another thread, while the next one is read.
//!     next.objects(&mut scratch, |item| match item {
//!         Item::Object(object) => lines.push(String::from_utf8_lossy(object.json).into_owned()),
//!         Item::Malformed(why) => lines.push(why.to_string()),
//!     });
//!     batch = next;
//! }
//! assert_eq!(lines, [
//!     r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
//!     "line 7, column 1: did not find expected node content",
//! ]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod batch;
mod cut;
mod detect;
mod emit;
mod head;
mod item;
mod limits;
mod lines;
mod list;
mod split;
mod structure;
mod tokens;
mod yaml;

pub use batch::{Batch, Scratch};
pub use emit::{minify, write_yaml};
pub use item::{Item, Malformed, Object, Position};
pub use limits::Limits;
pub use list::{ListError, ListItems, MAX_ITEM_BYTES};
pub use split::Splitter;
pub use yaml::{yaml_to_json, yaml_to_json_leniently, yaml_to_json_with_places};
