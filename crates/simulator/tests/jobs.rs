//! Jobs and CronJobs. The test is the kubelet: Pods have no Node, and end when the test says so.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_simulator::{Component, Options};

use crate::support::{Cluster, cluster, pass};
use crate::workloads::{create, events, get, list, patch};

async fn controllers_only() -> Cluster {
    cluster(|options: &mut Options| {
        options.components = options.components.without(Component::Scheduler).without(Component::Kubelets);
        options.nodes.clear();
    })
    .await
}

fn job(spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "sum"}]}}},
    });
    for (name, value) in spec.as_object().expect("an object") {
        job["spec"][name] = value.clone();
    }
    job
}

/// Ends a Pod with an exit code.
async fn end(client: &Client, pod: &str, code: i32, at: &str) {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let state = json!({"terminated": {"exitCode": code, "finishedAt": at}});
    let status = json!({"status": {
        "phase": if code == 0 { "Succeeded" } else { "Failed" },
        "containerStatuses": [{"name": "main", "image": "sum", "imageID": "", "ready": false, "restartCount": 0, "state": state}],
    }});
    api.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.expect("patched");
}

async fn running(client: &Client) -> Vec<Pod> {
    let mut pods: Vec<Pod> = list(client).await;
    pods.retain(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending"));
    pods
}

fn conditions(job: &Value) -> Vec<String> {
    let all = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|one| {
            format!(
                "{}={} {}: {}",
                text(&one["type"]),
                text(&one["status"]),
                text(&one["reason"]),
                text(&one["message"])
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_counts_each_index_once() {
    let cluster = controllers_only().await;
    let client = &cluster.client;
    create::<Job>(client, job(json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"})))
        .await;
    pass(5).await;
    let pods = running(client).await;
    let names: Vec<String> =
        pods.iter().map(|pod| pod.metadata.generate_name.clone().unwrap_or_default()).collect();
    assert_eq!(names, ["sum-0-", "sum-1-"]);
    let first = serde_json::to_value(&pods[0]).expect("JSON");
    assert_eq!(first["spec"]["hostname"], "sum-0");
    assert_eq!(first["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], "0");
    assert_eq!(first["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(first["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    let status = get::<Job>(client, "sum").await["status"].clone();
    assert_eq!(
        (&status["active"], &status["ready"], &status["terminating"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    end(client, &pods[0].name_any(), 0, "2026-01-01T00:00:05Z").await;
    pass(5).await;
    let status = get::<Job>(client, "sum").await["status"].clone();
    assert_eq!(
        (&status["active"], &status["succeeded"], &status["completedIndexes"]),
        (&json!(2), &json!(1), &json!("0"))
    );
    for pod in running(client).await {
        end(client, &pod.name_any(), 0, "2026-01-01T00:00:10Z").await;
    }
    pass(5).await;
    let done = get::<Job>(client, "sum").await;
    assert_eq!(
        (&done["status"]["succeeded"], &done["status"]["completedIndexes"]),
        (&json!(3), &json!("0-2"))
    );
    assert_eq!(done["status"].get("active"), None);
    assert_eq!(
        conditions(&done),
        [
            "SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods",
            "Complete=True CompletionsReached: Reached expected number of succeeded pods",
        ]
    );
    assert!(list::<Pod>(client).await.iter().all(|pod| pod.finalizers().is_empty()));
    let events = events(client, "Job").await;
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(events[3], "Completed Job completed");
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_until_the_limit() {
    let cluster = controllers_only().await;
    let client = &cluster.client;
    create::<Job>(client, job(json!({"backoffLimit": 1}))).await;
    pass(5).await;
    end(client, &running(client).await[0].name_any(), 1, "2026-01-01T00:00:05Z").await;
    pass(8).await;
    assert_eq!(running(client).await.len(), 0, "10 s of backoff since second 5");
    pass(4).await;
    let pods = running(client).await;
    assert_eq!(pods.len(), 1);
    end(client, &pods[0].name_any(), 1, "2026-01-01T00:00:17Z").await;
    pass(5).await;
    let failed = get::<Job>(client, "sum").await;
    assert_eq!(
        conditions(&failed),
        [
            "FailureTarget=True BackoffLimitExceeded: Job has reached the specified backoff limit",
            "Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit",
        ]
    );
    assert_eq!(failed["status"]["failed"], 2);
    let events = events(client, "Job").await;
    assert_eq!(
        events.last().map(String::as_str),
        Some("BackoffLimitExceeded Job has reached the specified backoff limit")
    );
}

#[tokio::test(start_paused = true)]
async fn indexes_fail_on_their_own() {
    let cluster = controllers_only().await;
    let client = &cluster.client;
    let spec =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0});
    create::<Job>(client, job(spec)).await;
    pass(5).await;
    let pods = running(client).await;
    end(client, &pods[0].name_any(), 1, "2026-01-01T00:00:05Z").await;
    pass(30).await;
    assert_eq!(running(client).await.len(), 1, "the index is not retried");
    end(client, &pods[1].name_any(), 0, "2026-01-01T00:00:35Z").await;
    pass(5).await;
    let job = get::<Job>(client, "sum").await;
    assert_eq!(
        (&job["status"]["failedIndexes"], &job["status"]["completedIndexes"]),
        (&json!("0"), &json!("1"))
    );
    assert_eq!(
        conditions(&job),
        [
            "FailureTarget=True FailedIndexes: Job has failed indexes",
            "Failed=True FailedIndexes: Job has failed indexes"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_are_suspended_resumed_out_of_time_and_deleted() {
    let cluster = controllers_only().await;
    let client = &cluster.client;
    let spec = json!({"suspend": true, "activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 60});
    create::<Job>(client, job(spec)).await;
    pass(100).await;
    let suspended = get::<Job>(client, "sum").await;
    assert_eq!(conditions(&suspended), ["Suspended=True JobSuspended: Job suspended"]);
    assert_eq!((list::<Pod>(client).await.len(), suspended["status"].get("startTime")), (0, None));
    patch::<Job>(client, "sum", json!({"spec": {"suspend": false}})).await;
    pass(20).await;
    let resumed = get::<Job>(client, "sum").await;
    assert_eq!(conditions(&resumed), ["Suspended=False JobResumed: Job resumed"]);
    assert_eq!(resumed["status"]["startTime"], "2026-01-01T00:01:40Z");
    assert_eq!(running(client).await.len(), 1);
    pass(15).await;
    let late = get::<Job>(client, "sum").await;
    assert_eq!(
        conditions(&late)[1..],
        [
            "FailureTarget=True DeadlineExceeded: Job was active longer than specified deadline",
            "Failed=True DeadlineExceeded: Job was active longer than specified deadline",
        ]
    );
    pass(70).await;
    assert_eq!(list::<Job>(client).await.len(), 0, "its time to live is over");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_creates_jobs_on_time_and_keeps_some() {
    let cluster = controllers_only().await;
    let client = &cluster.client;
    let tick = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "*/2 * * * *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": job(json!({}))["spec"]},
        },
    });
    create::<CronJob>(client, tick).await;
    pass(119).await;
    assert_eq!(list::<Job>(client).await.len(), 0);
    pass(2).await;
    let jobs: Vec<Job> = list(client).await;
    // 2026-01-01T00:02:00Z in minutes.
    assert_eq!(jobs.iter().map(|job| job.name_any()).collect::<Vec<_>>(), ["tick-29453762"]);
    assert_eq!(
        jobs[0].annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T00:02:00Z"
    );
    let status = get::<CronJob>(client, "tick").await["status"].clone();
    assert_eq!(
        (&status["lastScheduleTime"], &status["active"][0]["name"]),
        (&json!("2026-01-01T00:02:00Z"), &json!("tick-29453762"))
    );
    pass(120).await;
    assert_eq!(list::<Job>(client).await.len(), 1, "the first one still runs");
    for at in ["2026-01-01T00:04:05Z", "2026-01-01T00:08:05Z"] {
        end(client, &running(client).await[0].name_any(), 0, at).await;
        pass(240).await;
        assert_eq!(list::<Job>(client).await.len(), 2, "one that is done, one that runs");
    }
    let done = get::<CronJob>(client, "tick").await["status"].clone();
    assert!(done["lastSuccessfulTime"].is_string());
    let events = events(client, "CronJob").await;
    assert!(
        events.contains(&"SawCompletedJob Saw completed job: tick-29453762, condition: Complete".to_owned()),
        "{events:?}"
    );
    assert!(events.contains(&"SuccessfulDelete Deleted job tick-29453762".to_owned()), "{events:?}");
    assert!(events.iter().any(|event| event.starts_with("JobAlreadyActive Not starting job")), "{events:?}");
}
