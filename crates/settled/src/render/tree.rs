//! Trees: objects and their dependents, with a table beside them.

use jiff::Timestamp;
use kstatus::Status;
use settled_tracker::report::{Branch, Link};

use crate::duration;
use crate::names::{self, Names};
use crate::style::Palette;
use crate::text::{self, plural};

const GAP: &str = "  ";
/// How far a column is filled up with spaces where nothing limits the width.
const PADDING_MAX: usize = 100;

const HEADINGS: [&str; 4] = ["OBJECT", "STATUS", "AGE", "REASON"];
const STATUS_WIDTH: usize = 11;
/// Below so many columns there are no ages, and reasons stand below.
const AGE_WIDTH_MIN: usize = 60;
/// How many lines a message below its row may take.
const MESSAGE_LINES_MAX: usize = 4;

/// How trees look.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) palette: Palette,
    /// How many columns there are, if that is limited.
    pub(crate) width: Option<usize>,
    pub(crate) names: &'a Names,
    /// Reference time of ages.
    pub(crate) now: Timestamp,
}

/// How wide the columns are.
struct Columns {
    object: usize,
    status: usize,
    /// 0: there are none, nor reasons.
    age: usize,
    reason: usize,
}

/// A line of the tree.
struct Line<'a> {
    /// The branch, as it is drawn: before the object, and before what stands below it.
    lead: String,
    below: String,
    /// The object, or what is left out.
    name: String,
    branch: Option<&'a Branch>,
}

