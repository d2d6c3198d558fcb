//! Container images without a registry: the machine's static busybox in the layout that `docker save` writes.

use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::command::Run;
use crate::error::{Error, Result};
use crate::files::{create_dir, gone, plain};
use crate::layout::Layout;

/// The users of the image: a tenant's program may want to be one without a say.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
                      tenant:x:1000:1000:tenant:/home/tenant:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\ntenant:x:1000:\nnogroup:x:65534:\n";

/// Makes the images and hands them to containerd.
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
    gone(&folder, |path| std::fs::remove_dir_all(path))
}

/// `localhost/busybox:1` with a shell, and `localhost/pause:1`, which does nothing for ever; one layer for both.
fn build(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
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
    link(&root.join("bin"))?;
    create_dir(&folder.join("save"))?;
    let layer = folder.join("save/layer.tar");
    tar(&layer, &root, &["--mode=a+rX", "--owner=0", "--group=0", "."])?;
    let digest = Sha256::digest(std::fs::read(&layer).map_err(|error| Error::at(&layer, error))?);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let image = |command: &[&str]| {
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": command, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        })
    };
    // As long as a pod may live.
    let pause = image(&["/bin/sleep", "2147483647"]);
    plain(&folder.join("save/busybox.json"), &image(&["sh"]).to_string())?;
    plain(&folder.join("save/pause.json"), &pause.to_string())?;
    let entry = |name: &str| json!({"Config": format!("{name}.json"), "RepoTags": [format!("localhost/{name}:1")], "Layers": ["layer.tar"]});
    let manifest = json!([entry("busybox"), entry("pause")]);
    plain(&folder.join("save/manifest.json"), &manifest.to_string())?;
    let archive = folder.join("images.tar");
    tar(&archive, &folder.join("save"), &["."])?;
    Ok(archive)
}

/// Puts busybox and a link for each of its commands into a folder.
fn link(bin: &Path) -> Result<()> {
    let found = ["/bin/busybox", "/usr/bin/busybox"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists());
    let busybox = found.ok_or_else(|| Error::new("/bin/busybox is not there: install busybox-static"))?;
    let copy = bin.join("busybox");
    std::fs::copy(busybox, &copy).map_err(|error| Error::at(&copy, error))?;
    let commands = Run::new(busybox).args(["--list"]).stdout()?;
    for command in commands.lines().filter(|command| *command != "busybox") {
        let path = bin.join(command);
        std::os::unix::fs::symlink("busybox", &path).map_err(|error| Error::at(&path, error))?;
    }
    Ok(())
}

fn tar(archive: &Path, folder: &Path, what: &[&str]) -> Result<()> {
    let (archive, folder) = (archive.display().to_string(), folder.display().to_string());
    Run::new("tar")
        .args(["--create", "--file", &archive, "--directory", &folder])
        .args(what)
        .done()
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
