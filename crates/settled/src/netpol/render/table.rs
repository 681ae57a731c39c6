//! Tables of `netpol check`: a line per policy and provider, and one for each finding.

use anstyle::{AnsiColor, Style};

use super::super::row::{FindingRow, PolicyRow, Report, State};
use crate::render::columns::Columns;
use crate::style::{self, Palette};

/// The table; `wide` adds the rule, the place in the file and the evidence.
pub(in crate::netpol) fn table(
    report: &Report,
    is_wide: bool,
    width: Option<usize>,
    palette: Palette,
) -> String {
    let mut rows: Vec<&PolicyRow> = report.policies.iter().collect();
    rows.sort_by(|a, b| {
        let key = |row: &PolicyRow| (row.status, row.namespace.clone(), row.kind, row.name.clone());
        key(a).cmp(&key(b))
    });
    // Of a migration, each row is about both.
    let first = report.policies.first().map(|row| &row.provider);
    let several = report.policies.iter().any(|row| Some(&row.provider) != first);
    let mut headings = vec!["STATUS", "POLICY"];
    headings.extend(several.then_some("PROVIDER"));
    headings.push("FIELD");
    headings.push("ALLOWS");
    if is_wide {
        headings.extend(["RULE", "SOURCE", "EVIDENCE"]);
    }
    headings.push("MESSAGE");
    let mut table = Columns::new(headings);
    for row in rows {
        let policy = row.policy();
        let mut first = true;
        let mut line = |finding: Option<&FindingRow>| {
            let is_first = std::mem::take(&mut first);
            let head = |text: &str| if is_first { text.to_owned() } else { String::new() };
            let plain = |text: String| (text, Style::new());
            let mut cells = vec![(head(row.status.as_str()), color(row.status)), plain(head(&policy))];
            if several {
                cells.push(plain(head(&row.provider)));
            }
            cells.push(plain(finding.map_or(String::new(), |finding| finding.path.to_string())));
            cells.push(plain(finding.and_then(|finding| finding.allows).unwrap_or_default().to_owned()));
            if is_wide {
                cells.push(plain(finding.map_or(String::new(), |finding| finding.rule.to_owned())));
                let spot = finding.and_then(|finding| finding.spot).or(row.spot);
                cells.push(plain(row.place(spot)));
                let evidence = finding.and_then(|finding| finding.evidence.as_deref());
                cells.push(plain(evidence.unwrap_or_default().to_owned()));
            }
            cells.push(plain(match finding {
                Some(finding) => finding.message.to_string(),
                None if row.status == State::Accepted => String::new(),
                None => row.message.to_string(),
            }));
            table.styled(cells);
        };
        if row.findings.is_empty() {
            line(None);
        }
        for finding in &row.findings {
            line(Some(finding));
        }
    }
    table.without_empty().text(width, palette)
}

/// The color of a state.
pub(in crate::netpol) fn color(state: State) -> Style {
    match state {
        State::Invalid | State::Failure => AnsiColor::Red.on_default().bold(),
        State::PartialFailure | State::Changed => style::WARNING,
        State::Unknown => AnsiColor::Magenta.on_default(),
        State::Unchanged => Style::new(),
        State::Accepted => AnsiColor::Green.on_default(),
    }
}
