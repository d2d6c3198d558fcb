//! `sdl`: prints parts of an SDL, or all its errors and warnings.

use crate::args::{SdlArgs, SdlPart};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::output::say;
use akash_provider_cli::plain::{count, line};
use akash_provider_cli::sdl::{read_sdl, read_text};
use akash_provider_core::sdl::{self, ErrorKind, Sdl, SdlErrors, Warning};
use anyhow::bail;
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

/// Prints a part of an SDL; warnings are printed to stderr.
///
/// # Errors
/// Returns an error if the file cannot be read or is invalid.
pub fn run(args: &SdlArgs) -> anyhow::Result<ExitCode> {
    if args.what == SdlPart::Validate {
        return validate(args);
    }
    let sdl = read_sdl(&args.file)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {}", line(&warning.to_string()));
    }
    if args.strict && !sdl.warnings.is_empty() {
        let warnings = count(sdl.warnings.len(), "warning");
        bail!(WithHelp::new(
            format!(
                "invalid SDL {}: {warnings}, rejected by --strict",
                args.file.display()
            ),
            "fix the warnings above, or remove --strict"
        ));
    }
    let output = args.output.unwrap_or(DataOutput::Json);
    let hash = HEXLOWER.encode(&sdl.hash);
    say(&match (args.what, args.output) {
        (SdlPart::Manifest, _) => formatted(&sdl.manifest, output)?,
        (SdlPart::Groups, _) => formatted(&sdl.groups, output)?,
        (_, Some(DataOutput::Json | DataOutput::Yaml)) => formatted(&json!({ "hash": hash }), output)?,
        _ => hash + "\n",
    });
    Ok(ExitCode::SUCCESS)
}

fn formatted<T: Serialize>(value: &T, output: DataOutput) -> anyhow::Result<String> {
    Ok(match output {
        DataOutput::Json => serde_json::to_string_pretty(value)? + "\n",
        DataOutput::Text | DataOutput::Yaml => serde_saphyr::to_string(value)?,
    })
}

/// JSON output of `sdl validate`.
#[derive(Debug, Serialize)]
struct SdlValidation<'a> {
    file: &'a str,
    is_valid: bool,
    errors: Vec<Issue<'a>>,
    /// Number of errors that are not listed.
    more_errors: usize,
    warnings: Vec<Issue<'a>>,
    /// Hash of the manifest in hexadecimal; missing for an invalid SDL.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// Error or warning about the SDL. A warning has no `kind`.
#[derive(Debug, Serialize)]
struct Issue<'a> {
    line: u32,
    path: &'a str,
    message: &'a str,
    mend: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ErrorKind>,
}

impl<'a> From<&'a Warning> for Issue<'a> {
    fn from(warning: &'a Warning) -> Self {
        Self {
            line: warning.line,
            path: &warning.path,
            message: &warning.problem,
            mend: &warning.help,
            kind: None,
        }
    }
}

/// Prints all errors and warnings, as `file:line: …` or as JSON.
fn validate(args: &SdlArgs) -> anyhow::Result<ExitCode> {
    let text = read_text(&args.file)?;
    let read = sdl::parse_all(&text);
    let name = match args.file.to_string_lossy().into_owned() {
        stdin if stdin == "-" => "<stdin>".to_owned(),
        name => name,
    };
    let is_refused = |sdl: &Sdl| args.strict && !sdl.warnings.is_empty();
    if let Some(output @ (DataOutput::Json | DataOutput::Yaml)) = args.output {
        let mut verdict = verdict(&name, &read);
        verdict.is_valid = read.as_ref().is_ok_and(|sdl| !is_refused(sdl));
        say(&formatted(&verdict, output)?);
        return Ok(ExitCode::from(u8::from(!verdict.is_valid)));
    }
    let print_issue = |place: u32, what: &str| eprintln!("{}", line(&format!("{name}:{place}: {what}")));
    let warnings = match &read {
        Ok(sdl) => &sdl.warnings,
        Err(errors) => &errors.warnings,
    };
    if let Err(errors) = &read {
        for e in errors.iter() {
            print_issue(e.line, &format!("{}: {}; {}", e.path, e.problem, e.help));
        }
    }
    for w in warnings {
        print_issue(w.line, &format!("warning: {}: {}; {}", w.path, w.problem, w.help));
    }
    match &read {
        Ok(sdl) if is_refused(sdl) => {
            let warnings = count(sdl.warnings.len(), "warning");
            bail!(WithHelp::new(
                format!("invalid SDL {name}: {warnings}, rejected by --strict"),
                "fix the warnings above, or remove --strict"
            ))
        }
        Ok(sdl) => say(&format!("valid: {}\n", outline(sdl))),
        Err(errors) => bail!(WithHelp::new(
            format!("invalid SDL {name}: {}", count_text(errors)),
            "fix the errors above"
        )),
    }
    Ok(ExitCode::SUCCESS)
}

fn verdict<'a>(file: &'a str, read: &'a Result<Sdl, Box<SdlErrors>>) -> SdlValidation<'a> {
    let (errors, more_errors, warnings, hash) = match read {
        Ok(sdl) => (Vec::new(), 0, &sdl.warnings, Some(HEXLOWER.encode(&sdl.hash))),
        Err(wrong) => {
            let remarks = wrong.iter().map(|e| Issue {
                line: e.line,
                path: &e.path,
                message: &e.problem,
                mend: &e.help,
                kind: Some(e.kind),
            });
            (remarks.collect(), wrong.more, &wrong.warnings, None)
        }
    };
    SdlValidation {
        file,
        is_valid: read.is_ok(),
        errors,
        more_errors,
        warnings: warnings.iter().map(Issue::from).collect(),
        hash,
    }
}

fn count_text(errors: &SdlErrors) -> String {
    let listed = count(errors.iter().count(), "error");
    match errors.more {
        0 => listed,
        more => format!("{listed}, and {more} more"),
    }
}

fn outline(sdl: &Sdl) -> String {
    let services: usize = sdl.manifest.groups.iter().map(|g| g.services.len()).sum();
    let (groups, warnings) = (sdl.groups.len(), sdl.warnings.len());
    format!(
        "{}, {}, {}, hash {}",
        count(groups, "group"),
        count(services, "service"),
        count(warnings, "warning"),
        HEXLOWER.encode(&sdl.hash)
    )
}
