//! Third-party clients for tests, installed once into the user's cache in pinned versions. If a function here
//! fails, its test is skipped with the error as the reason.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::binaries::cache_of;
use crate::command::Run;
use crate::error::{Error, Result};

/// Maximum duration of an installation from a package registry.
const LIMIT: Duration = Duration::from_mins(5);

/// Returns the folder with the TypeScript SDK, a websocket client, and their scripts.
///
/// # Errors
/// Fails if Node or npm is missing, or the packages cannot be downloaded.
pub fn node() -> Result<PathBuf> {
    needs("node", "--version")?;
    needs("npm", "--version")?;
    install(
        "interop",
        &["package.json", "package-lock.json", "chain.mjs", "gateway.mjs"],
        |folder| {
            Run::new("npm")
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .dir(folder)
                .limit(LIMIT)
                .done()
        },
    )
}

/// Returns `grpcurl`, a Go program.
///
/// # Errors
/// Fails if Go is missing, or the module cannot be downloaded.
pub fn grpcurl() -> Result<PathBuf> {
    needs("go", "version")?;
    let folder = install("grpcurl", &["go.mod", "go.sum"], |folder| {
        let package = "github.com/fullstorydev/grpcurl/cmd/grpcurl";
        Run::new("go")
            .args([
                "build",
                "-trimpath",
                "-ldflags",
                "-s -w",
                "-o",
                "grpcurl",
                package,
            ])
            .env("CGO_ENABLED", "0")
            .dir(folder)
            .limit(2 * LIMIT)
            .done()
    })?;
    Ok(folder.join("grpcurl"))
}

/// Returns the OpenAPI fuzzer `schemathesis`, in its own Python environment.
///
/// # Errors
/// Fails if Python or its module `venv` is missing, or the packages cannot be downloaded.
pub fn schemathesis() -> Result<PathBuf> {
    needs("python3", "--version")?;
    let folder = install("schemathesis", &["requirements.txt"], |folder| {
        Run::new("python3")
            .args(["-m", "venv", "environment"])
            .dir(folder)
            .limit(LIMIT)
            .done()?;
        Run::new(folder.join("environment/bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
            ])
            .args(["--disable-pip-version-check", "-r", "requirements.txt"])
            .dir(folder)
            .limit(2 * LIMIT)
            .done()
    })?;
    Ok(folder.join("environment/bin/schemathesis"))
}

fn needs(program: &str, version: &str) -> Result<()> {
    Run::new(program).args([version]).done()
}

/// Returns a cache directory with these files of `testbed/{name}` and the output of `make`. The directory
/// name is the hash of the files.
fn install(name: &str, files: &[&str], make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let mut digest = Sha256::new();
    for file in files {
        let path = source.join(file);
        digest.update(std::fs::read(&path).map_err(|error| Error::at(&path, error))?);
    }
    let key: String = digest
        .finalize()
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect();
    let folder = cache_of(name)?.join(key);
    std::fs::create_dir_all(&folder).map_err(|error| Error::at(&folder, error))?;
    // A second process waits and finds the folder complete. The kernel releases the lock if its holder dies.
    let path = folder.join("lock");
    let lock = File::create(&path).map_err(|error| Error::at(&path, error))?;
    lock.lock().map_err(|error| Error::at(&path, error))?;
    let done = folder.join("done");
    if done.exists() {
        return Ok(folder);
    }
    for file in files {
        let to = folder.join(file);
        std::fs::copy(source.join(file), &to).map_err(|error| Error::at(&to, error))?;
    }
    make(&folder)?;
    File::create(&done).map_err(|error| Error::at(&done, error))?;
    Ok(folder)
}
