//! Compiles the wire types in `proto/` without a system protobuf compiler, and writes beside the messages which
//! query each request asks, and the descriptors of all of them.

use prost::Message;
use prost_build::{Config, Service, ServiceGenerator};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Writes `impl Query for Request` for each method of each service.
struct Queries;

impl ServiceGenerator for Queries {
    fn generate(&mut self, service: Service, out: &mut String) {
        // Served by providers and what runs beside them, not asked of the chain.
        let is_of_providers = ["akash.provider.", "akash.inventory."];
        let is_of_providers = is_of_providers
            .iter()
            .any(|start| service.package.starts_with(start));
        if is_of_providers && service.proto_name.ends_with("RPC") {
            return;
        }
        for method in &service.methods {
            let path = format!(
                "/{}.{}/{}",
                service.package, service.proto_name, method.proto_name
            );
            let (request, response) = (&method.input_type, &method.output_type);
            let _ = writeln!(
                out,
                "impl crate::method::Method for {request} {{\n    type Response = {response};\n    \
                 const PATH: &'static str = \"{path}\";\n}}"
            );
        }
    }
}

fn proto_files(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            proto_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    proto_files(&root, &mut files)?;
    files.sort();
    let mut descriptors = protox::compile(&files, [&root])?;
    Config::new()
        .enable_type_names()
        .service_generator(Box::new(Queries))
        .include_file("proto.rs")
        .compile_fds(descriptors.clone())?;
    // Comments are for the generated code alone.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(out, descriptors.encode_to_vec())?;
    Ok(())
}
