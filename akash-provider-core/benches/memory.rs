//! Size, as figures: one JSON object a line, `{"name", "value", "unit"}`. `cargo xtask bench` holds them
//! against what we aim at.
//!
//! Every allocation of this program is counted, which costs time; speed is measured by the bench `figures`.
#![allow(missing_docs, reason = "a bench has no readers of its items")]

use akash_provider_core::Config;
use akash_provider_core::engine::Engine;

fn main() {
    print(
        "engine_empty_bytes",
        held(|| Engine::new(Config::default())),
        "bytes",
    );
}

/// Bytes that what `make` returns keeps allocated.
fn held<T>(make: impl FnOnce() -> T) -> i64 {
    let mut made = None;
    allocation_counter::measure(|| made = Some(make())).bytes_current
}

fn print(name: &str, value: i64, unit: &str) {
    println!(
        "{}",
        serde_json::json!({"name": name, "value": value, "unit": unit})
    );
}
