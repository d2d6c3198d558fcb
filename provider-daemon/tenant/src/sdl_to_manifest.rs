//! `sdl-to-manifest`: the manifest of an SDL.

use super::json::pretty;
use crate::args::SdlToManifestArgs;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::output::say;
use akash_provider_cli::sdl::read_sdl;
use std::process::ExitCode;

pub(super) fn run(args: &SdlToManifestArgs) -> anyhow::Result<ExitCode> {
    let sdl = read_sdl(&args.sdl)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {warning}");
    }
    say(&match args.output {
        DataOutput::Json => pretty(&sdl.manifest)?,
        DataOutput::Text | DataOutput::Yaml => serde_saphyr::to_string(&sdl.manifest)?,
    });
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use akash_provider_core::sdl;

    const SDL: &str = r#"
version: "2.0"
services: {web: {image: nginx, args: ["no", "on", "1_000"], expose: [{port: 80, to: [{global: true}]}]}}
profiles:
  compute: {web: {resources: {cpu: {units: 1}, memory: {size: 1Gi}, storage: {size: 1Gi}}}}
  placement: {here: {pricing: {web: {denom: uact, amount: 100}}}}
deployment: {web: {here: {profile: web, count: 1}}}
"#;

    #[test]
    fn quotes_texts_that_yaml_1_1_misreads() {
        let yaml = serde_saphyr::to_string(&sdl::parse(SDL).unwrap().manifest).unwrap();
        for text in ["- \"no\"\n", "- \"on\"\n", "- \"1_000\"\n"] {
            assert!(yaml.contains(text), "{yaml}");
        }
    }
}
