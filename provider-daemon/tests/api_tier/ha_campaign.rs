//! Two providers of one account under a stream of orders, of which now this and now that one leads: killed, stopped, paused,
//! cut off and deafened, by clocks that are minutes apart, and with the rights of `deploy/rbac` alone.
//!
//! The test command runs a small form; `cargo xtask campaign ha` the long one. The hand-overs follow from `HA_SEED`.

#[path = "ha_campaign/crowd.rs"]
pub(crate) mod crowd;
#[path = "ha_campaign/node.rs"]
mod node;
#[path = "ha_campaign/record.rs"]
mod record;
#[path = "ha_campaign/room.rs"]
mod room;

use crate::http::token;
use crate::landed::landed;
use crate::stage::{PRICES, Running, Stage, until};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, Msg};
use crowd::{Crowd, Deployment, Tenant, wrongly_closed};
use nix::sys::signal::Signal;
pub(crate) use node::LargeNode;
use record::{Away, Watch, judged};
use room::Room;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Component, Tier};

const BLOCK: Duration = Duration::from_millis(500);
/// The Lease has this name where nobody gives it another.
const LEASE: &str = "akash-provider";
const LEASE_FLAG: &str = "--ha-lease=4s";
const NAMES: [&str; 2] = ["a", "b"];
const NODE_PORT: u16 = 26657;
const API_PORT: u16 = 6443;
const GATEWAY_PORT: u16 = 8443;
/// What the clocks of instances show, in seconds before or behind that of this machine.
const CLOCKS: [i64; 3] = [0, 420, -240];
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// How the leader goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Kill,
    Term,
    /// Stopped for longer than its term, and then it goes on.
    Pause,
    /// Nothing goes through its wire.
    Cut,
    /// It is heard, and hears nothing.
    Deaf,
}

const WAYS: [Way; 5] = [Way::Kill, Way::Term, Way::Pause, Way::Cut, Way::Deaf];

/// Numbers that follow from a seed (splitmix64).
struct Lots(u64);

impl Lots {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    /// So many ways, each as often as the others.
    fn ways(&mut self, count: usize) -> Vec<Way> {
        let mut all = Vec::new();
        while all.len() < count {
            let mut left = WAYS.to_vec();
            while !left.is_empty() {
                all.push(left.swap_remove(self.below(left.len())));
            }
        }
        all.truncate(count);
        all
    }
}

fn setting(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse().expect("a setting of this test is a number")
    })
}

/// Everything between two daemons and what they share.
pub(crate) struct World<'a> {
    cluster: &'a Cluster,
    stage: Stage,
    room: Room,
    faketime: Option<PathBuf>,
    lease: &'static str,
    starts: u32,
    clocks: [i64; 2],
}

impl<'a> World<'a> {
    /// `lease` is the flag that says how long a leadership lasts.
    pub(crate) fn new(cluster: &'a Cluster, lease: &'static str) -> Self {
        let mut stage = Stage::new("ha-campaign", true);
        stage.start_node(Some(BLOCK));
        let room = Room::new();
        let faketime = testbed::faketime();
        if let Err(error) = &faketime {
            println!("skipped: clocks that are minutes apart: {error}");
        }
        let world = Self {
            cluster,
            stage,
            room,
            faketime: faketime.ok(),
            lease,
            starts: 0,
            clocks: [0; 2],
        };
        world.give_rights();
        let api = world.api_server();
        let node: SocketAddr = world.stage.url().trim_start_matches("http://").parse().unwrap();
        for who in 0..NAMES.len() {
            world.room.lead(who, NODE_PORT, node);
            world.room.lead(who, API_PORT, api);
        }
        world.take_certificates();
        world
    }

    fn apply(&self, verb: &str, more: &[&str]) {
        let rights = format!("{DEPLOY}/rbac");
        let words = [verb, "--filename", &rights];
        self.cluster.kubectl(&[&words[..], more].concat()).unwrap();
    }

    /// The account of the provider, and a kubeconfig of it for each daemon.
    fn give_rights(&self) {
        self.apply("apply", &[]);
        let words = [
            "create",
            "token",
            "akash-provider",
            "--namespace=lease",
            "--duration=8h",
        ];
        let token = self.cluster.kubectl(&words).unwrap();
        let mut config = self.config();
        let api = self.api_server();
        for (who, name) in NAMES.iter().enumerate() {
            let cluster = &mut config["clusters"][0]["cluster"];
            cluster["server"] = format!("https://{}", Room::here(who, API_PORT)).into();
            cluster["tls-server-name"] = api.ip().to_string().into();
            config["users"][0]["user"] = json!({"token": token.trim()});
            std::fs::write(self.stage.path(&format!("kubeconfig-{name}")), config.to_string()).unwrap();
        }
        let lease = [
            "delete",
            "leases.coordination.k8s.io",
            LEASE,
            "--namespace=lease",
            "--ignore-not-found",
        ];
        self.cluster.kubectl(&lease).unwrap();
    }

