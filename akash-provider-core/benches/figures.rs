//! Speed, as figures: one JSON object a line, `{"name", "value", "unit"}`. `cargo xtask bench` holds them
//! against what we aim at. What a figure costs in memory is measured by the bench `memory`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use akash_provider_core::types::Address;

/// Long enough for a steady mean, short enough that all figures together take seconds.
const MEASURE_FOR: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = Address::from_bytes(&[7; 20])?.to_string();
    print("address_parse_us", micros(|| address.parse::<Address>()), "us");
    Ok(())
}

/// The mean time of one call, in microseconds, after a tenth of the time spent on warming up.
fn micros<T>(mut call: impl FnMut() -> T) -> f64 {
    run_for(MEASURE_FOR / 10, &mut call);
    let (calls, took) = run_for(MEASURE_FOR, &mut call);
    took.as_secs_f64() * 1e6 / f64::from(calls)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock; nothing it measures does"
)]
fn run_for<T>(time: Duration, call: &mut impl FnMut() -> T) -> (u32, Duration) {
    let begun = Instant::now();
    let mut calls = 0;
    loop {
        black_box(call());
        calls += 1;
        let took = begun.elapsed();
        if took >= time {
            return (calls, took);
        }
    }
}

fn print(name: &str, value: f64, unit: &str) {
    println!(
        "{}",
        serde_json::json!({"name": name, "value": value, "unit": unit})
    );
}
