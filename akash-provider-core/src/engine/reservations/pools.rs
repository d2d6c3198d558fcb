//! Pools of external ports and leased IPs, which are counted without placement.

use crate::bidding::Decline;
use crate::config::Config;
use crate::engine::status::LeasedIpStatus;
use crate::inventory::LeasedIpUsage;
use serde::{Deserialize, Serialize};

/// Number of ports and number of IP addresses that a reservation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) ports: u32,
    pub(super) ips: u32,
    /// True if the addresses are assigned, so that the usage reported by the pool includes them.
    pub(super) confirmed: bool,
}

/// Sizes of the pools of external ports and leased IPs, and the amounts reserved from these pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pools {
    ports: u64,
    ports_taken: u64,
    has_ips: bool,
    usage: Option<(u32, u32)>,
    /// Number of reserved addresses that `usage` does not count as used yet.
    ips_unconfirmed: u64,
    /// Number of released addresses that `usage` still counts as used.
    ips_returned: u64,
}

impl Pools {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            ports: u64::from(config.external_ports),
            has_ips: config.leased_ips,
            ..Self::default()
        }
    }

    /// Stores the reported usage of the pool of leased IPs, and resets the reserved amounts. The caller adds all claims
    /// again.
    pub(super) fn recount(&mut self, usage: Option<&LeasedIpUsage>) {
        if let Some(usage) = usage {
            self.usage = Some((usage.total, usage.in_use));
            self.ips_returned = 0;
        }
        self.ports_taken = 0;
        self.ips_unconfirmed = 0;
    }

    pub(super) fn check(&self, claim: Claim) -> Result<(), Decline> {
        let free = self.ports_free();
        if claim.ports > free {
            return Err(Decline::ExternalPortsExhausted {
                wanted: claim.ports,
                free,
            });
        }
        // Without requested addresses, an unknown usage does not matter.
        if claim.ips == 0 {
            return Ok(());
        }
        if !self.has_ips {
            return Err(Decline::NoLeasedIps { wanted: claim.ips });
        }
        let Some(pool) = self.ips() else {
            return Err(Decline::Unknown {
                message: "the use of the pool of leased IPs is not known yet".to_owned(),
            });
        };
        if claim.ips > pool.available {
            return Err(Decline::LeasedIpsExhausted {
                wanted: claim.ips,
                free: pool.available,
            });
        }
        Ok(())
    }

    /// Returns a decline if the reservation `claim` uses an overcommitted pool: external ports or leased IPs.
    pub(super) fn check_overcommit(&self, claim: Claim) -> Option<Decline> {
        if claim.ports > 0 && self.ports_taken > self.ports {
            return Some(Decline::ExternalPortsExhausted {
                wanted: claim.ports,
                free: 0,
            });
        }
        let pool = self.ips().filter(|_| claim.ips > 0)?;
        (pool.allocated > pool.total).then_some(Decline::LeasedIpsExhausted {
            wanted: claim.ips,
            free: 0,
        })
    }

    pub(super) fn take(&mut self, claim: Claim) {
        self.ports_taken += u64::from(claim.ports);
        if !claim.confirmed {
            self.ips_unconfirmed += u64::from(claim.ips);
        }
    }

    pub(super) fn release(&mut self, claim: Claim) {
        self.ports_taken = self.ports_taken.saturating_sub(u64::from(claim.ports));
        if claim.confirmed {
            // The last count of the pool still includes them.
            self.ips_returned += u64::from(claim.ips);
        } else {
            self.ips_unconfirmed = self.ips_unconfirmed.saturating_sub(u64::from(claim.ips));
        }
    }

    pub(super) fn ports_free(&self) -> u32 {
        u32::try_from(self.ports.saturating_sub(self.ports_taken)).unwrap_or(u32::MAX)
    }

    pub(super) fn ips(&self) -> Option<LeasedIpStatus> {
        let (total, in_use) = self.usage.filter(|_| self.has_ips)?;
        // More addresses may be released than the last count included.
        let used = u64::from(in_use).saturating_sub(self.ips_returned);
        let allocated = u32::try_from(used + self.ips_unconfirmed).unwrap_or(u32::MAX);
        Some(LeasedIpStatus {
            total,
            allocated,
            available: total.saturating_sub(allocated),
        })
    }

    /// Returns the numbers of reserved ports and unconfirmed addresses.
    pub(super) fn taken(&self) -> (u64, u64) {
        (self.ports_taken, self.ips_unconfirmed)
    }
}
