//! Objects and what belongs to them, as a tree with a table beside it.

use jiff::Timestamp;
use settled_tracker::Branch;

use crate::duration;
use crate::names::{self, Names};
use crate::style::Palette;
use crate::text;

const GAP: &str = "  ";
/// How far a column is filled up with spaces where nothing limits the width.
const PADDING_MAX: usize = 100;

const STATUS_WIDTH: usize = 11;
const AGE_WIDTH: usize = 6;
/// Below so many columns there are no ages.
const AGE_WIDTH_MIN: usize = 48;

/// How trees look.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) palette: Palette,
    /// How many columns there are, if that is limited.
    pub(crate) width: Option<usize>,
    pub(crate) names: &'a Names,
    /// What ages count from.
    pub(crate) now: Timestamp,
}

/// A line of the tree.
struct Line<'a> {
    /// The branch, as it is drawn, and the object or what is said instead.
    lead: String,
    name: String,
    branch: Option<&'a Branch>,
}

impl Tree<'_> {
    /// All of them, each with what belongs to it below.
    pub(crate) fn text(&self, branches: &[Branch]) -> String {
        let mut lines = Vec::new();
        for branch in branches {
            lines.push(Line {
                lead: String::new(),
                name: self.names.name(&branch.object),
                branch: Some(branch),
            });
            self.below(branch, "", &mut lines);
        }
        let object = |line: &Line<'_>| text::width(&line.lead) + text::width(&line.name);
        let limit = match self.width {
            None => PADDING_MAX,
            Some(width) if width < AGE_WIDTH_MIN => width.saturating_sub(GAP.len() + STATUS_WIDTH).max(8),
            Some(width) => width * 3 / 5,
        };
        let columns = lines.iter().map(object).max().unwrap_or_default().min(limit);
        let reasons = lines.iter().filter_map(|line| line.branch);
        let reasons = reasons
            .map(|branch| text::width(&branch.verdict.reason))
            .max()
            .unwrap_or_default()
            .min(PADDING_MAX);
        let mut out = String::new();
        for line in &lines {
            self.line(&mut out, line, columns, reasons);
        }
        out
    }

    fn below<'b>(&self, branch: &'b Branch, indent: &str, lines: &mut Vec<Line<'b>>) {
        let count = branch.children.len() + usize::from(branch.hidden > 0);
        let lead = |at: usize| if at + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        for (at, child) in branch.children.iter().enumerate() {
            let (here, below) = lead(at);
            let link = match child.link {
                "" | "owns" => String::new(),
                link => format!("{link} "),
            };
            lines.push(Line {
                lead: format!("{indent}{here}{link}"),
                name: self.names.name(&child.object),
                branch: Some(child),
            });
            self.below(child, &format!("{indent}{below}"), lines);
        }
        if branch.hidden > 0 {
            let (here, _) = lead(count - 1);
            lines.push(Line {
                lead: format!("{indent}{here}"),
                name: format!("{} more", branch.hidden),
                branch: None,
            });
        }
    }

    /// `├─ Pod/web-5d9  InProgress  95s  ErrImagePull  the message`
    fn line(&self, out: &mut String, line: &Line<'_>, columns: usize, reasons: usize) {
        let Line { lead, name, branch } = line;
        let (name, _) = text::truncate(name, columns.saturating_sub(text::width(lead)).max(8));
        out.push_str(&self.palette.dim(lead));
        let Some(branch) = branch else {
            out.push_str(&self.palette.dim(&name));
            out.push('\n');
            return;
        };
        let used = text::width(lead) + text::width(&name);
        out.push_str(&if lead.is_empty() { self.palette.heading(&name) } else { name });
        let verdict = &branch.verdict;
        let status = format!("{:<STATUS_WIDTH$}", verdict.status.as_str());
        let aged = self.width.is_none_or(|width| width >= AGE_WIDTH_MIN);
        let age = branch.created.filter(|_| aged).map(|then| duration::age(names::since(then, self.now)));
        let age = age.unwrap_or_default();
        let reason = text::clean(&verdict.reason);
        let fill = " ".repeat(columns.saturating_sub(used));
        let head =
            format!("{fill}{GAP}{}{GAP}{age:<AGE_WIDTH$}", self.palette.status(verdict.status, &status));
        let mut width = used.max(columns) + 2 * GAP.len() + STATUS_WIDTH + AGE_WIDTH;
        out.push_str(&head);
        let message = text::clean(&verdict.message);
        let padding = if message.is_empty() { 0 } else { reasons.saturating_sub(text::width(&reason)) };
        let mut rest =
            if reason.is_empty() { String::new() } else { format!("{GAP}{reason}{}", " ".repeat(padding)) };
        if !message.is_empty() {
            rest.push_str(GAP);
            rest.push_str(&message);
        }
        if let Some(limit) = self.width {
            width = limit.saturating_sub(width);
            rest = if width < 4 { String::new() } else { text::truncate(&rest, width).0 };
        }
        out.push_str(&rest);
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use kstatus::Status;

    use super::*;
    use crate::scenes;

    fn branches() -> Vec<Branch> {
        let mut branches = scenes::rollout(1).branches;
        let mut slice = scenes::branch("EndpointSlice", "web-abc", Status::Current, "", "");
        slice.link = "selects";
        let mut service = scenes::branch("Service", "web", Status::Current, "", "");
        service.children = vec![slice];
        branches.push(service);
        branches
    }

    fn tree(width: Option<usize>, palette: Palette) -> String {
        let branches = branches();
        let names = Names::of(branches.iter().map(|branch| &branch.object));
        Tree { palette, width, names: &names, now: scenes::now() }.text(&branches)
    }

    #[test]
    fn what_belongs_to_an_object_is_below_it() {
        assert_snapshot!(tree(None, Palette::NONE), @"
        Deployment/web                    InProgress   2m10s   LessReady     Ready: 1/3
        └─ ReplicaSet/web-7c9f6d5b8d      InProgress   2m10s   LessReady     Ready: 0/2
           ├─ Pod/web-7c9f6d5b8d-tz6lm    InProgress   2m10s   ErrImagePull  container app: ErrImagePull: manifest unknown
           └─ 1 more
        Deployment/search                 InProgress   2m10s   LessReady     Ready: 2/3
        Service/web                       Current      2m10s
        └─ selects EndpointSlice/web-abc  Current      2m10s
        ");
    }

    #[test]
    fn in_a_narrow_window_messages_are_cut() {
        assert_snapshot!(tree(Some(72), Palette::NONE), @"
        Deployment/web                    InProgress   2m10s   LessReady     Re…
        └─ ReplicaSet/web-7c9f6d5b8d      InProgress   2m10s   LessReady     Re…
           ├─ Pod/web-7c9f6d5b8d-tz6lm    InProgress   2m10s   ErrImagePull  co…
           └─ 1 more
        Deployment/search                 InProgress   2m10s   LessReady     Re…
        Service/web                       Current      2m10s
        └─ selects EndpointSlice/web-abc  Current      2m10s
        ");
        assert_snapshot!(tree(Some(30), Palette::NONE), @"
        Deployment/web     InProgress
        └─ ReplicaSet/we…  InProgress
           ├─ Pod/web-7c…  InProgress
           └─ 1 more
        Deployment/search  InProgress
        Service/web        Current
        └─ selects Endpoin…  Current
        ");
    }

    #[test]
    fn colours_add_nothing() {
        assert_eq!(
            anstream::adapter::strip_str(&tree(None, Palette::ALL)).to_string(),
            tree(None, Palette::NONE)
        );
    }
}
