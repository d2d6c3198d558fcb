//! Kubernetes programs, built once from Go modules and shared by all checkouts on the machine.
//!
//! The cache folder is named after the contents of `testbed/**/go.mod` and `go.sum`, so a changed version
//! uses a new folder. A program is moved into the folder when it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::command::Run;
use crate::error::{Error, Result};
use crate::tier::Tier;

/// Environment variable with the cache folder.
const VARIABLE: &str = "AKASH_TESTBED";
/// Time limit of a build. The API server takes four minutes on two cores, and three builds may run
/// concurrently.
const LIMIT: Duration = Duration::from_mins(30);
/// Kubernetes version in go.mod. The build links this version into the programs.
const KUBERNETES: &str = "v1.34.4";

/// Go program: its package, and the module with its version.
struct GoProgram {
    name: &'static str,
    module: &'static str,
    package: &'static str,
}

/// Modules of the Kubernetes programs. Their versions determine the name of the folder.
const KUBERNETES_MODULES: [&str; 3] = [".", "kwok", "coredns"];

const PROGRAMS: [GoProgram; 9] = [
    program("etcd", ".", "go.etcd.io/etcd/server/v3"),
    program("kubectl", ".", "k8s.io/kubernetes/cmd/kubectl"),
    program("kube-apiserver", ".", "k8s.io/kubernetes/cmd/kube-apiserver"),
    program(
        "kube-controller-manager",
        ".",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    program("kube-scheduler", ".", "k8s.io/kubernetes/cmd/kube-scheduler"),
    program("kubelet", ".", "k8s.io/kubernetes/cmd/kubelet"),
    program("kube-proxy", ".", "k8s.io/kubernetes/cmd/kube-proxy"),
    program("coredns", "coredns", "github.com/coredns/coredns"),
    program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
];

/// Helm, in a folder of its own: a changed version of Helm does not rebuild Kubernetes.
const HELM: GoProgram = program("helm", "helm", "helm.sh/helm/v3/cmd/helm");
/// Pebble, in a folder of its own.
const PEBBLE: GoProgram = program("pebble", "pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble");

const fn program(name: &'static str, module: &'static str, package: &'static str) -> GoProgram {
    GoProgram {
        name,
        module,
        package,
    }
}

fn of(tier: Tier) -> impl Iterator<Item = &'static GoProgram> {
    PROGRAMS.iter().filter(move |program| match program.name {
        "etcd" | "kubectl" | "kube-apiserver" | "kube-controller-manager" => true,
        "kube-scheduler" => tier != Tier::Api,
        "kwok" => tier == Tier::Scale,
        _ => tier == Tier::Node,
    })
}

/// Builds the missing programs of the tiers and returns their folder.
///
/// # Errors
/// Fails if Go is not installed, a module cannot be downloaded, or the cache folder cannot be written.
pub fn build(tiers: &[Tier]) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cache = cache_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    let folder = cache.join(key(sources, &KUBERNETES_MODULES)?);
    if tiers.contains(&Tier::Api) {
        helm()?;
    }
    build_missing(tiers.iter().copied().flat_map(of).collect(), sources, folder)
}

/// Builds Helm if it is missing, and returns the path of the program.
///
/// # Errors
/// Fails if Go is not installed, a module cannot be downloaded, or the cache folder cannot be written.
pub fn helm() -> Result<PathBuf> {
    build_one(&HELM)
}

/// Builds Pebble if it is missing, and returns the path of the program.
pub(crate) fn pebble() -> Result<PathBuf> {
    build_one(&PEBBLE)
}

fn build_one(program: &GoProgram) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cache = cache_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    let folder = cache.join(key(sources, &[program.module])?);
    Ok(build_missing(vec![program], sources, folder)?.join(program.name))
}

fn build_missing(mut wanted: Vec<&GoProgram>, sources: &Path, folder: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&folder).map_err(|error| Error::at(&folder, error))?;
    let absent = |program: &&GoProgram| !folder.join(program.name).exists();
    wanted.retain(absent);
    if wanted.is_empty() {
        return Ok(folder);
    }
    check_go()?;
    // A second process waits and finds all programs built. The kernel releases the lock if its holder dies.
    let path = folder.join("lock");
    let lock = File::create(&path).map_err(|error| Error::at(&path, error))?;
    lock.lock().map_err(|error| Error::at(&path, error))?;
    for program in wanted.into_iter().filter(absent) {
        compile(program, sources, &folder)?;
    }
    Ok(folder)
}

