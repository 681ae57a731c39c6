//! Node agent: the program on a host that registers its Node, renews its Lease and performs updates.
