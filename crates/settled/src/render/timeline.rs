//! Timeline: Events in chronological order.

use jiff::Timestamp;
use settled_tracker::report::EventNote;

use crate::duration;
use crate::names::{self, Names};
use crate::style::Palette;
use crate::text;

/// How events look.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<'a> {
    pub(crate) palette: Palette,
    /// How many columns there are, if that is limited.
    pub(crate) width: Option<usize>,
    pub(crate) names: &'a Names,
    /// Reference time of ages.
    pub(crate) now: Timestamp,
}

impl Timeline<'_> {
    /// A line per event, the oldest first: `12s ago  Warning  Pod/web-5d9  BackOff  the message (4 times in 2m)`.
    pub(crate) fn text(&self, events: &[EventNote]) -> String {
        let name = |event: &EventNote| self.names.name(&event.object);
        let objects = events.iter().map(|event| text::width(&name(event))).max().unwrap_or_default();
        let objects = objects.min(self.width.map_or(usize::MAX, |width| width * 2 / 5)).min(100);
        let reasons = events.iter().map(|event| text::width(&event.reason)).max().unwrap_or_default().min(30);
        let mut out = String::new();
        for event in events {
            let age = match event.last.or(event.first) {
                Some(then) => format!("{} ago", duration::format(names::since(then, self.now))),
                None => String::new(),
            };
            let kind = format!("{:<7}", text::clean(&event.type_));
            let kind =
                if event.type_ == "Normal" { self.palette.dim(&kind) } else { self.palette.warning(&kind) };
            let (object, _) = text::truncate(&name(event), objects.max(8));
            let reason = text::clean(&event.reason);
            let head = format!(
                "{age:>9}  {kind}  {object}{}  {reason}{}",
                " ".repeat(objects.saturating_sub(text::width(&object))),
                " ".repeat(reasons.saturating_sub(text::width(&reason))),
            );
            let mut message = text::clean(&event.message);
            if let Some(times) = times(event) {
                message.push_str(&times);
            }
            let used =
                9 + 2 + 7 + 2 + objects.max(text::width(&object)) + 2 + reasons.max(text::width(&reason)) + 2;
            self.line(&mut out, &head, used, &message);
        }
        out
    }

    /// The message behind the rest if there is room for it, otherwise below.
    fn line(&self, out: &mut String, head: &str, used: usize, message: &str) {
        const BELOW: usize = 11;
        let Some(width) = self.width else {
            out.push_str(format!("{head}  {message}").trim_end());
            out.push('\n');
            return;
        };
        let beside = width.saturating_sub(used);
        let (indent, columns) =
            if beside >= 32 { (used, beside) } else { (BELOW, width.saturating_sub(BELOW)) };
        let (lines, _) = text::wrap(message, columns.max(16), 4);
        out.push_str(head.trim_end());
        for (at, line) in lines.iter().enumerate() {
            if at == 0 && indent == used {
                out.push_str(&" ".repeat(used.saturating_sub(printed_width(head.trim_end()))));
            } else {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
            }
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn printed_width(text: &str) -> usize {
    text::width(&anstream::adapter::strip_str(text).to_string())
}

/// ` (4 times in 2m)`
fn times(event: &EventNote) -> Option<String> {
    let count = event.count;
    if count < 2 {
        return None;
    }
    let during = match (event.first, event.last) {
        (Some(first), Some(last)) if last > first => {
            format!(" in {}", duration::format(names::since(first, last)))
        }
        _ => String::new(),
    };
    Some(format!(" ({count} times{during})"))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::scenes;

    fn timeline(width: Option<usize>) -> String {
        let mut events = scenes::image_failure().causes.remove(0).events;
        events[0].type_ = "Normal".to_owned();
        let names = Names::of(events.iter().map(|event| &event.object));
        Timeline { palette: Palette::NONE, width, names: &names, now: scenes::now() }.text(&events)
    }

    #[test]
    fn events_are_a_line_each() {
        assert_snapshot!(timeline(None), @r#"
        2m5s ago  Normal   ReplicaSet/web-7c9f6d5b8d  SuccessfulCreate  Created pod: web-7c9f6d5b8d-tz6lm
         12s ago  Warning  Pod/web-7c9f6d5b8d-tz6lm   Failed            Failed to pull image "registry.example.com/shop/web:1.9.0": manifest unknown (4 times in 1m)
        "#);
    }

    #[test]
    fn or_more_where_it_is_narrow() {
        assert_snapshot!(timeline(Some(120)), @r#"
        2m5s ago  Normal   ReplicaSet/web-7c9f6d5b8d  SuccessfulCreate  Created pod: web-7c9f6d5b8d-tz6lm
         12s ago  Warning  Pod/web-7c9f6d5b8d-tz6lm   Failed            Failed to pull image
                                                                        "registry.example.com/shop/web:1.9.0": manifest unknown
                                                                        (4 times in 1m)
        "#);
        assert_snapshot!(timeline(Some(60)), @r#"
        2m5s ago  Normal   ReplicaSet/web-7c9f6d5b…  SuccessfulCreate
                  Created pod: web-7c9f6d5b8d-tz6lm
         12s ago  Warning  Pod/web-7c9f6d5b8d-tz6lm  Failed
                  Failed to pull image
                  "registry.example.com/shop/web:1.9.0": manifest
                  unknown (4 times in 1m)
        "#);
    }
}
