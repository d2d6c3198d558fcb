//! The claims of a token, and their rules.
//!
//! Claims that this version does not know are passed over, as the network's provider does. Whoever holds a
//! token whose claims break a rule gets told so; that it is expired is told only of a token that is otherwise
//! right.

use super::access::{Access, DeploymentGrant, Scope, Scopes};
use akash_provider_core::types::Address;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// How much clocks of tenants may be ahead: what is made later than that is made up.
const SKEW: Duration = Duration::from_secs(60);

/// What is wrong with claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimFault {
    /// A rule is broken.
    Invalid,
    /// Its time is over.
    Expired,
}

/// Claims that keep every rule but for the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// `iss`: the account that signed the token, and the tenant it speaks for.
    pub issuer: Address,
    /// Since the Unix epoch.
    pub issued_at: Duration,
    /// `nbf`, since the Unix epoch: without leeway, in contrast to `iat`.
    pub not_before: Duration,
    /// Not valid from then on.
    pub expires: Duration,
    /// `jti`, for the log only: nothing is revoked by it. Cut to 64 characters.
    pub id: Option<String>,
    /// What it allows at this provider.
    pub access: Access,
}

/// The account whose key has signed; all that is read of a token before its signature is known to be right.
#[must_use]
pub fn issuer(claims: &Value) -> Option<Address> {
    claims.get("iss")?.as_str()?.parse().ok()
}

impl Claims {
    /// Reads claims for a provider.
    ///
    /// # Errors
    /// [`ClaimFault::Invalid`].
    pub fn read(claims: &Value, provider: &Address) -> Result<Self, ClaimFault> {
        read(claims, provider).ok_or(ClaimFault::Invalid)
    }

    /// Checks the time, without leeway but for when it was made: that is by the clock of whoever made it.
    ///
    /// # Errors
    /// [`ClaimFault::Expired`] after its end, [`ClaimFault::Invalid`] before its beginning.
    pub fn check_time(&self, now: Duration) -> Result<(), ClaimFault> {
        if now < self.not_before || self.issued_at > now.saturating_add(SKEW) {
            return Err(ClaimFault::Invalid);
        }
        if now >= self.expires {
            return Err(ClaimFault::Expired);
        }
        Ok(())
    }

    /// How long it is valid in all.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.expires.saturating_sub(self.issued_at.min(self.not_before))
    }
}

fn read(claims: &Value, provider: &Address) -> Option<Claims> {
    if claims.get("version")?.as_str()? != "v1" {
        return None;
    }
    let id = match claims.get("jti") {
        None | Some(Value::Null) => None,
        // It ends up in the log, so its length is not the caller's choice.
        Some(Value::String(id)) => Some(id.chars().take(64).collect()),
        Some(_) => return None,
    };
    Some(Claims {
        issuer: issuer(claims)?,
        issued_at: date(claims.get("iat")?)?,
        not_before: date(claims.get("nbf")?)?,
        expires: date(claims.get("exp")?)?,
        id,
        access: access(claims.get("leases")?.as_object()?, provider)?,
    })
}

/// Seconds since the epoch, a number or a number as text.
fn date(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    // Not `from_secs_f64`: that one panics at negative, infinite and huge numbers, which anybody can write.
    Duration::try_from_secs_f64(seconds).ok()
}

fn is_absent(object: &Map<String, Value>, key: &str) -> bool {
    match object.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn access(leases: &Map<String, Value>, provider: &Address) -> Option<Access> {
    match leases.get("access")?.as_str()? {
        "full" if is_absent(leases, "scope") && is_absent(leases, "permissions") => Some(Access::Full),
        "scoped" if is_absent(leases, "permissions") => Some(Access::Scoped(scopes(leases)?)),
        "granular" if is_absent(leases, "scope") => permissions(leases, provider),
        _ => None,
    }
}

/// Every permission must keep the rules, whichever provider it is for.
fn permissions(leases: &Map<String, Value>, provider: &Address) -> Option<Access> {
    let permissions = leases.get("permissions")?.as_array()?;
    if permissions.is_empty() {
        return None;
    }
    let mut here = Access::Elsewhere;
    let mut seen = BTreeSet::new();
    for permission in permissions {
        let permission = permission.as_object()?;
        let whose: Address = permission.get("provider")?.as_str()?.parse().ok()?;
        // Read before the provider is compared: an invalid permission for another provider spoils the token here too.
        let access = permission_access(permission)?;
        if whose == *provider {
            here = access;
        }
        if !seen.insert(whose) {
            return None;
        }
    }
    Some(here)
}

fn permission_access(permission: &Map<String, Value>) -> Option<Access> {
    let no = |key| is_absent(permission, key);
    match permission.get("access")?.as_str()? {
        "full" if no("scope") && no("deployments") => Some(Access::Full),
        "scoped" if no("deployments") => Some(Access::Scoped(scopes(permission)?)),
        "granular" if no("scope") => {
            let deployments = permission.get("deployments")?.as_array()?;
            let grants: Option<Vec<_>> = deployments.iter().map(grant).collect();
            grants.filter(|g| !g.is_empty()).map(Access::Granular)
        }
        _ => None,
    }
}

fn grant(deployment: &Value) -> Option<DeploymentGrant> {
    let deployment = deployment.as_object()?;
    let number = |key| match deployment.get(key) {
        None | Some(Value::Null) => Some(0),
        Some(value) => u32::try_from(value.as_u64()?).ok(),
    };
    let grant = DeploymentGrant {
        dseq: deployment.get("dseq")?.as_u64()?,
        gseq: number("gseq")?,
        oseq: number("oseq")?,
        scopes: scopes(deployment)?,
        services: unique(deployment, "services", |name| {
            (!name.is_empty()).then(|| name.to_owned())
        })?,
    };
    // Zero means any, so an order of any group would be a grant across groups that nobody can have meant.
    let in_order = grant.dseq > 0 && (grant.oseq == 0 || grant.gseq > 0);
    in_order.then_some(grant)
}

fn scopes(object: &Map<String, Value>) -> Option<Scopes> {
    unique(object, "scope", |word| word.parse::<Scope>().ok())
}

/// A list that is not empty and has nothing twice.
fn unique<T: Ord>(
    object: &Map<String, Value>,
    key: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<BTreeSet<T>> {
    let list = object.get(key)?.as_array()?;
    let mut all = BTreeSet::new();
    for item in list {
        if !all.insert(read(item.as_str()?)?) {
            return None;
        }
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
