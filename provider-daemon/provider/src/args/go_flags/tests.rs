use super::*;
use crate::args::run_line::RunLine;

/// Returns a value of the flag, different from the default value.
fn sample(flag: &GoFlag) -> &'static str {
    match (flag.name(), flag.kind) {
        ("bid-price-strategy", _) => "randomRange",
        ("ingress-mode", _) => "gateway-api",
        ("gas", _) => "auto",
        ("log-format" | "output", _) => "json",
        ("log-level", _) => "info",
        ("fee-granter", _) => "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0",
        ("cert-issuer-ca-dir-url", _) => "https://127.0.0.1/directory",
        ("proxy-buffer-size", _) => "32k",
        ("gateway-listen-address" | "gateway-grpc-listen-address" | "metrics-listener", _) => "127.0.0.1:1",
        (_, FlagType::Bool) => "true",
        (_, FlagType::Duration) => "1h30m",
        (_, FlagType::Number | FlagType::Price) => "7",
        (_, FlagType::Coin) => "7uakt",
        (_, FlagType::List) => "0.1,beta2=0.2",
        (_, FlagType::Secret | FlagType::Text) => "words",
    }
}

fn command() -> Command {
    let mut root = RunLine::root();
    root.build();
    root
}

#[test]
fn accepts_every_flag_of_the_go_provider() {
    let command = command();
    for entry in TABLE {
        let flag = format!("--{}", entry.name());
        let joined = format!("{flag}={}", sample(entry));
        let mut ways = vec![vec![joined.clone()]];
        match entry.kind {
            FlagType::Bool => ways.push(vec![flag.clone()]),
            _ => ways.push(vec![flag.clone(), sample(entry).to_owned()]),
        }
        // Each of the two flags requires the other.
        let pair = match entry.name() {
            "gateway-tls-cert" => Some("--gateway-tls-key=x"),
            "gateway-tls-key" => Some("--gateway-tls-cert=x"),
            _ => None,
        };
        for way in ways {
            let words = ["provider-daemon".to_owned(), "run".to_owned()].into_iter();
            let words = words.chain(way.clone()).chain(pair.map(str::to_owned));
            let matches = command.clone().try_get_matches_from(words);
            let matches = matches.unwrap_or_else(|error| panic!("{way:?}: {error}"));
            let (_, below) = matches.subcommand().unwrap();
            let args = GoFlagArgs::from_arg_matches(below).unwrap();
            let notices = args.notices(|_| None).join("\n");
            match entry.effect() {
                Effect::None(what) => {
                    assert_eq!(notices, format!("{flag}: {what}"));
                }
                Effect::Same => {
                    assert_eq!(notices, "", "{way:?}");
                    let run = command.find_subcommand("run").unwrap();
                    let named = |arg: &&Arg| {
                        let aliases = arg.get_all_aliases().unwrap_or_default();
                        arg.get_long() == Some(entry.name()) || aliases.contains(&entry.name())
                    };
                    let arg = run.get_arguments().find(named).unwrap();
                    let source = below.value_source(arg.get_id().as_str());
                    assert_eq!(source, Some(ValueSource::CommandLine), "{way:?}");
                }
            }
        }
    }
}

#[test]
fn lists_each_flag_once_with_its_replacement() {
    let mut names: Vec<&str> = TABLE.iter().map(GoFlag::name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for flag in without_effect() {
        let Effect::None(what) = flag.effect() else {
            continue;
        };
        assert!(what.split(' ').count() > 3, "{}: {what}", flag.name());
    }
}

#[test]
fn reports_flags_with_the_same_reason_in_one_line() {
    let words = [
        "provider-daemon",
        "run",
        "--monitor-max-retries=40",
        "--monitor-retry-period=4s",
        "--cert-issuer-enabled=false",
        "--yes=false",
    ];
    let matches = command().try_get_matches_from(words).unwrap();
    let args = GoFlagArgs::from_arg_matches(matches.subcommand().unwrap().1).unwrap();
    let notices = args.notices(|_| None);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].starts_with("--monitor-max-retries, --monitor-retry-period: leases are watched"),
        "{notices:?}"
    );
}

fn default_here(name: &str) -> Option<String> {
    let command = command();
    let run = command.find_subcommand("run").unwrap();
    let arg = run.get_arguments().find(|arg| arg.get_long() == Some(name))?;
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .filter_map(|value| value.to_str())
        .collect();
    (!defaults.is_empty()).then(|| defaults.join(","))
}

fn table(head: &str) -> Vec<&'static str> {
    let guide = include_str!("../../../../../docs/configuration.md");
    let (_, rows) = guide.split_once(head).unwrap();
    rows.lines().take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn documents_each_different_default() {
    let same = TABLE.iter().filter(|flag| flag.effect() == Effect::Same);
    let mut wanted: Vec<String> = same
        .filter_map(|flag| {
            let (name, there) = (flag.name(), flag.default());
            let here = default_here(name).filter(|here| here != there)?;
            Some(format!("| `{name}` | `{there}` | `{here}` |"))
        })
        .collect();
    wanted.push("| `log-color` | `false` | on a terminal |".to_owned());
    assert_eq!(
        table("| flag | default there | default here |\n|---|---|---|\n"),
        wanted
    );
}

#[test]
fn documents_each_flag_without_effect() {
    let mut rows = vec![(
        "the fee follows from --gas-prices and --gas-adjustment",
        vec!["`fees`, `gas` with a number".to_owned()],
    )];
    for flag in without_effect() {
        let Effect::None(reason) = flag.effect() else {
            continue;
        };
        let flag = format!("`{}`", flag.name());
        match rows.iter_mut().find(|(listed, _)| *listed == reason) {
            Some((_, flags)) => flags.push(flag),
            None => rows.push((reason, vec![flag])),
        }
    }
    let row = |(reason, flags): &(&str, Vec<String>)| format!("| {} | {reason} |", flags.join(", "));
    let wanted: Vec<String> = rows.iter().map(row).collect();
    assert_eq!(table("| flags | reason |\n|---|---|\n"), wanted);
}
