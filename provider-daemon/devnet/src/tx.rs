//! Decoding of transactions, and the checks that need no chain state.

use super::refusal::TxRefusal;
use akash_provider_chain::convert::{self, Malformed};
use akash_provider_chain::proto::cosmos::bank::v1beta1::MsgSend;
use akash_provider_chain::proto::cosmos::crypto::secp256k1::PubKey;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{AuthInfo, Fee, SignerInfo, TxBody, TxRaw};
use akash_provider_chain::signer::TxHash;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, Coin, Msg};
use bytes::Bytes;
use prost::{Message, Name};
use prost_types::{Any, Timestamp};

/// Maximum size of a transaction, the same as in the mempool of Akash nodes.
pub(super) const TX_BYTES_MAX: usize = 1_048_576;
/// Maximum number of messages in one transaction. The Akash network has no such limit.
const MESSAGES_MAX: usize = 1_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Action of a provider.
    Provider(Msg),
    /// Action of a tenant or an auditor.
    Tenant(TenantMsg),
    /// Transfer of money.
    Send {
        from: Address,
        to: Address,
        coins: Vec<Coin>,
    },
}

/// Message of a transaction, with its type URL.
#[derive(Debug, Clone)]
pub(super) struct TxMessage {
    pub(super) type_url: String,
    pub(super) act: Act,
}

/// Decoded transaction, together with the encoded bytes.
#[derive(Debug, Clone)]
pub(super) struct DecodedTx {
    pub(super) bytes: Bytes,
    pub(super) hash: TxHash,
    pub(super) raw: TxRaw,
    pub(super) body: TxBody,
    pub(super) signer: Address,
    pub(super) info: SignerInfo,
    pub(super) fee: Fee,
    pub(super) steps: Vec<TxMessage>,
}

