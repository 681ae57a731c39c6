//! Container logs during a wait.

use settled_tracker::report::LogLines;

use crate::style::Palette;
use crate::text::{self, plural};

/// How many rows a line may take.
const ROWS_MAX: usize = 3;

/// `web-5d9-x7w4n/app | panic: no database`, rows of at most `width` columns where that is limited.
pub(super) fn rows(log: &LogLines, width: Option<usize>, palette: Palette) -> Vec<String> {
    let prefix = format!("{}/{} | ", text::clean(&log.pod.name), text::clean(&log.container));
    let columns = width.unwrap_or(usize::MAX);
    let mut rows = Vec::with_capacity(log.lines.len());
    for line in &log.lines {
        let line = format!("{prefix}{}", text::clean_log(line));
        let (lines, _) = text::wrap(&line, columns, ROWS_MAX);
        for (place, row) in lines.iter().enumerate() {
            rows.push(match row.strip_prefix(prefix.trim_end()).filter(|_| place == 0) {
                Some(rest) => format!("{}{rest}", palette.dim(prefix.trim_end())),
                None => row.clone(),
            });
        }
    }
    if log.left_out > 0 {
        let left_out = format!("… {} left out", plural(log.left_out, "line"));
        rows.push(palette.dim(&format!("{prefix}{left_out}")));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes;

    #[test]
    fn lines_name_their_container_and_drive_no_terminal() {
        let log = LogLines {
            pod: scenes::id("Pod", "web-1"),
            container: "app".to_owned(),
            lines: vec![
                "\u{1b}[31mpanic:\u{1b}[0m no database".to_owned(),
                String::new(),
                "\u{1b}[2J".to_owned(),
            ],
            left_out: 12,
        };
        assert_eq!(
            rows(&log, None, Palette::NONE),
            [
                "web-1/app | panic: no database",
                "web-1/app |",
                r"web-1/app | \u{1b}[2J",
                "web-1/app | … 12 lines left out"
            ]
        );
        assert_eq!(rows(&log, Some(22), Palette::NONE)[..2], ["web-1/app | panic: no", "database"]);
    }
}
