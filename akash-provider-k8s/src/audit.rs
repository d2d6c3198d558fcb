//! Audit records of the deletions that the backend decides itself.

pub use akash_provider_kube_kernel::audit::DeletionLog;

#[cfg(test)]
mod tests;
