//! Generated tenants: as many as wanted, at a rate, the same ones for the same seed.

use akash_provider_core::sdl::{self, Sdl};
use anyhow::Context;

/// What the names of generated tenants begin with.
pub const PREFIX: &str = "load-";

/// A generator that is the same everywhere (SplitMix64): its numbers only vary sizes, so nothing better is
/// needed, and a seed keeps its meaning over versions of any library.
#[derive(Debug, Clone)]
pub struct Orders {
    state: u64,
    made: u32,
}

impl Orders {
    /// A generator at its beginning; the same seed makes the same orders.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed, made: 0 }
    }

    /// The next order, with its name.
    ///
    /// # Errors
    /// Never, in practice: the template is valid.
    pub fn make(&mut self) -> anyhow::Result<(String, Sdl)> {
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
        let sdl = sdl::parse(&text).context("the template of generated orders")?;
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
    fn the_same_seed_makes_the_same_orders() {
        let make = |seed| {
            let mut orders = Orders::new(seed);
            (0..20).map(|_| orders.make().unwrap().1.hash).collect::<Vec<_>>()
        };
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