fn compile(program: &GoProgram, sources: &Path, folder: &Path) -> Result<()> {
    eprintln!(
        "building {} from Go modules (once; minutes on a cold cache)",
        program.name
    );
    let unfinished = folder.join(format!(".{}.new", program.name));
    let output = unfinished.display().to_string();
    Run::new("go")
        .args([
            "build",
            "-trimpath",
            "-ldflags",
            &link_flags(),
            "-o",
            &output,
            program.package,
        ])
        .dir(&sources.join(program.module))
        .env("CGO_ENABLED", "0")
        .limit(LIMIT)
        .done()?;
    let finished = folder.join(program.name);
    std::fs::rename(&unfinished, &finished).map_err(|error| Error::at(&finished, error))
}

fn link_flags() -> String {
    let package = "k8s.io/component-base/version";
    let (major, minor) = ("1", "34");
    format!(
        "-s -w -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

fn check_go() -> Result<()> {
    Run::new("go").args(["version"]).done().map_err(|error| {
        Error::new(format!(
            "the programs of the testbed are built with Go 1.26 or later, which is not found: {error}"
        ))
    })
}

/// Returns the cache directory of programs: `$AKASH_TESTBED`, or a directory in the user's cache.
fn cache_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    if let Some(folder) = variable(VARIABLE) {
        return Ok(folder);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache
        .map(|cache| cache.join("akash-provider").join("testbed"))
        .ok_or_else(|| {
            Error::new(format!(
                "HOME and XDG_CACHE_HOME are not set: set {VARIABLE} to a folder"
            ))
        })
}

/// Returns a cache directory that all checkouts share. Built programs have a separate directory.
pub(crate) fn cache_of(name: &str) -> Result<PathBuf> {
    // Next to the folder of the programs.
    let programs = cache_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    let beside = programs.parent().map(Path::to_owned).unwrap_or(programs);
    Ok(beside.join(name))
}

/// Returns the directory name for the pinned versions: 16 digits of the hash of the `go.mod` and `go.sum`
/// files of these modules.
fn key(sources: &Path, modules: &[&str]) -> Result<String> {
    let mut digest = Sha256::new();
    for module in modules {
        for file in ["go.mod", "go.sum"] {
            let path = sources.join(module).join(file);
            digest.update(std::fs::read(&path).map_err(|error| Error::at(&path, error))?);
        }
    }
    Ok(digest
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_has_the_programs_of_its_components() {
        for tier in Tier::ALL {
            let names: Vec<&str> = of(tier).map(|program| program.name).collect();
            for component in tier.components() {
                let program = component.program();
                assert!(
                    program == "containerd" || names.contains(&program),
                    "{tier}: {program}"
                );
            }
            assert!(names.contains(&"kubectl"));
        }
    }

    #[test]
    fn pinned_version_is_passed_to_the_linker() {
        let pins = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("go.mod")).unwrap();
        assert!(pins.contains(&format!("\tk8s.io/kubernetes {KUBERNETES} ")));
    }

    #[test]
    fn cache_folder_follows_environment_variables() {
        let set = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| PathBuf::from(value))
        };
        assert_eq!(cache_folder(set(VARIABLE, "/x")), Ok("/x".into()));
        assert_eq!(
            cache_folder(set("XDG_CACHE_HOME", "/c")),
            Ok("/c/akash-provider/testbed".into())
        );
        assert_eq!(
            cache_folder(set("HOME", "/h")),
            Ok("/h/.cache/akash-provider/testbed".into())
        );
        assert!(cache_folder(|_| None).is_err());
    }

    #[test]
    fn changed_version_uses_another_folder() {
        let folder = std::env::temp_dir().join(format!("testbed-key-{}", std::process::id()));
        for module in ["", "kwok", "coredns"] {
            std::fs::create_dir_all(folder.join(module)).unwrap();
            for file in ["go.mod", "go.sum"] {
                std::fs::write(folder.join(module).join(file), module).unwrap();
            }
        }
        let key = |folder: &Path| key(folder, &KUBERNETES_MODULES);
        let before = key(&folder).unwrap();
        std::fs::write(folder.join("kwok/go.sum"), "another").unwrap();
        assert_ne!(key(&folder).unwrap(), before);
        std::fs::remove_file(folder.join("go.sum")).unwrap();
        assert!(key(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
