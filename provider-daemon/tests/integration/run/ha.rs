//! Two providers of one account, one of which is the leader: the other takes over after every kind of
//! failure, and every order gets exactly one bid.

use crate::stage::{Running, Stage, until};
use akash_provider_core::types::{BidState, DeploymentId};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testbed::Redis;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Election lease duration, longer than a store request on a busy machine.
const LEASE: Duration = Duration::from_secs(4);
const NAMES: [&str; 2] = ["a", "b"];

/// Devnet and Redis server for two instances.
struct Pair {
    stage: Stage,
    server: Redis,
    port: u16,
    /// Number of started instances, for the names of log files.
    starts: u32,
    orders: Vec<DeploymentId>,
}

impl Pair {
    /// Starts the network and Redis; `None` without Redis on this machine.
    fn new(name: &str) -> Option<Self> {
        let mut stage = Stage::new(name, true);
        let port = testbed::free_port().unwrap();
        let server = stage.redis(port, &[])?;
        stage.start_node(FAST);
        Some(Self {
            stage,
            server,
            port,
            starts: 0,
            orders: Vec::new(),
        })
    }

    fn start(&mut self, name: &str, more: &[&str]) -> Running {
        self.starts += 1;
        let home = format!("--home={}", self.stage.path(&format!("home-{name}")).display());
        let url = format!("--ha-url=redis://127.0.0.1:{}", self.port);
        let bus = format!("--bus=redis://127.0.0.1:{}", self.port);
        let (identity, address) = (
            format!("--ha-identity={name}"),
            format!("--ha-address={name}.test:8443"),
        );
        let ours = [
            "--ha=redis",
            &url,
            &home,
            &identity,
            &address,
            "--ha-lease=4s",
            "--nodes=8",
            "-o=json",
            &bus,
        ];
        let file = format!("{name}-{}", self.starts);
        self.stage.provider(&file, &[&ours[..], more].concat())
    }

    fn order(&mut self) -> DeploymentId {
        let id = self.stage.order(self.orders.len() as u64 + 1);
        self.orders.push(id.clone());
        id
    }

    /// Waits until every order has exactly one bid, which is open.
    fn every_order_is_served(&self, dump: impl Fn() -> String) {
        for id in &self.orders {
            until("the order has a bid", &dump, || !self.stage.bids(id).is_empty());
            let bids = self.stage.bids(id);
            assert_eq!(
                (bids.len(), bids[0].state),
                (1, BidState::Open),
                "{id:?}\n{}",
                dump()
            );
        }
    }

    fn facts(&self) -> Running {
        let bus = format!("--bus=redis://127.0.0.1:{}", self.port);
        let words = ["bus", "tail", "akash.provider.facts", "--output=json", &bus];
        self.stage.running("facts", &words)
    }

    /// Asserts that the bus has the events of every order, with distinct ids.
    fn each_order_is_on_the_bus_once(&self, facts: &Running, dump: impl Fn() -> String) {
        let published = |event: &str| -> Vec<String> {
            let output = facts.output();
            let objects = output
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let of_kind = objects.filter(|object| object["event"]["event"] == event);
            let id = |object: Value| object["event"]["id"].as_str().unwrap().to_owned();
            of_kind.map(id).collect()
        };
        for event in ["order_seen", "bid_placed"] {
            let dump = || format!("{event}\n{}\n{}", facts.output(), dump());
            let all = || published(event).len() >= self.orders.len();
            until("the events of each order are on the bus", dump, all);
            let ids = published(event);
            let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
            assert_eq!(
                (ids.len(), distinct.len()),
                (self.orders.len(), ids.len()),
                "{}",
                dump()
            );
        }
    }

    /// Deletes all data of the Redis server.
    fn forgets(&self) {
        assert_eq!(self.say("FLUSHALL"), "+OK");
    }

    /// Sends a command to Redis and returns the first response line.
    fn say(&self, words: &str) -> String {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        line.write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut response = String::new();
        BufReader::new(line).read_line(&mut response).unwrap();
        response.trim_end().to_owned()
    }
}

/// Returns the last printed role and its election term.
fn role(one: &Running) -> (String, Option<u64>) {
    let output = one.output();
    let mut objects = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = objects.rfind(|object| object["event"] == "leadership");
    let last = last.unwrap_or_default();
    (
        last["role"].as_str().unwrap_or("standby").to_owned(),
        last["term"].as_u64(),
    )
}