impl Tree<'_> {
    /// All of them, each with what belongs to it below.
    pub(crate) fn text(&self, branches: &[Branch]) -> String {
        let mut lines = Vec::new();
        for branch in branches {
            let below = if branch.children.is_empty() && branch.hidden == 0 { "" } else { "│" };
            lines.push(Line {
                lead: String::new(),
                below: format!("{below:<3}"),
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
        let rows = lines.iter().filter_map(|line| line.branch);
        let widest = |of: &dyn Fn(&Branch) -> usize| rows.clone().map(of).max().unwrap_or_default();
        let columns = Columns {
            object: lines.iter().map(object).max().unwrap_or_default().min(limit).max(HEADINGS[0].len()),
            status: widest(&|branch| branch.verdict.status.as_str().len()).max(HEADINGS[1].len()),
            age: match self.width {
                Some(width) if width < AGE_WIDTH_MIN => 0,
                _ => widest(&|branch| self.age(branch).len()).max(HEADINGS[2].len()),
            },
            reason: widest(&|branch| text::width(&branch.verdict.reason)).min(PADDING_MAX),
        };
        let mut out = String::new();
        self.heading(&mut out, &columns);
        for line in &lines {
            self.line(&mut out, line, &columns);
        }
        out
    }

    fn below<'b>(&self, branch: &'b Branch, indent: &str, lines: &mut Vec<Line<'b>>) {
        let count = branch.children.len() + usize::from(branch.hidden > 0);
        let lead = |place: usize| if place + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        for (place, child) in branch.children.iter().enumerate() {
            let (here, below) = lead(place);
            let link = match child.link {
                None | Some(Link::Owns) => String::new(),
                Some(link) => format!("{link} "),
            };
            let indent_below = format!("{indent}{below}");
            let parent = if child.children.is_empty() && child.hidden == 0 { "" } else { "│" };
            lines.push(Line {
                lead: format!("{indent}{here}{link}"),
                below: format!("{indent_below}{parent:<3}"),
                name: self.names.name(&child.object),
                branch: Some(child),
            });
            self.below(child, &indent_below, lines);
        }
        if branch.hidden > 0 {
            let (here, _) = lead(count - 1);
            lines.push(Line {
                lead: format!("{indent}{here}"),
                below: String::new(),
                name: hidden(branch),
                branch: None,
            });
        }
    }

    fn age(&self, branch: &Branch) -> String {
        let age = branch.created.map(|then| duration::format(names::since(then, self.now)));
        age.unwrap_or_default()
    }

    fn heading(&self, out: &mut String, columns: &Columns) {
        let [object, status, age, reason] = HEADINGS;
        let mut line = format!("{object:<0$}{GAP}{status:<1$}", columns.object, columns.status);
        if columns.age > 0 {
            line.push_str(&format!("{GAP}{age:<0$}{GAP}{reason}", columns.age));
        }
        out.push_str(&self.palette.heading(line.trim_end()));
        out.push('\n');
    }

    /// `├─ Pod/web-5d9  InProgress  95s  ErrImagePull  the message`, and below it the message where it has no room there.
    fn line(&self, out: &mut String, line: &Line<'_>, columns: &Columns) {
        let Line { lead, below, name, branch } = line;
        let room = match branch {
            Some(_) => columns.object,
            None => self.width.unwrap_or(usize::MAX),
        };
        let (name, _) = text::truncate(name, room.saturating_sub(text::width(lead)).max(8));
        out.push_str(&self.palette.dim(lead));
        let Some(branch) = branch else {
            out.push_str(&self.palette.dim(&name));
            out.push('\n');
            return;
        };
        let used = text::width(lead) + text::width(&name);
        out.push_str(&if lead.is_empty() { self.palette.heading(&name) } else { name });
        let verdict = &branch.verdict;
        let fill = " ".repeat(columns.object.saturating_sub(used));
        let status = format!("{:<1$}", verdict.status.as_str(), columns.status);
        out.push_str(&format!("{fill}{GAP}{}", self.palette.status(verdict.status, &status)));
        let mut used = used.max(columns.object) + GAP.len() + columns.status;
        let reason = text::clean(&verdict.reason);
        if columns.age > 0 {
            out.push_str(&format!("{GAP}{:<1$}{GAP}", self.age(branch), columns.age));
            used += 2 * GAP.len() + columns.age;
        }
        let message = text::clean(&branch.summary);
        let beside = columns.reason + GAP.len() + text::width(&message);
        let mut rest = Vec::new();
        match self.width {
            None => out.push_str(&joined(&reason, &message, columns.reason)),
            Some(width) if used + beside <= width && columns.age > 0 => {
                out.push_str(&joined(&reason, &message, columns.reason));
            }
            Some(width) => {
                let fits = columns.age > 0 && used + text::width(&reason) <= width;
                if fits {
                    out.push_str(&reason);
                }
                // There is nothing to do about what is Current.
                if verdict.status != Status::Current {
                    let text = if fits { message } else { joined(&reason, &message, 0) };
                    let room = width.saturating_sub(text::width(below) + GAP.len()).max(16);
                    (rest, _) = text::wrap(&text, room, MESSAGE_LINES_MAX);
                }
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        for row in rest {
            out.push_str(&format!("{}{GAP}{row}\n", self.palette.dim(below)));
        }
    }
}

/// Reason and message side by side.
fn joined(reason: &str, message: &str, reason_width: usize) -> String {
    let fill = " ".repeat(reason_width.saturating_sub(text::width(reason)));
    match (reason.is_empty(), message.is_empty()) {
        (_, true) => reason.to_owned(),
        (true, false) if reason_width == 0 => message.to_owned(),
        _ => format!("{reason}{fill}{GAP}{message}"),
    }
}

/// `1 ReplicaSet, 3 Pods not shown (--full)`
fn hidden(branch: &Branch) -> String {
    let kinds = branch.hidden_kinds.iter();
    let kinds: Vec<String> = kinds.map(|(kind, count)| plural(*count as u64, &text::clean(kind))).collect();
    let what = if kinds.is_empty() { format!("{} more", branch.hidden) } else { kinds.join(", ") };
    format!("{what} not shown (--full)")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::scenes;

    fn branches() -> Vec<Branch> {
        let mut branches = scenes::rollout(1).branches;
        let mut slice = scenes::branch("EndpointSlice", "web-abc", Status::Current, "", "");
        slice.link = Some(Link::RoutesTo);
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
        assert_snapshot!(tree(None, Palette::NONE), @r#"
        OBJECT                              STATUS      AGE    REASON
        Deployment/web                      InProgress  2m10s  LessReady     Ready: 1/3
        └─ ReplicaSet/web-7c9f6d5b8d        InProgress  2m10s  LessReady     Ready: 0/2
           ├─ Pod/web-7c9f6d5b8d-tz6lm      InProgress  2m10s  ErrImagePull  cannot pull "web:1.9.0": manifest unknown
           └─ 1 more not shown (--full)
        Deployment/search                   InProgress  2m10s  LessReady     Ready: 2/3
        Service/web                         Current     2m10s
        └─ routes to EndpointSlice/web-abc  Current     2m10s
        "#);
    }

    #[test]
    fn in_a_narrow_window_messages_are_cut() {
        assert_snapshot!(tree(Some(72), Palette::NONE), @r#"
        OBJECT                              STATUS      AGE    REASON
        Deployment/web                      InProgress  2m10s  LessReady
        │    Ready: 1/3
        └─ ReplicaSet/web-7c9f6d5b8d        InProgress  2m10s  LessReady
           │    Ready: 0/2
           ├─ Pod/web-7c9f6d5b8d-tz6lm      InProgress  2m10s  ErrImagePull
           │       cannot pull "web:1.9.0": manifest unknown
           └─ 1 more not shown (--full)
        Deployment/search                   InProgress  2m10s  LessReady
             Ready: 2/3
        Service/web                         Current     2m10s
        └─ routes to EndpointSlice/web-abc  Current     2m10s
        "#);
        assert_snapshot!(tree(Some(30), Palette::NONE), @r#"
        OBJECT             STATUS
        Deployment/web     InProgress
        │    LessReady  Ready: 1/3
        └─ ReplicaSet/we…  InProgress
           │    LessReady  Ready: 0/2
           ├─ Pod/web-7c…  InProgress
           │       ErrImagePull
           │       cannot pull
           │       "web:1.9.0":
           │       manifest unknown
           └─ 1 more not shown (--ful…
        Deployment/search  InProgress
             LessReady  Ready: 2/3
        Service/web        Current
        └─ routes to Endpoin…  Current
        "#);
    }

    #[test]
    fn colours_add_nothing() {
        assert_eq!(
            anstream::adapter::strip_str(&tree(None, Palette::ALL)).to_string(),
            tree(None, Palette::NONE)
        );
    }
}
