//! Pods that controllers create and delete, with their Events (`RealPodControl` upstream).

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;

use crate::controller::{Context, Error};
use crate::informers::Informed;
use crate::meta;
use crate::pod;

/// The most Pods that a reconcile creates or deletes.
pub(crate) const BURST: usize = 500;

/// Why a number of Pods could not be created or deleted: the first error.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct PodError {
    /// As upstream puts it into conditions.
    pub(crate) text: String,
    source: kube::Error,
}

impl From<PodError> for Error {
    fn from(error: PodError) -> Self {
        Self::Request(error.source)
    }
}

/// Creates a Pod from a template for its controller.
pub(crate) async fn create<O>(
    context: &Context,
    key: &ObjectKey,
    owner: &O,
    template: &PodTemplateSpec,
) -> Result<(), PodError>
where
    O: Informed + Resource<Scope = NamespaceResourceScope>,
{
    let new = pod::from_template(template, owner, &pod::name_prefix(&key.name));
    create_pod(context, key, owner, &new).await
}

/// Creates a Pod for its controller.
pub(crate) async fn create_pod<O>(
    context: &Context,
    key: &ObjectKey,
    owner: &O,
    new: &Pod,
) -> Result<(), PodError>
where
    O: Informed + Resource<Scope = NamespaceResourceScope>,
{
    match context.create_named(key, new).await {
        Ok(name) => {
            let note = format!("Created pod: {name}");
            context.event(owner, EventType::Normal, "SuccessfulCreate", "SuccessfulCreate", note);
            Ok(())
        }
        // Everything in the namespace will be deleted: there is nothing to do.
        Err(error) if Error::is_namespace_terminating(&error) => Ok(()),
        Err(source) => {
            let text = Error::text(&source);
            let note = format!("Error creating: {text}");
            context.event(owner, EventType::Warning, "FailedCreate", "FailedCreate", note);
            Err(PodError { text, source })
        }
    }
}

/// Deletes a Pod of its controller.
pub(crate) async fn delete<O>(
    context: &Context,
    key: &ObjectKey,
    owner: &O,
    pod: &Pod,
) -> Result<(), PodError>
where
    O: Informed + Resource<Scope = NamespaceResourceScope>,
{
    match context.delete(key, pod).await {
        Ok(true) => {
            let note = format!("Deleted pod: {}", meta::name(pod));
            context.event(owner, EventType::Normal, "SuccessfulDelete", "SuccessfulDelete", note);
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(source) => {
            let text = Error::text(&source);
            let note = format!("Error deleting: {text}");
            context.event(owner, EventType::Warning, "FailedDelete", "FailedDelete", note);
            Err(PodError { text: format!("unable to delete pods: {text}"), source })
        }
    }
}

/// Deletes Pods, all at the same time.
pub(crate) async fn delete_all<'p, O>(
    context: &Context,
    key: &ObjectKey,
    owner: &O,
    pods: impl IntoIterator<Item = &'p Pod>,
) -> Result<(), PodError>
where
    O: Informed + Resource<Scope = NamespaceResourceScope>,
{
    let results = join_all(pods.into_iter().map(|pod| delete(context, key, owner, pod))).await;
    results.into_iter().collect()
}

/// Performs `count` tasks in batches of 1, 2, 4 and so on, and ends after the first batch with a failure (`slowStartBatch`): what the server
/// refuses is not asked for many times. How many succeeded, and the first failure.
pub(crate) async fn slow_start<F, E>(count: usize, task: impl Fn(usize) -> F) -> (usize, Result<(), E>)
where
    F: Future<Output = Result<(), E>>,
{
    let (mut done, mut succeeded, mut batch) = (0, 0, 1);
    while done < count {
        let size = batch.min(count - done);
        let results = join_all((done..done + size).map(&task)).await;
        succeeded += results.iter().filter(|result| result.is_ok()).count();
        if let Some(failure) = results.into_iter().find(Result::is_err) {
            return (succeeded, failure);
        }
        done += size;
        batch = 2 * size;
    }
    (succeeded, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn batches_double_until_one_fails() {
        let asked = RefCell::new(Vec::new());
        let task = |number: usize| {
            asked.borrow_mut().push(number);
            async move { if number == 4 { Err("quota") } else { Ok(()) } }
        };
        let (succeeded, result) = slow_start(20, task).await;
        assert_eq!((succeeded, result, asked.borrow().len()), (6, Err("quota"), 7));
    }
}