#[track_caller]
fn leads(one: &Running) -> u64 {
    until(
        "the instance is the leader",
        || one.dump(),
        || role(one).0 == "leader",
    );
    role(one).1.unwrap()
}

fn is_ready(one: &Running) -> bool {
    let output = one.output();
    let last = output
        .lines()
        .rfind(|line| line.contains("\"event\":\"awaited\""));
    last.is_some_and(|line| line.contains("\"is_ready\":true"))
}

#[test]
fn of_two_one_bids_and_the_other_takes_over_after_a_kill_a_stop_and_a_pause() {
    let Some(mut pair) = Pair::new("ha") else { return };
    let mut first = pair.start("a", &[]);
    let mut term = leads(&first);
    let mut second = pair.start("b", &[]);
    second.says("leadership: this instance is a standby");
    let facts = pair.facts();
    for hand_over in 0..6 {
        for _ in 0..3 {
            pair.order();
        }
        let dump = || format!("{}\n---\n{}", first.dump(), second.dump());
        assert_eq!(role(&second).0, "standby", "{}", dump());
        let begun = Instant::now();
        let way = hand_over % 3;
        match way {
            0 => first.kill(),
            1 => first.signal(Signal::SIGTERM),
            _ => first.signal(Signal::SIGSTOP),
        }
        // Tenants create further orders while no instance is the leader.
        for _ in 0..3 {
            pair.order();
        }
        let next = leads(&second);
        let took = begun.elapsed();
        assert!(next > term, "election term {next} after {term}");
        term = next;
        println!("fail-over {hand_over} (kind {way}) took {took:?}");
        let most = if way == 1 { LEASE } else { LEASE + LEASE };
        assert!(took < most, "{took:?}");
        if way == 2 {
            // The suspended leader continues with its pending work and must not execute any of it.
            first.signal(Signal::SIGCONT);
            let dump = || first.dump();
            until("the old leader reports that it lost the leadership", dump, || {
                role(&first).0 == "standby"
            });
        }
        pair.every_order_is_served(|| second.dump());
        if way == 1 {
            assert_eq!(first.ended(), Some(0), "{}", first.dump());
        }
        let again = NAMES[usize::from(hand_over % 2 == 1)];
        if way != 2 {
            drop(std::mem::replace(&mut first, pair.start(again, &[])));
        }
        std::mem::swap(&mut first, &mut second);
        let dump = || second.dump();
        until(
            "the instance is a standby that is ready to take over",
            dump,
            || second.output().contains("this instance is a standby"),
        );
    }
    pair.order();
    pair.every_order_is_served(|| first.dump());
    pair.each_order_is_on_the_bus_once(&facts, || first.dump());
}

/// If a standby published a certificate too, tenants would not know which certificate is served.
#[test]
fn a_standby_publishes_no_certificate_and_no_event_and_does_both_once_it_leads() {
    let Some(mut pair) = Pair::new("ha-writers") else {
        return;
    };
    let serve = [
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
    ];
    let mut first = pair.start("a", &serve);
    leads(&first);
    let owner = crate::stage::ADDRESS.parse().unwrap();
    let certificates = |pair: &Pair| {
        pair.stage
            .chain
            .market(|market| market.certificates(&owner).len())
    };
    until(
        "the chain has one certificate",
        || first.dump(),
        || certificates(&pair) == 1,
    );
    let facts = pair.facts();
    let second = pair.start("b", &serve);
    second.says("a certificate, so that tenants reach it");
    pair.order();
    pair.every_order_is_served(|| first.dump());
    facts.says("\"event\":\"bid_placed\"");
    // The standby has observed the bid too, but must not publish the event.
    second.says("\"event\":\"bid_placed\"");
    // Longer than the first retry interval for publishing a certificate.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(certificates(&pair), 1, "{}", second.dump());
    let placed = || facts.output().matches("\"event\":\"bid_placed\"").count();
    assert_eq!(placed(), 1, "{}", facts.output());
    let acts = |name: &str| {
        let home = format!("--home={}", pair.stage.path(&format!("home-{name}")).display());
        let (code, lines, problem) = pair.stage.ran(&["audit", "-o", "json", &home]);
        assert_eq!(code, 0, "{problem}");
        let act = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["act"].clone();
        lines.lines().map(act).collect::<Vec<_>>()
    };
    assert_eq!(acts("b"), ["run"], "acts of a standby");
    assert!(
        acts("a").contains(&"certificate_publish".into()),
        "{:?}",
        acts("a")
    );
    first.kill();
    leads(&second);
    until(
        "the new leader has published its certificate",
        || second.dump(),
        || certificates(&pair) == 2,
    );
    until("the new leader is ready", || second.dump(), || is_ready(&second));
    pair.order();
    pair.every_order_is_served(|| second.dump());
    until(
        "the new leader has published its event",
        || second.dump(),
        || placed() == 2,
    );
}

