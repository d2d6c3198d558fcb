//! An authorization header, a token, its claims.

#![no_main]

use libfuzzer_sys::fuzz_target;
use provider_daemon::gateway::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::jwt(input));
