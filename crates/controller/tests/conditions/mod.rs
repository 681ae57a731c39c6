//! Conditions: upstream's setter, the kit's own set, other objects' conditions, the schema.

mod children;
mod crd;
mod meta;
mod properties;
mod set;
