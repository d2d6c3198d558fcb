//! The query of a stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use provider_daemon::gateway::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::query(input));
