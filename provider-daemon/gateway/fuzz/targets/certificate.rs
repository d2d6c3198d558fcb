//! A client's certificate.

#![no_main]

use libfuzzer_sys::fuzz_target;
use akash_provider_gateway::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::certificate(input));
