//! Provider of a pool of hosts that are reached by SSH.
