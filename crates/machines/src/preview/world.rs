//! World of a preview: the objects of an inventory as their types.

use crate::inventory::{Inventory, Kind, Malformed};
use crate::types::{Cluster, Machine, MachineClass, MachineDeployment, MachineSet};

/// The objects of a world, as their types.
pub(super) struct World {
    pub(super) clusters: Vec<Cluster>,
    pub(super) classes: Vec<MachineClass>,
    pub(super) deployments: Vec<MachineDeployment>,
    pub(super) sets: Vec<MachineSet>,
    pub(super) machines: Vec<Machine>,
}

impl World {
    pub(super) fn new(inventory: &Inventory) -> Result<Self, Malformed> {
        Ok(Self {
            clusters: inventory.typed(Kind::Cluster)?,
            classes: inventory.typed(Kind::MachineClass)?,
            deployments: inventory.typed(Kind::MachineDeployment)?,
            sets: inventory.typed(Kind::MachineSet)?,
            machines: inventory.typed(Kind::Machine)?,
        })
    }
}
