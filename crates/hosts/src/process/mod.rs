//! Provider of control planes that are local processes.
