//! Commands in a service: input, exit codes, and a terminal that is restored in any case.

use crate::pty;
use crate::tenant::stage::{RunningProvider, Stage, ran, sample, until};
use akash_provider_core::cluster::ExecResult;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Creates a lease at a new provider, with a running service.
fn running(stage: &Stage, seed: u8) -> RunningProvider {
    let provider = stage.provider(seed);
    let sdl = sample("web.yaml");
    let lease = stage.lease(6, &sdl, &[&provider]).remove(0);
    stage.ran(&["send-manifest", &sdl, "--dseq", "6"]).good();
    provider.runs(&lease);
    provider
}

#[test]
fn command_gets_arguments_and_input_and_returns_exit_code() {
    let stage = Stage::new("shell");
    let provider = running(&stage, 51);
    // More than all buffers on the path hold, so both directions must proceed concurrently.
    let input = vec![b'x'; 3_000_000];
    let words = ["lease-shell", "web", "cat", "--dseq", "6", "--stdin"];
    let mut child = stage
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let written = std::thread::spawn(move || stdin.write_all(&input).map(|()| input));
    let output = child.wait_with_output().unwrap();
    let input = written.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stdout == input,
        "{} bytes of {}",
        output.stdout.len(),
        input.len()
    );

    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    provider.cluster.set_exec(Arc::new(move |_, request, _| {
        seen.lock().unwrap().clone_from(&request.command);
        ExecResult {
            stdout: b"out".to_vec(),
            stderr: b"err".to_vec(),
            code: 42,
        }
    }));
    let ended = stage.ran(&["lease-shell", "--dseq", "6", "web", "--", "ls", "-la", "a b"]);
    assert_eq!(
        (ended.code, ended.out.as_str(), ended.err.as_str()),
        (Some(42), "out", "err")
    );
    assert_eq!(*asked.lock().unwrap(), ["ls", "-la", "a b"]);
    for auth in ["jwt", "mtls"] {
        let ended = stage.ran(&["lease-shell", "web", "true", "--dseq", "6", "--auth-type", auth]);
        assert_eq!(ended.code, Some(42), "{auth}: {}", ended.err);
    }
    stage
        .ran(&["lease-shell", "nope", "ls", "--dseq", "6"])
        .failed(&["remote command execute error"]);
    let replica = ["lease-shell", "web", "ls", "--dseq", "6", "--replica-index", "9"];
    stage.ran(&replica).failed(&["remote command execute error"]);
    stage
        .ran(&["lease-shell", "web", "ls \"", "--dseq", "6"])
        .failed(&["unterminated quote"]);
    stage
        .ran(&["lease-shell", "web", "ls", "--dseq", "6", "--tty"])
        .failed(&["--tty requires a terminal"]);
}

/// Pseudo-terminal with its ends for the test (`ours`) and the program (`theirs`).
pub(crate) struct Pty {
    ours: OwnedFd,
    theirs: File,
}

impl Pty {
    pub(crate) fn open() -> Self {
        let (ours, theirs) = pty::open();
        Self { ours, theirs }
    }

