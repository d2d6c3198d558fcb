//! `version`: version, commit and cargo features of the program.

use crate::program_name;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::json::Json;
use akash_provider_cli::output::say;
use akash_provider_operate::query::print;
use akash_provider_service::COMMIT;
use clap::Args;
use std::process::ExitCode;

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print all fields: also the name and the cargo features
    #[arg(long)]
    pub long: bool,
    /// Output format [default: two lines of text, YAML with --long]
    #[arg(long, short, value_enum)]
    pub output: Option<DataOutput>,
}

/// Prints the version. The names of the fields are those of `provider-services version --long`.
pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<ExitCode> {
    let (name, version) = (program_name::PROGRAM, env!("CARGO_PKG_VERSION"));
    if !args.long && matches!(args.output, None | Some(DataOutput::Text)) {
        say(&match program_name::of_this_process() {
            // Scripts for the Go provider read the version from this line.
            program_name::ALIAS => format!("{version}\n"),
            _ => format!("{name} {version}\ncommit {COMMIT}\n"),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let tags = if cfg!(feature = "otlp") { "otlp" } else { "" };
    let mut fields = vec![("version", version), ("commit", COMMIT)];
    if args.long {
        fields.extend([("name", name), ("server_name", name), ("build_tags", tags)]);
    }
    let field = |(name, value): (&str, &str)| (name.to_owned(), Json::Text(value.to_owned()));
    let fields = Json::Fields(fields.into_iter().map(field).collect());
    print(&fields, args.output.unwrap_or(DataOutput::Yaml))?;
    Ok(ExitCode::SUCCESS)
}