#[test]
fn a_store_that_is_away_pauses_writes_and_nothing_else_and_one_that_forgets_begins_a_later_term() {
    let Some(mut pair) = Pair::new("ha-store") else {
        return;
    };
    let (first, second) = (pair.start("a", &[]), pair.start("b", &[]));
    let both = [&first, &second];
    let dump = || format!("{}\n---\n{}", first.dump(), second.dump());
    let leader = || both.iter().filter(|one| role(one).0 == "leader").count();
    until("one instance is the leader", dump, || leader() == 1);
    until("the leader is ready", dump, || {
        both.iter().any(|one| is_ready(one))
    });
    let term = both.iter().find_map(|one| role(one).1).unwrap();
    pair.order();
    pair.every_order_is_served(dump);
    pair.server.freeze().unwrap();
    until("no instance is the leader", dump, || leader() == 0);
    let id = pair.order();
    std::thread::sleep(LEASE);
    assert!(pair.stage.bids(&id).is_empty(), "{}", dump());
    assert_eq!(leader(), 0, "{}", dump());
    pair.server.go_on().unwrap();
    until("one instance is the leader again", dump, || leader() == 1);
    pair.every_order_is_served(dump);
    pair.forgets();
    let later = || both.iter().filter_map(|one| role(one).1).max().unwrap_or(0) > term;
    until("an instance leads with a higher election term", dump, || {
        later() && leader() == 1
    });
    pair.order();
    pair.every_order_is_served(dump);
}

#[test]
fn overwritten_record_is_reported_and_ends_no_lease() {
    let Some(mut pair) = Pair::new("ha-garbage") else {
        return;
    };
    let name = "--ha-name=spoiled";
    let (first, second) = (pair.start("a", &[name]), pair.start("b", &[name]));
    let both = [&first, &second];
    let dump = || format!("{}\n---\n{}", first.dump(), second.dump());
    let leader = || both.iter().filter(|one| role(one).0 == "leader").count();
    until("one instance is the leader", dump, || leader() == 1);
    let id = pair.order();
    until("the order has a bid", dump, || !pair.stage.bids(&id).is_empty());
    let bid = pair.stage.bids(&id).remove(0).id;
    pair.stage.accept(bid);
    let key = "{akash-provider}:election:spoiled";
    // First a value of another program under our key, then a well-formed record with an unknown holder.
    let stranger = format!("HSET {key} version 1 holder stranger term 9999 lease_ms 1000 beside {{");
    for spoils in [&["SET", key, "nonsense"].join(" "), &stranger] {
        pair.say(&format!("DEL {key}"));
        pair.say(spoils);
        until(
            "no instance is the leader while the record is invalid",
            dump,
            || leader() == 0,
        );
        let late = pair.order();
        if spoils.starts_with("SET") {
            let says_so = || dump().contains("cannot use the election record");
            until("the log reports the failed election store", dump, says_so);
            std::thread::sleep(LEASE);
            assert!(pair.stage.bids(&late).is_empty() && leader() == 0, "{}", dump());
            assert_eq!(
                pair.say(&format!("GET {key}")),
                "$8",
                "the value of the other program is not deleted"
            );
            pair.say(&format!("DEL {key}"));
        }
        until("one instance is the leader again", dump, || leader() == 1);
        until("the late order has a bid", dump, || {
            !pair.stage.bids(&late).is_empty()
        });
    }
    let terms = both.iter().filter_map(|one| role(one).1).max();
    assert!(
        terms > Some(9_999),
        "the election term must be above the forged one: {terms:?}"
    );
    assert_eq!(pair.stage.live_leases(), 1, "{}", dump());
}

