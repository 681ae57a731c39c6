//! What network policies ask for, which providers carry it out, and what traffic results.
//!
//! Everything here is synchronous and reads no cluster: policies, profiles of providers and a snapshot of the cluster go in, verdicts
//! and answers come out.
//!
//! ```
//! use serde_json::json;
//! use settled_netpol::conditions::conditions;
//! use settled_netpol::parse::parse_policy;
//! use settled_netpol::profile::Profiles;
//! use settled_netpol::verdict::Evaluator;
//!
//! let parsed = parse_policy(
//!     &json!({
//!         "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "to-other-cluster"},
//!         "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [
//!             {"protocol": "TCP", "port": 30000, "endPort": 32000},
//!         ]}]},
//!     }),
//!     "shop",
//! )?;
//! let (profiles, _) = Profiles::embedded();
//! let provider = profiles.provider(&"cilium@1.15".parse()?)?;
//! let verdict = Evaluator::new(&provider, [&parsed], None).check(&parsed);
//! let [accepted, partial_failure, _] = conditions(&verdict, None);
//! assert_eq!(accepted.status.to_string(), "False");
//! assert!(partial_failure.message.starts_with(
//!     "spec.egress[0].ports[0].endPort: Cilium 1.15 allows only port 30000 of 30000-32000 (less than written); supported since 1.16"
//! ));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cluster;
pub mod conditions;
pub mod detect;
pub mod diff;
pub mod explain;
pub mod extract;
pub mod feature;
pub mod findings;
pub mod index;
pub mod model;
pub mod parse;
pub mod profile;
mod ranges;
pub mod reach;
pub mod read_cluster;
pub mod verdict;
