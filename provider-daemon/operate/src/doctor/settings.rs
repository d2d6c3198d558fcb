//! Flags, variables and files: the faults that `config check` reports, and settings without an effect or with
//! a surprising consequence.

use super::check::Check;
use akash_provider_service::args::RunArgs;
use akash_provider_service::run::faults;
use std::collections::HashSet;
use std::path::PathBuf;

const SUBJECT: &str = "settings";

#[derive(Debug, Default)]
struct SettingsFacts {
    /// Faults that prevent a start.
    faults: Vec<String>,
    /// Settings with an unknown name.
    unknown: Vec<String>,
    /// Settings without effect, most of them flags of the Go provider.
    notices: Vec<String>,
    /// Settings with a surprising consequence.
    warnings: Vec<String>,
}

/// Checks the settings, as `run` does at its start.
pub(super) fn checks(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Vec<Check> {
    let mut faults = faults::faults(args, home);
    faults.extend(args.pricing.script_trouble());
    let unknown = args.remarks.unknown.clone();
    let listed: HashSet<&String> = unknown.iter().collect();
    let mut notices = args.notices(|name| std::env::var(name).ok());
    notices.retain(|notice| !listed.contains(notice));
    let of_cluster = args.left_to_others();
    judge(&SettingsFacts {
        faults,
        notices,
        unknown,
        // The checks of the operators cover these lines.
        warnings: args
            .warnings()
            .into_iter()
            .filter(|line| !of_cluster.contains(line))
            .collect(),
    })
}

fn judge(facts: &SettingsFacts) -> Vec<Check> {
    let fault = |text: &String| {
        let remedy = "correct the setting; `config check` checks it again";
        let (text, remedy) = text.split_once("\nhelp: ").unwrap_or((text, remedy));
        Check::failure(SUBJECT, text, remedy)
    };
    let unknown = |text: &String| {
        Check::failure(
            SUBJECT,
            text,
            "correct or remove the name; `run --help` lists all settings",
        )
    };
    let notice = |text: &String| {
        Check::warning(
            SUBJECT,
            text,
            "remove the setting, or use the replacement in this line; docs/configuration.md lists all differences from the Go provider",
        )
    };
    let warning = |text: &String| {
        Check::warning(
            SUBJECT,
            text,
            "set the flag in this line, unless this behaviour is intended",
        )
    };
    let mut checks: Vec<Check> = facts.faults.iter().map(fault).collect();
    checks.extend(facts.unknown.iter().map(unknown));
    if checks.is_empty() {
        checks.push(Check::ok(SUBJECT, "valid; `config show` lists them"));
    }
    checks.extend(facts.notices.iter().map(notice));
    checks.extend(facts.warnings.iter().map(warning));
    checks
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn faults_and_unknown_names_are_failures() {
        let text = || vec!["x".to_owned()];
        let severities =
            |facts: SettingsFacts| -> Vec<Severity> { judge(&facts).iter().map(Check::severity).collect() };
        let none = SettingsFacts::default();
        assert_eq!(severities(none), [Severity::Ok]);
        let faults = SettingsFacts {
            faults: text(),
            unknown: text(),
            ..SettingsFacts::default()
        };
        assert_eq!(severities(faults), [Severity::Failure; 2]);
        let notices = SettingsFacts {
            notices: text(),
            warnings: text(),
            ..SettingsFacts::default()
        };
        assert_eq!(
            severities(notices),
            [Severity::Ok, Severity::Warning, Severity::Warning]
        );
    }
}
