//! Compiles the protobuf files with a compiler written in Rust, so that nobody needs `protoc`.

use std::{env, error::Error, path::PathBuf};

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
        .codec_path("crate::rpc::edge::account::Codec")
        .compile_fds(documented.file_descriptor_set())?;
    Ok(())
}
