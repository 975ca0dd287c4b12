//! Takes the examples out of the package's README, as they stand there, for the programs `example` and `inbox_example`.

use std::{env, error::Error, fs, path::PathBuf};

/// What a right consumer may take, its shutdown included.
const EXAMPLES: [(&str, usize); 2] = [("first", 20), ("inbox", 28)];
const README: &str = "../../../../clients/rust/README.md";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={README}");
    let text = fs::read_to_string(README)?;
    for (name, lines) in EXAMPLES {
        let begin = format!("<!-- run: {name} example -->\n```rust\n");
        let (_, after) = text.split_once(&begin).ok_or(format!("the README has no {name} example"))?;
        let (example, _) = after.split_once("```").ok_or(format!("the {name} example has no end"))?;
        let body = example.lines().filter(|line| !line.trim().is_empty()).count();
        if body > lines {
            return Err(format!("the {name} example has {body} lines; at most {lines} are right").into());
        }
        fs::write(PathBuf::from(env::var("OUT_DIR")?).join(format!("{name}_example.rs")), example)?;
    }
    Ok(())
}
