//! Compiles the protobuf files with a compiler written in Rust, so that nobody needs `protoc`.

use std::{env, error::Error, fs, path::PathBuf, process::Command};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=migrations");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(false);
    compiler.open_files(["idempotency/ledger/v1/ledger.proto", "idempotency/ledger/v1/admin.proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    std::fs::write(out.join("ledger_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    // The descriptor with comments feeds the generated code; the one without them is what the
    // server's reflection hands out.
    let mut documented = protox::Compiler::new(["proto"])?;
    documented.include_imports(true).include_source_info(true);
    documented.open_files(["idempotency/ledger/v1/ledger.proto", "idempotency/ledger/v1/admin.proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::accounts::Codec")
        .compile_fds(documented.file_descriptor_set())?;
    // Without the prefix of settings: cargo hands it to the programs that it runs, which would warn of it.
    println!("cargo:rustc-env=LEDGER_COMMIT={}", commit().unwrap_or_else(|| "unknown".to_owned()));
    Ok(())
}

/// The commit that is built: the one that is named, else that of the packaged crate, else that of the checkout. A build of
/// tests asks for none: it would begin again with every commit.
fn commit() -> Option<String> {
    println!("cargo:rerun-if-env-changed=LEDGER_BUILD_COMMIT");
    if let Ok(named) = env::var("LEDGER_BUILD_COMMIT") {
        return Some(named);
    }
    if env::var("PROFILE").ok()? != "release" {
        return None;
    }
    if let Ok(packaged) = fs::read_to_string(".cargo_vcs_info.json") {
        let (_, after) = packaged.split_once("\"sha1\": \"")?;
        return after.split_once('"').map(|(sha1, _)| sha1.to_owned());
    }
    // Both change with a commit: the branch's own file has no fixed name.
    for file in [".git/HEAD", ".git/logs/HEAD"] {
        if fs::exists(file).unwrap_or(false) {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    let asked = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    asked.status.success().then(|| String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}
