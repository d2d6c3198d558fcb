//! The file tree of the image `minimal` of `deploy/Containerfile`: the provider bids in this tree without root
//! permissions and with a read-only root file system.
//!
//! The test does not cover a container runtime, the packages of the image `full`, and the static build: the
//! program of the test needs its shared libraries in the tree.

use crate::stage::Stage;
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CONTAINERFILE: &str = include_str!("../../../../deploy/Containerfile");
const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Account in the images and in the charts.
const USER: u32 = 65_532;
const PROGRAM: &str = "/usr/bin/provider-daemon";
/// Arguments: tree, folder of the stage, program, and the arguments of the program. Everything but the folder of
/// the stage is read-only.
const ENTER: &str = r#"
set -e
tree=$1; folder=$2; program=$3; shift 3
mount --bind "$tree" "$tree"
mkdir -p "$tree$folder"
mount --bind "$folder" "$tree$folder"
mount --bind "$program" "$tree/usr/bin/provider-daemon"
mount -o remount,bind,ro "$tree"
exec chroot --userspec=65532:65532 "$tree" /usr/bin/provider-daemon "$@"
"#;

/// Returns the paths that the image contains.
fn paths() -> Vec<&'static str> {
    let minimal = CONTAINERFILE.split("AS minimal").nth(1).unwrap();
    assert!(minimal.contains(&format!("USER {USER}:{USER}")), "{minimal}");
    let copies = minimal.lines().filter(|line| line.starts_with("COPY"));
    copies.map(|line| line.rsplit(' ').next().unwrap()).collect()
}

fn libraries(program: &str) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

fn copy_into(tree: &Path, file: &Path) {
    let target = tree.join(file.strip_prefix("/").unwrap());
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::copy(file, target).unwrap();
}

#[test]
fn provider_bids_in_the_minimal_image_without_root_permissions_on_a_read_only_root() {
    if !geteuid().is_root() {
        println!("skipped: only root can assemble the file tree of an image");
        return;
    }
    let mut stage = Stage::new("image", true);
    stage.start_node(FAST);
    let program = env!("CARGO_BIN_EXE_provider-daemon");
    let tree = tempfile::tempdir().unwrap();
    let paths = paths();
    assert!(paths.contains(&PROGRAM), "{paths:?}");
    for path in paths {
        match path {
            // Mounted, because a debug build is large.
            PROGRAM => {
                fs::create_dir_all(tree.path().join("usr/bin")).unwrap();
                fs::write(tree.path().join("usr/bin/provider-daemon"), "").unwrap();
            }
            path => copy_into(tree.path(), Path::new(path)),
        }
    }
    for library in libraries(program) {
        copy_into(tree.path(), &library);
    }
    let own = |path: &Path| chown(path, Some(USER), Some(USER)).unwrap();
    for entry in fs::read_dir(stage.path("")).unwrap() {
        own(&entry.unwrap().path());
    }
    own(&stage.path(""));
    let (tree, folder) = (
        tree.path().display().to_string(),
        stage.path("").display().to_string(),
    );
    let enter = ["unshare", "--mount", "sh", "-c", ENTER, "sh", &tree, &folder];
    let words = [
        "run",
        "--bid-price-cpu-scale=0.001",
        "--bid-price-memory-scale=0.001",
    ];
    let provider = stage.started("image", stage.command_after(&enter, &words));
    let order = stage.order(7);
    stage.bid(&order, &provider);
    let status = fs::read_to_string(provider.about("status")).unwrap();
    let user = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(
        user.split_whitespace().skip(1).all(|id| id == USER.to_string()),
        "{user}"
    );
    let mounts = fs::read_to_string(provider.about("mounts")).unwrap();
    let root = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some("/"))
        .unwrap();
    assert!(
        root.split(' ')
            .nth(3)
            .unwrap()
            .split(',')
            .any(|option| option == "ro"),
        "{root}"
    );
}
