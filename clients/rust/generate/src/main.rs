//! Makes the committed messages of `src/proto` from the protobuf files of this repository, or finds them stale.
//!
//!     cargo run --locked --features make    makes them, with the compilers that Cargo.lock pins
//!     cargo run --locked -- --check         needs no compiler: compares digests of what they were made from

use std::{error::Error, fs, path::PathBuf};

use sha2::{Digest, Sha256};

const FILE: &str = "idempotency/ledger/v1/ledger.proto";
const MADE: &str = "idempotency.ledger.v1.rs";
/// Changed together with Cargo.lock: it is part of what the digests stand for.
const COMPILERS: &str = "protox 0.10, tonic-prost-build 0.14.9";

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (protos, target) = (here.join("../../../proto"), here.join("../src/proto"));
    let digest = |path: PathBuf| -> Result<String, Box<dyn Error>> {
        let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Sha256::digest(read).iter().map(|byte| format!("{byte:02x}")).collect())
    };
    let sums = || -> Result<String, Box<dyn Error>> {
        let (from, made) = (digest(protos.join(FILE))?, digest(target.join(MADE))?);
        Ok(format!("{COMPILERS}\n{from}  proto/{FILE}\n{made}  {MADE}\n"))
    };
    if std::env::args().any(|argument| argument == "--check") {
        if fs::read_to_string(target.join("SUMS"))? != sums()? {
            return Err(
                "the messages are stale, or were changed by hand: run the generator with --features make"
                    .into(),
            );
        }
        println!("the messages of clients/rust are those of proto/");
        return Ok(());
    }
    make(&protos, &target)?;
    fs::write(target.join("SUMS"), sums()?)?;
    Ok(())
}

#[cfg(feature = "make")]
fn make(protos: &std::path::Path, target: &std::path::Path) -> Result<(), Box<dyn Error>> {
    // Without comments, which stand in the protobuf files: the messages are private.
    let mut compiler = protox::Compiler::new([protos])?;
    compiler.include_imports(true).include_source_info(false).open_file(FILE)?;
    tonic_prost_build::configure()
        .bytes(".")
        .build_client(false)
        .build_server(false)
        .out_dir(target)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

#[cfg(not(feature = "make"))]
fn make(_protos: &std::path::Path, _target: &std::path::Path) -> Result<(), Box<dyn Error>> {
    Err("to make the messages, run the generator with --features make; --check needs no feature".into())
}
