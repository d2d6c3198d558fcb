//! A provider that runs, asked at its gateway: it judges by what it knows at the moment.

use super::{Verdict, code, needed, print, real};
use crate::args::{ExplainArgs, Output};
use crate::tenant::{Screened, Screener};
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
        let order = real::open_order(screener.chain(), id).await?;
        // A gateway is asked about groups and not about orders, so it cannot know that it has bid on this one.
        let (_, is_ours) = real::bids(screener.chain(), provider, id).await?;
        verdicts.push(match is_ours {
            true => Verdict::new(&order.spec, refused(Decline::AlreadyBid)),
            false => asked(&screener, &order.spec).await?,
        });
    } else {
        for group in &needed(sdl)?.groups {
            verdicts.push(asked(&screener, group).await?);
        }
    }
    if output == Output::Text {
        say(&format!("provider {provider} says at {}:\n", screener.at()));
    }
    let all_bid = verdicts.iter().all(|verdict| verdict.would_bid);
    for mut verdict in verdicts {
        if output == Output::Text {
            verdict.message = verdict.message.as_deref().map(in_lines);
        }
        print(&verdict, output)?;
    }
    Ok(code(all_bid))
}

/// Its words, each reason and each node on a line of its own, and no line that it has made itself.
fn in_lines(words: &str) -> String {
    plain::line(words).replace("; ", "\n  gateway      ")
}

async fn asked(screener: &Screener, group: &GroupSpec) -> anyhow::Result<Verdict> {
    let (price, message) = match screener.screen(group).await? {
        Screened::Bid(price) => (Some(price), None),
        Screened::NoBid(words) => (None, Some(words)),
    };
    // It says in words what it does not say in parts: no reason, no nodes.
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
