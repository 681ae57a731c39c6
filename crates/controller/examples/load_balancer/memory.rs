//! A network in memory: which address is announced under which key.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use settled_controller::decision::{IdempotencyKey, Permit};

use super::controller::{Announcer, Error};

/// What is announced. Copies are the same network.
#[derive(Clone, Debug, Default)]
pub struct Network(Arc<Mutex<BTreeMap<IpAddr, IdempotencyKey>>>);

impl Network {
    /// The announced addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

impl Announcer for Network {
    async fn announce(&self, permit: &Permit, address: IpAddr) -> Result<(), Error> {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = announced.entry(address).or_insert_with(|| permit.key().clone());
        if holder == permit.key() {
            Ok(())
        } else {
            Err(Error::Announce { address, reason: "another Service has it".to_owned() })
        }
    }

    async fn withdraw(&self, permit: &Permit, address: IpAddr) -> Result<(), Error> {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        announced.retain(|announced, holder| *announced != address || holder != permit.key());
        Ok(())
    }

    async fn announced(&self) -> Result<Vec<(IdempotencyKey, IpAddr)>, Error> {
        let announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(announced.iter().map(|(address, holder)| (holder.clone(), *address)).collect())
    }
}
