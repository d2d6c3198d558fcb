//! Allocator of the programs.

/// Allocator that returns unused memory to the system within seconds. The allocator of glibc retains unused
/// memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
