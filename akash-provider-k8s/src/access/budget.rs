//! Memory of log streams: the bytes of unfinished lines and of lines that wait for their reader, counted for each tenant
//! and for all.

use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Address;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counter of the memory of all log streams.
#[derive(Debug)]
pub(super) struct Budget {
    taken: Mutex<Taken>,
    tenant_max: usize,
    total_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    of_tenant: HashMap<Address, usize>,
}

impl Budget {
    /// Creates a counter with limits in bytes, for one tenant and for all.
    pub(super) fn new(tenant_max: usize, total_max: usize) -> Self {
        Self {
            taken: Mutex::default(),
            tenant_max,
            total_max,
        }
    }

    /// Starts to count a part of a tenant's memory, with no bytes.
    pub(super) fn part(self: &Arc<Self>, tenant: &Address) -> Part {
        Part {
            of: Arc::clone(self),
            tenant: tenant.clone(),
            bytes: 0,
        }
    }

    fn change(&self, tenant: &Address, before: usize, after: usize) -> Result<(), Error> {
        // The counts are right after each step, and a panic of another stream must not stop all streams.
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = taken.of_tenant.get(tenant).copied().unwrap_or_default() - before + after;
        let total = taken.total - before + after;
        if after > before && mine > self.tenant_max {
            return Err(exceeded("of this tenant", self.tenant_max));
        }
        if after > before && total > self.total_max {
            return Err(exceeded("of all tenants", self.total_max));
        }
        taken.total = total;
        if mine == 0 {
            taken.of_tenant.remove(tenant);
        } else {
            taken.of_tenant.insert(tenant.clone(), mine);
        }
        Ok(())
    }
}

fn exceeded(owner: &str, most: usize) -> Error {
    let most = most >> 20;
    let message =
        format!("log lines {owner} that wait take more than {most} MiB; read faster or open fewer streams");
    Error::new(ErrorKind::Denied, "logs", message)
}

/// Counted memory; released when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    of: Arc<Budget>,
    tenant: Address,
    bytes: usize,
}

impl Part {
    /// Counts `bytes` in place of those counted before.
    ///
    /// # Errors
    /// `Denied` with the limit that they would exceed; the count stays as it was.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes != self.bytes {
            self.of.change(&self.tenant, self.bytes, bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Fewer bytes are never refused.
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
    fn a_tenant_and_all_of_them_have_a_limit_that_the_refusal_names() {
        let budget = Arc::new(Budget::new(10 << 20, 15 << 20));
        let [mut first, mut second] = [1, 1].map(|one| budget.part(&tenant(one)));
        first.resize(6 << 20).unwrap();
        let refused = second.resize(5 << 20).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied);
        assert!(
            refused
                .message()
                .contains("of this tenant that wait take more than 10 MiB")
        );
        second.resize(4 << 20).unwrap();
        let mut other = budget.part(&tenant(2));
        let refused = other.resize(6 << 20).unwrap_err();
        assert!(
            refused
                .message()
                .contains("of all tenants that wait take more than 15 MiB")
        );
        // Released bytes can be used by others.
        first.resize(1).unwrap();
        other.resize(6 << 20).unwrap();
        drop((first, second, other));
        let taken = budget.taken.lock().unwrap();
        assert!(taken.total == 0 && taken.of_tenant.is_empty());
    }
}