#[test]
fn what_the_breaker_was_and_the_term_follow_the_leader_and_other_settings_wait_and_are_named() {
    let Some(mut pair) = Pair::new("ha-follows") else {
        return;
    };
    let file = |name: &str| {
        let home = pair.stage.path(&format!("home-{name}"));
        std::fs::create_dir_all(&home).unwrap();
        home.join(format!("{}.devnet.breaker-tripped", crate::stage::ADDRESS))
    };
    let (at_first, at_second) = (file("a"), file("b"));
    std::fs::write(&at_first, format!("owner {}\n", crate::stage::ADDRESS)).unwrap();
    let mut first = pair.start("a", &[]);
    let term = leads(&first);
    let other = pair.start("b", &["--bid-timeout=7m"]);
    until(
        "the log names the setting",
        || other.dump(),
        || other.dump().contains("bid-timeout"),
    );
    first.signal(Signal::SIGTERM);
    let begun = Instant::now();
    // The lease time is left to a standby with equal settings before this instance takes over.
    assert_eq!(leads(&other), term + 1);
    assert!(begun.elapsed() >= LEASE, "{:?}", begun.elapsed());
    assert_eq!(first.ended(), Some(0), "{}", first.dump());
    until(
        "the standby has the breaker state of the leader",
        || other.dump(),
        || file_text(&at_second).contains(crate::stage::ADDRESS),
    );
    drop(other);
    // Without an election record, the next leader uses a higher term than the one in its home.
    pair.forgets();
    let again = pair.start("b", &["--bid-timeout=7m"]);
    assert_eq!(
        leads(&again),
        term + 2,
        "the term follows the highest term stored in the home folder"
    );
}

fn write_policy(path: &Path, cpu: u32) {
    let text = format!(
        "version: 1\nper: block\ndenominations: {{uact: 1}}\nprices: {{cpu: {cpu}, memory: 0, storage: {{ephemeral: 0}}}}\n"
    );
    std::fs::write(path, text).unwrap();
}

#[test]
fn an_edited_price_policy_is_compared_and_equal_edits_delay_no_takeover() {
    let Some(mut pair) = Pair::new("ha-policy") else {
        return;
    };
    let files = NAMES.map(|name| pair.stage.path(&format!("prices-{name}.yaml")));
    files.iter().for_each(|file| write_policy(file, 1));
    let flags = files
        .clone()
        .map(|file| format!("--bid-price-policy={}", file.display()));
    let mut first = pair.start("a", &["--bid-price-strategy=policy", &flags[0]]);
    leads(&first);
    let second = pair.start("b", &["--bid-price-strategy=policy", &flags[1]]);
    second.says("leadership: this instance is a standby");
    let names_it = || second.dump().contains("settings=\"bid-price-policy\"");
    assert!(!names_it(), "{}", second.dump());
    write_policy(&files[0], 2);
    until("the log names the edited setting", || second.dump(), names_it);
    write_policy(&files[1], 2);
    // The standby reads its file twice a second.
    std::thread::sleep(Duration::from_millis(1_200));
    let begun = Instant::now();
    first.kill();
    leads(&second);
    let took = begun.elapsed();
    assert!(
        took < LEASE + Duration::from_secs(3),
        "{took:?}\n{}",
        second.dump()
    );
    let is_warned = second.dump().contains("differ from those of the previous leader");
    assert!(!is_warned, "{}", second.dump());
}

fn file_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn flags_of_high_availability_that_make_no_sense_are_refused() {
    let stage = Stage::new("ha-flags", true);
    for (words, expected) in [
        (&["--ha=redis"][..], "--ha redis requires --ha-url or --bus"),
        (&["--ha=zookeeper"], "invalid value 'zookeeper'"),
        (&["--ha-lease=1s"], "expected a duration from 3s to 300s"),
        (&["--ha-key=/none"], "--ha-url"),
    ] {
        let (code, _, err) = stage.ran(&[&["run"], &crate::stage::PRICES[..], words].concat());
        assert_ne!(code, 0, "{words:?}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}
