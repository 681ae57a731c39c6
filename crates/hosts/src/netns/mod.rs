//! Provider of network-namespace hosts: Linux only, with iproute2 and root.
