//! Gateway requests of a tenant, sent by curl instead of the tenant commands.

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_gateway::auth::token::{Algorithm, encode};
use serde_json::json;
use std::process::Command;
use std::time::UNIX_EPOCH;

/// Sends a request with curl and returns status and body; `None` without curl.
pub(crate) fn curl(words: &[&str]) -> Option<(u16, String)> {
    curl_after(&[], words)
}

/// Sends a request as [`curl`] does, with the command prefix `before`. The status is 0 if the server does not
/// respond.
pub(crate) fn curl_after(before: &[&str], words: &[&str]) -> Option<(u16, String)> {
    let own = [
        "curl",
        "--silent",
        "--insecure",
        "--max-time",
        "60",
        "--write-out",
        "\n%{http_code}",
    ];
    let all = [before, &own, words].concat();
    let output = match Command::new(all[0]).args(&all[1..]).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {}: {error}", all[0]);
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    Some((status.parse().unwrap(), body.to_owned()))
}

/// Returns a token with full access to the tenant's leases. The token became valid 15 minutes ago, so that a
/// provider with a slow clock accepts the token.
pub(crate) fn token(key: &PrivateKey) -> String {
    token_within(key, 900, 7200)
}

/// Returns a token with full access to the tenant's leases. The validity started `age` seconds ago, and ends
/// in `left` seconds.
pub(crate) fn token_within(key: &PrivateKey, age: u64, left: u64) -> String {
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let begins = now - age;
    let claims = json!({
        "iss": key.address().as_str(), "iat": begins, "nbf": begins, "exp": now + left, "version": "v1",
        "leases": { "access": "full" },
    });
    encode(Algorithm::Es256k, key.address(), &claims, |text| key.sign(text))
}
