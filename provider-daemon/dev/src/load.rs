//! Generated tenants, repeatable with a seed.

use akash_provider_core::sdl::{self, Sdl};
use anyhow::Context;

/// Prefix of the names of generated tenants.
pub(crate) const PREFIX: &str = "load-";

/// Generator of orders (SplitMix64). Implemented here, so that a seed gives the same orders with every
/// library version.
#[derive(Debug, Clone)]
pub(crate) struct OrderGenerator {
    state: u64,
    made: u32,
}

impl OrderGenerator {
    /// Creates a generator; the same seed generates the same orders.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed, made: 0 }
    }

    /// Returns the next order with its name.
    ///
    /// # Errors
    /// Returns an error only for an invalid template.
    pub(crate) fn make(&mut self) -> anyhow::Result<(String, Sdl)> {
        self.made += 1;
        let cpu = 100 * (1 + self.below(4));
        let memory = 64 * (1 + self.below(8));
        let storage = 256 * (1 + self.below(4));
        let count = 1 + self.below(3);
        let text = format!(
            r#"
version: "2.0"
services:
  web:
    image: nginx:1.27
    expose:
      - port: 80
        to: [{{ global: true }}]
profiles:
  compute:
    web:
      resources:
        cpu: {{ units: {cpu}m }}
        memory: {{ size: {memory}Mi }}
        storage: {{ size: {storage}Mi }}
  placement:
    anywhere:
      pricing:
        web: {{ denom: uact, amount: 100 }}
deployment:
  web:
    anywhere: {{ profile: web, count: {count} }}
"#
        );
        let sdl = sdl::parse(&text).context("invalid built-in SDL of the generated orders")?;
        Ok((format!("{PREFIX}{:05}", self.made), sdl))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generates_the_same_orders_for_a_seed() {
        let make = |seed| {
            let mut orders = OrderGenerator::new(seed);
            (0..20).map(|_| orders.make().unwrap().1.hash).collect::<Vec<_>>()
        };
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