    /// Returns true if the terminal edits and echoes lines, as it does outside of raw mode.
    pub(crate) fn is_canonical(&self) -> bool {
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn spawn(&self, stage: &Stage, words: &[&str]) -> Child {
        self.spawns(stage.command(words))
    }

    pub(crate) fn spawns(&self, mut command: Command) -> Child {
        let end = || Stdio::from(self.theirs.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    pub(crate) fn types(&self, text: &str) {
        let mut file = File::from(self.ours.try_clone().unwrap());
        file.write_all(text.as_bytes()).unwrap();
    }
}

/// Returns a recording of a command that ends after this number of input frames.
fn waits_for(count: usize) -> serde_json::Value {
    let result = b"f{\"exit_code\":3}\n";
    let mut frame = vec![0x82, u8::try_from(result.len()).unwrap()];
    frame.extend_from_slice(result);
    let size = serde_json::json!({"dir": "C->S", "op": 2, "hex": "0000000000"});
    let mut frames = vec![size; count];
    frames.push(serde_json::json!({"dir": "S->C", "raw_hex": data_encoding::HEXLOWER.encode(&frame)}));
    serde_json::json!({
        "response_head": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                          Sec-WebSocket-Accept: x",
        "frames": frames,
    })
}

#[test]
fn change_of_terminal_size_is_sent_to_running_command() {
    use crate::tenant::replay::Replay;
    let stage = Stage::new("resize");
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    let replay = Replay::start(&crate::tenant::stage::certificate(&stage.chain, &provider));
    replay.play(&waits_for(2));
    stage.settle();
    let (name, url) = (provider.as_str(), replay.url());
    let of = ["--tty", "--dseq", "1", "--provider", name, "--provider-url", &url];
    let pty = Pty::open();
    let mut child = pty.spawn(&stage, &[&["lease-shell", "web", "/bin/sh"], &of[..]].concat());
    let has_received = |part: &[u8]| replay.received().windows(part.len()).any(|w| w == part);
    until("the first size", || has_received(&[105, 0, 100, 0, 40]));
    let size = Winsize {
        ws_row: 50,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&pty.theirs, size).unwrap();
    // The terminal notifies its foreground process, which a child of a test is not.
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGWINCH,
    )
    .unwrap();
    until("the second size", || has_received(&[105, 0, 120, 0, 50]));
    assert_eq!(ended(&mut child), Some(3));
    assert!(pty.is_canonical());
}

pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    until("the end of the program", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[test]
fn terminal_mode_is_restored_on_every_exit() {
    let stage = Stage::new("terminal");
    let mut provider = running(&stage, 52);
    let words = ["lease-shell", "web", "sh", "--dseq", "6", "--tty", "--stdin"];
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let pty = Pty::open();
        assert!(pty.is_canonical());
        let mut child = pty.spawn(&stage, &words);
        until("the terminal is in raw mode", || !pty.is_canonical());
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        assert_eq!(ended(&mut child), Some(code));
        assert!(pty.is_canonical(), "{signal}");
    }
    // The provider disappears in the middle of a session.
    let pty = Pty::open();
    let mut child = pty.spawn(&stage, &words);
    until("the terminal is in raw mode", || !pty.is_canonical());
    pty.types("typed");
    provider.stop_gateway(&stage);
    assert_eq!(ended(&mut child), Some(1));
    assert!(pty.is_canonical());
    // A session that fails early does not change the terminal.
    let pty = Pty::open();
    let mut child = pty.spawn(&stage, &words);
    assert_eq!(ended(&mut child), Some(1));
    assert!(pty.is_canonical());
}

#[test]
fn escape_sequence_leaves_any_session() {
    use crate::tenant::replay::Replay;
    let stage = Stage::new("left");
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    let replay = Replay::start(&crate::tenant::stage::certificate(&stage.chain, &provider));
    // More frames than the test types, so the command does not end on its own.
    replay.play(&waits_for(1000));
    stage.settle();
    let (name, url) = (provider.as_str(), replay.url());
    let of = ["--tty", "--dseq", "1", "--provider", name, "--provider-url", &url];
    let pty = Pty::open();
    let mut child = pty.spawn(&stage, &[&["lease-shell", "web", "/bin/sh"], &of[..]].concat());
    until("the terminal is in raw mode", || !pty.is_canonical());
    let has_received = |part: &[u8]| replay.received().windows(part.len()).any(|w| w == part);
    pty.types("\x03cd ~.\r");
    until("what is typed", || has_received(b"h\x03cd ~.\r"));
    pty.types("~.");
    assert_eq!(ended(&mut child), Some(255));
    assert!(pty.is_canonical());
    assert!(!has_received(b"\r~"));
}

#[test]
fn terminal_session_sends_its_size_and_ends_with_the_command() {
    use crate::tenant::replay::Replay;
    let folder = testbed::recordings::folder("peer/ws");
    let stage = Stage::new("session");
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    let own = crate::tenant::stage::certificate(&stage.chain, &provider);
    let replay = Replay::start(&own);
    let text = std::fs::read_to_string(folder.join("shell-tty-resize.json")).unwrap();
    replay.play(&serde_json::from_str(&text).unwrap());
    stage.settle();
    let url = replay.url();
    let words = [
        "lease-shell",
        "web",
        "/bin/sh",
        "--tty",
        "--dseq",
        "2194",
        "--provider",
        provider.as_str(),
        "--provider-url",
        &url,
    ];
    let pty = Pty::open();
    let mut child = pty.spawn(&stage, &words);
    until("the terminal is in raw mode", || !pty.is_canonical());
    // The recorded session waits for the size, then for two lines.
    let has_received = |part: &[u8]| replay.received().windows(part.len()).any(|w| w == part);
    until("the size", || has_received(&[105, 0, 100, 0, 40]));
    pty.types("busybox stty size\r");
    until("the first line", || has_received(b"hbusybox stty size\r"));
    pty.types("exit\r");
    assert_eq!(ended(&mut child), Some(0));
    assert!(pty.is_canonical());
    // The terminal shows the recorded output.
    let mut screen = vec![0; 64 * 1024];
    let read = rustix::io::read(&pty.ours, &mut screen).unwrap();
    let screen = String::from_utf8_lossy(&screen[..read]).into_owned();
    assert!(screen.contains("BusyBox v1.35.0"), "{screen}");
    let without = ran(stage.command(&words).stdin(Stdio::null()));
    without.failed(&["--tty requires a terminal"]);
}
