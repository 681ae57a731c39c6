//! Replacement of a granted value by another: make before break, or break before make.

/// In which order a value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The new value is acquired and published before the old one is released: consumers always have one.
    MakeBeforeBreak,
    /// The old value is withdrawn and released before the new one is acquired: never two at a time.
    BreakBeforeMake,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'v, V> {
    /// Acquire this value.
    Acquire(&'v V),
    /// Write this value into status; None withdraws what is there.
    Publish(Option<&'v V>),
    /// Release this value: nobody is pointed to it any more.
    Release(&'v V),
}

/// The next step from what is held and published to what is wanted; None once everything is as wanted.
///
/// It looks at the observed state only, so it goes on after a crash between any two steps.
///
/// ```
/// use settled_controller::decision::{Order, Step, next_step};
///
/// let step = next_step(&["old"], Some(&"old"), Some(&"new"), Order::MakeBeforeBreak);
/// assert_eq!(step, Some(Step::Acquire(&"new")));
/// let step = next_step(&["new", "old"], Some(&"new"), Some(&"new"), Order::MakeBeforeBreak);
/// assert_eq!(step, Some(Step::Release(&"old")));
/// ```
pub fn next_step<'v, V: PartialEq>(
    held: &'v [V],
    published: Option<&'v V>,
    wanted: Option<&'v V>,
    order: Order,
) -> Option<Step<'v, V>> {
    // A published value is never released: it is withdrawn or replaced in status first.
    let surplus = held.iter().find(|value| Some(*value) != wanted && Some(*value) != published);
    let missing = wanted.filter(|wanted| !held.contains(wanted));
    let published_is_surplus = published.is_some() && published != wanted;
    match order {
        Order::MakeBeforeBreak => {
            if let Some(value) = missing {
                Some(Step::Acquire(value))
            } else if published != wanted {
                Some(Step::Publish(wanted))
            } else {
                surplus.map(Step::Release)
            }
        }
        Order::BreakBeforeMake => {
            if published_is_surplus {
                Some(Step::Publish(None))
            } else if let Some(value) = surplus {
                Some(Step::Release(value))
            } else if let Some(value) = missing {
                Some(Step::Acquire(value))
            } else if published != wanted {
                Some(Step::Publish(wanted))
            } else {
                None
            }
        }
    }
}
