//! Follows Kubernetes objects live: waits until they are done, stops as soon as they can't get done, and says why.
