//! Takes the first example out of the package's README, as it stands there, for the program `example`.

use std::{env, error::Error, fs, path::PathBuf};

/// What a right consumer may take, its shutdown included.
const LINES: usize = 20;
const README: &str = "../../../../clients/rust/README.md";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={README}");
    let text = fs::read_to_string(README)?;
    let (_, after) =
        text.split_once("<!-- run: first example -->\n```rust\n").ok_or("the README has no first example")?;
    let (example, _) = after.split_once("```").ok_or("the first example has no end")?;
    let body = example.lines().filter(|line| !line.trim().is_empty()).count();
    if body > LINES {
        return Err(format!("the first example has {body} lines; at most {LINES} are right").into());
    }
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("first_example.rs"), example)?;
    Ok(())
}
