//! `doctor` with problems outside of the chain: clock, disk, limits, DNS, silent servers, circuit breaker and
//! order history.

use super::doctor::{Results, SETTINGS, installation, installation_at};
use crate::dns_server::Records;
use crate::stage::{ADDRESS, Stage};
use nix::unistd::geteuid;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

/// Script that mounts a file system of size `$1` at `$2` for the started process only.
const MOUNTED: &str = r#"mount -t tmpfs -o mode=700,size="$1" tmpfs "$2" && shift 2 && exec "$@""#;
/// Script that replaces the configuration of the resolvers by the file `$1` for the started process only.
const RESOLVING: &str = r#"mount --bind "$1" /etc/resolv.conf && shift && exec "$@""#;

#[test]
fn clock_behind_the_chain_is_reported_until_it_is_set() {
    for (ahead, clock, node) in [(8, "warning", "ok"), (90, "failure", "failure"), (0, "ok", "ok")] {
        let stage = installation_at(&format!("doctor-clock-{ahead}"), Duration::from_secs(ahead));
        let results = Results::new(&stage, &[]);
        results.expect("clock", clock);
        results.expect("node ", node);
    }
}

#[test]
fn limit_of_open_files_is_reported_until_it_is_raised() {
    let stage = installation("doctor-open-files").with_files(1024);
    Results::new(&stage, &[]).expect("limit of open files", "warning");
    let stage = stage.with_files(4096);
    Results::new(&stage, &[]).expect("limit of open files", "ok");
}

#[test]
fn small_disk_is_reported_until_it_has_space() {
    if !geteuid().is_root() {
        println!("skipped: only root may mount a file system");
        return;
    }
    let stage = installation("doctor-disk");
    let home = stage.path("mounted");
    std::fs::create_dir(&home).unwrap();
    let home = home.to_str().unwrap();
    for (size, severity) in [("50m", "failure"), ("500m", "warning"), ("2g", "ok")] {
        let before = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", size, home];
        let results = Results::after(&stage, &before, &["--home", home]);
        results.expect("disk space", severity);
    }
}

#[test]
fn missing_wildcard_record_is_reported_until_it_exists() {
    if !geteuid().is_root() {
        println!("skipped: only root may mount a file and use the port of DNS");
        return;
    }
    let stage = installation("doctor-wildcard");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let records = Records::default();
    // An address that no other process uses.
    let [.., high, low] = std::process::id().to_be_bytes();
    let at = SocketAddr::from(([127, 53, high, low], 53));
    let (_, _server) = runtime.block_on(records.serve_at(at));
    let resolvers = stage.path("resolv.conf");
    std::fs::write(&resolvers, format!("nameserver {}\n", at.ip())).unwrap();
    let resolvers = resolvers.to_str().unwrap();
    let expect = |severity: &str| {
        let before = ["unshare", "--mount", "sh", "-c", RESOLVING, "sh", resolvers];
        let flags = [
            "--deployment-ingress-static-hosts",
            "--deployment-ingress-domain=ingress.example.com",
        ];
        let results = Results::after(&stage, &before, &flags);
        results.expect("ingress domain", severity);
    };
    records.set("www.ingress.example.com.", "203.0.113.7");
    expect("failure");
    records.set("*.ingress.example.com.", "10.0.0.7");
    expect("warning");
    records.set("*.ingress.example.com.", "203.0.113.7");
    expect("ok");
}

#[test]
fn audit_log_is_reported_until_its_directory_is_private_and_writable() {
    let stage = installation("doctor-audit");
    let dir = stage.path("acts");
    let flag = format!("--audit-log={}", dir.display());
    // Another home directory: its file modes and disk space have their own checks.
    let home = format!("--home={}", stage.path("home").display());
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let expect = |more: &[&str], severity: &str| {
        let results = Results::new(&stage, &[&[&*home, &*flag], more].concat());
        results.expect("audit log", severity);
    };
    expect(&[], "failure");
    expect(&["--fix"], "ok");
    // The log of `--fix` has the change of the mode.
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::write(&dir, "").unwrap();
    expect(&[], "failure");
    std::fs::remove_file(&dir).unwrap();
    expect(&[], "ok");
    Results::new(&stage, &["--audit-log=none"]).expect("audit log", "skipped");
    if !geteuid().is_root() {
        println!("skipped: only root may mount a file system");
        return;
    }
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    for (options, severity) in [("2g,ro", "failure"), ("50m", "failure"), ("2g", "ok")] {
        let before = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", options, dir];
        let results = Results::after(&stage, &before, &[&home, &flag]);
        results.expect("audit log", severity);
    }
}

