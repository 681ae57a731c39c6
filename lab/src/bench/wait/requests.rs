//! Requests of each tool.

use std::collections::BTreeMap;
use std::fs;

use super::bench::{Bar, Bench, Setting};
use super::objects::done;
use crate::Outcome;
use crate::bench::proxy::{Count, Proxy, Verb};
use crate::bench::waiters::{Tool, Waited};
use crate::cluster::kubeconfig_text;
use crate::measure::{Table, figure};

impl Bench {
    /// Requests of each tool, counted by a proxy.
    pub(super) fn requests(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let proxy = Proxy::start(&self.runtime, &self.server.url, &self.server.ca, &self.place.directory)?;
        let straight = fs::read_to_string(&self.place.kubeconfig)?;
        self.page.line("### What is asked of the server");
        self.page.line(&format!(
            "From the start, through {} quiet seconds with all in progress, until all are done; bytes are those of bodies, as sent; a watch \
             with list begins with all objects.",
            plan.quiet.as_secs()
        ));
        let mut table = Table::new([
            "objects",
            "tool",
            "discovery",
            "get",
            "write",
            "list",
            "watch with list",
            "watch",
            "lists after the first sync",
            "KB to it",
            "KB of lists",
            "KB of watches",
        ]);
        let mut bars = Vec::new();
        for (kind, count) in [(Waited::Pods, plan.counted.0), (Waited::Deployments, plan.counted.1)] {
            for tool in self.tools.clone() {
                if !tool.knows(kind) {
                    continue;
                }
                fs::write(&self.place.kubeconfig, kubeconfig_text(&proxy.url, &proxy.ca, "default"))?;
                proxy.reset();
                let setting = Setting { kind, count, ..Setting::default() };
                let counted = self.start(tool, &setting).and_then(|mut started| {
                    started.still_waits(tool, plan.quiet)?;
                    let before = proxy.counts();
                    self.write(&started.path, &started.names, &done(kind))?;
                    started.ends(tool, 0)?;
                    Ok((before, proxy.counts()))
                });
                fs::write(&self.place.kubeconfig, &straight)?;
                let (before, after) = counted?;
                let of = |counts: &BTreeMap<Verb, Count>, verbs: &[Verb]| {
                    verbs.iter().filter_map(|verb| counts.get(verb)).fold(Count::default(), |sum, one| {
                        Count {
                            requests: sum.requests + one.requests,
                            sent: sum.sent + one.sent,
                            received: sum.received + one.received,
                        }
                    })
                };
                let all: Vec<Verb> = after.keys().copied().collect();
                // A watch with initial events counts as a list.
                let lists = [Verb::List, Verb::WatchList];
                let later = of(&after, &lists).requests - of(&before, &lists).requests;
                let kilobytes = |count: u64| figure(count as f64 / 1e3);
                let requests = |verbs: &[Verb]| of(&after, verbs).requests.to_string();
                table.row([
                    format!("{count} {}", kind.resource()),
                    tool.name().to_owned(),
                    requests(&[Verb::Discovery]),
                    requests(&[Verb::Get]),
                    requests(&[Verb::Write]),
                    requests(&[Verb::List]),
                    requests(&[Verb::WatchList]),
                    requests(&[Verb::Watch]),
                    later.to_string(),
                    kilobytes(of(&after, &all).received),
                    kilobytes(of(&after, &[Verb::List]).received),
                    kilobytes(of(&after, &[Verb::Watch, Verb::WatchList]).received),
                ]);
                if tool == Tool::Settled {
                    bars.push(Bar {
                        what: format!("{count} {}: lists after the first sync", kind.resource()),
                        wanted: "0".to_owned(),
                        is: later.to_string(),
                        met: later == 0,
                        always: true,
                    });
                }
            }
        }
        self.page.table(&table);
        Ok(bars)
    }
}
