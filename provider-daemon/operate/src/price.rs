//! `price`: checks a price policy before it is used.

use crate::args::{PriceCheckArgs, PriceCommand};
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_core::pricing::Policy;
use akash_provider_core::pricing::policy::{PolicyFile, Prices};
use akash_provider_service::prices;
use serde_json::json;
use std::process::ExitCode;

/// Runs a `price` command.
///
/// # Errors
/// Returns an error if the result cannot be serialized.
pub fn run(command: &PriceCommand) -> anyhow::Result<ExitCode> {
    match command {
        PriceCommand::Check(args) => check(args),
    }
}

fn check(args: &PriceCheckArgs) -> anyhow::Result<ExitCode> {
    let file = prices::parse(&args.file);
    let gaps = file.as_ref().map(gaps).unwrap_or_default();
    let made = file.and_then(|file| {
        let rules = file.rules.len();
        let policy = Policy::new(file).map_err(|error| format!("{}: {error}", args.file.display()));
        policy.map(|_| rules)
    });
    if args.output == Output::Json {
        let all = json!({
            "is_valid": made.is_ok(), "error": made.as_ref().err(), "rules": made.as_ref().ok(), "gaps": gaps,
        });
        say(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    } else {
        let gaps: String = gaps.iter().map(|gap| format!("note: {gap}\n")).collect();
        say(&match &made {
            Ok(rules) => format!("{gaps}{} is valid: {rules} rules\n", args.file.display()),
            Err(error) => format!("error: {error}\nhelp: correct the file; `price check` checks it again\n"),
        });
    }
    Ok(if made.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the resources without a price. A missing price is often unintended.
fn gaps(file: &PolicyFile) -> Vec<String> {
    let own = file.rules.iter().filter_map(|rule| {
        let prices = rule.prices.as_ref()?;
        Some((format!("rule `{}`", rule.name), prices))
    });
    let all = std::iter::once(("prices".to_owned(), &file.prices)).chain(own);
    all.flat_map(|(at, prices)| gaps_of(&at, prices)).collect()
}

fn gaps_of(at: &str, prices: &Prices) -> Vec<String> {
    let zero = Default::default();
    let free = [("CPU", &prices.cpu), ("memory", &prices.memory)];
    let free = free.into_iter().filter(|(_, amount)| **amount == zero);
    let mut gaps: Vec<String> = free.map(|(what, _)| format!("{at}: {what} is free")).collect();
    if !prices.storage.contains_key("ephemeral") {
        gaps.push(format!(
            "{at}: storage of class `ephemeral` has no price; nearly every order requires this class and gets no bid"
        ));
    }
    if prices.gpu.is_empty() {
        gaps.push(format!("{at}: GPUs are free"));
    } else if !prices.gpu.contains_key("*") {
        gaps.push(format!(
            "{at}: orders with other GPUs get no bid; `*` sets a price for all other GPUs"
        ));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> PolicyFile {
        let guide = include_str!("../../../docs/price-policy.md");
        let (_, rest) = guide.split_once("```yaml\n").unwrap();
        let (yaml, _) = rest.split_once("```").unwrap();
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn parses_the_policy_example_of_the_guide() {
        assert_eq!(
            gaps(&example()),
            ["prices: orders with other GPUs get no bid; `*` sets a price for all other GPUs"]
        );
        Policy::new(example()).unwrap();
    }

    #[test]
    fn reports_resources_without_a_price() {
        let mut file = example();
        file.prices = Prices::default();
        let gaps = gaps(&file);
        let (storage, free) = (&gaps[2], [&gaps[0], &gaps[1], &gaps[3]]);
        assert_eq!(
            free,
            [
                "prices: CPU is free",
                "prices: memory is free",
                "prices: GPUs are free"
            ]
        );
        assert!(storage.contains("`ephemeral` has no price"), "{storage}");
    }
}
