//! Metrics of an autoscaler: how many replicas each of them asks for (`replica_calculator.go`).

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{MetricSpec, MetricTarget};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use settled_apimachinery::quantity;

use crate::meta;
use crate::pod as pods;

/// How far a metric may be off: `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;

/// A metric that can be read.
#[derive(Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// What it is called in conditions and Events.
    pub(super) name: String,
    /// The value for the status: in thousandths, and as a percentage of the requests.
    pub(super) value: i64,
    pub(super) utilization: Option<i32>,
}

/// A metric that cannot be read: the reason and the error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A resource of each Pod.
    Resource,
    /// A metric of each Pod.
    Pods,
    /// A value for all.
    Whole(&'static str),
}

fn thousandths(text: &str) -> Option<i64> {
    quantity::Quantity::parse(text).ok().map(|quantity| quantity.milli_value())
}

fn of_target(quantity: Option<&Quantity>) -> Option<i64> {
    thousandths(&quantity?.0)
}

/// The name of a metric, its source and its target.
fn parts(metric: &MetricSpec) -> Option<(Source, &str, &MetricTarget)> {
    if let Some(resource) = &metric.resource {
        Some((Source::Resource, &resource.name, &resource.target))
    } else if let Some(resource) = &metric.container_resource {
        Some((Source::Resource, &resource.name, &resource.target))
    } else if let Some(pods) = &metric.pods {
        Some((Source::Pods, &pods.metric.name, &pods.target))
    } else if let Some(object) = &metric.object {
        Some((Source::Whole("object"), &object.metric.name, &object.target))
    } else {
        metric
            .external
            .as_ref()
            .map(|external| (Source::Whole("external"), &*external.metric.name, &external.target))
    }
}

/// What a Pod requests of a resource, in thousandths; an error if a container requests nothing.
fn request(pod: &Pod, resource: &str) -> Result<i64, String> {
    let mut sum = 0;
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let Some(request) = of_target(requests.and_then(|requests| requests.get(resource))) else {
            let (container, pod) = (&container.name, meta::name(pod));
            return Err(format!("missing request for {resource} in container {container} of Pod {pod}"));
        };
        sum += request;
    }
    Ok(sum)
}

fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

fn ratio(value: i64, target: i64) -> f64 {
    if target <= 0 { 1.0 } else { value as f64 / target as f64 }
}

fn is_tolerated(ratio: f64) -> bool {
    (1.0 - ratio).abs() <= TOLERANCE
}

/// The replicas that a metric of each Pod asks for. Pods that are not ready count as idle, so that nothing is scaled up for them.
fn for_pods(current: i32, ready: i32, unready: i32, usage: f64) -> i32 {
    if unready == 0 || usage <= 1.0 {
        return if is_tolerated(usage) { current } else { ceil(usage * f64::from(ready)) };
    }
    let all = ready + unready;
    let with_idle = usage * f64::from(ready) / f64::from(all);
    if is_tolerated(with_idle) || with_idle < 1.0 {
        return current;
    }
    let replicas = ceil(with_idle * f64::from(all));
    if replicas < current { current } else { replicas }
}

