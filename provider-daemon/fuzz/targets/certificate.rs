//! A client's certificate.

#![no_main]

use libfuzzer_sys::fuzz_target;
use provider_daemon::gateway::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::certificate(input));
