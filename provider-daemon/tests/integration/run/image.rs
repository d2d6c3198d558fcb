//! The file trees of the images `minimal` and `operators` of `deploy/Containerfile`: the provider bids and an operator
//! serves its health port without root permissions and with a read-only root file system.
//!
//! The tests do not cover a container runtime, the packages of the image `full`, and the static build: the
//! programs of the tests need their shared libraries in the tree.

use crate::cli::operator::{AWAY, OperatorProcess};
use crate::stage::Stage;
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const CONTAINERFILE: &str = include_str!("../../../../deploy/Containerfile");
const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Account in the images and in the charts.
const USER: u32 = 65_532;
/// Arguments: tree, folder of the test, program, its path in the tree, and the arguments of the program. Everything
/// but the folder of the test is read-only.
const ENTER: &str = r#"
set -e
tree=$1; folder=$2; program=$3; inside=$4; shift 4
mount --bind "$tree" "$tree"
mkdir -p "$tree$folder"
mount --bind "$folder" "$tree$folder"
mount --bind "$program" "$tree$inside"
mount -o remount,bind,ro "$tree"
exec chroot --userspec=65532:65532 "$tree" "$inside" "$@"
"#;

/// Returns the paths that an image contains.
fn paths(target: &str) -> Vec<&'static str> {
    let start = format!("AS {target}\n");
    let stage = CONTAINERFILE.split(&start).nth(1).unwrap();
    let stage = stage.split("\nFROM ").next().unwrap();
    assert!(stage.contains(&format!("USER {USER}:{USER}")), "{stage}");
    let copies = stage.lines().filter(|line| line.starts_with("COPY"));
    copies.map(|line| line.rsplit(' ').next().unwrap()).collect()
}

/// Creates the file tree of an image. The program is an empty file.
fn tree(target: &str, program: &str, inside: &str) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let paths = paths(target);
    assert!(paths.contains(&inside), "{paths:?}");
    for path in paths {
        if path == inside {
            // Mounted, because a debug build is large.
            fs::create_dir_all(tree.path().join("usr/bin")).unwrap();
            fs::write(tree.path().join(&inside[1..]), "").unwrap();
        } else {
            copy_into(tree.path(), Path::new(path));
        }
    }
    for library in libraries(program) {
        copy_into(tree.path(), &library);
    }
    tree
}

/// Gives a folder with its files to the account of the image.
fn own(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        chown(entry.unwrap().path(), Some(USER), Some(USER)).unwrap();
    }
    chown(folder, Some(USER), Some(USER)).unwrap();
}

/// Asserts the account and the read-only root of a process, from its files in `/proc`.
fn check_process(status: &str, mounts: &str) {
    let user = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    let mut ids = user.split_whitespace().skip(1);
    assert!(ids.all(|id| id == USER.to_string()), "{user}");
    let mut lines = mounts.lines();
    let root = lines.find(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    let mut options = root.split(' ').nth(3).unwrap().split(',');
    assert!(options.any(|option| option == "ro"), "{root}");
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

fn is_root() -> bool {
    if !geteuid().is_root() {
        println!("skipped: only root can assemble the file tree of an image");
    }
    geteuid().is_root()
}

#[test]
fn provider_bids_in_the_minimal_image_without_root_permissions_on_a_read_only_root() {
    if !is_root() {
        return;
    }
    let mut stage = Stage::new("image", true);
    stage.start_node(FAST);
    let (program, inside) = (env!("CARGO_BIN_EXE_provider-daemon"), "/usr/bin/provider-daemon");
    let tree = tree("minimal", program, inside);
    own(&stage.path(""));
    let (tree, folder) = (
        tree.path().display().to_string(),
        stage.path("").display().to_string(),
    );
    let enter = ["unshare", "--mount", "sh", "-c", ENTER, "sh", &tree, &folder];
    let words = [
        inside,
        "run",
        "--bid-price-cpu-scale=0.001",
        "--bid-price-memory-scale=0.001",
    ];
    let provider = stage.started("image", stage.command_after(&enter, &words));
    let order = stage.order(7);
    stage.bid(&order, &provider);
    let about = |name| fs::read_to_string(provider.about(name)).unwrap();
    check_process(&about("status"), &about("mounts"));
}

#[test]
fn operator_serves_its_health_port_in_the_operators_image_without_root_permissions_on_a_read_only_root() {
    if !is_root() {
        return;
    }
    let (program, inside) = (
        env!("CARGO_BIN_EXE_provider-operators"),
        "/usr/bin/provider-operators",
    );
    assert!(CONTAINERFILE.ends_with(&format!("ENTRYPOINT [\"{inside}\"]\nCMD [\"--help\"]\n")));
    let tree = tree("operators", program, inside);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, AWAY).unwrap();
    own(folder.path());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ENTER, "sh"]);
    command
        .args([tree.path(), folder.path()])
        .args([program, inside, "hostname"]);
    let operator = OperatorProcess::start_command(command, &kubeconfig.display().to_string());
    operator.is_well();
    check_process(&operator.about("status"), &operator.about("mounts"));
    operator.ends();
}