/// The replicas that a metric asks for. `read` gives its value as the scenario says: without one it meets its target.
pub(super) fn propose(
    metric: &MetricSpec,
    current: i32,
    targets: &[Arc<Pod>],
    read: impl Fn(&str) -> Result<Option<String>, ()>,
) -> Result<Proposal, Unreadable> {
    let Some((source, name, target)) = parts(metric) else {
        let message = format!("unknown metric source type {:?}", metric.type_);
        return Err(Unreadable { reason: "InvalidMetricSourceType", message });
    };
    let is_utilization = source == Source::Resource && target.average_utilization.is_some();
    let (reason, subject) = match source {
        Source::Resource if is_utilization => ("FailedGetResourceMetric", format!("{name} utilization")),
        Source::Resource => ("FailedGetResourceMetric", format!("{name} resource metric value")),
        Source::Pods => ("FailedGetPodsMetric", "pods metric value".to_owned()),
        Source::Whole("object") => ("FailedGetObjectMetric", "object metric value".to_owned()),
        Source::Whole(_) => ("FailedGetExternalMetric", "external metric value".to_owned()),
    };
    let failed = |why: String| Unreadable { reason, message: format!("failed to get {subject}: {why}") };
    let is_counted = |pod: &&Arc<Pod>| !meta::is_deleting(&***pod) && !matches!(pods::phase(pod), "Failed");
    let counted: Vec<_> = targets.iter().filter(is_counted).collect();
    let ready = i32::try_from(counted.iter().filter(|pod| pods::is_ready(pod)).count()).unwrap_or(i32::MAX);
    let unready = i32::try_from(counted.len()).unwrap_or(i32::MAX) - ready;
    let value = read(name).map_err(|()| {
        failed(match source {
            Source::Resource => {
                format!(
                    "unable to get metrics for resource {name}: no metrics returned from resource metrics API"
                )
            }
            _ => format!("unable to get metric {name}: no metrics returned from custom metrics API"),
        })
    })?;
    let given = value.as_deref().and_then(thousandths);
    if let Source::Whole(kind) = source {
        let (replicas, value) =
            match (of_target(target.value.as_ref()), of_target(target.average_value.as_ref())) {
                (Some(target), _) => {
                    let value = given.unwrap_or(target);
                    let usage = ratio(value, target);
                    let replicas = if is_tolerated(usage) { current } else { ceil(usage * f64::from(ready)) };
                    (replicas, value)
                }
                (None, Some(average)) => {
                    let value = given.unwrap_or_else(|| average * i64::from(current));
                    let usage = ratio(value, average * i64::from(current));
                    (if is_tolerated(usage) { current } else { ceil(ratio(value, average)) }, value)
                }
                (None, None) => return Err(failed("the metric has no target".to_owned())),
            };
        return Ok(Proposal { replicas, name: format!("{kind} metric {name}"), value, utilization: None });
    }
    if counted.is_empty() {
        return Err(failed("no pods returned by selector while calculating replica count".to_owned()));
    }
    if ready == 0 {
        return Err(failed("did not receive metrics for targeted pods (pods might be unready)".to_owned()));
    }
    if let Some(wanted) = target.average_utilization.filter(|_| is_utilization) {
        let requests: Result<Vec<i64>, String> = counted.iter().map(|pod| request(pod, name)).collect();
        let requests = requests.map_err(&failed)?;
        let average = requests.iter().sum::<i64>() / i64::try_from(requests.len()).unwrap_or(1).max(1);
        let value = given.unwrap_or_else(|| average * i64::from(wanted) / 100);
        let utilization = if average > 0 { value * 100 / average } else { 0 };
        let replicas = for_pods(current, ready, unready, ratio(utilization, wanted.into()));
        let name = format!("{name} resource utilization (percentage of request)");
        let utilization = i32::try_from(utilization).unwrap_or(i32::MAX);
        return Ok(Proposal { replicas, name, value, utilization: Some(utilization) });
    }
    let Some(wanted) = of_target(target.average_value.as_ref()) else {
        return Err(failed("the metric has no target".to_owned()));
    };
    let value = given.unwrap_or(wanted);
    let replicas = for_pods(current, ready, unready, ratio(value, wanted));
    let name =
        if source == Source::Resource { format!("{name} resource") } else { format!("pods metric {name}") };
    Ok(Proposal { replicas, name, value, utilization: None })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(ready: &str, cpu: Option<&str>) -> Arc<Pod> {
        let requests = cpu.map(|cpu| json!({"cpu": cpu}));
        let spec = json!({"containers": [{"name": "web", "resources": {"requests": requests}}]});
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let pod = json!({"metadata": {"name": "web-1"}, "spec": spec, "status": {"conditions": conditions}});
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    fn cpu(target: Value) -> MetricSpec {
        serde_json::from_value(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}))
            .expect("a metric")
    }

    #[test]
    fn replicas_follow_the_use_of_requests() {
        let metric = cpu(json!({"type": "Utilization", "averageUtilization": 50}));
        let pods = [pod("True", Some("200m")), pod("True", Some("200m"))];
        let replicas = |value: &str| {
            propose(&metric, 2, &pods, |_| Ok(Some(value.to_owned())))
                .map(|one| (one.replicas, one.utilization))
        };
        assert_eq!(replicas("100m"), Ok((2, Some(50))));
        assert_eq!(replicas("109m"), Ok((2, Some(54))));
        assert_eq!(replicas("200m"), Ok((4, Some(100))));
        assert_eq!(replicas("20m"), Ok((1, Some(10))));
        let unread = propose(&metric, 2, &pods, |_| Ok(None)).expect("a proposal");
        assert_eq!(
            (unread.replicas, unread.name.as_str()),
            (2, "cpu resource utilization (percentage of request)")
        );
        // A Pod that is not ready counts as idle.
        let starting = [pod("True", Some("200m")), pod("False", Some("200m"))];
        let proposal = propose(&metric, 2, &starting, |_| Ok(Some("200m".to_owned())));
        assert_eq!(proposal.map(|one| one.replicas), Ok(2));
    }

    #[test]
    fn errors_have_the_words_of_upstream() {
        let metric = cpu(json!({"type": "Utilization", "averageUtilization": 50}));
        let error = |pods: &[Arc<Pod>], readable: bool| {
            let read = |_: &str| if readable { Ok(None) } else { Err(()) };
            propose(&metric, 1, pods, read).expect_err("an error").message
        };
        let begin = "failed to get cpu utilization: ";
        assert_eq!(
            error(&[pod("True", None)], true),
            format!("{begin}missing request for cpu in container web of Pod web-1")
        );
        assert_eq!(
            error(&[], true),
            format!("{begin}no pods returned by selector while calculating replica count")
        );
        let unready = "did not receive metrics for targeted pods (pods might be unready)";
        assert_eq!(error(&[pod("False", Some("1"))], true), format!("{begin}{unready}"));
        let missing = "unable to get metrics for resource cpu: no metrics returned from resource metrics API";
        assert_eq!(error(&[pod("True", Some("1"))], false), format!("{begin}{missing}"));
    }

    #[test]
    fn external_metrics_are_shared_by_all_pods() {
        let metric: MetricSpec = serde_json::from_value(json!({
            "type": "External",
            "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
        }))
        .expect("a metric");
        let pods = [pod("True", None), pod("True", None)];
        let replicas =
            |value: &str| propose(&metric, 2, &pods, |_| Ok(Some(value.to_owned()))).map(|one| one.replicas);
        assert_eq!((replicas("45"), replicas("21"), replicas("5")), (Ok(5), Ok(2), Ok(1)));
    }
}
