//! Links between objects: owner references and references.

use std::fmt;

use serde::{Serialize, Serializer};

/// How an object leads to another one that may explain it: by an owner reference, or by what its spec names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The other has an owner reference to it.
    Owns,
    /// A Pod mounts a PersistentVolumeClaim.
    Claims,
    /// A claim is bound to a PersistentVolume.
    BoundTo,
    /// A claim, a volume, an Ingress or a Gateway names its class.
    OfClass,
    /// An Ingress or a route names a Service.
    RoutesTo,
    /// A route names its Gateway.
    AttachedTo,
    /// An autoscaler names what it scales.
    Scales,
    /// An EndpointSlice lists a Pod that is not ready.
    Lists,
    /// A custom resource names it.
    RefersTo,
    /// A claim waits for the Pod that uses it.
    UsedBy,
    /// A namespace that is being deleted still has it.
    Holds,
}

impl Link {
    /// As reports and trees name it: `routes to`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owns => "owns",
            Self::Claims => "claims",
            Self::BoundTo => "is bound to",
            Self::OfClass => "is of class",
            Self::RoutesTo => "routes to",
            Self::AttachedTo => "is attached to",
            Self::Scales => "scales",
            Self::Lists => "lists",
            Self::RefersTo => "refers to",
            Self::UsedBy => "is used by",
            Self::Holds => "holds",
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
