//! The tests, in one binary. Each has a server of its own in the process, and time that passes only when all is quiet.

mod smoke;
