//! Compares `generated/` with the code for the files in `proto/`. The compiler of these files is slow to build, so
//! only this test depends on it.
//!
//! `WRITE_GENERATED=1 cargo test -p akash-provider-chain --test generated` regenerates the files.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use prost::Message;
use prost_build::{Config, Service, ServiceGenerator};

/// Environment variable that makes the test write the files.
const WRITE: &str = "WRITE_GENERATED";
const DESCRIPTORS: &str = "descriptors.bin";

/// Generator of `impl Method for Request` for each method of each service.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, out: &mut String) {
        // Providers and their operators implement these services, not the chain.
        let is_of_providers = ["akash.provider.", "akash.inventory."]
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

fn proto_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            proto_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
    Ok(())
}

/// Compiles the files in `proto/` and writes the generated code into the folder `into`.
fn generate(into: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut files = Vec::new();
    proto_files(&root, &mut files).unwrap();
    files.sort();
    let mut descriptors = protox::compile(&files, [&root]).unwrap();
    Config::new()
        .enable_type_names()
        .service_generator(Box::new(Methods))
        .out_dir(into)
        .include_file("proto.rs")
        .compile_fds(descriptors.clone())
        .unwrap();
    // The generated code contains the comments. The descriptors do not need them.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(into.join(DESCRIPTORS), descriptors.encode_to_vec()).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn generated_code_matches_the_proto_files() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    if env::var_os(WRITE).is_some() {
        for name in names(&committed) {
            fs::remove_file(committed.join(name)).unwrap();
        }
        generate(&committed);
        return;
    }
    let fresh = tempfile::tempdir().unwrap();
    generate(fresh.path());
    assert_eq!(names(&committed), names(fresh.path()), "run with {WRITE}=1");
    for name in names(&committed) {
        let (old, new) = (committed.join(&name), fresh.path().join(&name));
        assert!(
            fs::read(old).unwrap() == fs::read(new).unwrap(),
            "{name} differs from the code for proto/: run with {WRITE}=1"
        );
    }
}
