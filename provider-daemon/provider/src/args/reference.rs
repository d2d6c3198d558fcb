//! Table of all settings in `docs/configuration.md`, generated from the flags of `run`.

use super::go_flags::TABLE;
use super::run_line::RunLine;
use akash_provider_cli::environment::names;
use akash_provider_cli::setting::{HaRule, Reloaded, is_settable};
use clap::Arg;

/// Returns the default of a flag, or the text of the help about a default that depends on other settings.
fn default(arg: &Arg) -> String {
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let described = help.split_once("[default: ").map(|(_, rest)| rest);
    match (values.join(","), described) {
        (value, _) if !value.is_empty() => format!("`{value}`"),
        (_, Some(described)) => described.trim_end_matches(']').to_owned(),
        _ => String::new(),
    }
}

fn row(arg: &Arg) -> Option<String> {
    let name = arg.get_long()?;
    let [short, long] = names(name);
    let go = TABLE.iter().find(|flag| flag.name() == name);
    let go = go.map(|flag| match flag.default() {
        "" => "none".to_owned(),
        default => format!("`{default}`"),
    });
    let yes = |is: bool| if is { "yes" } else { "" };
    Some(format!(
        "| `--{name}` | `{short}`, `{long}` | {} | {} | {} | {} | {} |",
        yes(is_settable(arg)),
        default(arg),
        go.unwrap_or_default(),
        yes(HaRule::of(arg).is_compared()),
        yes(arg.get::<Reloaded>().is_some()),
    ))
}

#[test]
fn documents_every_setting() {
    const BEGIN: &str = "<!-- table from the flags of run -->\n";
    let run = RunLine::run_command();
    let is_setting = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let mut rows: Vec<String> = run.get_arguments().filter(is_setting).filter_map(row).collect();
    assert!(rows.len() > 100, "{rows:?}");
    rows.sort();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, _) = page.split_once(BEGIN).unwrap();
    let expected = format!(
        "{before}{BEGIN}\n| flag | variables | in a file | default | default in the Go provider | compared | \
         reloaded |\n|---|---|---|---|---|---|---|\n{}\n",
        rows.join("\n")
    );
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/configuration.md differs; run the test with UPDATE_SNAPSHOTS=1\n{expected}"
    );
}
