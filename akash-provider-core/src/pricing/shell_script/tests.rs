use super::*;
use crate::pricing::fixtures::{base_unit, dec, request, request_with};
use crate::types::Endpoint;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory with scripts, removed on drop.
struct Scripts(PathBuf);

impl Scripts {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("akash-price-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Adds a bash script; `$DIR` is its directory.
    fn add(&self, body: &str) -> PathBuf {
        let path = self.0.join("script");
        fs::write(
            self.0.join("script.body"),
            format!("DIR='{}'\n{body}\n", self.0.display()),
        )
        .unwrap();
        let runner = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/run.sh");
        symlink(runner, &path).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn strategy(path: impl Into<PathBuf>, process_limit: usize, timeout: Duration) -> ShellScript {
    ShellScript::new(ShellScriptConfig {
        path: path.into(),
        process_limit,
        timeout,
        ..ShellScriptConfig::new("")
    })
    .unwrap()
}

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

async fn run(body: &str) -> Result<DecCoin, Error> {
    let scripts = Scripts::new();
    strategy(scripts.add(body), 4, LONG)
        .calculate_price(&request(vec![base_unit()]))
        .await
}

async fn fails(body: &str) -> (ErrorKind, String) {
    let failure = run(body).await.unwrap_err().to_failure();
    (failure.kind, failure.message)
}

/// Waits until a process has exited or is a zombie.
async fn is_gone(pid: &str) -> bool {
    assert!(pid.parse::<u32>().is_ok(), "`{pid}` is not a process id");
    for _ in 0..200 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    false
}

/// Waits until a process runs `sleep`. Directly after the fork, the process is still a shell.
async fn becomes_sleep(pid: &str) -> bool {
    for _ in 0..200 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.contains("(sleep) S") || stat.contains("(sleep) R") {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    false
}

#[test]
fn invalid_settings_are_refused() {
    let config = ShellScriptConfig::new("/bin/true");
    assert_eq!(
        (config.process_limit, config.timeout),
        (32, Duration::from_secs(10))
    );
    let refused = |config| ShellScript::new(config).unwrap_err();
    assert_eq!(refused(ShellScriptConfig::new("")), InvalidScript::NoPath);
    assert_eq!(
        refused(ShellScriptConfig {
            process_limit: 0,
            ..config.clone()
        }),
        InvalidScript::NoProcesses
    );
    assert_eq!(
        refused(ShellScriptConfig {
            timeout: Duration::ZERO,
            ..config.clone()
        }),
        InvalidScript::NoTime
    );
    assert!(
        ShellScript::new(ShellScriptConfig {
            process_limit: usize::MAX,
            ..config
        })
        .is_ok()
    );
}

#[tokio::test]
async fn a_missing_script_is_a_path_error() {
    let missing = strategy("/nowhere/price.sh", 4, LONG);
    let error = missing
        .calculate_price(&request(vec![base_unit()]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_failure().message;
    assert!(
        message.starts_with("price by script: /nowhere/price.sh: cannot be started"),
        "{message}"
    );
}

#[tokio::test]
async fn the_error_of_a_failing_script_contains_its_stderr() {
    let (kind, message) = fails("echo 5; echo first line >&2; echo 'rate too low' >&2; exit 1").await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(
        message.contains("exit status: 1") && message.ends_with("rate too low"),
        "{message}"
    );
    let (_, message) = fails("kill -9 $$").await;
    assert!(message.contains("signal: 9"), "{message}");
}

#[tokio::test]
async fn empty_zero_and_negative_output_is_an_error() {
    for nothing in ["", "echo", "printf '  \\n\\n'", "exec >&-"] {
        assert!(
            fails(nothing)
                .await
                .1
                .contains("printed nothing, so the order has no price"),
            "{nothing}"
        );
    }
    assert!(fails("echo 0").await.1.ends_with("the calculated price is zero"));
    assert!(
        fails("echo 0.000")
            .await
            .1
            .ends_with("the calculated price is zero")
    );
    assert!(
        fails("echo -1")
            .await
            .1
            .ends_with("the calculated price is below zero")
    );
}

#[tokio::test]
async fn a_number_is_the_price() {
    for (printed, price) in [
        ("1.5", "1.5"),
        ("132", "132"),
        ("  7 ", "7"),
        (".25", "0.25"),
        ("3.000000", "3"),
    ] {
        let coin = run(&format!("echo '{printed}'")).await.unwrap();
        assert_eq!(coin, DecCoin::new(&"uact".into(), dec(price)), "{printed}");
    }
}

#[tokio::test]
async fn invalid_output_is_an_error() {
    let too_precise = format!("1{}.{}0", "0".repeat(18), "0".repeat(18));
    for garbage in [
        too_precise.as_str(),
        "1e3",
        "5 uact",
        "1.2.3",
        "NaN",
        "-",
        ".",
        "0x10",
        "1\n2",
        "\u{fffd}",
        "{}",
    ] {
        let (kind, message) = fails(&format!("printf '%s\\n' '{garbage}'")).await;
        assert_eq!(kind, ErrorKind::Invalid, "{garbage}");
        assert!(
            message.contains("did not print exactly one number"),
            "{garbage}: {message}"
        );
    }
    assert!(fails("head -c 100 /dev/urandom").await.1.contains("one number"));
    assert!(
        fails("echo 99999999999999999999999999999999999999999999")
            .await
            .1
            .contains("too large")
    );
}

#[tokio::test]
async fn many_runs_one_after_another() {
    let scripts = Scripts::new();
    let strategy = strategy(scripts.add("echo run >> $DIR/log; echo 1"), 10, LONG);
    let request = request(vec![base_unit()]);
    for _ in 0..111 {
        strategy.calculate_price(&request).await.unwrap();
    }
    // One process per call, also for the same order: no price is cached.
    assert_eq!(scripts.read("log").lines().count(), 111);
}

#[tokio::test]
async fn a_hanging_script_is_killed_with_its_descendants() {
    let scripts = Scripts::new();
    let path =
        scripts.add("sleep 300 & echo $! > $DIR/grandchild; echo $$ > $DIR/script_pid; sleep 300; echo 5");
    let strategy = strategy(path, 1, SHORT);
    let error = strategy
        .calculate_price(&request(vec![base_unit()]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.is_transient());
    assert!(is_gone(scripts.read("grandchild").trim()).await);
    assert!(is_gone(scripts.read("script_pid").trim()).await);
}

#[tokio::test]
async fn w33_a_grandchild_that_holds_the_output_does_not_defeat_the_limit() {
    let scripts = Scripts::new();
    let strategy = strategy(
        scripts.add("sleep 300 & echo $! > $DIR/grandchild; echo 5; exit 0"),
        1,
        SHORT,
    );
    let error = strategy
        .calculate_price(&request(vec![base_unit()]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(is_gone(scripts.read("grandchild").trim()).await);
}

#[tokio::test]
async fn a_background_process_without_the_output_may_survive() {
    let scripts = Scripts::new();
    let body = "sleep 300 >/dev/null 2>&1 </dev/null & echo $! > $DIR/grandchild; echo 5";
    let strategy = strategy(scripts.add(body), 1, LONG);
    assert_eq!(
        strategy
            .calculate_price(&request(vec![base_unit()]))
            .await
            .unwrap()
            .amount,
        dec("5")
    );
    let pid = scripts.read("grandchild").trim().to_owned();
    assert!(becomes_sleep(&pid).await, "{pid} was ended with its script");
    std::process::Command::new("/bin/bash")
        .args(["-c", &format!("kill -9 {pid}")])
        .status()
        .unwrap();
}

#[tokio::test]
async fn dropping_a_call_kills_the_script_and_frees_its_slot() {
    let scripts = Scripts::new();
    let path = scripts.add(
        "[ -e $DIR/again ] && { echo 5; exit; }; echo $$ > $DIR/pid.new; mv $DIR/pid.new $DIR/pid; sleep 300",
    );
    let strategy = strategy(path, 1, LONG);
    let request = request(vec![base_unit()]);
    let started = async {
        while scripts.read("pid").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        price = strategy.calculate_price(&request) => panic!("{price:?} of a script that sleeps"),
        () = started => {}
    }
    assert!(is_gone(scripts.read("pid").trim()).await);
    fs::write(scripts.0.join("again"), "").unwrap();
    assert_eq!(strategy.calculate_price(&request).await.unwrap().amount, dec("5"));
}

#[tokio::test]
async fn w33_s5_waiting_for_a_free_process_can_be_canceled() {
    let scripts = Scripts::new();
    let strategy = strategy(scripts.add("echo run >> $DIR/log; sleep 300"), 1, LONG);
    let request = request(vec![base_unit()]);
    let first = strategy.calculate_price(&request);
    let both = async {
        while scripts.read("log").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let second = tokio::time::timeout(SHORT, strategy.calculate_price(&request)).await;
        assert!(second.is_err(), "the second call waits");
    };
    tokio::select! {
        _ = first => panic!("the first script sleeps"),
        () = both => {}
    }
    assert_eq!(
        scripts.read("log").lines().count(),
        1,
        "the canceled script never ran"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_processes_are_limited() {
    let scripts = Scripts::new();
    let path = scripts.add("echo start >> $DIR/log; sleep 0.1; echo end >> $DIR/log; echo 5");
    let strategy = Arc::new(strategy(path, 3, LONG));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let strategy = Arc::clone(&strategy);
        calls.spawn(async move { strategy.calculate_price(&request(vec![base_unit()])).await });
    }
    for price in calls.join_all().await {
        assert_eq!(price.unwrap().amount, dec("5"));
    }
    let (mut running, mut most) = (0_i32, 0_i32);
    for line in scripts.read("log").lines() {
        running += if line == "start" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!(running, 0);
    assert!((2..=3).contains(&most), "{most} concurrent processes");
}

#[tokio::test]
async fn a_script_gets_one_line_and_the_environment() {
    let scripts = Scripts::new();
    let path = scripts.add("read -r line; cat > $DIR/more; printf '%s' \"$line\" > $DIR/line; env > $DIR/env; echo $# > $DIR/arguments; echo 5");
    let request = request(vec![base_unit()]);
    let mut config = ShellScriptConfig::new(path);
    let path = std::env::var("PATH").unwrap() + ":/added";
    let variables = [
        ("PRICE_TARGET_CPU", "1.6"),
        ("PATH", path.as_str()),
        ("AKASH_DENOM", "x"),
    ];
    config.variables = variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let script = ShellScript::new(config).unwrap();
    script.calculate_price(&request).await.unwrap();
    let line = input::line(&request, &request.maximum().unwrap()).unwrap();
    assert_eq!(scripts.read("line").as_bytes(), line.strip_suffix(b"\n").unwrap());
    assert_eq!(scripts.read("more"), "");
    assert_eq!(scripts.read("arguments").trim(), "0");
    let environment = scripts.read("env");
    for line in [
        format!("AKASH_OWNER={}", request.owner),
        "AKASH_DENOM=uact".to_owned(),
        "PRICE_TARGET_CPU=1.6".to_owned(),
        format!("PATH={path}"),
    ] {
        assert!(environment.lines().any(|l| l == line), "{line}");
    }
    // The shell sets some variables. Cargo sets some variables of the provider in every test.
    let of_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let names = environment.lines().filter_map(|line| line.split_once('='));
    let more: Vec<_> = names
        .map(|(name, _)| name)
        .filter(|name| !process::is_passed(name) && !of_shell.contains(name))
        .collect();
    assert_eq!(more.len(), 2, "only the tenant and the denomination: {more:?}");
}

#[tokio::test]
async fn a_script_that_never_reads_does_not_block() {
    // More than a pipe can hold.
    let units: Vec<_> = (0..5000).map(|_| base_unit()).collect();
    let scripts = Scripts::new();
    let strategy = strategy(scripts.add("echo 5"), 1, LONG);
    assert_eq!(
        strategy.calculate_price(&request(units)).await.unwrap().amount,
        dec("5")
    );
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let (kind, message) = fails("yes").await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(message.contains("more than 65536 bytes"), "{message}");
    let noisy = "for n in {1..20000}; do echo \"noise number $n\"; done >&2; echo the end >&2; ";
    assert_eq!(run(&format!("{noisy} echo 5")).await.unwrap().amount, dec("5"));
    let (_, message) = fails(&format!("{noisy} exit 3")).await;
    assert!(message.ends_with("noise number 20000\nthe end"), "{message}");
    assert!(message.len() < 1000);
}

#[tokio::test]
async fn the_sample_script_prices_the_base_unit() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/price.sh");
    let strategy = strategy(sample, 1, LONG);
    let with_endpoints = request_with(|u| u.resources.endpoints = vec![Endpoint::default(); 7]);
    assert_eq!(
        strategy.calculate_price(&with_endpoints).await.unwrap().amount,
        dec("242.200000")
    );
    let mut twice = base_unit();
    twice.count = 2;
    twice.resources.gpu.units = 3;
    let two_units = request(vec![base_unit(), twice]);
    // 242.06 + 2 × (242.06 + 1.5)
    assert_eq!(
        strategy.calculate_price(&two_units).await.unwrap().amount,
        dec("729.18")
    );
    let unknown_class = request_with(|u| {
        u.resources.storage[0].attributes = vec![crate::types::Attribute::new("class", "beta9")];
    });
    let failure = strategy
        .calculate_price(&unknown_class)
        .await
        .unwrap_err()
        .to_failure();
    assert!(
        failure.message.ends_with("no price for storage class beta9"),
        "{}",
        failure.message
    );
}
