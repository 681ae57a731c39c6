//! Reachability: which connections policies allow, as they are written and as a provider carries them out.
//!
//! Semantics are those of the API documentation of `networking.k8s.io/v1` and `policy.networking.k8s.io`. What could not be read, and
//! what the API leaves open, makes an outcome [`Outcome::Unknown`] with its reasons, never allowed or denied.
//!
//! ```
//! use serde_json::json;
//! use settled_netpol::cluster::{Cluster, Known};
//! use settled_netpol::parse::parse_policy;
//! use settled_netpol::reach::{Ask, Evaluator, Outcome, Question, View};
//! use settled_netpol::{model::Protocol, read_cluster};
//!
//! let pod = json!({
//!     "metadata": {"name": "web-0", "namespace": "shop"},
//!     "status": {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]},
//! });
//! let cluster = Cluster {
//!     namespaces: Known::Read(Vec::new()),
//!     pods: Known::Read(Vec::from_iter(read_cluster::pod(&pod))),
//!     nodes: Known::Read(Vec::new()),
//!     services: Known::Read(Vec::new()),
//! };
//! let deny = json!({
//!     "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
//!     "metadata": {"name": "deny", "namespace": "shop"}, "spec": {"podSelector": {}},
//! });
//! let policies = Vec::from_iter(parse_policy(&deny, "shop")?.policy);
//! let view = View::as_written(&policies);
//! let traffic = Ask::Port(Protocol::Tcp, 80);
//! let question = Question { from: "internet".parse()?, to: "shop/web-0".parse()?, traffic };
//! let answer = Evaluator::new(&cluster, &view).ask(&question)?;
//! assert_eq!(answer.outcome(), Some(Outcome::Denied));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod bits;
mod carry_out;
pub(crate) mod classes;
mod compare;
mod connection;
mod deviations;
pub(crate) mod equivalent;
pub(crate) mod matching;
mod matrix;
mod outcome;
mod ports;
mod question;
pub(crate) mod table;
mod view;
mod workload;

pub use answer::{Answer, Answered, Site};
pub use carry_out::{Deviation, Instead};
pub use classes::PortRanges;
pub use compare::{Comparison, compare};
pub use connection::{Connection, Evaluator};
pub use matrix::{Cell, Matrix};
pub use outcome::{Cause, Decision, Effect, NamedPorts, Outcome, Remark, UnknownReason};
pub use question::{Ask, Endpoint, InvalidEndpoint, InvalidPort, Question, QuestionError};
pub use view::{UnreadPolicies, View};
pub use workload::Workload;
