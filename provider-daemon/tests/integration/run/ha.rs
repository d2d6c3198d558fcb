//! Two providers of one account, of which one works: whatever becomes of it, the other takes over, and no order is
//! answered twice or never.

use crate::stage::{Running, Stage, until};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidState, DeploymentId};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testbed::Redis;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Long against a look at a loaded machine, and short for a test.
const LEASE: Duration = Duration::from_secs(4);
const NAMES: [&str; 2] = ["a", "b"];

/// A network, a Redis, and homes for two.
struct Pair {
    stage: Stage,
    server: Redis,
    port: u16,
    /// How often each was started, for names of its files.
    starts: u32,
    orders: Vec<DeploymentId>,
}

impl Pair {
    /// `None`, and a line that says why, where this machine has no Redis.
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

    /// Every order has one bid, and it is open.
    fn all_are_answered(&self, told: impl Fn() -> String) {
        for id in &self.orders {
            until("a bid", &told, || !self.stage.bids(id).is_empty());
            let bids = self.stage.bids(id);
            assert_eq!(
                (bids.len(), bids[0].state),
                (1, BidState::Open),
                "{id:?}\n{}",
                told()
            );
        }
    }

    /// Reads facts of the bus as another process.
    fn facts(&self) -> Running {
        let bus = format!("--bus=redis://127.0.0.1:{}", self.port);
        let words = ["bus", "tail", "akash.provider.facts", "--output=json", &bus];
        self.stage.running("facts", &words)
    }

    /// The facts of every order are on the bus, each with an id of its own.
    fn each_order_is_on_the_bus_once(&self, facts: &Running, told: impl Fn() -> String) {
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
            let told = || format!("{event}\n{}\n{}", facts.output(), told());
            let all = || published(event).len() >= self.orders.len();
            until("each order is on the bus", told, all);
            let ids = published(event);
            let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
            assert_eq!(
                (ids.len(), distinct.len()),
                (self.orders.len(), ids.len()),
                "{}",
                told()
            );
        }
    }

    /// Everything is gone.
    fn forgets(&self) {
        assert_eq!(self.say("FLUSHALL"), "+OK");
    }

    /// What the server answers to somebody's words, as far as it is one line.
    fn say(&self, words: &str) -> String {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        line.write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        BufReader::new(line).read_line(&mut said).unwrap();
        said.trim_end().to_owned()
    }
}

/// What it said last of its role, and in which term.
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
    until("it leads", || one.told(), || role(one).0 == "leader");
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
        let told = || format!("{}\n---\n{}", first.told(), second.told());
        assert_eq!(role(&second).0, "standby", "{}", told());
        let begun = Instant::now();
        let way = hand_over % 3;
        match way {
            0 => first.kill(),
            1 => first.signal(Signal::SIGTERM),
            _ => first.signal(Signal::SIGSTOP),
        }
        // Orders go on while nobody leads.
        for _ in 0..3 {
            pair.order();
        }
        let next = leads(&second);
        let took = begun.elapsed();
        assert!(next > term, "{next} after {term}");
        term = next;
        println!("hand-over {hand_over} ({way}): {took:?}");
        let most = if way == 1 { LEASE } else { LEASE + LEASE };
        assert!(took < most, "{took:?}");
        if way == 2 {
            // It goes on with what it had begun, and must do nothing of it.
            first.signal(Signal::SIGCONT);
            let told = || first.told();
            until("it hears that it leads no more", told, || {
                role(&first).0 == "standby"
            });
        }
        pair.all_are_answered(|| second.told());
        if way == 1 {
            assert_eq!(first.ended(), Some(0), "{}", first.told());
        }
        let again = NAMES[usize::from(hand_over % 2 == 1)];
        if way != 2 {
            drop(std::mem::replace(&mut first, pair.start(again, &[])));
        }
        std::mem::swap(&mut first, &mut second);
        let told = || second.told();
        until("a warm standby", told, || {
            second.output().contains("this instance is a standby")
        });
    }
    pair.order();
    pair.all_are_answered(|| first.told());
    pair.each_order_is_on_the_bus_once(&facts, || first.told());
}

/// Each instance has a key of its own in its home: a standby that made its certificate known would leave two valid ones,
/// of which tenants cannot tell which is served.
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
    until("a certificate", || first.told(), || certificates(&pair) == 1);
    let facts = pair.facts();
    let second = pair.start("b", &serve);
    second.says("a certificate, so that tenants reach it");
    pair.order();
    pair.all_are_answered(|| first.told());
    facts.says("\"event\":\"bid_placed\"");
    // The standby's log has the bid too, so it had every reason to publish it.
    second.says("\"event\":\"bid_placed\"");
    // Longer than the first wait of a certificate that cannot be published.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(certificates(&pair), 1, "{}", second.told());
    let placed = || facts.output().matches("\"event\":\"bid_placed\"").count();
    assert_eq!(placed(), 1, "{}", facts.output());
    first.kill();
    leads(&second);
    until("its certificate", || second.told(), || certificates(&pair) == 2);
    until("it is ready", || second.told(), || is_ready(&second));
    pair.order();
    pair.all_are_answered(|| second.told());
    until("its events", || second.told(), || placed() == 2);
}

