//! The recorded answers of the real kube-apiserver, beside ours over a socket.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use settled_apiserver::auth::Tokens;
use settled_apiserver::{Config, Controllers, Server};
use settled_conformance::{
    Client, Differences, RECORDED_WALK, Runner, compare_case, load, load_recordings, token_file, walk,
};

/// Each file of cases is asked for by a thread of its own, from a server of its own.
const THREADS: usize = 4;

#[test]
fn answers_are_those_of_kube_apiserver() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/apiserver");
    let mut files = load(&directory.join("cases")).unwrap();
    let (seed, operations) = RECORDED_WALK;
    files.push(walk(seed, operations).unwrap());
    let recordings = load_recordings(&directory.join("recorded")).unwrap();
    let table = std::fs::read_to_string(directory.join("differences.yaml")).unwrap();
    let known = Differences::parse(&table).unwrap();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut found = (0, String::new(), BTreeSet::new());
        while let Some(file) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.unwrap();
            let (_server, client) = runtime.block_on(serve());
            let runner = Runner::new(&client);
            runner.setup(file).unwrap();
            let recorded = &recordings[&file.name];
            for case in &file.cases {
                let theirs = recorded.cases.get(&case.name).map_or(&[][..], Vec::as_slice);
                let ours = runner.run(file, case);
                for compared in compare_case(&known, &file.name, &case.name, theirs, &ours) {
                    found.0 += 1;
                    found.2.extend(compared.rows);
                    for difference in compared.unexplained {
                        let at = format!("{}/{}, step {}", file.name, case.name, compared.step);
                        writeln!(found.1, "{at}: {difference}").unwrap();
                    }
                }
            }
        }
        found
    };
    let found: Vec<(usize, String, BTreeSet<usize>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let answers: usize = found.iter().map(|(answers, ..)| answers).sum();
    let differences: String = found.iter().map(|(_, differences, _)| differences.as_str()).collect();
    let used: BTreeSet<usize> = found.into_iter().flat_map(|(.., rows)| rows).collect();
    assert!(differences.is_empty(), "{differences}");
    let unused: Vec<_> = (0..known.rows.len()).filter(|row| !used.contains(row)).collect();
    let unused: Vec<_> = unused.into_iter().map(|row| &known.rows[row]).collect();
    assert!(unused.is_empty(), "what no longer differs must not be allowed to: {unused:#?}");
    assert!(answers > 4_000, "only {answers} answers were compared");
}

/// As the real one was recorded: without controllers, each identity with its token.
async fn serve() -> (Server, Client) {
    let mut config = Config::default();
    config.tokens = Tokens::parse(&token_file()).unwrap();
    config.controllers = Controllers::none();
    let server = Server::start(config).await.unwrap();
    let address = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = Client::with_pem(&format!("https://{address}"), server.ca_pem().as_bytes()).unwrap();
    (server, client)
}
