//! Explanation by the gateway of a running provider, based on its current state.

use super::{GroupVerdict, code, from_chain, needed, print};
use crate::args::ExplainArgs;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_cli::plain;
use akash_provider_core::bidding::{self, Decline};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::inventory::Explanation;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Address, GroupSpec};
use akash_provider_tenant::{Screener, ScreeningResult};
use anyhow::Context;
use std::process::ExitCode;
use std::time::Duration;

/// Explains every group of an SDL, or the order in `--order`.
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
        let (others, is_ours) = from_chain::bids(screener.chain(), provider, id).await?;
        verdicts.push(match is_ours {
            true => GroupVerdict::new(&order.spec, refused(Decline::AlreadyBid)),
            false => {
                let verdict = screen(&screener, &order.spec).await?;
                let bids = check_bids(&screener, others).await?;
                let window = check_window(&screener, order.reclamation_min_window).await?;
                with_order(with_order(verdict, bids), window)
            }
        });
    } else {
        let sdl = needed(sdl)?;
        let window = check_window(&screener, sdl.reclamation_min_window).await?;
        for group in &sdl.groups {
            let verdict = screen(&screener, group).await?;
            verdicts.push(with_order(verdict, window.clone()));
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

async fn check_bids(screener: &Screener, others: u32) -> anyhow::Result<Option<Decline>> {
    let params = screener.chain().params().await;
    let params = params.context("cannot query the market parameters")?;
    Ok(bidding::check_bid_count(others, &params).err())
}

async fn check_window(screener: &Screener, wanted: Option<Duration>) -> anyhow::Result<Option<Decline>> {
    if wanted.is_none() {
        return Ok(None);
    }
    let offered = screener.reclamation_window().await?;
    Ok(bidding::check_reclamation(wanted, Some(offered)).err())
}

/// Adds the decline reason of the order to a verdict of the gateway. The gateway evaluates only the group.
fn with_order(verdict: GroupVerdict, decline: Option<Decline>) -> GroupVerdict {
    let Some(decline) = decline else {
        return verdict;
    };
    let reasons = [Some(decline.to_string()), verdict.message];
    GroupVerdict {
        would_bid: false,
        price: None,
        reason: Some(decline.code()),
        message: Some(reasons.into_iter().flatten().collect::<Vec<_>>().join("; ")),
        ..verdict
    }
}

/// Formats the reasons in the provider's response, one per line, with escaped line breaks.
fn reason_lines(reasons: &str) -> String {
    plain::line(reasons).replace("; ", "\n  gateway      ")
}

async fn screen(screener: &Screener, group: &GroupSpec) -> anyhow::Result<GroupVerdict> {
    let (price, refusal) = match screener.screen(group).await? {
        ScreeningResult::Bid(price) => (Some(price), None),
        ScreeningResult::NoBid(refusal) => (None, Some(refusal)),
    };
    let refusal = refusal.unwrap_or_default();
    // The reasons of the gateway contain the nodes.
    Ok(GroupVerdict {
        group: group.name.clone(),
        would_bid: price.is_some(),
        maximum: group.max_price(),
        reason: refusal.code,
        message: price.is_none().then_some(refusal.reasons),
        explanation: Explanation {
            fits: price.is_some(),
            ignored: refusal.ignored,
            ..Explanation::default()
        },
        price,
    })
}

fn refused(decline: Decline) -> bidding::OrderVerdict {
    bidding::OrderVerdict {
        bid: Err(decline),
        explanation: Explanation::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::{DecCoin, DeclineCode};

    #[test]
    fn reason_of_the_order_precedes_the_reasons_of_the_gateway() {
        let verdict = |price: Option<&str>, message: Option<&str>| GroupVerdict {
            group: "g".to_owned(),
            would_bid: price.is_some(),
            price: price.map(|amount| DecCoin::new(&"uact".into(), amount.parse().unwrap())),
            maximum: None,
            reason: None,
            message: message.map(str::to_owned),
            explanation: Explanation::default(),
        };
        let full = Decline::OrderFull { bids: 21, limit: 20 };
        let of_order = full.to_string();
        let bid = with_order(verdict(Some("1"), None), None);
        assert!(bid.would_bid && bid.price.is_some());
        let none = with_order(verdict(Some("1"), None), Some(full.clone()));
        assert!(!none.would_bid && none.price.is_none());
        assert_eq!(none.reason, Some(DeclineCode::OrderFull));
        assert_eq!(none.message.as_deref(), Some(&*of_order));
        let both = with_order(verdict(None, Some("no GPU")), Some(full));
        assert_eq!(both.message, Some(format!("{of_order}; no GPU")));
    }
}
