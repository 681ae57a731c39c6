//! Bootstrap, move, deletion and repair of clusters.
