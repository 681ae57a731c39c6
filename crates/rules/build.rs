//! Lists the files of the built-in pack, sorted by group, for `src/builtin.rs` to include.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=rules");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("rules");
    let mut groups = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(group) = name.strip_suffix(".yaml").filter(|group| !group.ends_with(".test")) {
            groups.push(group.to_owned());
        }
    }
    groups.sort_unstable();
    let mut code = String::from("&[\n");
    for group in groups {
        let file = folder.join(format!("{group}.yaml"));
        writeln!(code, "    ({group:?}, include_str!({file:?})),").map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("builtin.rs"), code)
}
