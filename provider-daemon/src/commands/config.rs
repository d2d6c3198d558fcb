//! `config`: what `run` would go by, and what is wrong with it.

use crate::args::config::{CheckArgs, ShowArgs};
use crate::args::show::Shown;
use crate::args::{ConfigCommand, Output, RunArgs};
use crate::commands::faults;
use crate::say;
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints or checks the settings of `run`.
///
/// # Errors
/// What is shown cannot be written as JSON.
pub fn run(command: &ConfigCommand, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Check(args) => check(args, home),
    }
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let notices = args.run.notices(|name| std::env::var(name).ok());
    if args.run.output == Output::Json {
        let all = json!({ "settings": args.shown, "notices": notices });
        say(&format!("{}\n", serde_json::to_string_pretty(&all)?));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for setting in &args.shown {
        // Writing into a text does not fail.
        let _ = writeln!(text, "{}", line(setting));
    }
    for notice in notices {
        let _ = writeln!(text, "{notice}");
    }
    say(&text);
    Ok(ExitCode::SUCCESS)
}

fn line(setting: &Shown) -> String {
    let source = match (&setting.from, setting.source) {
        (Some(from), _) => from.clone(),
        (None, "flag") => format!("--{}", setting.name),
        (None, source) => source.to_owned(),
    };
    format!("{} = {}  ({source})", setting.name, setting.value.join(","))
}

fn check(args: &CheckArgs, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    let troubles = troubles(&args.run, home);
    let notices = args.run.notices(|name| std::env::var(name).ok());
    // A set, so that the time stays linear in the number of unknown keys.
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
        for trouble in &troubles {
            let _ = writeln!(text, "wrong: {trouble}");
        }
        for notice in notices {
            let _ = writeln!(text, "{notice}");
        }
        if is_fine {
            text.push_str("the settings can be used\n");
        }
        say(&text);
    }
    Ok(if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What would end a start, or is not what its author meant.
fn troubles(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Vec<String> {
    let mut troubles = args.remarks.unknown.clone();
    troubles.extend(faults::of_run(args, home));
    troubles.extend(args.pricing.script_trouble());
    troubles
}
