//! Container images without a registry: the static busybox of the machine, in the format of `docker save`.

use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::command::Run;
use crate::error::{Error, Result};
use crate::files::{create_dir, plain, remove_if_present};
use crate::layout::Layout;

/// User list of the image, for programs that do not run as root.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
                      tenant:x:1000:1000:tenant:/home/tenant:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/:/bin/false\n";
/// Script that sleeps until SIGTERM. The trap is necessary, because the first process of a container
/// otherwise ignores SIGTERM.
const PAUSE: &str = "trap 'exit 0' TERM; sleep 2147483647 & wait";
/// Duration of an endless sleep, in seconds.
const FOR_EVER: &str = "2147483647";
const GROUP: &str = "root:x:0:\ntenant:x:1000:\nnogroup:x:65534:\n";

/// Creates the images and imports them into containerd.
pub(crate) fn import(layout: &Layout) -> Result<()> {
    let folder = layout.dir.join("data").join("images");
    let archive = build(&folder)?;
    let socket = layout.containerd_socket().display().to_string();
    let file = archive.display().to_string();
    Run::new("ctr")
        .args([
            "--address",
            &socket,
            "--namespace",
            "k8s.io",
            "images",
            "import",
            &file,
        ])
        .done()?;
    remove_if_present(&folder, |path| std::fs::remove_dir_all(path))
}

/// Creates three images: `localhost/busybox:1` starts a shell, `localhost/pause:1` sleeps, and
/// `localhost/bare:1` sleeps without a shell.
fn build(folder: &Path) -> Result<PathBuf> {
    create_dir(&folder.join("save"))?;
    let full = layer(folder, "full", furnish)?;
    let single = layer(folder, "single", |root| {
        create_dir(&root.join("proc"))?;
        create_dir(&root.join("bin"))?;
        busybox(&root.join("bin")).map(drop)
    })?;
    let image = |name: &str, layer: &(String, String), config: serde_json::Value| {
        let (archive, digest) = layer;
        let mut config = config;
        config["Env"] = json!(["PATH=/bin"]);
        config["WorkingDir"] = json!("/");
        let body = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        plain(&folder.join(format!("save/{name}.json")), &body.to_string())?;
        Ok(json!({
            "Config": format!("{name}.json"), "RepoTags": [format!("localhost/{name}:1")], "Layers": [archive],
        }))
    };
    let manifest = [
        image("busybox", &full, json!({"Cmd": ["sh"]})),
        image("pause", &full, json!({"Cmd": ["/bin/sh", "-c", PAUSE]})),
        // Without a shell no process handles SIGTERM.
        image(
            "bare",
            &single,
            json!({"Cmd": ["/bin/busybox", "sleep", FOR_EVER], "StopSignal": "SIGKILL"}),
        ),
    ];
    let manifest: serde_json::Value = manifest.into_iter().collect::<Result<Vec<_>>>()?.into();
    plain(&folder.join("save/manifest.json"), &manifest.to_string())?;
    let archive = folder.join("images.tar");
    tar(&archive, &folder.join("save"), &["."])?;
    Ok(archive)
}

/// Creates an image layer with the files that `fill` writes. Returns name and digest of the archive.
fn layer(folder: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<(String, String)> {
    let root = folder.join(name);
    create_dir(&root)?;
    fill(&root)?;
    let file = format!("{name}.tar");
    let archive = folder.join("save").join(&file);
    tar(&archive, &root, &["--mode=a+rX", "--owner=0", "--group=0", "."])?;
    let digest = Sha256::digest(std::fs::read(&archive).map_err(|error| Error::at(&archive, error))?);
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((file, digest))
}

/// Writes the files of a small Linux system.
fn furnish(root: &Path) -> Result<()> {
    for path in [
        "bin",
        "etc",
        "home/tenant",
        "proc",
        "root",
        "sys",
        "tmp",
        "var/www",
    ] {
        create_dir(&root.join(path))?;
    }
    plain(&root.join("etc/passwd"), PASSWD)?;
    plain(&root.join("etc/group"), GROUP)?;
    plain(&root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    link(&root.join("bin"))
}

/// Copies busybox to a folder, with a link for each command.
fn link(bin: &Path) -> Result<()> {
    let busybox = busybox(bin)?;
    let commands = Run::new(&busybox).args(["--list"]).stdout()?;
    for command in commands.lines().filter(|command| *command != "busybox") {
        let path = bin.join(command);
        std::os::unix::fs::symlink("busybox", &path).map_err(|error| Error::at(&path, error))?;
    }
    Ok(())
}

fn busybox(bin: &Path) -> Result<PathBuf> {
    let found = ["/bin/busybox", "/usr/bin/busybox"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists());
    let busybox = found.ok_or_else(|| Error::new("/bin/busybox is missing: install busybox-static"))?;
    let copy = bin.join("busybox");
    std::fs::copy(busybox, &copy).map_err(|error| Error::at(&copy, error))?;
    Ok(busybox.to_owned())
}

fn tar(archive: &Path, folder: &Path, what: &[&str]) -> Result<()> {
    let (archive, folder) = (archive.display().to_string(), folder.display().to_string());
    Run::new("tar")
        .args(["--create", "--file", &archive, "--directory", &folder])
        .args(what)
        .done()
}

/// Returns the architecture of this machine in Go's notation.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
