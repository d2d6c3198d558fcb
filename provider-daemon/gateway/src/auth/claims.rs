//! Claims of a token, and the rules for claims.
//!
//! Unknown claims are ignored, as the Go provider does. The holder of a token with invalid claims gets a specific
//! error; expiry is reported only for a token that is otherwise valid.

use super::access::{Access, DeploymentGrant, Scope, Scopes};
use akash_provider_core::types::Address;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum time by which a tenant's clock may be ahead of the local clock.
const SKEW: Duration = Duration::from_secs(60);

/// Reason why the claims of a token are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimFault {
    /// A claim breaks a rule.
    Invalid,
    /// The token is expired.
    Expired,
}

/// Claims of a token, after all checks except [`Claims::check_time`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// `iss`: account of the tenant, who signed the token.
    pub issuer: Address,
    /// `iat`, since the Unix epoch.
    pub issued_at: Duration,
    /// `nbf`, since the Unix epoch. Has no leeway, in contrast to `iat`.
    pub not_before: Duration,
    /// `exp`, since the Unix epoch. The token is invalid from this time.
    pub expires: Duration,
    /// `jti` for log messages, truncated to 64 characters. Tokens cannot be revoked by this ID.
    pub id: Option<String>,
    /// Permissions at this provider.
    pub access: Access,
}

/// Returns the account in the claim `iss`, the only claim that is read before the signature is verified.
#[must_use]
pub fn issuer(claims: &Value) -> Option<Address> {
    claims.get("iss")?.as_str()?.parse().ok()
}

impl Claims {
    /// Reads the claims of a token. The result contains only the permissions at `provider`.
    ///
    /// # Errors
    /// [`ClaimFault::Invalid`].
    pub fn read(claims: &Value, provider: &Address) -> Result<Self, ClaimFault> {
        read(claims, provider).ok_or(ClaimFault::Invalid)
    }

    /// Checks that `now` is in the validity period. Only the claim `iat` has leeway, because the tenant's
    /// clock sets it.
    ///
    /// # Errors
    /// Returns [`ClaimFault::Expired`] after the validity period, and [`ClaimFault::Invalid`] before this
    /// period.
    pub fn check_time(&self, now: Duration) -> Result<(), ClaimFault> {
        if now < self.not_before || self.issued_at > now.saturating_add(SKEW) {
            return Err(ClaimFault::Invalid);
        }
        if now >= self.expires {
            return Err(ClaimFault::Expired);
        }
        Ok(())
    }

    /// Returns the time from the earlier of `iat` and `nbf` until `exp`.
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
        // The id is logged, so its length must be limited.
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

/// Parses seconds since the Unix epoch, as a JSON number or as a decimal number in a string.
fn date(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    // Not `from_secs_f64`: it panics at negative, infinite and huge numbers, which a client can send.
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

/// Reads the permissions at `provider`. Returns `None` if any permission is invalid, even at another
/// provider.
fn permissions(leases: &Map<String, Value>, provider: &Address) -> Option<Access> {
    let permissions = leases.get("permissions")?.as_array()?;
    if permissions.is_empty() {
        return None;
    }
    let mut here = Access::OtherProviders;
    let mut seen = BTreeSet::new();
    for permission in permissions {
        let permission = permission.as_object()?;
        let whose: Address = permission.get("provider")?.as_str()?.parse().ok()?;
        // Read before the provider is compared: an invalid permission for another provider makes the token invalid here
        // too.
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
    // Zero means any, so one order of any group would be a grant across unrelated groups.
    let in_order = grant.dseq > 0 && (grant.oseq == 0 || grant.gseq > 0);
    in_order.then_some(grant)
}

fn scopes(object: &Map<String, Value>) -> Option<Scopes> {
    unique(object, "scope", |word| word.parse::<Scope>().ok())
}

/// Parses a list that is not empty and has no duplicates.
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