    fn config(&self) -> Value {
        let config = self
            .cluster
            .kubectl(&["config", "view", "--raw", "--output=json"])
            .unwrap();
        serde_json::from_str(&config).unwrap()
    }

    fn api_server(&self) -> SocketAddr {
        let config = self.config();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        server.strip_prefix("https://").unwrap().parse().unwrap()
    }

    /// Both gateways show the certificate that the chain knows.
    fn take_certificates(&self) {
        for words in [
            &["generate", "server", "localhost"][..],
            &["publish", "server", "--yes"],
        ] {
            let (code, out, err) = self.stage.ran(&[&["tx", "cert"], words].concat());
            assert_eq!(code, 0, "{out}{err}");
        }
        for name in NAMES {
            let home = self.stage.path(&format!("home-{name}"));
            std::fs::create_dir_all(&home).unwrap();
            for file in std::fs::read_dir(self.stage.path(""))
                .unwrap()
                .map(Result::unwrap)
            {
                if file.path().extension().is_some_and(|ends| ends == "pem") {
                    std::fs::copy(file.path(), home.join(file.file_name())).unwrap();
                }
            }
        }
    }

    /// Starts a daemon by a clock that is so far from ours.
    pub(crate) fn start(&mut self, who: usize, clock: i64) -> Running {
        self.starts += 1;
        let name = NAMES[who];
        let mut before = self.room.inside(who);
        let clock = if self.faketime.is_some() { clock } else { 0 };
        self.clocks[who] = clock;
        if let Some(library) = &self.faketime {
            before.extend([
                "env".to_owned(),
                format!("LD_PRELOAD={}", library.display()),
                format!("FAKETIME={clock:+}s"),
                "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
                "DONT_FAKE_MONOTONIC=1".to_owned(),
            ]);
        }
        let flags = [
            format!("--home={}", self.stage.path(&format!("home-{name}")).display()),
            format!("--node=http://{}", Room::here(who, NODE_PORT)),
            format!(
                "--kubeconfig={}",
                self.stage.path(&format!("kubeconfig-{name}")).display()
            ),
            format!("--ha-identity={name}"),
            format!("--ha-address={}", Room::there(who, GATEWAY_PORT)),
            format!("--gateway-listen-address={}", Room::there(who, GATEWAY_PORT)),
        ];
        let flags = flags.iter().map(String::as_str);
        let fixed = [
            "run",
            "--cluster-k8s",
            "--ha=kubernetes",
            self.lease,
            "-o=json",
            "--deployment-ingress-static-hosts",
            "--deployment-ingress-domain=ingress.localhost",
        ];
        let words: Vec<&str> = fixed.into_iter().chain(PRICES).chain(flags).collect();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let command = self.stage.command_after(&before, &words);
        self.stage.started(&format!("{name}-{}", self.starts), command)
    }

    /// A tenant with money, and all that it needs to send manifests.
    pub(crate) fn tenant(&self) -> Tenant {
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        self.stage.chain.market(|market| {
            let coin = Coin {
                denom: "uact".into(),
                amount: u128::from(u64::MAX),
            };
            market.fund(key.address(), &coin);
            market.set_pubkey(key.address(), key.public().as_bytes().to_vec());
        });
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
        let (code, manifest, err) = self.stage.ran(&["sdl", "manifest", sample]);
        assert_eq!(code, 0, "{err}");
        let file = self.stage.path("manifest.json");
        std::fs::write(&file, manifest).unwrap();
        Tenant {
            chain: self.stage.chain.clone(),
            token: token(&key),
            key,
            manifest: file.display().to_string(),
            gateways: [0, 1].map(|who| format!("https://{}", Room::there(who, GATEWAY_PORT))),
            before: self.room.at_the_site(),
        }
    }

