//! `config`: prints or checks the settings of `run`.

use crate::args::config::{CheckArgs, ShowArgs};
use crate::args::show::Setting;
use crate::args::{ConfigCommand, Output, RunArgs};
use crate::commands::faults;
use akash_provider_cli::output::say;
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints or checks the settings of `run`.
///
/// # Errors
/// Returns an error if the output cannot be serialized.
pub fn run(command: &ConfigCommand, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Check(args) => check(args, home),
    }
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let notices = args.run.notices(|name| std::env::var(name).ok());
    if args.run.output == Output::Json {
        let all = json!({ "settings": args.settings, "notices": notices });
        say(&format!("{}\n", serde_json::to_string_pretty(&all)?));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for setting in &args.settings {
        // Writing into a `String` does not fail.
        let _ = writeln!(text, "{}", line(setting));
    }
    for notice in notices {
        let _ = writeln!(text, "{notice}");
    }
    say(&text);
    Ok(ExitCode::SUCCESS)
}

fn line(setting: &Setting) -> String {
    let source = match (&setting.from, setting.source) {
        (Some(from), _) => from.clone(),
        (None, "flag") => format!("--{}", setting.name),
        (None, source) => source.to_owned(),
    };
    format!("{} = {}  ({source})", setting.name, setting.value.join(","))
}

fn check(args: &CheckArgs, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    let troubles = faults(&args.run, home);
    let notices = args.run.notices(|name| std::env::var(name).ok());
    // A set keeps the time linear in the number of unknown keys.
    let unknown: HashSet<&String> = args.run.remarks.unknown.iter().collect();
    let notices: Vec<&String> = notices
        .iter()
        .filter(|notice| !unknown.contains(*notice))
        .collect();
    let is_fine = troubles.is_empty();
    if args.run.output == Output::Json {
        let all = json!({ "is_fine": is_fine, "troubles": troubles, "notices": notices });
        say(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    } else {
        let mut text = String::new();
        for fault in &troubles {
            let _ = writeln!(text, "error: {fault}");
        }
        for notice in notices {
            let _ = writeln!(text, "{notice}");
        }
        if is_fine {
            text.push_str("the settings are valid\n");
        }
        say(&text);
    }
    Ok(if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the problems of the settings: unknown settings, mistakes that prevent a start, and a problem of
/// the price script.
fn faults(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Vec<String> {
    let mut troubles = args.remarks.unknown.clone();
    troubles.extend(faults::faults(args, home));
    troubles.extend(args.pricing.script_trouble());
    troubles
}
