//! Explanation by the gateway of a running provider, based on its current state.

use super::{Verdict, code, from_chain, needed, print};
use crate::args::{ExplainArgs, Output};
use crate::tenant::{Screener, ScreeningResult};
use crate::{plain, say};
use akash_provider_core::bidding::{self, Decline};
use akash_provider_core::inventory::Explanation;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Address, GroupSpec};
use std::process::ExitCode;

/// Explains an order of the chain, or every group of an SDL.
pub(super) async fn explain(
    args: &ExplainArgs,
    provider: &Address,
    sdl: Option<&Sdl>,
) -> anyhow::Result<ExitCode> {
    let screener = Screener::new(provider, args.provider_url.as_deref(), &args.run.node).await?;
    let output = args.run.output;
    let mut verdicts = Vec::new();
    if let Some(id) = &args.order {
        let order = from_chain::open_order(screener.chain(), id).await?;
        // The gateway screens groups instead of orders, so it cannot report an existing bid.
        let (_, is_ours) = from_chain::bids(screener.chain(), provider, id).await?;
        verdicts.push(match is_ours {
            true => Verdict::new(&order.spec, refused(Decline::AlreadyBid)),
            false => screen(&screener, &order.spec).await?,
        });
    } else {
        for group in &needed(sdl)?.groups {
            verdicts.push(screen(&screener, group).await?);
        }
    }
    if output == Output::Text {
        say(&format!(
            "response of provider {provider} at {}:\n",
            screener.at()
        ));
    }
    let all_bid = verdicts.iter().all(|verdict| verdict.would_bid);
    for mut verdict in verdicts {
        if output == Output::Text {
            verdict.message = verdict.message.as_deref().map(reason_lines);
        }
        print(&verdict, output)?;
    }
    Ok(code(all_bid))
}

/// Formats the reasons in the provider's response, one per line. Line breaks in the response are escaped.
fn reason_lines(reasons: &str) -> String {
    plain::line(reasons).replace("; ", "\n  gateway      ")
}

async fn screen(screener: &Screener, group: &GroupSpec) -> anyhow::Result<Verdict> {
    let (price, message) = match screener.screen(group).await? {
        ScreeningResult::Bid(price) => (Some(price), None),
        ScreeningResult::NoBid(reasons) => (None, Some(reasons)),
    };
    // The gateway returns a text without reason code and nodes.
    Ok(Verdict {
        group: group.name.clone(),
        would_bid: price.is_some(),
        maximum: group.max_price(),
        reason: None,
        explanation: Explanation {
            fits: price.is_some(),
            ..Explanation::default()
        },
        price,
        message,
    })
}

fn refused(decline: Decline) -> bidding::Verdict {
    bidding::Verdict {
        bid: Err(decline),
        explanation: Explanation::default(),
    }
}
