//! `state`: shows and resets the stored height of a stopped provider.

use crate::args::StateAction;
use akash_provider_chain::Checkpoint;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::types::BlockTime;
use akash_provider_service::audit::{audited, this_process};
use akash_provider_service::flight::format_time;
use akash_provider_service::state::State;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Shows or resets the stored heights.
///
/// # Errors
/// Returns an error if the file cannot be read or written, or if a running provider uses it.
pub fn run(action: &StateAction, home: &Path) -> anyhow::Result<ExitCode> {
    let state = State::open(home)?.state;
    match action {
        StateAction::Show(printed) => {
            let heights = state.stored_heights()?;
            say(&text(&heights, printed.output)?);
        }
        StateAction::ResetHeight(args) => {
            let kind = ActKind::Command {
                name: "state_reset_height",
                destroys: true,
            };
            let chain_id = args.chain_id.as_deref();
            let mut act = Act::new(kind, this_process(), chain_id.unwrap_or("all chains"));
            let mut heights = state.stored_heights()?;
            heights.retain(|(chain, _)| chain_id.is_none_or(|wanted| wanted == chain));
            act.evidence.height = heights.iter().map(|(_, block)| block.height).max();
            let settings = args.audit.settings(home);
            let removed = audited(settings.as_ref(), act, || Ok(state.reset_height(chain_id)?))?;
            say(&match args.printed.output {
                Output::Text => format!("removed {removed} stored heights\n"),
                Output::Json => format!("{}\n", json!({ "removed": removed })),
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(heights: &[(String, Checkpoint)], output: Output) -> anyhow::Result<String> {
    if output == Output::Json {
        let heights = heights.iter().map(
            |(chain, block)| json!({"chain_id": chain, "height": block.height, "time": date(block.time)}),
        );
        return Ok(serde_json::to_string(&json!({"heights": heights.collect::<Vec<_>>()}))? + "\n");
    }
    if heights.is_empty() {
        return Ok("no stored height\n".to_owned());
    }
    let line = |(chain, block): &(String, Checkpoint)| {
        format!("{chain}: height {}, {}\n", block.height, date(block.time))
    };
    Ok(heights.iter().map(line).collect())
}

/// Formats a time, or prints the number if the time is beyond the year 9999.
fn date(time: BlockTime) -> String {
    u64::try_from(time.0).map_or_else(|_| time.0.to_string(), format_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_extreme_heights_and_times() {
        for time in [i64::MIN, -1, 0, 1_700_000_000_000, i64::MAX] {
            let (height, time) = (u64::MAX, BlockTime(time));
            let heights = [("akashnet-2".to_owned(), Checkpoint { height, time })];
            for output in [Output::Text, Output::Json] {
                let output_text = text(&heights, output).unwrap();
                assert!(output_text.contains("18446744073709551615"), "{output_text}");
            }
        }
    }
}
