//! Limits on the work to evaluate one order. Any account can create orders, and the chain limits little
//! except their size in bytes.
//!
//! Each limit is checked before the corresponding work starts. The limits are much higher than the needs of
//! real deployments.

use super::{Decline, OrderContext, signed_by};
use crate::config::Config;
use crate::types::{AuditedAttributes, GroupSpec};

/// Maximum number of resource units of one order. The time of an evaluation depends on this number.
pub const UNITS_MAX: usize = 512;
/// Maximum number of attribute comparisons for one order.
pub const COMPARISONS_MAX: usize = 1_000_000;
/// Maximum length of one text in a decline, in characters. Tenants choose these texts.
const TEXT_MAX: usize = 400;

/// Checks the limits that depend on the group alone.
///
/// # Errors
/// Returns [`Decline::TooLarge`] or [`Decline::TooManyAuditors`].
pub fn check_size(group: &GroupSpec) -> Result<(), Decline> {
    limit("units", group.resources.len(), UNITS_MAX)?;
    signed_by::check_count(&group.requirements.signed_by)
}

/// Checks that an order needs at most [`COMPARISONS_MAX`] attribute comparisons.
pub(super) fn check_comparisons(
    group: &GroupSpec,
    facts: &OrderContext<'_>,
    config: &Config,
) -> Result<(), Decline> {
    let ours = facts.attributes.map_or(0, <[_]>::len);
    let asked = group.requirements.attributes.len();
    let signed = facts
        .audited
        .iter()
        .map(|AuditedAttributes { attributes, .. }| attributes.len());
    let against = signed.fold(ours, usize::saturating_add);
    // Saturating: an overflow exceeds the limit as well.
    let placement = asked.saturating_mul(against.saturating_add(config.required_attributes.len()));
    let of_units = group.resources.iter().map(|unit| {
        let volumes = unit
            .resources
            .storage
            .iter()
            .map(|volume| volume.attributes.len());
        volumes.fold(unit.resources.gpu.attributes.len(), usize::saturating_add)
    });
    let of_units = of_units.fold(0, usize::saturating_add);
    let all = placement.saturating_add(of_units.saturating_mul(ours));
    limit("comparisons of attributes", all, COMPARISONS_MAX)
}

fn limit(what: &str, value: usize, limit: usize) -> Result<(), Decline> {
    if value <= limit {
        return Ok(());
    }
    Err(Decline::TooLarge {
        what: what.to_owned(),
        value: value as u64,
        limit: limit as u64,
    })
}

impl Decline {
    /// Shortens texts that come from tenants, nodes or price scripts.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        match &mut self {
            Self::Attributes { key, value } | Self::NotForUs { key, value } => cut_all([key, value]),
            Self::Storage { volume, wanted, .. } => cut_all([volume, wanted]),
            Self::Gpu { wanted, .. } | Self::Unsupported { wanted } => cut(wanted),
            Self::SignedBy { missing } => cut(missing),
            Self::InvalidGroup { problem } => cut(problem),
            Self::Reclamation { offered, .. } => cut(offered),
            Self::Deposit { configured, minimum } => cut_all([configured, minimum]),
            Self::InsufficientCapacity { message }
            | Self::Price { message }
            | Self::Refused { message }
            | Self::Unknown { message } => cut(message),
            Self::PriceDenom { price, order } => cut_all([price, order]),
            Self::PriceTooHigh { price, maximum } => cut_all([price, maximum]),
            Self::TooLarge { what, .. } => cut(what),
            Self::TooManyVolumes { .. }
            | Self::TooManyAuditors { .. }
            | Self::ReclamationRange { .. }
            | Self::OrderFull { .. }
            | Self::NoHostnames { .. }
            | Self::NoLeasedIps { .. }
            | Self::LeasedIpsExhausted { .. }
            | Self::ExternalPortsExhausted { .. }
            | Self::AlreadyBid => {}
        }
        self
    }
}

