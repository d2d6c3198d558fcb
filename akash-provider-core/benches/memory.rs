//! Size, as figures: one JSON object a line, `{"name", "value", "unit"}`. `cargo xtask bench` holds them
//! against what we aim at.
//!
//! Every allocation of this program is counted, which costs time; speed is measured by the bench `figures`.

use akash_provider_core::Config;
use akash_provider_core::engine::Engine;
use akash_provider_core::types::Address;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::new(Address::from_bytes(&[7; 20])?, "bench");
    print("engine_empty_bytes", held(|| Engine::new(config)), "bytes");
    Ok(())
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
