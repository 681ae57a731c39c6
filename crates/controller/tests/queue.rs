//! The work queue and its workers, in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use settled_controller::metrics::Metrics;
use settled_controller::queue::{Backoff, Queue};
use settled_controller::worker::{self, Next};
use tokio::time::Instant;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };

#[tokio::test(start_paused = true)]
async fn priorities_first_then_the_oldest_and_each_key_once() {
    let queue = Queue::new(BACKOFF);
    for (key, priority) in [("a", 0), ("b", 0), ("c", 5), ("a", 0), ("b", 7), ("b", 1)] {
        queue.add(key, priority);
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        let item = queue.next().await.unwrap();
        order.push(*item.key());
        item.succeed();
    }
    assert_eq!(order, ["b", "c", "a"]);
    assert_eq!((queue.counts().adds, queue.counts().depth), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards() {
    let queue = Queue::new(BACKOFF);
    queue.add("a", 0);
    let item = queue.next().await.unwrap();
    queue.add("a", 3);
    queue.add("b", 0);
    // Not a: it is being worked on.
    let other = queue.next().await.unwrap();
    assert_eq!(*other.key(), "b");
    item.succeed();
    assert_eq!(*queue.next().await.unwrap().key(), "a");
    other.succeed();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_waits_twice_as_long_each_time_unless_something_changes() {
    let queue = Queue::new(BACKOFF);
    let start = Instant::now();
    queue.add("a", 0);
    let mut at = Vec::new();
    for _ in 0..8 {
        let item = queue.next().await.unwrap();
        at.push(start.elapsed().as_secs());
        item.fail();
    }
    assert_eq!(at, [0, 1, 3, 7, 15, 31, 63, 123]);
    // A change is worked on at once, and success begins the backoff anew.
    queue.add("a", 0);
    queue.next().await.unwrap().succeed();
    assert_eq!(start.elapsed().as_secs(), 123);
    queue.add("a", 0);
    assert_eq!(queue.next().await.unwrap().fail(), BACKOFF.first);
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_delays_counts_and_shutdown_wakes_up_all() {
    let queue = Queue::new(BACKOFF);
    let start = Instant::now();
    queue.add_after("a", 0, Duration::from_secs(9));
    queue.add_after("a", 0, Duration::from_secs(4));
    queue.add_after("a", 0, Duration::from_secs(6));
    queue.next().await.unwrap().succeed_and_requeue(Duration::from_secs(5));
    assert_eq!(start.elapsed().as_secs(), 4);
    queue.next().await.unwrap().succeed();
    assert_eq!(start.elapsed().as_secs(), 9);

    let waiting = [queue.clone(), queue.clone(), queue.clone()];
    let ended = futures::future::join_all(waiting.iter().map(|queue| async { queue.next().await.is_none() }));
    let shut_down = async {
        tokio::task::yield_now().await;
        queue.shut_down();
    };
    assert_eq!(tokio::join!(ended, shut_down).0, [true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_always_fails_or_panics_does_not_delay_the_others() {
    let (queue, metrics) = (Queue::new(BACKOFF), Metrics::new());
    metrics.queue("test", &queue);
    let controller = metrics.controller("test", 2);
    let names = (0..50).map(|number| format!("object-{number}"));
    for name in ["poison".to_owned(), "panic".to_owned()].into_iter().chain(names) {
        queue.add(name, 0);
    }
    let done = RefCell::new(BTreeMap::<String, u32>::new());
    let reconcile = async |name: String| {
        *done.borrow_mut().entry(name.clone()).or_default() += 1;
        // A panic that is meant: the message is in the output of the test.
        assert!(name != "panic", "a bug in the reconciler");
        if name == "poison" { Err("it never works") } else { Ok(Next::AwaitChange) }
    };
    let shut_down = async {
        // After 0, 1, 3, 7 and 15 seconds they were tried.
        tokio::time::sleep(Duration::from_secs(20)).await;
        queue.shut_down();
    };
    tokio::join!(worker::run(&queue, 2, Some(&controller), reconcile), shut_down);

    let done = done.into_inner();
    assert!((0..50).all(|number| done[&format!("object-{number}")] == 1));
    assert_eq!((done["poison"], done["panic"]), (5, 5));
    let text = metrics.encode().unwrap();
    let expected = [
        "controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 50\n",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"error\"} 10\n",
        "controller_runtime_reconcile_panics_total{controller=\"test\"} 5\n",
        "controller_runtime_active_workers{controller=\"test\"} 0\n",
        "controller_runtime_max_concurrent_reconciles{controller=\"test\"} 2\n",
        "workqueue_adds_total{name=\"test\"} 60\n",
        "workqueue_retries_total{name=\"test\"} 10\n",
        "workqueue_depth{name=\"test\"} 0\n",
    ];
    for line in expected {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn two_controllers_and_queues_share_their_metrics() {
    let metrics = Metrics::new();
    let queues = [Queue::<u8>::new(BACKOFF), Queue::new(BACKOFF)];
    queues[1].add(1, 0);
    for (name, queue) in ["a", "b"].into_iter().zip(&queues) {
        drop(metrics.controller(name, 1));
        metrics.queue(name, queue);
    }
    let text = metrics.encode().unwrap();
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let distinct: std::collections::BTreeSet<_> = types.iter().collect();
    // The text format allows each metric once.
    assert_eq!(distinct.len(), types.len(), "{text}");
    for line in ["workqueue_depth{name=\"a\"} 0\n", "workqueue_depth{name=\"b\"} 1\n"] {
        assert!(text.contains(line), "{line}{text}");
    }
}
