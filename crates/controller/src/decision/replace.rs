//! Replacement of a granted value by another: make before break, or break before make.

/// Order of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The new value is acquired and published before the old one is released: consumers always have a value.
    MakeBeforeBreak,
    /// The old value is withdrawn and released before the new one is acquired: never two at a time.
    BreakBeforeMake,
}

/// Next step of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'v, V> {
    /// Acquire this value.
    Acquire(&'v V),
    /// Write this value to status; `None` removes the current one.
    Publish(Option<&'v V>),
    /// Release this value: consumers no longer use it.
    Release(&'v V),
}

/// The next step from the held and published values to the wanted one; `None` when done.
///
/// Depends on the observed state only, so it continues after a crash between any two steps.
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
    // A published value is never released: it is first removed from status or replaced.
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
