//! The kit, against the API server of this workspace.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod adversity;
mod apply;
mod bucket;
mod bucket_binding;
mod cache;
mod companion;
mod conditions;
mod decision;
mod docs;
mod drop_in;
mod endless_reconcile;
mod events;
mod fault_tests;
mod fence;
mod filter;
mod finalizer;
mod gate;
mod harness;
mod intercept;
mod kube_controllers;
mod kube_examples;
mod kube_store;
mod leader;
mod load_balancer;
mod many_objects;
mod pod_resize;
mod predicates;
mod questions;
mod queue;
mod run;
mod site;
mod spans;
mod status;
