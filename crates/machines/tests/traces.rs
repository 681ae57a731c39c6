//! Rollouts as text: the planner with a model of MachineSets and Machines, in an order that follows from a seed.
//!
//! Each scenario has a trace in `tests/traces`. `UPDATE_TRACES=1` writes them. The bounds are checked after each event, also in random orders.

use std::fmt::Write as _;
use std::path::Path;

use settled_machines::plan::{
    Rollout, RolloutAction, SetView, UpdateView, plan_machine_updates, plan_rollout,
};
use settled_machines::types::StrategyType;

/// A MachineSet of the model.
#[derive(Clone, Debug)]
struct Set {
    name: String,
    is_new: bool,
    desired: i32,
    /// Machines: whether each is available.
    machines: Vec<bool>,
}

impl Set {
    fn view(&self) -> SetView {
        let count = |machines: usize| i32::try_from(machines).unwrap_or(i32::MAX);
        SetView {
            name: self.name.clone(),
            is_new: self.is_new,
            desired: self.desired,
            live: count(self.machines.len()),
            available: count(self.machines.iter().filter(|is_available| **is_available).count()),
        }
    }
}

#[derive(Clone, Debug)]
struct Scenario {
    name: &'static str,
    rollout: Rollout,
    /// Old sets, the oldest first: Machines, and how many of them are available.
    old: Vec<(i32, i32)>,
    /// The new set, if there is one at the start.
    new: Option<i32>,
    /// How many old Machines a user deletes.
    deletions: usize,
    /// Whether new Machines never become available.
    is_broken: bool,
}

fn rolling(name: &'static str, replicas: i32, surge: i32, unavailable: i32) -> Scenario {
    Scenario {
        name,
        rollout: Rollout { replicas, surge, unavailable, strategy: StrategyType::RollingUpdate },
        old: vec![(replicas, replicas)],
        new: None,
        deletions: 0,
        is_broken: false,
    }
}

fn on_delete(name: &'static str, replicas: i32, old: i32, deletions: usize) -> Scenario {
    let rollout = Rollout { replicas, surge: 1, unavailable: 0, strategy: StrategyType::OnDelete };
    Scenario { rollout, old: vec![(old, old)], deletions, ..rolling(name, replicas, 1, 0) }
}

fn scenarios() -> Vec<Scenario> {
    vec![
        rolling("one-surge", 1, 1, 0),
        rolling("one-unavailable", 1, 0, 1),
        rolling("three-surge", 3, 1, 0),
        rolling("three-unavailable", 3, 0, 1),
        rolling("three-both", 3, 1, 1),
        rolling("six-surge-three", 6, 3, 0),
        rolling("six-unavailable-three", 6, 0, 3),
        rolling("six-both", 6, 2, 1),
        rolling("ten-quarter", 10, 3, 2),
        rolling("ten-surge-all", 10, 10, 0),
        rolling("ten-unavailable-all", 10, 0, 10),
        Scenario { old: vec![(6, 4)], ..rolling("unhealthy-surge", 6, 1, 0) },
        Scenario { old: vec![(6, 4)], ..rolling("unhealthy-unavailable", 6, 0, 1) },
        Scenario { old: vec![(3, 3), (3, 3)], ..rolling("two-old-sets", 6, 1, 0) },
        Scenario { old: vec![(2, 2), (2, 2)], new: Some(2), ..rolling("in-the-middle", 6, 1, 1) },
        Scenario { old: vec![(3, 3)], ..rolling("scale-up", 6, 1, 0) },
        Scenario { old: vec![(6, 6)], ..rolling("scale-down", 3, 1, 0) },
        Scenario { old: vec![(3, 3)], ..rolling("scale-to-zero", 0, 1, 0) },
        Scenario { old: Vec::new(), ..rolling("first", 3, 1, 0) },
        Scenario { is_broken: true, ..rolling("broken", 3, 1, 1) },
        on_delete("on-delete-none", 3, 3, 0),
        on_delete("on-delete-one", 3, 3, 1),
        on_delete("on-delete-all", 3, 3, 3),
        on_delete("on-delete-scale-up", 5, 3, 1),
        on_delete("on-delete-scale-down", 3, 5, 1),
    ]
}

/// Numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Plan,
    Create(usize),
    Delete(usize),
    Available(usize),
    UserDeletes(usize),
}

/// What may happen next.
fn possible(scenario: &Scenario, sets: &[Set], deletions: usize) -> Vec<Event> {
    let mut events = Vec::new();
    let views: Vec<SetView> = sets.iter().map(Set::view).collect();
    if !plan_rollout(scenario.rollout, &views).is_empty() {
        events.push(Event::Plan);
    }
    // The old sets of OnDelete make no Machines.
    let is_on_delete = scenario.rollout.strategy == StrategyType::OnDelete;
    for (index, set) in sets.iter().enumerate() {
        let live = i32::try_from(set.machines.len()).unwrap_or(i32::MAX);
        if live < set.desired && (set.is_new || !is_on_delete) {
            events.push(Event::Create(index));
        }
        if live > set.desired {
            events.push(Event::Delete(index));
        }
        if set.is_new && !scenario.is_broken && set.machines.iter().any(|is_available| !is_available) {
            events.push(Event::Available(index));
        }
        if !set.is_new && deletions > 0 && !set.machines.is_empty() {
            events.push(Event::UserDeletes(index));
        }
    }
    events
}

fn describe(sets: &[Set]) -> String {
    let mut text = String::new();
    for set in sets {
        let view = set.view();
        let _ = write!(text, "{} {}/{}/{}  ", view.name, view.desired, view.live, view.available);
    }
    text.trim_end().to_owned()
}

/// Plays a scenario until nothing happens any more. Its trace, and the sets at the end.
fn play(scenario: &Scenario, seed: u64) -> (String, Vec<Set>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let set = |name: String, is_new, count: i32, available: i32| Set {
        name,
        is_new,
        desired: count,
        machines: (0..count).map(|number| number < available).collect(),
    };
    let mut sets: Vec<Set> = scenario
        .old
        .iter()
        .enumerate()
        .map(|(index, (count, available))| set(format!("old-{index}"), false, *count, *available))
        .collect();
    if let Some(count) = scenario.new {
        sets.push(set("new".to_owned(), true, count, count));
    }
    let rollout = scenario.rollout;
    let mut deletions = scenario.deletions;
    let total = |sets: &[Set]| sets.iter().map(|set| set.machines.len()).sum::<usize>();
    let available = |sets: &[Set]| sets.iter().map(|set| set.view().available).sum::<i32>();
    let mut trace = format!(
        "# {}: {} replicas, surge {}, unavailable {}, {:?}; set desired/live/available\n{}\n",
        scenario.name,
        rollout.replicas,
        rollout.surge,
        rollout.unavailable,
        rollout.strategy,
        describe(&sets)
    );
    for step in 0.. {
        assert!(step < 1000, "{} with seed {seed} does not end:\n{trace}", scenario.name);
        let events = possible(scenario, &sets, deletions);
        if events.is_empty() {
            break;
        }
        let event = events[random.below(events.len())];
        let before = (total(&sets), available(&sets));
        let text = apply(event, rollout, &mut sets, &mut deletions);
        let _ = writeln!(trace, "{text:<28} {}", describe(&sets));
        let context = || format!("{} with seed {seed}:\n{trace}", scenario.name);
        let most = usize::try_from(rollout.replicas + rollout.surge).unwrap_or_default();
        assert!(total(&sets) <= most.max(before.0), "too many Machines: {}", context());
        if !matches!(event, Event::UserDeletes(_)) {
            let least = (rollout.replicas - rollout.unavailable).min(before.1);
            assert!(available(&sets) >= least, "too few available: {}", context());
        }
    }
    (trace, sets)
}