fn parse_error(text: &str) -> TxRefusal {
    TxRefusal::sdk(2, format!("{text}: tx parse error"))
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, TxRefusal> {
    M::decode(bytes).map_err(|e| parse_error(&e.to_string()))
}

impl DecodedTx {
    /// Decodes a transaction with one signer. Refusals here do not depend on the chain state.
    pub(super) fn decode(bytes: Bytes) -> Result<Self, TxRefusal> {
        // Before decoding: decoded messages take several times the memory of their bytes.
        if bytes.len() > TX_BYTES_MAX {
            let n = bytes.len();
            return Err(TxRefusal::sdk(
                21,
                format!("tx too large: {n} bytes: tx too large"),
            ));
        }
        let raw: TxRaw = decode(&bytes)?;
        let body: TxBody = decode(&raw.body_bytes)?;
        let auth: AuthInfo = decode(&raw.auth_info_bytes)?;
        if body.messages.is_empty() {
            return Err(TxRefusal::sdk(
                18,
                "must contain at least one message: invalid request",
            ));
        }
        if body.messages.len() > MESSAGES_MAX {
            return Err(TxRefusal::sdk(18, "too many messages: invalid request"));
        }
        let steps = body.messages.iter().map(step).collect::<Result<Vec<_>, _>>()?;
        let signer = one_signer(&steps)?;
        let mut infos = auth.signer_infos;
        let info = if infos.len() == 1 { infos.pop() } else { None };
        let info = info.ok_or_else(|| {
            TxRefusal::sdk(
                4,
                "wrong number of signers; expected 1, got another number: unauthorized",
            )
        })?;
        Ok(Self {
            hash: TxHash::new(&bytes),
            bytes,
            raw,
            body,
            signer,
            info,
            fee: auth.fee.unwrap_or_default(),
            steps,
        })
    }

    /// Returns the timeout in nanoseconds since the Unix epoch, or `None` without a timeout. For an unordered
    /// transaction, the timeout is also the nonce.
    pub(super) fn timeout_nanos(&self) -> Option<i64> {
        let Timestamp { seconds, nanos } = self.body.timeout_timestamp?;
        Some(
            seconds
                .saturating_mul(NANOS_PER_SECOND)
                .saturating_add(i64::from(nanos)),
        )
    }

    /// Returns the coins of the fee, in the same sequence as in the transaction. The list can be empty.
    pub(super) fn fee_coins(&self) -> Result<Vec<Coin>, TxRefusal> {
        let coins = self.fee.amount.iter().map(|coin| {
            let amount = coin.amount.parse::<u128>().ok();
            let amount = amount.filter(|_| !coin.denom.is_empty());
            amount.map(|amount| Coin::new(coin.denom.as_str(), amount))
        });
        let coins: Option<Vec<Coin>> = coins.collect();
        coins.ok_or_else(|| TxRefusal::sdk(13, "invalid fee provided: insufficient fee"))
    }

    pub(super) fn public_key(&self) -> Result<Option<Vec<u8>>, TxRefusal> {
        let Some(any) = &self.info.public_key else {
            return Ok(None);
        };
        if any.type_url != PubKey::type_url() {
            let text = format!("unable to resolve type URL {}", any.type_url);
            return Err(parse_error(&text));
        }
        decode::<PubKey>(&any.value).map(|key| Some(key.key))
    }
}

fn malformed(error: &Malformed) -> TxRefusal {
    TxRefusal::sdk(18, format!("{error}: invalid request"))
}

fn step(any: &Any) -> Result<TxMessage, TxRefusal> {
    let act = act(any)?;
    let act = act.ok_or_else(|| parse_error(&format!("unable to resolve type URL {}", any.type_url)))?;
    if let Act::Provider(msg) = &act {
        check_message(msg)?;
    }
    Ok(TxMessage {
        type_url: any.type_url.clone(),
        act,
    })
}

fn act(any: &Any) -> Result<Option<Act>, TxRefusal> {
    if let Some(msg) = convert::from_any(any).map_err(|e| malformed(&e))? {
        return Ok(Some(Act::Provider(msg)));
    }
    if let Some(msg) = convert::tenant_from_any(any).map_err(|e| malformed(&e))? {
        return Ok(Some(Act::Tenant(msg)));
    }
    if any.type_url != MsgSend::type_url() {
        return Ok(None);
    }
    let msg: MsgSend = decode(&any.value)?;
    let address = |part: &str, text: &str| convert::address(part, text).map_err(|e| malformed(&e));
    let coins = msg.amount.iter().map(|coin| {
        let text = format!("{}{}", coin.amount, coin.denom);
        let coin = text.parse::<Coin>().ok().filter(|c| c.amount > 0);
        coin.ok_or_else(|| TxRefusal::sdk(10, format!("{text}: invalid coins")))
    });
    Ok(Some(Act::Send {
        from: address("from_address", &msg.from_address)?,
        to: address("to_address", &msg.to_address)?,
        coins: coins.collect::<Result<_, _>>()?,
    }))
}

/// Performs the checks that need no state of the chain.
fn check_message(msg: &Msg) -> Result<(), TxRefusal> {
    match msg {
        Msg::CreateBid { price, .. } if price.amount.is_zero() => {
            Err(TxRefusal::new("market", 19, "invalid bid: zero price"))
        }
        Msg::CloseBid { reason, .. } | Msg::StartReclaim { reason, .. } if !reason.is_providers() => {
            let code = reason.code();
            let log = format!("value \"{code}\" range 10000..19999: invalid lease closed reason");
            Err(TxRefusal::new("market", 33, log))
        }
        _ => Ok(()),
    }
}

fn one_signer(steps: &[TxMessage]) -> Result<Address, TxRefusal> {
    let mut signers = steps.iter().map(|step| signer(&step.act));
    let first = signers.next().cloned();
    if signers.any(|other| Some(other) != first.as_ref()) {
        let text = "transactions of several signers are not supported: invalid request";
        return Err(TxRefusal::sdk(18, text));
    }
    first.ok_or_else(|| TxRefusal::sdk(18, "must contain at least one message: invalid request"))
}

pub(super) const fn signer(act: &Act) -> &Address {
    match act {
        Act::Provider(msg) => msg.signer(),
        Act::Tenant(msg) => match msg {
            TenantMsg::CreateDeployment { id, .. }
            | TenantMsg::UpdateDeployment { id, .. }
            | TenantMsg::CloseDeployment { id } => &id.owner,
            TenantMsg::PauseGroup { id } | TenantMsg::StartGroup { id } | TenantMsg::CloseGroup { id } => {
                &id.deployment.owner
            }
            TenantMsg::CreateLease { bid: id } | TenantMsg::CloseLease { id } => {
                &id.order.group.deployment.owner
            }
            TenantMsg::Deposit { deployment, .. } => &deployment.owner,
            TenantMsg::SignProvider { auditor, .. } | TenantMsg::UnsignProvider { auditor, .. } => auditor,
        },
        Act::Send { from, .. } => from,
    }
}

pub(super) fn deployment(act: &Act) -> Option<&akash_provider_core::types::DeploymentId> {
    match act {
        Act::Provider(
            Msg::CreateBid { id, .. }
            | Msg::CloseBid { id, .. }
            | Msg::StartReclaim { id, .. }
            | Msg::WithdrawLease { id },
        ) => Some(id.deployment()),
        Act::Provider(
            Msg::CreateProvider(_)
            | Msg::UpdateProvider(_)
            | Msg::CreateCertificate { .. }
            | Msg::RevokeCertificate { .. },
        )
        | Act::Send { .. } => None,
        Act::Tenant(msg) => match msg {
            TenantMsg::CreateDeployment { id, .. }
            | TenantMsg::UpdateDeployment { id, .. }
            | TenantMsg::CloseDeployment { id } => Some(id),
            TenantMsg::PauseGroup { id } | TenantMsg::StartGroup { id } | TenantMsg::CloseGroup { id } => {
                Some(&id.deployment)
            }
            TenantMsg::CreateLease { bid: id } | TenantMsg::CloseLease { id } => Some(id.deployment()),
            TenantMsg::Deposit { deployment, .. } => Some(deployment),
            TenantMsg::SignProvider { .. } | TenantMsg::UnsignProvider { .. } => None,
        },
    }
}
