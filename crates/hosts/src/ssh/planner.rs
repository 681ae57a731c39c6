//! Planner: schema and plans of the provider of a pool, without a pool.

use futures::future::{BoxFuture, FutureExt as _};
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};

use super::{config, plan};

/// Schema, validation and plans of SSH hosts. It has no hosts: calls that need one fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct SshPlanner;

fn no_pool<T: Send + 'static>() -> BoxFuture<'static, Result<T, ProviderError>> {
    async { Err(ProviderError::Transient("there is no pool of SSH hosts here".to_owned())) }.boxed()
}

impl Provider for SshPlanner {
    fn schema(&self) -> ConfigSchema {
        config::format()
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        config::validate(desired)
    }

    fn observe<'a>(&'a self, _key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        no_pool()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        plan::plan(host, desired)
    }

    fn create<'a>(&'a self, _request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        no_pool()
    }

    fn apply_step<'a>(
        &'a self,
        _request: &'a Request,
        _step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        no_pool()
    }

    fn delete<'a>(&'a self, _key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        no_pool()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        no_pool()
    }
}
