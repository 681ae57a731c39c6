//! Go's stable sort, with the same sequence of comparisons and swaps.
//!
//! Upstream sorts with an inconsistent comparison, which is "less" for all unknown items. The result then depends on
//! the algorithm.

const BLOCK: usize = 20;

/// Sorts as `sort.SliceStable` does.
pub(crate) fn sort<T>(items: &mut [T], less: &dyn Fn(&T, &T) -> bool) {
    let length = items.len();
    let (mut size, mut from) = (BLOCK, 0);
    while from + size <= length {
        insertion(items, from, from + size, less);
        from += size;
    }
    insertion(items, from, length, less);
    while size < length {
        from = 0;
        while from + 2 * size <= length {
            merge(items, from, from + size, from + 2 * size, less);
            from += 2 * size;
        }
        if from + size < length {
            merge(items, from, from + size, length, less);
        }
        size *= 2;
    }
}

fn insertion<T>(items: &mut [T], from: usize, to: usize, less: &dyn Fn(&T, &T) -> bool) {
    for place in from + 1..to {
        let mut place = place;
        while place > from && less(&items[place], &items[place - 1]) {
            items.swap(place, place - 1);
            place -= 1;
        }
    }
}

/// Merges two sorted adjacent ranges in place. Recursion depth is logarithmic.
fn merge<T>(items: &mut [T], from: usize, middle: usize, to: usize, less: &dyn Fn(&T, &T) -> bool) {
    if middle - from == 1 {
        let (mut low, mut high) = (middle, to);
        while low < high {
            let half = usize::midpoint(low, high);
            if less(&items[half], &items[from]) { low = half + 1 } else { high = half }
        }
        for place in from..low - 1 {
            items.swap(place, place + 1);
        }
        return;
    }
    if to - middle == 1 {
        let (mut low, mut high) = (from, middle);
        while low < high {
            let half = usize::midpoint(low, high);
            if less(&items[middle], &items[half]) { high = half } else { low = half + 1 }
        }
        for place in (low + 1..=middle).rev() {
            items.swap(place, place - 1);
        }
        return;
    }
    let half = usize::midpoint(from, to);
    let sum = half + middle;
    let (mut start, mut right) = if middle > half { (sum - to, half) } else { (from, middle) };
    let last = sum - 1;
    while start < right {
        let place = usize::midpoint(start, right);
        if less(&items[last - place], &items[place]) { right = place } else { start = place + 1 }
    }
    let end = sum - start;
    if start < middle && middle < end {
        items[start..end].rotate_left(middle - start);
    }
    if from < start && start < half {
        merge(items, from, start, half, less);
    }
    if half < end && end < to {
        merge(items, half, end, to, less);
    }
}
