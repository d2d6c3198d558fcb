//! Balance of the account, for deposits and fees.

use super::DoctorContext;
use super::check::Check;
use super::record;
use akash_provider_chain::Reader;
use akash_provider_core::Error;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::{Address, Coin, Denom};
use akash_provider_service::state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(4);
/// A balance that pays for fewer bids than this number causes a warning.
const BIDS_FEW: u128 = 10;
/// Minimum number of days for which the balance pays the fees at the rate of the last hour. A smaller number
/// causes a warning.
const DAYS_FEW: f64 = 7.0;

#[derive(Debug)]
struct Funds {
    /// Configured deposits of a bid, in order of preference.
    deposits: Vec<Coin>,
    /// Minimum deposit of a bid, for each denomination that the chain accepts.
    minimums: Vec<Coin>,
    /// Fee of a bid.
    fee: Coin,
    /// Balances of the account by denomination.
    balances: BTreeMap<Denom, u128>,
    /// Balance of the account or its fee granter, in the denomination of the fee.
    fee_balance: u128,
    /// Fees of the transactions of the last hour; `None` if they are unknown.
    hourly_fees: Option<u128>,
}

/// Checks the balances and the provider record of the account. `reader` queries the first usable node.
pub(super) async fn checks(context: &DoctorContext<'_>, reader: Option<Reader>) -> Vec<Check> {
    let Some(account) = context.account.as_ref() else {
        return vec![Check::skipped("account", "unknown: the key cannot be read")];
    };
    let Some(reader) = reader else {
        return vec![Check::skipped("account", "no usable node of the chain")];
    };
    let both = async { tokio::join!(funds(context, &reader, account), reader.provider(account)) };
    let failed = |why: String| {
        let help = "run `doctor` again, or set another chain node with --node";
        Check::failure("account", format!("cannot query the account: {why}"), help)
    };
    let Ok((funds, record)) = tokio::time::timeout(LIMIT, both).await else {
        return vec![failed(format!("no response within {LIMIT:?}"))];
    };
    let mut checks = match funds {
        Ok(Some(funds)) => judge_funds(&funds),
        Ok(None) => vec![Check::skipped("balance", "the settings are invalid")],
        Err(error) => vec![failed(error.to_string())],
    };
    match record {
        Ok(record) => checks.extend(record::judge(
            record.as_ref(),
            context.record_file.as_ref(),
            &context.args.kubernetes.cluster_public_hostname,
        )),
        Err(error) => checks.push(failed(error.to_string())),
    }
    checks
}

async fn funds(
    context: &DoctorContext<'_>,
    reader: &Reader,
    account: &Address,
) -> Result<Option<Funds>, Error> {
    let Some(config) = &context.config else {
        return Ok(None);
    };
    let mut deposits = vec![config.bid_deposit.clone()];
    deposits.extend(config.other_bid_deposits.iter().cloned());
    let fee = config.bid_fee.clone();
    let denoms: BTreeSet<Denom> = deposits.iter().map(|coin| coin.denom.clone()).collect();
    let balance = |denom: Denom| async move {
        let coin = reader.balance(account, &denom).await?;
        Ok::<_, Error>((denom, coin.amount))
    };
    let payer = context.args.gas.fee_granter.as_ref().unwrap_or(account);
    let (balances, fee_balance, params, hourly_fees) = tokio::join!(
        futures::future::try_join_all(denoms.into_iter().map(balance)),
        reader.balance(payer, &fee.denom),
        reader.params(),
        hourly_fees(context, account)
    );
    Ok(Some(Funds {
        deposits,
        minimums: params?.bid_min_deposits,
        fee,
        balances: balances?.into_iter().collect(),
        fee_balance: fee_balance?.amount,
        hourly_fees,
    }))
}

/// Returns the fees of the last hour, from the state in the home directory.
async fn hourly_fees(context: &DoctorContext<'_>, account: &Address) -> Option<u128> {
    let (home, chain_id) = (context.home?.to_owned(), context.chain_id?.to_owned());
    let account = account.clone();
    let reading = move || stored_fees(&home, &chain_id, &account);
    tokio::task::spawn_blocking(reading).await.ok()?
}

fn stored_fees(home: &Path, chain_id: &str, account: &Address) -> Option<u128> {
    let state = State::copy(home).ok()??;
    let minutes = state.spent(chain_id, account).ok()?.load().ok()?;
    let now = UNIX_EPOCH.elapsed().ok()?.as_secs() / 60;
    let recent = minutes.iter().filter(|minute| now.saturating_sub(minute.at) < 60);
    Some(recent.map(|minute| minute.paid.fee).sum())
}

fn judge_funds(funds: &Funds) -> Vec<Check> {
    // A bid uses the first denomination that the chain accepts and the account can pay.
    let pays = |deposit: &Coin| {
        let is_accepted = funds.minimum(deposit).is_some();
        is_accepted && funds.bids_with(deposit) != Some(0)
    };
    let is_one_paid = funds.deposits.iter().any(pays);
    let deposits = funds.deposits.iter();
    let deposits = deposits.map(|deposit| judge_deposit(funds, deposit, is_one_paid));
    deposits.chain([judge_fees(funds)]).collect()
}

impl Funds {
    fn minimum(&self, deposit: &Coin) -> Option<&Coin> {
        self.minimums.iter().find(|coin| coin.denom == deposit.denom)
    }

    fn balance(&self, denom: &Denom) -> u128 {
        self.balances.get(denom).copied().unwrap_or_default()
    }

