//! `config`: prints or checks the settings of `run`.

mod checked;

use crate::args::ConfigCommand;
use crate::args::config::{CheckArgs, ShowArgs};
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_service::args::settings::schema;
use akash_provider_service::args::show::Setting;
use checked::CheckedSettings;
use clap::Command;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints or checks the settings of `run`. `flags` returns the command `run` with all its flags.
///
/// # Errors
/// Returns an error if the output cannot be serialized.
pub fn run(
    command: &ConfigCommand,
    home: anyhow::Result<PathBuf>,
    flags: impl FnOnce() -> Command,
) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Check(args) => check(args, home),
        ConfigCommand::Schema => {
            say(&format!("{}\n", serde_json::to_string_pretty(&schema(&flags()))?));
            Ok(ExitCode::SUCCESS)
        }
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
    let checked = CheckedSettings::new(&args.run, home);
    if args.run.output == Output::Json {
        say(&format!("{}\n", serde_json::to_string_pretty(&checked)?));
    } else {
        let mut lines = checked.errors();
        lines.extend(checked.notices);
        if checked.is_fine {
            lines.push("the settings are valid".to_owned());
        }
        say(&format!("{}\n", lines.join("\n")));
    }
    Ok(if checked.is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
