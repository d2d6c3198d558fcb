//! Sets the commit that the command `version` prints: the value of `AP_BUILD_COMMIT`, or else the commit of
//! the checkout.
//!
//! Only release builds read the commit of the checkout, and therefore compile this package again after every
//! commit. Other builds report `unknown`, so that development builds stay fast.

#[path = "build/commit.rs"]
mod commit;

use std::path::Path;

const VARIABLE: &str = "AP_BUILD_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/commit.rs");
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let given = std::env::var(VARIABLE).ok().filter(|given| !given.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(of_checkout).flatten());
    println!(
        "cargo:rustc-env={VARIABLE}={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

fn of_checkout() -> Option<String> {
    let package = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let found = commit::of(Path::new(&package).parent()?.parent()?)?;
    for file in &found.files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    Some(found.commit)
}
