//! A release of scripts in place of the programs.

use super::build::Platform;
use super::{PROGRAM, Release, charts};
use crate::process::Process;
use crate::workspace::{Workspace, entries};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Prints a completion script, or writes a manual page.
const SCRIPT: &str = "#!/bin/sh
case $1 in
completions) echo \"completions of $(basename \"$0\") for $2\" ;;
man-pages) mkdir \"$2\" && echo '.TH provider-daemon 1' > \"$2/provider-daemon.1\" ;;
esac
";

/// Folder that is removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-release-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Assembles a release for this machine.
    fn release<'a>(&self, workspace: &'a Workspace, name: &str) -> Release<'a> {
        let programs = self.0.join("programs");
        fs::create_dir_all(&programs).unwrap();
        for program in [PROGRAM, super::OPERATORS] {
            let path = programs.join(program);
            fs::write(&path, SCRIPT).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let release = Release::new(workspace, self.0.join(name)).unwrap();
        release.assemble(Platform::native().unwrap(), &programs).unwrap();
        release
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file(folder: &Path, ending: &str) -> PathBuf {
    let found = entries(folder).unwrap();
    let mut found = found
        .into_iter()
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending));
    found.next().unwrap_or_else(|| panic!("no file {ending}"))
}

fn lines(program: &str, args: &[&str]) -> Option<Vec<String>> {
    let lines = Process::new(program, Path::new("/")).args(args).quiet().lines();
    match lines {
        Err(error) if format!("{error:#}").contains("cannot start") => {
            println!("skipped: {program} is not installed");
            None
        }
        lines => Some(lines.unwrap()),
    }
}

#[test]
fn two_builds_of_a_release_have_equal_bytes() {
    let scratch = Scratch::new("equal");
    let workspace = Workspace::load().unwrap();
    let mut endings = vec![".tar.gz", ".deb", ".cdx.json", ".licences.txt"];
    // The build of Helm needs Go.
    let has_go = lines("go", &["version"]).is_some();
    if has_go {
        endings.push(".tgz");
    }
    let sums = ["one", "two"].map(|name| {
        let release = scratch.release(&workspace, name);
        if has_go {
            charts::package(&workspace, &release.version, &release.folder).unwrap();
        }
        release.checksums().unwrap()
    });
    for ending in endings {
        assert!(
            sums[0].iter().any(|line| line.ends_with(ending)),
            "{ending}: {:?}",
            sums[0]
        );
    }
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn debian_package_contains_program_alias_unit_user_completions_and_pages() {
    let scratch = Scratch::new("deb");
    let workspace = Workspace::load().unwrap();
    let release = scratch.release(&workspace, "release");
    let package = file(&release.folder, ".deb").display().to_string();
    let Some(fields) = lines("dpkg-deb", &["--info", &package]) else {
        return;
    };
    for field in [" Package: provider-daemon", " Priority: optional"] {
        assert!(fields.iter().any(|line| line == field), "{fields:#?}");
    }
    let contents = lines("dpkg-deb", &["--contents", &package]).unwrap();
    for line in [
        "-rwxr-xr-x ./usr/bin/provider-daemon",
        "l ./usr/bin/provider-services -> provider-daemon",
        "-rw-r--r-- ./etc/akash-provider/environment",
        "-rw-r--r-- ./usr/lib/systemd/system/provider-daemon.service",
        "-rw-r--r-- ./usr/lib/sysusers.d/provider-daemon.conf",
        "-rw-r--r-- ./usr/share/man/man1/provider-daemon.1.gz",
        "-rw-r--r-- ./usr/share/bash-completion/completions/provider-services",
        "-rw-r--r-- ./usr/share/doc/provider-daemon/copyright",
    ] {
        let (mode, path) = line.split_once(' ').unwrap();
        let is_line = |found: &String| found.starts_with(mode) && found.ends_with(path);
        assert!(contents.iter().any(is_line), "{line}: {contents:#?}");
    }
    let root = scratch.0.join("root").display().to_string();
    lines("dpkg-deb", &["--raw-extract", &package, &root]).unwrap();
    let completions = format!("{root}/usr/share/bash-completion/completions/provider-services");
    let script = fs::read_to_string(completions).unwrap();
    assert_eq!(script, "completions of provider-services for bash\n");
    for name in ["postinst", "prerm", "postrm"] {
        lines("sh", &["-n", &format!("{root}/DEBIAN/{name}")]).unwrap();
    }
    let unit = fs::read_to_string(format!("{root}/usr/lib/systemd/system/provider-daemon.service")).unwrap();
    let path = scratch.0.join("provider-daemon.service");
    // The program is not installed on this machine.
    fs::write(&path, unit.replace("/usr/bin/provider-daemon", "/bin/true")).unwrap();
    let verify = Process::new("sh", &scratch.0).args(["-c", "systemd-analyze verify --man=no \"$0\" 2>&1"]);
    if lines("systemd-analyze", &["--version"]).is_some() {
        assert_eq!(verify.args([&path]).quiet().lines().unwrap(), [""; 0]);
    }
}

#[test]
fn bill_of_materials_lists_each_package_with_licence_and_checksum() {
    let scratch = Scratch::new("bill");
    let workspace = Workspace::load().unwrap();
    let folder = scratch.release(&workspace, "release").folder;
    let bill: Value = serde_json::from_str(&fs::read_to_string(file(&folder, ".cdx.json")).unwrap()).unwrap();
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.6".into())
    );
    assert_eq!(bill["metadata"]["component"]["name"], PROGRAM);
    let components = bill["components"].as_array().unwrap();
    let name = |value: &Value| value["bom-ref"].as_str().unwrap().to_owned();
    let known: BTreeSet<String> = components
        .iter()
        .chain([&bill["metadata"]["component"]])
        .map(name)
        .collect();
    assert_eq!(known.len(), components.len() + 1, "each reference is unique");
    for component in components {
        let package = workspace.package(
            component["name"].as_str().unwrap(),
            component["version"].as_str().unwrap(),
        );
        let is_external = package.unwrap().source.is_some();
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        assert_eq!(
            component["hashes"][0]["content"].is_string(),
            is_external,
            "{component}"
        );
    }
    // Each dependency of a member is in the bill, unless it is optional or for another platform.
    let daemon = workspace.members().find(|member| member.name == PROGRAM).unwrap();
    for dependency in daemon.dependencies() {
        assert!(
            components.iter().any(|component| component["name"] == dependency),
            "{dependency}"
        );
    }
    for link in bill["dependencies"].as_array().unwrap() {
        let links = link["dependsOn"].as_array().unwrap().iter().chain([&link["ref"]]);
        for reference in links {
            assert!(known.contains(reference.as_str().unwrap()), "{reference}");
        }
    }
    let licences = fs::read_to_string(file(&folder, ".licences.txt")).unwrap();
    for part in [
        "\nring 0.17",
        "\nrustls 0.23",
        "Permission is hereby granted, free of charge",
    ] {
        assert!(licences.contains(part), "{part}");
    }
}
