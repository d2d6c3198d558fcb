//! What `generated/` holds is what the files of `proto/` say: the compiler of those files is heavy, so that only who
//! changes them builds it.
//!
//! `WRITE_GENERATED=1 cargo test -p akash-provider-chain --test generated` writes the files anew.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use prost::Message;
use prost_build::{Config, Service, ServiceGenerator};

/// Makes the test write what it would compare.
const WRITE: &str = "WRITE_GENERATED";
const DESCRIPTORS: &str = "descriptors.bin";

/// Writes `impl Method for Request` for each method of each service.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, out: &mut String) {
        // Served by providers and what runs beside them, not asked of the chain.
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

/// Compiles `proto/` into a folder.
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
    // Comments are for the generated code alone.
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
fn what_is_generated_is_what_the_protocol_files_say() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    if env::var_os(WRITE).is_some() {
        for name in names(&kept) {
            fs::remove_file(kept.join(name)).unwrap();
        }
        generate(&kept);
        return;
    }
    let fresh = tempfile::tempdir().unwrap();
    generate(fresh.path());
    assert_eq!(names(&kept), names(fresh.path()), "run it with {WRITE}=1");
    for name in names(&kept) {
        let (ours, theirs) = (kept.join(&name), fresh.path().join(&name));
        assert!(
            fs::read(ours).unwrap() == fs::read(theirs).unwrap(),
            "{name} is not what proto/ says: run it with {WRITE}=1"
        );
    }
}
