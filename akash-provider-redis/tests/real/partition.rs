//! Network partition: server and clients in separate network namespaces, connected by a link that can be cut.

use crate::{delivery_of, fact, next, publish};
use akash_provider_core::bus::Bus;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::Topic;
use akash_provider_redis::{Location, RedisBus};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::Redis;
use testbed::free_port;

const SERVER: &str = "10.252.0.1";
const CLIENT: &str = "10.252.0.2";

/// Two network namespaces with a link, deleted when the value is dropped.
struct Network {
    server: String,
    client: String,
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {problem}");
}

impl Network {
    /// Creates the namespaces. Prints the reason and returns `None` if this user is not permitted to create
    /// them.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root may create network namespaces");
            return None;
        }
        let base = format!("bus{}", std::process::id() % 1_000_000);
        let network = Self {
            server: format!("{base}s"),
            client: format!("{base}c"),
        };
        ip(&["netns", "add", &network.server]);
        ip(&["netns", "add", &network.client]);
        ip(&[
            "link",
            "add",
            "wire",
            "netns",
            &network.server,
            "type",
            "veth",
            "peer",
            "name",
            "wire",
            "netns",
            &network.client,
        ]);
        for (name, address) in [(&network.server, SERVER), (&network.client, CLIENT)] {
            ip(&["-n", name, "link", "set", "lo", "up"]);
            ip(&[
                "-n",
                name,
                "address",
                "add",
                &format!("{address}/30"),
                "dev",
                "wire",
            ]);
            ip(&["-n", name, "link", "set", "wire", "up"]);
        }
        Some(network)
    }

    fn cut(&self) {
        ip(&["-n", &self.server, "link", "set", "wire", "down"]);
    }

    fn restore(&self) {
        ip(&["-n", &self.server, "link", "set", "wire", "up"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            drop(Command::new("ip").args(["netns", "delete", name]).output());
        }
    }
}

/// Runs `work` on a thread in a network namespace.
fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let namespace = File::open(format!("/run/netns/{name}")).unwrap();
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        there.join().unwrap()
    })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

#[test]
fn partitioned_reader_reads_all_events_later_and_publisher_fails_in_seconds() {
    let Some(network) = Network::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let started = inside(&network.server, || {
        let (at, dir) = (port.to_string(), folder.path().display().to_string());
        let args = [
            "--port",
            &at,
            "--dir",
            &dir,
            "--bind",
            "127.0.0.1",
            SERVER,
            "--protected-mode",
            "no",
            "--save",
            "",
        ];
        Redis::start("redis-server", port, folder.path(), &args.map(str::to_owned)).unwrap()
    });
    let Some(_redis) = started else { return };
    let at = |host: &str| -> Location { format!("redis://{host}:{port}").parse().unwrap() };
    let far = || RedisBus::new(at(SERVER), LeadershipGate::new(true));
    inside(&network.client, || {
        block_on(async {
            let bus = far();
            let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
            publish(&bus, Topic::Facts, 1).await;
            assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));

            network.cut();
            // Another publisher continues in the namespace of the server.
            inside(&network.server, || {
                block_on(async {
                    let near = RedisBus::new(at("127.0.0.1"), LeadershipGate::new(true));
                    for number in 2..102 {
                        publish(&near, Topic::Facts, number).await;
                    }
                });
            });
            let began = Instant::now();
            assert!(bus.publish(Topic::Facts, fact(200)).await.is_err());
            assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

            network.restore();
            publish(&bus, Topic::Facts, 201).await;
            for number in 2..102 {
                assert_eq!(
                    next(&mut facts).await,
                    delivery_of(Topic::Facts, number),
                    "no event is missing"
                );
            }
            // It is undefined whether the failed event was stored.
            loop {
                match next(&mut facts).await {
                    delivery if delivery == delivery_of(Topic::Facts, 201) => break,
                    delivery => assert_eq!(delivery, delivery_of(Topic::Facts, 200)),
                }
            }
        });
    });
}