fn cut_all(texts: [&mut String; 2]) {
    texts.into_iter().for_each(cut);
}

/// Cuts a text to [`TEXT_MAX`] characters.
pub(crate) fn cut(text: &mut String) {
    // Counts characters, because a cut within a character would panic.
    if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(at);
        text.push('…');
        // Hundreds of declines are stored, and a text may have been very long.
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bidding::fixtures::{group, unit};
    use crate::types::{Address, Attribute, MarketParams, Order, OrderState};
    use std::sync::Arc;

    fn config() -> Config {
        Config::new(Address::from_bytes(&[7; 20]).unwrap(), "size")
    }

    fn attributes(count: usize) -> Vec<Attribute> {
        (0..count)
            .map(|n| Attribute::new(format!("key/{n}"), "true"))
            .collect()
    }

    #[test]
    fn units_and_auditors_are_accepted_up_to_their_limit() {
        let mut group = group();
        group.resources = vec![unit(1); UNITS_MAX];
        group.requirements.signed_by.all_of = vec!["a".to_owned(); 20];
        group.requirements.signed_by.any_of = vec!["b".to_owned(); 12];
        assert_eq!(check_size(&group), Ok(()));
        group.requirements.signed_by.any_of.push("b".to_owned());
        let declined = check_size(&group).unwrap_err();
        assert_eq!(declined.code().as_str(), "too_many_auditors");
        assert_eq!(
            declined.to_string(),
            "the order names 33 auditors; the limit is 32"
        );
        group.resources.push(unit(1));
        let declined = check_size(&group).unwrap_err();
        assert_eq!(declined.to_string(), "the order has 513 units; the limit is 512");
    }

    #[test]
    fn orders_with_too_many_comparisons_are_declined_before_comparing() {
        let (ours, signed) = (attributes(500), attributes(500));
        let audited = [AuditedAttributes::new("a", signed)];
        let facts = OrderContext {
            attributes: Some(&ours),
            audited: &audited,
            params: None::<&MarketParams>,
            bids: None,
        };
        let mut group = group();
        for unit in &mut group.resources {
            unit.resources.gpu.attributes.clear();
            unit.resources.storage.clear();
        }
        group.requirements.attributes = attributes(500);
        group.resources[0].resources.gpu.attributes = attributes(1_000);
        assert_eq!(
            check_comparisons(&group, &facts, &config()),
            Ok(()),
            "exactly one million"
        );
        group.resources[0].resources.gpu.attributes = attributes(1_001);
        let declined = check_comparisons(&group, &facts, &config()).unwrap_err();
        assert_eq!(declined.code().as_str(), "too_large");
    }

    #[test]
    fn texts_of_an_order_are_shortened_in_declines() {
        let mut group = group();
        group.requirements.attributes = vec![Attribute::new("region", "x".repeat(1 << 20))];
        let order = Order {
            id: format!("{}/1/1/1", config().provider).parse().unwrap(),
            state: OrderState::Open,
            spec: Arc::new(group),
            created_at: 1,
            reclamation_min_window: None,
        };
        let facts = OrderContext {
            attributes: Some(&[]),
            audited: &[],
            params: None,
            bids: None,
        };
        let declined = crate::bidding::should_bid(&order, &facts, &config()).unwrap_err();
        assert_eq!(declined.code().as_str(), "attributes");
        assert!(declined.to_string().len() < 2 * TEXT_MAX);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let message = "ü".repeat(TEXT_MAX);
        let whole = Decline::Unknown {
            message: message.clone(),
        };
        assert_eq!(whole.clone().shortened(), whole);
        let longer = Decline::Unknown {
            message: format!("{message}ü"),
        };
        let Decline::Unknown { message: cut } = longer.shortened() else {
            panic!("unexpected decline")
        };
        assert_eq!(cut, format!("{message}…"));
    }
}