    /// Leases that have their pods' objects on the cluster.
    pub(crate) fn deployed(&self) -> BTreeSet<u64> {
        let of = |kind: &str, line: &str| {
            let words = [
                "get",
                kind,
                "--all-namespaces",
                "--selector=akash.network=true",
                "--output",
                line,
            ];
            self.cluster.kubectl(&words).unwrap()
        };
        let dseq = "jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.akash\\.network/lease\\.id\\.dseq}{\"\\n\"}{end}";
        let spaces = of("namespaces", dseq);
        let services = of(
            "deployments.apps",
            "jsonpath={range .items[*]}{.metadata.namespace}{\"\\n\"}{end}",
        );
        let with_services: BTreeSet<&str> = services.lines().collect();
        let named = spaces.lines().filter_map(|line| line.split_once(' '));
        named
            .filter(|(name, _)| with_services.contains(name))
            .filter_map(|(_, dseq)| dseq.parse().ok())
            .collect()
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        // What a test that failed left behind; where nothing is, nothing goes.
        let leases = [
            "delete",
            "namespaces",
            "--selector=akash.network=true",
            "--wait=false",
        ];
        drop(self.cluster.kubectl(&leases));
        drop(
            self.cluster
                .kubectl(&["delete", "manifests.akash.network", "--namespace=lease", "--all"]),
        );
        self.apply("delete", &["--ignore-not-found", "--wait=false"]);
    }
}

/// The role that it said last.
pub(crate) fn leads(one: &Running) -> bool {
    let output = one.output();
    let last = output
        .lines()
        .rfind(|line| line.contains("\"event\":\"leadership\""));
    last.is_some_and(|line| line.contains("\"role\":\"leader\""))
}

/// Two daemons, of which one leads, and all that became of them.
struct Pair<'a> {
    world: World<'a>,
    all: [Running; 2],
    leader: usize,
    lots: Lots,
    away: Vec<Away>,
    by_way: BTreeMap<Way, (u32, Duration)>,
    clocks_apart: u32,
}

impl<'a> Pair<'a> {
    fn new(mut world: World<'a>, mut lots: Lots) -> Self {
        let first = world.start(0, CLOCKS[lots.below(CLOCKS.len())]);
        until("one leads", || first.told(), || leads(&first));
        let second = world.start(1, CLOCKS[lots.below(CLOCKS.len())]);
        let pair = Self {
            world,
            all: [first, second],
            leader: 0,
            lots,
            away: Vec::new(),
            by_way: BTreeMap::new(),
            clocks_apart: 0,
        };
        pair.is_warm(1);
        pair
    }

    fn told(&self) -> String {
        format!("{}\n---\n{}", self.all[0].told(), self.all[1].told())
    }

    /// Says how the hand-overs went.
    fn tell(&self) {
        for (way, (times, most)) in &self.by_way {
            println!("{way:?}: {times} hand-overs, the longest took {most:?}");
        }
        println!(
            "{} hand-overs, {} of them between clocks that are minutes apart",
            self.by_way.values().map(|(times, _)| times).sum::<u32>(),
            self.clocks_apart,
        );
    }

    fn is_warm(&self, who: usize) {
        let one = &self.all[who];
        until(
            "a warm standby",
            || self.told(),
            || one.output().contains("another instance has"),
        );
    }

    fn hand_over(&mut self, way: Way) {
        sleep(Duration::from_millis(300 + self.lots.below(1_200) as u64));
        let (old, new) = (self.leader, 1 - self.leader);
        self.clocks_apart += u32::from(self.world.clocks[0] != self.world.clocks[1]);
        let begun = Instant::now();
        match way {
            Way::Kill => self.all[old].kill(),
            Way::Term => self.all[old].signal(Signal::SIGTERM),
            Way::Pause => self.all[old].signal(Signal::SIGSTOP),
            Way::Cut => self.world.room.cut(old),
            Way::Deaf => self.world.room.deafen(old),
        }
        until(
            "the other one leads",
            || format!("{way:?}\n{}", self.told()),
            || leads(&self.all[new]),
        );
        let counted = self.by_way.entry(way).or_default();
        *counted = (counted.0 + 1, counted.1.max(begun.elapsed()));
        self.leader = new;
        if matches!(way, Way::Kill | Way::Term) {
            if way == Way::Term {
                assert_eq!(self.all[old].ended(), Some(0), "{}", self.told());
            }
            let clock = CLOCKS[self.lots.below(CLOCKS.len())];
            let again = self.world.start(old, clock);
            drop(std::mem::replace(&mut self.all[old], again));
            self.is_warm(old);
            return;
        }
        sleep(Duration::from_millis(self.lots.below(1_500) as u64));
        match way {
            Way::Kill | Way::Term => {}
            Way::Pause => self.all[old].signal(Signal::SIGCONT),
            Way::Cut => self.world.room.mend(old),
            Way::Deaf => self.world.room.hear(old),
        }
        self.away.push(Away {
            who: old,
            from: begun,
            until: Instant::now(),
        });
        until(
            "it hears that it leads no more",
            || self.told(),
            || !leads(&self.all[old]),
        );
    }
}

