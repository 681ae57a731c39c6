//! Allocation, replacement and the policies without a server.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settled_controller::decision::policy::{Decided, write_ahead};
use settled_controller::decision::pool::{AddressRange, Grants, Pool as _};
use settled_controller::decision::{Decision, Denial, IdempotencyKey, Order, Step, next_step};

#[test]
fn address_ranges_have_the_addresses_between_their_ends() {
    // First, last, size, the last index and its address.
    let cases = [
        ("192.0.2.0", "192.0.2.0", 1, "192.0.2.0"),
        ("192.0.2.250", "192.0.3.4", 11, "192.0.3.4"),
        ("255.255.255.254", "255.255.255.255", 2, "255.255.255.255"),
        ("2001:db8::", "2001:db8::ffff", 65536, "2001:db8::ffff"),
    ];
    for (first, last, size, nth) in cases {
        let range = AddressRange::new(first.parse().unwrap(), last.parse().unwrap()).unwrap();
        assert_eq!(range.size(), size, "{first}");
        assert_eq!(range.nth(size - 1), Some(nth.parse().unwrap()), "{first}");
        assert_eq!(range.nth(size), None, "{first}");
    }
    let all =
        AddressRange::new("::".parse().unwrap(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap())
            .unwrap();
    assert_eq!(all.size(), u128::MAX);
    let address = |text: &str| text.parse().unwrap();
    assert_eq!(AddressRange::new(address("192.0.2.2"), address("192.0.2.1")), None);
    assert_eq!(AddressRange::new(address("192.0.2.2"), address("2001:db8::")), None);
    let v4 = AddressRange::new(address("0.0.0.0"), address("255.255.255.255")).unwrap();
    assert!(!v4.contains(&address("::1")));
}

#[test]
fn grants_that_contradict_each_other_are_named() {
    let (grants, contradictions) = Grants::new([("old", 1_u16), ("new", 1), ("other", 2)]);
    let named: Vec<_> =
        contradictions.iter().map(|double| (double.value, double.keeps, double.loses)).collect();
    assert_eq!(named, [(1, "old", "new")]);
    assert_eq!((grants.held_by(&"old"), grants.held_by(&"new")), (Some(&1), None));
}

#[test]
fn a_replaced_value_is_nobody_elses_until_it_is_released() {
    let ports = 1..=2_u16;
    let (mut grants, _) = Grants::new([("a", 1_u16)]);
    assert_eq!(grants.allocate(&ports, "a", Some(&2)), Decision::Granted(2));
    assert!(matches!(grants.allocate(&ports, "b", None), Decision::Deferred(_)));
    // What is still held is not released by this.
    grants.release_replaced(&"a", &2);
    assert_eq!(grants.holder_of(&2), Some(&"a"));
    grants.release_replaced(&"a", &1);
    assert_eq!(grants.allocate(&ports, "b", None), Decision::Granted(1));
}

proptest! {
    #[test]
    fn no_value_is_granted_twice_and_a_restart_decides_the_same(
        size in 1..20_u16,
        requests in prop::collection::vec((0..30_u8, prop::option::of(0..25_u16), any::<bool>()), 1..60),
    ) {
        let pool = 1..=size;
        let (mut grants, _) = Grants::<String, u16>::new([]);
        let mut model: BTreeMap<String, u16> = BTreeMap::new();
        for (holder, requested, release) in requests {
            let holder = format!("uid-{holder}");
            if release {
                grants.release(&holder);
                model.remove(&holder);
                continue;
            }
            // A controller that starts with the recorded grants decides the same.
            let (mut restarted, contradictions) = Grants::new(model.clone());
            prop_assert!(contradictions.is_empty());
            let decision = grants.allocate(&pool, holder.clone(), requested.as_ref());
            prop_assert_eq!(&restarted.allocate(&pool, holder.clone(), requested.as_ref()), &decision);
            match decision {
                Decision::Granted(value) => {
                    prop_assert!(pool.contains(&value));
                    prop_assert!(requested.is_none_or(|requested| requested == value));
                    if let Some(before) = model.insert(holder.clone(), value) {
                        grants.release_replaced(&holder, &before);
                    }
                }
                Decision::Refused(denial) => {
                    prop_assert_eq!(denial.reason, "NotInPool");
                    prop_assert!(requested.is_some_and(|requested| !pool.contains(&requested)));
                }
                Decision::Deferred(_) => {
                    let taken: BTreeSet<u16> = model.values().copied().collect();
                    let exhausted = taken.len() == usize::from(size);
                    prop_assert!(requested.map_or(exhausted, |requested| taken.contains(&requested)));
                }
            }
            let distinct: BTreeSet<_> = model.values().collect();
            prop_assert_eq!(distinct.len(), model.len());
        }
    }

    #[test]
    fn replacement_ends_with_what_is_wanted_and_never_releases_what_is_published(
        held in prop::collection::btree_set(0..4_u8, 0..4),
        published in prop::option::of(0..4_u8),
        wanted in prop::option::of(0..4_u8),
        make_first in any::<bool>(),
    ) {
        let order = if make_first { Order::MakeBeforeBreak } else { Order::BreakBeforeMake };
        let mut held: Vec<u8> = held.into_iter().collect();
        let mut published = published.filter(|published| held.contains(published));
        for _ in 0..12 {
            let (old_held, old_published) = (held.clone(), published);
            match next_step(&old_held, old_published.as_ref(), wanted.as_ref(), order) {
                None => {
                    prop_assert_eq!(published, wanted);
                    prop_assert_eq!(held, wanted.into_iter().collect::<Vec<_>>());
                    return Ok(());
                }
                Some(Step::Acquire(value)) => {
                    prop_assert!(make_first || held.is_empty(), "two at a time");
                    held.push(*value);
                }
                Some(Step::Publish(value)) => {
                    prop_assert!(value.is_none_or(|value| held.contains(value)), "published and not held");
                    prop_assert!(!make_first || value.is_some() || wanted.is_none(), "a gap");
                    published = value.copied();
                }
                Some(Step::Release(value)) => {
                    prop_assert_ne!(Some(*value), published);
                    held.retain(|held| held != value);
                }
            }
        }
        prop_assert!(false, "it does not end");
    }
}

/// Status of a request, and the writes to it.
#[derive(Default)]
struct Status {
    journal: write_ahead::Journal<u64>,
    writes: usize,
}

#[tokio::test]
async fn an_intent_outlives_the_spec_until_it_is_done_or_has_failed() {
    let key = IdempotencyKey::new("volume", "uid");
    let mut status = Status::default();

    // Generation 1 asks for 10. The controller crashes after the intent is recorded.
    let write_ahead::State::Idle(idle) = write_ahead::resume(&key, 1, &10, &status.journal) else { panic!() };
    let record = async |journal| {
        status.journal = journal;
        Ok::<_, ()>(())
    };
    drop(idle.plan(10).record(record).await.unwrap());

    // By now the user asks for 20: 10 is finished first, under its own key.
    let write_ahead::State::Intended(intended) = write_ahead::resume(&key, 2, &20, &status.journal) else {
        panic!()
    };
    assert_eq!(*intended.value(), 10);
    let act = async |permit: settled_controller::decision::Permit, value| {
        assert_eq!((permit.key().as_str(), value), ("volume-uid-1", 10));
        Ok::<_, ()>(write_ahead::Attempt::Done)
    };
    let attempted = intended.act(act).await.unwrap();
    let record = async |journal| {
        (status.journal, status.writes) = (journal, status.writes + 1);
        Ok::<_, ()>(())
    };
    attempted.record(record).await.unwrap();
    assert_eq!(status.writes, 1);

    // Then 20, which is impossible.
    let write_ahead::State::Idle(idle) = write_ahead::resume(&key, 2, &20, &status.journal) else { panic!() };
    let record = async |journal| {
        status.journal = journal;
        Ok::<_, ()>(())
    };
    let intended = idle.plan(20).record(record).await.unwrap();
    let impossible = Denial::new("TooLarge", "the volume cannot grow to 20");
    let attempted =
        intended.act(async |_, _| Ok::<_, ()>(write_ahead::Attempt::Failed(impossible))).await.unwrap();
    let record = async |journal| {
        status.journal = journal;
        Ok::<_, ()>(())
    };
    attempted.record(record).await.unwrap();
    assert!(matches!(write_ahead::resume(&key, 2, &20, &status.journal), write_ahead::State::Failed));
    assert_eq!(status.journal.done.as_ref().map(|done| done.value), Some(10));
    // Back to what is there: nothing to do.
    assert!(matches!(write_ahead::resume(&key, 3, &10, &status.journal), write_ahead::State::Done));
}

#[test]
fn a_denial_has_no_next_step() {
    use settled_controller::decision::{Allocation, policy::ack_first};
    let key = IdempotencyKey::new("x", "uid");
    let ack_first::State::Undecided(request) =
        ack_first::resume::<u8>(key.clone(), 1, &Allocation::default())
    else {
        panic!()
    };
    let Decided::Denied(denied) = request.decide(Decision::<u8>::Refused(Denial::new("No", ""))) else {
        panic!()
    };
    let mut status = Allocation::default();
    status.record(denied.answer().clone());
    // It stands until the request changes.
    assert!(matches!(ack_first::resume(key.clone(), 1, &status), ack_first::State::Refused));
    assert!(matches!(ack_first::resume(key, 2, &status), ack_first::State::Undecided(_)));
}
