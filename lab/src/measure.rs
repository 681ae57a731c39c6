//! Timing: rounds, medians and their format.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Measurement duration.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) at_least: Duration,
}

/// The nanoseconds per object of each round.
#[derive(Clone, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn push(&mut self, nanos_per_object: f64) {
        self.0.push(nanos_per_object);
    }

    /// The median round, which is robust against a disturbed one.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The percentile of the rounds; with fewer than a hundred, the 99th is the worst.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Processes all objects repeatedly for at least the given time; returns nanoseconds per object.
pub(crate) fn round<T, R>(objects: &[T], at_least: Duration, work: impl Fn(&T) -> R) -> f64 {
    let start = Instant::now();
    let mut passes = 0_u32;
    while start.elapsed() < at_least || passes == 0 {
        for object in objects {
            black_box(work(black_box(object)));
        }
        passes += 1;
    }
    nanos_per(start.elapsed(), f64::from(passes) * objects.len() as f64)
}

/// The same on several threads; wall-clock nanoseconds per object of all threads together.
pub(crate) fn round_on<T: Sync, R>(
    threads: usize,
    objects: &[T],
    at_least: Duration,
    work: impl Fn(&T) -> R + Sync,
) -> f64 {
    let start = Instant::now();
    let decodes: f64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = 0.0;
                    while start.elapsed() < at_least {
                        for object in objects {
                            black_box(work(black_box(object)));
                        }
                        done += objects.len() as f64;
                    }
                    done
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0.0)).sum()
    });
    nanos_per(start.elapsed(), decodes)
}

fn nanos_per(elapsed: Duration, objects: f64) -> f64 {
    elapsed.as_nanos() as f64 / objects
}

/// Number of hardware threads.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A number with significant digits for its magnitude, and spaces between thousands.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    };
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    fraction.map_or_else(|| grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

/// A Markdown table, padded for terminals.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Formats as Markdown, one line per row.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        let mut line = |cells: Vec<String>| {
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        };
        for (at, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            line(cells.collect());
            if at == 0 {
                let rules = widths.iter().enumerate().map(|(column, &width)| match column {
                    0 => "-".repeat(width),
                    _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
                });
                line(rules.collect());
            }
        }
        text
    }

    pub(crate) fn print(&self) {
        print!("{}", self.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_make_sense() {
        for (value, expected) in [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (999.4, "999"),
            (1000.0, "1 000"),
            (1234567.0, "1 234 567"),
        ] {
            assert_eq!(figure(value), expected);
        }
    }

    #[test]
    fn the_median_is_the_middle_round() {
        for (rounds, expected) in [(vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 3.0], 2.5)] {
            assert_eq!(Rounds(rounds).median(), expected);
        }
    }
}
