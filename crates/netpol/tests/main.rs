//! Tests of network policies.
