//! Scripted requests to a Kubernetes API server, with comparable responses.
//!
//! A [`CaseFile`] has cases, a [`Case`] has steps. A [`Runner`] sends them to a [`Target`] (a server behind a socket,
//! or in the same process) and returns one normalized response per step: values that differ between two runs on the
//! same server (UIDs, resource versions, times, addresses, generated names) are replaced by labels that preserve
//! equality and order. The responses of the real kube-apiserver are committed as a [`Recording`]; [`compare`] reports
//! differences, and [`Differences`] lists the accepted ones.
//!
//! # Examples
//!
//! ```
//! use settled_conformance::{Body, CaseFile, Error, Request, Response, Runner, Target, Watching};
//!
//! /// A server that knows nothing.
//! struct Empty;
//!
//! impl Target for Empty {
//!     fn send(&self, _: &Request) -> Result<Response, Error> {
//!         Ok(Response { status: 404, headers: vec![], body: b"404 page not found\n".to_vec() })
//!     }
//!     fn watch(&self, request: &Request) -> Result<Watching, Error> {
//!         Ok(Watching { head: self.send(request)?, lines: None })
//!     }
//! }
//!
//! let file = CaseFile::parse("paths", "cases: {nothing: [GET /nothing]}")?;
//! let answers = Runner::new(&Empty).run(&file, &file.cases[0]);
//! assert_eq!(answers[0]["status"], 404);
//! assert_eq!(answers[0]["text"], "404 page not found\n");
//! # Ok::<(), Error>(())
//! ```

mod case;
mod compare;
mod matrix;
mod normal;
mod place;
mod recording;
mod run;
mod target;
mod token;
mod vars;
mod walk;
mod wire;

pub use case::{Action, Await, Case, CaseFile, Step, Until, load};
pub use compare::{Compared, Difference, Differences, Known, compare, compare_case, matches};
pub use normal::Normaliser;
pub use recording::{Recording, load_recordings};
pub use run::Runner;
pub use target::{Body, Error, IDENTITIES, Identity, Lines, Request, Response, Target, Watching, token_file};
pub use walk::{RECORDED_WALK, walk};
pub use wire::Client;