#[test]
fn a_store_that_is_away_pauses_writes_and_nothing_else_and_one_that_forgets_begins_a_later_term() {
    let Some(mut pair) = Pair::new("ha-store") else {
        return;
    };
    let (first, second) = (pair.start("a", &[]), pair.start("b", &[]));
    let both = [&first, &second];
    let told = || format!("{}\n---\n{}", first.told(), second.told());
    let leader = || both.iter().filter(|one| role(one).0 == "leader").count();
    until("one leads", told, || leader() == 1);
    until("it bids", told, || both.iter().any(|one| is_ready(one)));
    let term = both.iter().find_map(|one| role(one).1).unwrap();
    pair.order();
    pair.all_are_answered(told);
    pair.server.freeze().unwrap();
    until("nobody leads", told, || leader() == 0);
    let id = pair.order();
    std::thread::sleep(LEASE);
    assert!(pair.stage.bids(&id).is_empty(), "{}", told());
    assert_eq!(leader(), 0, "{}", told());
    pair.server.go_on().unwrap();
    until("one leads again", told, || leader() == 1);
    pair.all_are_answered(told);
    pair.forgets();
    let later = || both.iter().filter_map(|one| role(one).1).max().unwrap_or(0) > term;
    until("a later term", told, || later() && leader() == 1);
    pair.order();
    pair.all_are_answered(told);
}

#[test]
fn what_somebody_else_writes_over_the_record_is_told_and_costs_no_lease() {
    let Some(mut pair) = Pair::new("ha-garbage") else {
        return;
    };
    let name = "--ha-name=spoiled";
    let (first, second) = (pair.start("a", &[name]), pair.start("b", &[name]));
    let both = [&first, &second];
    let told = || format!("{}\n---\n{}", first.told(), second.told());
    let leader = || both.iter().filter(|one| role(one).0 == "leader").count();
    until("one leads", told, || leader() == 1);
    let id = pair.order();
    until("a bid", told, || !pair.stage.bids(&id).is_empty());
    let bid = pair.stage.bids(&id).remove(0).id;
    pair.stage.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
    let key = "{akash-provider}:election:spoiled";
    // Another program's value under our key; then the record of a stranger in our form.
    let stranger = format!("HSET {key} version 1 holder stranger term 9999 lease_ms 1000 beside {{");
    for spoils in [&["SET", key, "nonsense"].join(" "), &stranger] {
        pair.say(&format!("DEL {key}"));
        pair.say(spoils);
        until("nobody leads by it", told, || leader() == 0);
        let late = pair.order();
        if spoils.starts_with("SET") {
            let says_so = || told().contains("election store failed");
            until("it is told", told, says_so);
            std::thread::sleep(LEASE);
            assert!(pair.stage.bids(&late).is_empty() && leader() == 0, "{}", told());
            assert_eq!(
                pair.say(&format!("GET {key}")),
                "$8",
                "nothing foreign is deleted"
            );
            pair.say(&format!("DEL {key}"));
        }
        until("one leads again", told, || leader() == 1);
        until("the late order is answered", told, || {
            !pair.stage.bids(&late).is_empty()
        });
    }
    let terms = both.iter().filter_map(|one| role(one).1).max();
    assert!(terms > Some(9_999), "above what anybody wrote: {terms:?}");
    assert_eq!(pair.stage.live_leases(), 1, "{}", told());
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
        || other.told(),
        || other.told().contains("bid-timeout"),
    );
    first.signal(Signal::SIGTERM);
    let begun = Instant::now();
    // One with the same settings would have had this time to come.
    assert_eq!(leads(&other), term + 1);
    assert!(begun.elapsed() >= LEASE, "{:?}", begun.elapsed());
    assert_eq!(first.ended(), Some(0), "{}", first.told());
    until(
        "the breaker's state",
        || other.told(),
        || kept(&at_second).contains(crate::stage::ADDRESS),
    );
    drop(other);
    // Without an election it does not write as one of before.
    pair.forgets();
    let again = pair.start("b", &["--bid-timeout=7m"]);
    assert_eq!(
        leads(&again),
        term + 2,
        "the home knows the terms that there were"
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
    let names_it = || second.told().contains("settings=\"bid-price-policy\"");
    assert!(!names_it(), "{}", second.told());
    write_policy(&files[0], 2);
    until("the log names the edited setting", || second.told(), names_it);
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
        second.told()
    );
    let is_warned = second.told().contains("other settings than the leader before");
    assert!(!is_warned, "{}", second.told());
}

fn kept(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn flags_of_high_availability_that_make_no_sense_are_refused() {
    let stage = Stage::new("ha-flags", true);
    for (words, expected) in [
        (&["--ha=redis"][..], "--ha redis requires --ha-url or --bus"),
        (&["--ha=zookeeper"], "invalid value 'zookeeper'"),
        (&["--ha-lease=1s"], "it is from 3s to 300s"),
        (&["--ha-key=/none"], "--ha-url"),
    ] {
        let (code, _, err) = stage.ran(&[&["run"], &crate::stage::PRICES[..], words].concat());
        assert_ne!(code, 0, "{words:?}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}