#[test]
fn tripped_breaker_is_reported_until_its_release() {
    let stage = installation("doctor-breaker");
    let file = stage.path(&format!("{ADDRESS}.devnet.breaker-tripped"));
    std::fs::write(&file, "tripped").unwrap();
    let provider = stage.provider("provider", &SETTINGS);
    provider.says("waiting for the circuit breaker to be released");
    let tripped = Results::new(&stage, &[]);
    tripped.expect("provider", "failure");
    let help = tripped.check("provider")["help"].as_str().unwrap().to_owned();
    assert!(help.contains("`breaker release`"), "{help}");
    let (code, out, err) = stage.ran(&["breaker", "release"]);
    assert_eq!(code, 0, "{out}{err}");
    let released = Results::new(&stage, &[]);
    released.expect("provider", "ok");
    released.expect("order history", "ok");
}

pub(super) fn kubeconfig(stage: &Stage, server: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    let path = stage.path("kubeconfig");
    std::fs::write(&path, text).unwrap();
    // `doctor` also checks the modes of the files in the home directory.
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    format!("--kubeconfig={}", path.display())
}

#[test]
fn silent_servers_delay_only_their_own_checks() {
    let stage = installation("doctor-silent");
    // Accepts connections without a response, as hanging servers do.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    let results = Results::new(
        &stage,
        &[
            &format!("--node=http://{at},{}", stage.url()),
            &kubeconfig(&stage, &format!("http://{at}")),
            &format!("--bus=redis://{at}/0"),
        ],
    );
    for (subject, severity) in [
        (&*format!("node http://{at}"), "warning"),
        ("cluster", "failure"),
        ("capacity", "skipped"),
        ("operators", "skipped"),
        ("Redis of --bus", "failure"),
        (&format!("node {}", stage.url()), "ok"),
        ("balance for fees", "ok"),
        ("provider record", "ok"),
        ("certificate", "ok"),
        ("file modes", "ok"),
        ("clock", "ok"),
    ] {
        results.expect(subject, severity);
    }
    assert!(results.seconds() < 5.0, "{}", results.report());
}

/// Responds to `/version` after one second, with a clock that is two minutes ahead. Ignores other requests.
fn serve_version(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    if !request[..length].starts_with(b"GET /version ") {
        // Waits for the end of the connection.
        return stream.read(&mut request).map(drop);
    }
    std::thread::sleep(Duration::from_secs(1));
    let date = httpdate(SystemTime::now() + Duration::from_secs(120));
    let body = r#"{"gitVersion":"v1.34.0"}"#;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: {date}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn httpdate(time: SystemTime) -> String {
    let output = std::process::Command::new("date")
        .args(["--utc", "+%a, %d %b %Y %H:%M:%S GMT", "--date"])
        .arg(format!(
            "@{}",
            time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
        ))
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn slow_api_server_with_another_clock_is_reported_in_time() {
    let stage = installation("doctor-slow");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_version(stream));
        }
    });
    let results = Results::new(&stage, &[&kubeconfig(&stage, &format!("http://{at}"))]);
    for (subject, severity) in [
        ("cluster", "ok"),
        ("rights", "warning"),
        ("custom resource definitions", "failure"),
        ("ingress class", "warning"),
        ("capacity", "failure"),
        ("hostname operator", "failure"),
        ("clock", "failure"),
        ("balance for fees", "ok"),
    ] {
        results.expect(subject, severity);
    }
    let clock = results.check("clock")["detail"].as_str().unwrap().to_owned();
    assert!(clock.ends_with("s behind the API server"), "{clock}");
    assert!(results.seconds() < 5.0, "{}", results.report());
}
