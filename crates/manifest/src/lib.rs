//! Streams of YAML and JSON in, Kubernetes objects as JSON bytes out, as Go's decoders read them.
//!
//! [`Splitter`] cuts a stream into [`Batch`]es of whole documents, serially and cheaply. [`Batch::objects`] turns a
//! batch into objects, on whichever thread has time. Nothing in here starts a thread, panics, or holds more than the
//! [`Limits`] allow.
//!
//! # JSON
//!
//! A JSON document is handed on as it stands in the stream: cutting it needs its brackets and quotes only, and whoever
//! parses it finds everything else that may be wrong with it, at an offset that [`Batch::position`] turns into a line
//! and a column. What can't be missed even so (a line that ends inside of a string, a document that begins before the
//! last one is closed) ends a document early, so that one broken document costs only itself. A document that turns
//! out not to be JSON can be read again with [`Batch::objects_as_yaml`], as Go's decoder does.
//!
//! # YAML
//!
//! YAML is read as `sigs.k8s.io/yaml` reads it, which is what Kubernetes uses: YAML 1.1 by the rules of
//! `go.yaml.in/yaml/v2`. So `on` and `y` are true, `0644` is 420, `1_000` is 1000, `1:30` and dates are strings, keys
//! become strings, and `<<` merges with the later key winning, whichever it is. `tests/golden/yaml-go.jsonl` holds
//! what Go makes of more than 750 documents; a test compares. The differences are deliberate:
//!
//! - A key that is there twice is an error, as in Go's strict variant. Go's other one silently takes the last.
//! - An empty collection as a key (`[]: a`) is an error like all others. Go takes it for the whole document, and drops
//!   the rest.
//! - Integers of more than 64 bits keep their digits. Go rounds them to a float.
//! - Keys come in their own order, and `<`, `>`, `&` aren't escaped. Go sorts the keys.
//! - A stream's `---` and `...` only count at the beginning of a line that ends with a line feed (or with both), and
//!   what follows a `---` on its line belongs to the document. kubectl drops the rest of such a line.
//! - A document that comes after `...` needs no `---`.
//! - Of an alias bomb, Go counts nodes; here, the bytes that aliases and merges expand to are limited as well.
//!
//! Reading YAML is some 25 times slower than cutting JSON, and several times slower than parsing it: where a scalar
//! ends depends on its indentation, on what follows its colons and on whether it is a key, which is only known
//! later; so every byte is looked at several times, and every scalar is compared with what a number looks like. A
//! parser for YAML 1.2 would be no faster, and would have to be bent to these rules first. To measure:
//! `cargo run --release -p settled-manifest --example throughput -- FILE`.
//!
//! # Lists
//!
//! [`ListItems`] cuts the answer to a list of an API server, which has no other documents beside it, and keeps its head.
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
