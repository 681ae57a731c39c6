fn main() {
    let a: Vec<String> = std::env::args().collect();
    let w = settled_conformance::walk(a[1].parse().unwrap(), 20000).unwrap();
    let c = &w.cases[a[2].parse::<usize>().unwrap()];
    for (i, s) in c.steps.iter().enumerate() {
        let t = format!("{s:?}");
        if t.contains(&a[3]) { println!("{i} {t}\n"); }
    }
}
