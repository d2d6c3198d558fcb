//! Network namespaces: one for each daemon, and a site with the chain and the API server. A link that can be
//! cut connects each daemon to the site.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Recorded write, with the time at which its connection was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) by: usize,
    pub(crate) to: To,
    pub(crate) at: Instant,
    pub(crate) connected: Instant,
}

/// Target of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Chain,
    Cluster,
    Bus,
}

impl To {
    /// Returns bytes that occur only in writes to this target. Returns `None` for the API server, because
    /// connections to the API server are encrypted.
    const fn mark(self) -> Option<&'static [u8]> {
        match self {
            Self::Chain => Some(b"broadcast_tx"),
            Self::Cluster => None,
            Self::Bus => Some(b":publisher:"),
        }
    }
}

const PIECE: usize = 64 << 10;

/// Network namespaces of both daemons and of their servers, deleted when the value is dropped.
pub(crate) struct Room {
    site: String,
    daemons: [String; 2],
    pub(crate) sent: Arc<Mutex<Vec<Sent>>>,
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words:?}: {problem}");
}

impl Room {
    pub(crate) fn new() -> Self {
        // With several clusters, two tests of one process create these namespaces at the same time.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("ha{}x{number}", std::process::id() % 1_000_000);
        let room = Self {
            site: format!("{base}s"),
            daemons: [format!("{base}a"), format!("{base}b")],
            sent: Arc::default(),
        };
        ip(&["netns", "add", &room.site]);
        ip(&["-n", &room.site, "link", "set", "lo", "up"]);
        for (who, name) in room.daemons.iter().enumerate() {
            ip(&["netns", "add", name]);
            let wire = format!("wire{who}");
            let pair = [
                "link", "add", &wire, "netns", &room.site, "type", "veth", "peer", "name", "eth0", "netns",
                name,
            ];
            ip(&pair);
            ip(&["-n", name, "link", "set", "lo", "up"]);
            for (at, link, last) in [(&room.site, wire.as_str(), 1), (name, "eth0", 2)] {
                ip(&[
                    "-n",
                    at,
                    "address",
                    "add",
                    &format!("10.253.{who}.{last}/30"),
                    "dev",
                    link,
                ]);
                ip(&["-n", at, "link", "set", link, "up"]);
            }
        }
        room
    }

    /// Returns the address at which the daemon `who` reaches a server port.
    pub(crate) fn here(who: usize, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 253, u8::try_from(who).unwrap(), 1], port))
    }

    pub(crate) fn there(who: usize, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 253, u8::try_from(who).unwrap(), 2], port))
    }

    /// Returns the command prefix for the network namespace of the daemon `who`.
    pub(crate) fn inside(&self, who: usize) -> Vec<String> {
        entering(&self.daemons[who])
    }

    /// Returns the command prefix for the network namespace of the servers. This namespace has a link to each
    /// daemon.
    pub(crate) fn at_the_site(&self) -> Vec<String> {
        entering(&self.site)
    }

    /// Disables the link of the daemon in both directions.
    pub(crate) fn cut(&self, who: usize) {
        ip(&["-n", &self.site, "link", "set", &format!("wire{who}"), "down"]);
    }

    pub(crate) fn mend(&self, who: usize) {
        ip(&["-n", &self.site, "link", "set", &format!("wire{who}"), "up"]);
    }

    /// Drops all packets to the daemon, but not those from the daemon.
    pub(crate) fn deafen(&self, who: usize) {
        let daemon = Self::there(who, 0).ip().to_string();
        ip(&["-n", &self.site, "route", "add", "blackhole", &daemon]);
    }

    pub(crate) fn hear(&self, who: usize) {
        let daemon = Self::there(who, 0).ip().to_string();
        ip(&["-n", &self.site, "route", "delete", "blackhole", &daemon]);
    }

    /// Forwards connections of the daemon `who` from `port` to `target`. Records each write of the daemon,
    /// with the destination `to`.
    pub(crate) fn lead(&self, who: usize, port: u16, to: To, target: SocketAddr) {
        let (site, at) = (self.site.clone(), Self::here(who, port));
        let (accepted, streams) = channel();
        let (ready, listens) = channel();
        thread::spawn(move || listen(&site, at, &ready, &accepted));
        listens.recv().unwrap();
        let sent = Arc::clone(&self.sent);
        // This thread stays in the namespace of the test, so it connects to `target` from there.
        thread::spawn(move || {
            for near in streams {
                let sent = Arc::clone(&sent);
                thread::spawn(move || carry(who, near, to, target, &sent));
            }
        });
    }
}

fn entering(name: &str) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")]
}

fn listen(site: &str, at: SocketAddr, ready: &Sender<()>, accepted: &Sender<TcpStream>) {
    let namespace = File::open(format!("/run/netns/{site}")).unwrap();
    setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
    let listener = TcpListener::bind(at).unwrap();
    ready.send(()).unwrap();
    for stream in listener.incoming().flatten() {
        if accepted.send(stream).is_err() {
            return;
        }
    }
}

fn carry(who: usize, near: TcpStream, to: To, target: SocketAddr, sent: &Mutex<Vec<Sent>>) {
    let connected = Instant::now();
    let Ok(far) = TcpStream::connect_timeout(&target, Duration::from_secs(2)) else {
        return;
    };
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
    }
    let (answers, back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    thread::spawn(move || pass(answers, back, |_| {}));
    let Some(mark) = to.mark() else {
        return pass(near, far, |_| {});
    };
    let mut last = Vec::new();
    pass(near, far, |piece| {
        // The mark may be split between two pieces.
        last.extend_from_slice(piece);
        let found = last.windows(mark.len()).filter(|part| *part == mark).count();
        let by = Sent {
            by: who,
            to,
            at: Instant::now(),
            connected,
        };
        sent.lock().unwrap().extend(std::iter::repeat_n(by, found));
        let keep = if found > 0 {
            0
        } else {
            last.len().min(mark.len() - 1)
        };
        last.drain(..last.len() - keep);
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8])) {
    let mut piece = vec![0; PIECE];
    while let Ok(count) = from.read(&mut piece) {
        if count == 0 {
            break;
        }
        look(&piece[..count]);
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}

impl Drop for Room {
    fn drop(&mut self) {
        for name in self.daemons.iter().chain([&self.site]) {
            drop(Command::new("ip").args(["netns", "delete", name]).output());
        }
    }
}