fn apply(event: Event, rollout: Rollout, sets: &mut Vec<Set>, deletions: &mut usize) -> String {
    match event {
        Event::Plan => {
            let views: Vec<SetView> = sets.iter().map(Set::view).collect();
            let mut texts = Vec::new();
            for action in plan_rollout(rollout, &views) {
                match action {
                    RolloutAction::Create(desired) => {
                        sets.push(Set {
                            name: "new".to_owned(),
                            is_new: true,
                            desired,
                            machines: Vec::new(),
                        });
                        texts.push(format!("create new {desired}"));
                    }
                    RolloutAction::Scale(name, desired) => {
                        if let Some(set) = sets.iter_mut().find(|set| set.name == name) {
                            set.desired = desired;
                        }
                        texts.push(format!("scale {name} {desired}"));
                    }
                }
            }
            texts.join(", ")
        }
        Event::Create(index) => {
            sets[index].machines.push(false);
            format!("  {} creates", sets[index].name)
        }
        Event::Delete(index) => {
            // Those that are not available go first.
            let machines = &mut sets[index].machines;
            let doomed = machines.iter().position(|is_available| !is_available).unwrap_or_default();
            machines.remove(doomed);
            format!("  {} deletes", sets[index].name)
        }
        Event::Available(index) => {
            if let Some(machine) = sets[index].machines.iter_mut().find(|is_available| !**is_available) {
                *machine = true;
            }
            format!("  {} becomes available", sets[index].name)
        }
        Event::UserDeletes(index) => {
            sets[index].machines.pop();
            *deletions -= 1;
            format!("  a user deletes of {}", sets[index].name)
        }
    }
}

/// Whether a rollout has come to its end.
fn assert_done(scenario: &Scenario, sets: &[Set], trace: &str) {
    let view = |is_new: bool| sets.iter().filter(move |set| set.is_new == is_new).map(Set::view);
    let old: i32 = view(false).map(|set| set.live).sum();
    let new: i32 = view(true).map(|set| set.available).sum();
    let replicas = scenario.rollout.replicas;
    match scenario.rollout.strategy {
        StrategyType::OnDelete => assert_eq!(old + new, replicas, "{trace}"),
        _ if scenario.is_broken => {
            assert!(old >= replicas - scenario.rollout.unavailable && new == 0, "{trace}");
        }
        _ => assert_eq!((old, new), (0, replicas), "{trace}"),
    }
}

#[test]
fn traces_are_as_stored() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    for scenario in scenarios() {
        let (trace, sets) = play(&scenario, 1);
        assert_done(&scenario, &sets, &trace);
        let path = directory.join(format!("{}.txt", scenario.name));
        if std::env::var_os("UPDATE_TRACES").is_some() {
            std::fs::write(&path, &trace).expect("a file");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stored, trace, "{}: compare, and write with UPDATE_TRACES=1", path.display());
    }
}

#[test]
fn bounds_hold_in_any_order() {
    for scenario in scenarios() {
        for seed in 1..=200 {
            let (trace, sets) = play(&scenario, seed);
            assert_done(&scenario, &sets, &trace);
        }
    }
}

fn views(machines: &[(bool, bool, bool)]) -> Vec<UpdateView> {
    let view = |(index, (is_updated, is_available, is_failed)): (usize, &(bool, bool, bool))| UpdateView {
        name: format!("web-{index}"),
        is_updated: *is_updated,
        is_available: *is_available,
        is_failed: *is_failed,
    };
    machines.iter().enumerate().map(view).collect()
}

#[test]
fn machines_are_updated_within_the_budget() {
    let (old, busy, done, broken) =
        ((false, true, false), (true, false, false), (true, true, false), (false, false, false));
    let failed = (true, false, true);
    for (unavailable, machines, expected) in [
        (1, vec![old, old, old], vec!["web-0"]),
        (2, vec![old, old, old], vec!["web-0", "web-1"]),
        (0, vec![old, old], vec!["web-0"]),
        (1, vec![busy, old, old], vec![]),
        (2, vec![busy, old, old], vec!["web-1"]),
        (1, vec![done, old, old], vec!["web-1"]),
        // What is not available is updated first: it costs nothing.
        (1, vec![old, broken, old], vec!["web-1"]),
        (2, vec![old, broken, old], vec!["web-1", "web-0"]),
        // Nothing goes on after a failure.
        (5, vec![failed, old, old], vec![]),
        (1, vec![done, done], vec![]),
    ] {
        assert_eq!(
            plan_machine_updates(unavailable, &views(&machines)),
            expected,
            "{unavailable} {machines:?}"
        );
    }
}
