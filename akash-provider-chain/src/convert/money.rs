//! Conversions of amounts and durations.

use super::{Malformed, excerpt, required};
use crate::proto::cosmos::base::v1beta1 as wire;
use akash_provider_core::types::{BlockTime, Coin, Dec, DecCoin, Denom};
use std::time::Duration;

/// Parses a decimal in the wire format: the decimal times 10^18, written as an integer.
pub(super) fn scaled(part: &str, text: &str) -> Result<Dec, Malformed> {
    let scaled = text.parse::<i128>();
    scaled
        .map(Dec::from_scaled)
        .map_err(|_| Malformed::new(part, format!("`{}` is not a scaled decimal", excerpt(text))))
}

pub(super) fn dec_coin(part: &str, coin: Option<wire::DecCoin>) -> Result<DecCoin, Malformed> {
    let coin = required(part, coin)?;
    let denom: Denom = coin.denom.into();
    Ok(DecCoin {
        amount: scaled(&format!("{part}.amount"), &coin.amount)?,
        denom,
    })
}

/// Parses the price in an event. An event contains the plain decimal, not the decimal times 10^18.
pub(crate) fn dec_coin_from_text(denom: &str, amount: &str) -> Result<DecCoin, Malformed> {
    let parsed: Result<Dec, _> = amount.parse();
    let amount = parsed.map_err(|error| Malformed::new("price.amount", error.to_string()))?;
    Ok(DecCoin {
        denom: denom.into(),
        amount,
    })
}

pub(super) fn coin(part: &str, coin: Option<wire::Coin>) -> Result<Coin, Malformed> {
    let coin = required(part, coin)?;
    let amount = coin.amount.parse();
    Ok(Coin::new(
        coin.denom,
        amount.map_err(|_| {
            Malformed::new(
                format!("{part}.amount"),
                format!("`{}` is not an amount", excerpt(&coin.amount)),
            )
        })?,
    ))
}

pub(super) fn duration(
    part: &str,
    value: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Malformed> {
    let Some(value) = value else { return Ok(None) };
    let positive = Duration::try_from(value);
    let positive = positive.map_err(|_| Malformed::new(part, "is a negative duration"))?;
    Ok(Some(positive))
}

pub(super) fn unix_seconds(seconds: i64) -> BlockTime {
    // A deadline that overflows is never reached, as is the largest time.
    BlockTime(seconds.saturating_mul(1000))
}

pub(super) fn timestamp(part: &str, time: Option<prost_types::Timestamp>) -> Result<BlockTime, Malformed> {
    let time = required(part, time)?;
    let millis = i64::from(time.nanos) / 1_000_000;
    Ok(BlockTime(
        time.seconds.saturating_mul(1000).saturating_add(millis),
    ))
}

/// Encodes a price for a message.
#[must_use]
pub fn wire_dec_coin(coin: &DecCoin) -> wire::DecCoin {
    wire::DecCoin {
        denom: coin.denom.to_string(),
        amount: coin.amount.scaled().to_string(),
    }
}

pub(super) fn wire_coin(coin: &Coin) -> wire::Coin {
    wire::Coin {
        denom: coin.denom.to_string(),
        amount: coin.amount.to_string(),
    }
}

pub(super) fn wire_duration(window: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(window.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(window.subsec_nanos()).unwrap_or(0),
    }
}