    /// Returns the number of bids that the balance pays for, or `None` if a bid costs nothing. Each bid has
    /// this deposit.
    fn bids_with(&self, deposit: &Coin) -> Option<u128> {
        let is_shared = self.fee.denom == deposit.denom;
        let fee = if is_shared { self.fee.amount } else { 0 };
        bids(self.balance(&deposit.denom), deposit.amount.saturating_add(fee))
    }
}

/// Checks whether the balance is sufficient for bid deposits in one denomination. `is_one_paid` is true if
/// the balance is sufficient for a bid in any accepted denomination.
fn judge_deposit(funds: &Funds, deposit: &Coin, is_one_paid: bool) -> Check {
    let subject = format!("balance for deposits in {}", deposit.denom);
    let Some(minimum) = funds.minimum(deposit) else {
        return Check::problem(
            is_one_paid,
            subject,
            "the chain accepts no deposits in this denomination",
            format!("set --bid-deposit to one of {}", joined(&funds.minimums)),
        );
    };
    if minimum.amount > deposit.amount {
        return Check::failure(
            subject,
            format!("--bid-deposit {deposit} is below the minimum of the chain, {minimum}"),
            format!("set --bid-deposit={minimum}"),
        );
    }
    let bids = funds.bids_with(deposit);
    let detail = format!(
        "{}{} pays for {}",
        funds.balance(&deposit.denom),
        deposit.denom,
        counted(bids)
    );
    let help = format!(
        "send {} to the account; a deposit of {deposit} is returned when its bid is closed",
        deposit.denom
    );
    match bids {
        Some(0) => Check::problem(is_one_paid, subject, detail, help),
        Some(few) if few < BIDS_FEW => Check::warning(subject, detail, help),
        _ => Check::ok(subject, detail),
    }
}

fn judge_fees(funds: &Funds) -> Check {
    let (subject, fee) = ("balance for fees", &funds.fee);
    let bids = bids(funds.fee_balance, fee.amount);
    let days = runway(funds.fee_balance, funds.hourly_fees);
    let runway = match (days, funds.hourly_fees) {
        (Some(days), _) => format!(", {days:.1} days at the fees of the last hour"),
        (None, Some(_)) => ", no fees in the last hour".to_owned(),
        (None, None) => String::new(),
    };
    let detail = format!(
        "{}{} pays the fees of {}{runway}",
        funds.fee_balance,
        fee.denom,
        counted(bids)
    );
    let help = format!("send {} to the account that pays the transaction fees", fee.denom);
    match bids {
        Some(0) => Check::failure(subject, detail, help),
        Some(few) if few < BIDS_FEW => Check::warning(subject, detail, help),
        _ if days.is_some_and(|days| days < DAYS_FEW) => Check::warning(subject, detail, help),
        _ => Check::ok(subject, detail),
    }
}

/// Returns the number of bids that a balance pays for, or `None` if a bid costs nothing.
const fn bids(balance: u128, cost: u128) -> Option<u128> {
    balance.checked_div(cost)
}

fn counted(bids: Option<u128>) -> String {
    match bids {
        None => "any number of bids".to_owned(),
        Some(1) => "1 bid".to_owned(),
        Some(bids) => format!("{bids} bids"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn runway(balance: u128, hourly: Option<u128>) -> Option<f64> {
    let hourly = hourly.filter(|fees| *fees > 0)?;
    Some(balance as f64 / (hourly as f64 * 24.0))
}

fn joined(coins: &[Coin]) -> String {
    let texts: Vec<String> = coins.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    fn coin(amount: u128, denom: &str) -> Coin {
        Coin::new(denom, amount)
    }

    fn funds(act: u128, akt: u128, hourly_fees: Option<u128>) -> Funds {
        Funds {
            deposits: vec![coin(500, "uact")],
            minimums: vec![coin(500, "uact")],
            fee: coin(10, "uakt"),
            balances: BTreeMap::from([("uact".into(), act)]),
            fee_balance: akt,
            hourly_fees,
        }
    }

    #[test]
    fn balance_is_counted_in_bids_and_days() {
        let [ok, warning, failure] = [Severity::Ok, Severity::Warning, Severity::Failure];
        for (funds, deposits, fees) in [
            (funds(5_000, 100, None), ok, ok),
            (funds(4_999, 99, None), warning, warning),
            (funds(499, 9, None), failure, failure),
            (funds(5_000, 24 * 7 * 10, Some(10)), ok, ok),
            (funds(5_000, 24 * 7 * 10 - 1, Some(10)), ok, warning),
            (funds(5_000, 100, Some(0)), ok, ok),
        ] {
            let severities: Vec<Severity> = judge_funds(&funds).iter().map(Check::severity).collect();
            assert_eq!(severities, [deposits, fees], "{funds:?}");
        }
        let text = judge_funds(&funds(4_999, 24 * 10 * 3, Some(10)));
        assert!(text[0].detail().contains("4999uact pays for 9 bids"), "{text:?}");
        assert!(text[1].detail().contains("3.0 days"), "{text:?}");
    }

    #[test]
    fn deposit_below_the_minimum_is_a_failure() {
        let mut below = funds(5_000, 100, None);
        below.minimums = vec![coin(501, "uact")];
        let check = &judge_funds(&below)[0];
        assert_eq!(check.severity(), Severity::Failure);
        assert_eq!(check.help(), Some("set --bid-deposit=501uact"));
        // A deposit and a fee of the same token share one balance.
        let mut shared = funds(5_000, 100, None);
        shared.fee = coin(501, "uact");
        assert!(judge_funds(&shared)[0].detail().contains("4 bids"));
    }
}