/// How often a bid was sent to the chain that was there already.
fn bids_again(stage: &Stage) -> (usize, usize) {
    let height = stage.chain.market(|market| market.height());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let all = runtime.block_on(landed(&stage.url(), "devnet", height));
    let mut by_order: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for tx in &all {
        for msg in &tx.msgs {
            if let Msg::CreateBid { id, .. } = msg {
                let counted = by_order.entry(id.to_string()).or_default();
                *counted = (
                    counted.0 + usize::from(tx.code == 0),
                    counted.1 + usize::from(tx.code != 0),
                );
            }
        }
    }
    let double = by_order.values().filter(|(done, _)| *done > 1).count();
    (double, by_order.values().map(|(_, refused)| refused).sum())
}

/// Says how orders fared.
fn tell_of_orders(all: &[Deployment], double: usize, refused: usize) {
    let answers = all.iter().filter_map(|one| one.answered);
    println!(
        "{} orders, {} without an answer, the longest wait {:?}; {} double bids, {refused} sent again and refused",
        all.len(),
        all.iter().filter(|one| one.answered.is_none()).count(),
        answers.max().unwrap_or_default(),
        double,
    );
}

fn accepted(all: &[Deployment]) -> BTreeSet<u64> {
    let accepted = all.iter().filter(|one| one.accepted);
    accepted.map(|one| one.id.dseq).collect()
}

/// Whether a holder of the Lease is this daemon.
fn is(who: usize, holder: &str) -> bool {
    holder
        .strip_prefix(NAMES[who])
        .is_some_and(|rest| rest.starts_with('_'))
}

fn close_all(stage: &Stage, all: &[Deployment]) {
    for one in all.iter().filter(|one| !one.closed) {
        let id = one.id.clone();
        stage.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    }
}

#[test]
fn hand_overs_under_a_stream_of_orders_leave_one_writer_and_every_order_answered_once() {
    let Some((cluster, _alone)) = Cluster::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let (count, seed) = (setting("HA_HAND_OVERS", 5), setting("HA_SEED", 1));
    println!("hand-overs of seed {seed}: HA_SEED={seed} HA_HAND_OVERS={count}");
    let mut lots = Lots(seed);
    let ways = lots.ways(usize::try_from(count).unwrap());
    let _node = LargeNode::new(&cluster);
    let world = World::new(&cluster, LEASE_FLAG);
    let watch = Watch::start(&cluster, LEASE);
    let mut pair = Pair::new(world, lots);
    let crowd = Crowd::start(pair.world.tenant());
    for way in ways {
        pair.hand_over(way);
    }
    crowd.orders_no_more();
    let told = || {
        format!(
            "{:?}\n{}\n{}",
            crowd.known(),
            crowd.refusal.lock().unwrap(),
            pair.told()
        )
    };
    until("every order is answered, and every manifest taken", told, || {
        crowd.is_served()
    });
    crowd.stop();
    let all = crowd.known();
    let accepted = accepted(&all);
    until("every accepted manifest is deployed", told, || {
        accepted.is_subset(&pair.world.deployed())
    });
    let closed = wrongly_closed(&pair.world.stage, &all);
    let (double, refused) = bids_again(&pair.world.stage);
    let sent = pair.world.room.sent.lock().unwrap().clone();
    let held = watch.held();
    let judged = judged(&held, &sent, &pair.away, is);
    pair.tell();
    println!(
        "the Lease had {} holders",
        held.iter().filter(|one| !one.holder.is_empty()).count()
    );
    tell_of_orders(&all, double, refused);
    println!(
        "{} manifests accepted and deployed, {closed} wrong closes; {} writes to the chain, {} of them late, {} moments \
         with two writers",
        accepted.len(),
        sent.len(),
        judged.late,
        judged.two_writers.len(),
    );
    assert!(
        judged.two_writers.is_empty(),
        "{:?}\n{held:?}\n{}",
        judged.two_writers,
        told()
    );
    assert_eq!((double, closed), (0, 0), "{}", told());
    assert!(
        sent.len() >= all.len() / 2 && !accepted.is_empty(),
        "{} writes",
        sent.len()
    );
    assert_eq!(watch.last().map(|last| is(pair.leader, &last.holder)), Some(true));
    close_all(&pair.world.stage, &all);
    // Namespaces go with the help of those who were paused.
    cluster.resume(Component::ControllerManager).unwrap();
    until("everything is taken down", told, || {
        pair.world.deployed().is_empty()
    });
}
