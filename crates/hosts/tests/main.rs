//! Providers of real hosts with the embedded API server and the real controllers.
