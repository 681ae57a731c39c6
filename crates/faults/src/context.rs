//! Context of one start of a controller: client, clock, and external system.

use std::fmt;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;

use crate::control::Control;
use crate::proxy::{self, Proxy};
use crate::trace::Actor;
use crate::world::World;

/// Default namespace of the client.
const NAMESPACE: &str = "default";

/// Argument of each start of a controller.
pub struct Context<W: World = ()> {
    client: Client,
    external: External<W>,
}

impl<W: World> Context<W> {
    pub(crate) fn new(control: &Arc<Control<W>>, start: u32) -> Self {
        let client = Client::new(Proxy::new(control.clone(), start), NAMESPACE);
        Self { client, external: External { control: control.clone(), start } }
    }

    /// A client for the API server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The external system.
    #[must_use]
    pub fn external(&self) -> External<W> {
        self.external.clone()
    }

    /// The current time, which advances with tokio's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.external.control.now()
    }

    /// The clock of [`Context::now`].
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        self.external.control.clock.clone()
    }

    /// Number of this start, from 1: an identity for its Lease.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.external.start
    }
}

impl<W: World> fmt::Debug for Context<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("start", &self.external.start).finish_non_exhaustive()
    }
}

/// Handle of the controller to the external system. Clones share its state.
pub struct External<W: World> {
    control: Arc<Control<W>>,
    start: u32,
}

/// The connection broke before the response; the call may have been performed.
#[derive(Debug, thiserror::Error)]
#[error("the external system did not answer")]
pub struct CallFailed(#[source] io::Error);

impl<W: World> External<W> {
    /// Changes the external system, as a request to a real one would. It counts as a write of the controller, with the same faults.
    ///
    /// # Errors
    /// The connection broke before the response. The change may have been made.
    pub async fn call<T>(&self, action: &str, change: impl FnOnce(&mut W) -> T) -> Result<T, CallFailed> {
        self.wait_if_dead().await;
        let control = &self.control;
        control.observe(crate::control::Writer::Other(Actor::Server));
        let write = control.begin_write(true);
        proxy::before(control, &write).await;
        control.check_lease(write.place, action);
        control.note(Actor::Controller(self.start), Some(write.place), || format!("external: {action}"));
        let (result, _) = control.change_world(true, change);
        proxy::after(control, &write).await.map_err(CallFailed)?;
        Ok(result)
    }

    /// Reads the external system.
    pub async fn read<T>(&self, read: impl FnOnce(&W) -> T) -> T {
        self.wait_if_dead().await;
        read(&self.control.inner().world)
    }

    async fn wait_if_dead(&self) {
        if !self.control.is_alive(self.start) || !self.control.admit() {
            std::future::pending::<()>().await;
        }
    }
}

impl<W: World> Clone for External<W> {
    fn clone(&self) -> Self {
        Self { control: self.control.clone(), start: self.start }
    }
}

impl<W: World> fmt::Debug for External<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("start", &self.start).finish_non_exhaustive()
    }
}
