//! Memory of log streams: the bytes of unfinished lines and of lines not yet read, counted per tenant and in total.

use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Address;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counter of the memory of all log streams.
#[derive(Debug)]
pub(super) struct LogMemoryBudget {
    usage: Mutex<LogMemoryUsage>,
    tenant_max: usize,
    total_max: usize,
}

#[derive(Debug, Default)]
struct LogMemoryUsage {
    total: usize,
    of_tenant: HashMap<Address, usize>,
}

impl LogMemoryBudget {
    /// Creates a counter with two limits in bytes: per tenant and in total.
    pub(super) fn new(tenant_max: usize, total_max: usize) -> Self {
        Self {
            usage: Mutex::default(),
            tenant_max,
            total_max,
        }
    }

    /// Creates the memory counter of one stream of a tenant.
    pub(super) fn part(self: &Arc<Self>, tenant: &Address) -> StreamBytes {
        StreamBytes {
            of: Arc::clone(self),
            tenant: tenant.clone(),
            bytes: 0,
        }
    }

    fn change(&self, tenant: &Address, before: usize, after: usize) -> Result<(), Error> {
        // Each step leaves consistent counts, and a panic in one stream must not stop the others.
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = usage.of_tenant.get(tenant).copied().unwrap_or_default() - before + after;
        let total = usage.total - before + after;
        if after > before && mine > self.tenant_max {
            return Err(exceeded("of this tenant", self.tenant_max));
        }
        if after > before && total > self.total_max {
            return Err(exceeded("of all tenants", self.total_max));
        }
        usage.total = total;
        if mine == 0 {
            usage.of_tenant.remove(tenant);
        } else {
            usage.of_tenant.insert(tenant.clone(), mine);
        }
        Ok(())
    }
}

fn exceeded(owner: &str, most: usize) -> Error {
    let most = most >> 20;
    let message = format!("unread log lines {owner} exceed {most} MiB; read faster or open fewer streams");
    Error::new(ErrorKind::Denied, "logs", message)
}

/// Number of bytes that the [`LogMemoryBudget`] counts for one stream. Dropping the value subtracts these bytes.
#[derive(Debug)]
pub(super) struct StreamBytes {
    of: Arc<LogMemoryBudget>,
    tenant: Address,
    bytes: usize,
}

impl StreamBytes {
    /// Changes the counted number of bytes to `bytes`.
    ///
    /// # Errors
    /// `Denied` with the exceeded limit. After this error, the count is unchanged.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes != self.bytes {
            self.of.change(&self.tenant, self.bytes, bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for StreamBytes {
    fn drop(&mut self) {
        // A decrease cannot fail.
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u8) -> Address {
        Address::from_bytes(&[number; 20]).unwrap()
    }

    #[test]
    fn the_error_names_the_limit_of_the_tenant_or_of_all_tenants() {
        let budget = Arc::new(LogMemoryBudget::new(10 << 20, 15 << 20));
        let [mut first, mut second] = [1, 1].map(|one| budget.part(&tenant(one)));
        first.resize(6 << 20).unwrap();
        let refused = second.resize(5 << 20).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied);
        assert!(refused.message().contains("of this tenant exceed 10 MiB"));
        second.resize(4 << 20).unwrap();
        let mut other = budget.part(&tenant(2));
        let refused = other.resize(6 << 20).unwrap_err();
        assert!(refused.message().contains("of all tenants exceed 15 MiB"));
        // Other tenants can use the released bytes.
        first.resize(1).unwrap();
        other.resize(6 << 20).unwrap();
        drop((first, second, other));
        let usage = budget.usage.lock().unwrap();
        assert!(usage.total == 0 && usage.of_tenant.is_empty());
    }
}
