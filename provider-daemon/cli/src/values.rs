//! Parsers of flag values: durations, sizes, pairs. Each error contains the given text and the expected form.

use akash_provider_core::inventory::GpuSpec;
use akash_provider_core::types::{Attribute, Coin};
use std::time::Duration;
use url::Url;

/// Parses an HTTP or HTTPS URL.
///
/// # Errors
/// Returns an error if the text is not an HTTP or HTTPS URL.
pub fn web_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("invalid URL: {error}"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err("invalid URL: expected http:// or https://".to_owned());
    }
    Ok(url)
}

/// Parses a positive duration such as `500ms`, `6s` or `1h30m`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|e| format!("{e}; expected a duration such as 500ms, 6s or 1h30m"))?;
    if duration.is_zero() {
        return Err("must be greater than zero".to_owned());
    }
    Ok(duration)
}

/// Parses a duration in the notation of Go, such as `5m`, `1h30m`, `1.5h` or `0`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wanted = || format!("invalid duration `{text}`; expected a duration such as 500ms, 5m or 1h30m");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wanted)?;
        let (amount, tail) = rest.split_at(number);
        let unit = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wanted()),
        };
        let amount: f64 = amount.parse().map_err(|_| wanted())?;
        let part = Duration::try_from_secs_f64(amount * seconds).map_err(|_| wanted())?;
        total = total.checked_add(part).ok_or_else(wanted)?;
        rest = tail;
    }
    if text.is_empty() { Err(wanted()) } else { Ok(total) }
}

/// Parses a boolean in the notation of Go.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("invalid boolean `{other}`; expected true or false")),
    }
}

/// Converts a log level of the Go provider to a filter. `fatal` and `panic` become `error`. In a list such as
/// `state:debug,*:error`, only the level of `*` is used; without `*`, the level is `info`.
#[must_use]
pub fn log_levels(text: &str) -> String {
    let is_go = |part: &str| part.contains(':') && !part.contains("::");
    let mut parts = text.split(',').map(str::trim);
    let level = match parts.clone().any(is_go) {
        false => text.trim(),
        true => parts.find_map(|part| part.strip_prefix("*:")).unwrap_or("info"),
    };
    match level {
        "fatal" | "panic" => "error".to_owned(),
        "disabled" | "none" => "off".to_owned(),
        level => level.to_owned(),
    }
}

/// Checks the levels in a log filter. The filter would interpret a misspelled level as a module, and log only
/// this module.
///
/// # Errors
/// Returns an error with the invalid level.
pub fn check_log_levels(text: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let levels = log_levels(text);
    let words = levels.split(',').map(str::trim);
    // The filter itself validates spans in brackets and numbers.
    let is_level = |word: &&str| {
        let number = word.bytes().all(|b| b.is_ascii_digit());
        word.contains(['=', '[']) || number || LEVELS.contains(&word.to_lowercase().as_str())
    };
    match words.clone().find(|word| !is_level(word)) {
        None => Ok(()),
        Some(word) => Err(format!(
            "invalid log level `{word}`; expected {}, or MODULE=LEVEL",
            LEVELS.join(", ")
        )),
    }
}

/// Parses a positive amount of a token such as `5000000uact`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn coin(text: &str) -> Result<Coin, String> {
    let coin: Coin = text
        .parse()
        .map_err(|e| format!("{e}; expected an amount such as 5000000uact"))?;
    if coin.amount == 0 {
        return Err("must be greater than zero, such as 5000000uact".to_owned());
    }
    Ok(coin)
}

/// Parses a rate per second, above 0 and at most 10,000.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text
        .parse()
        .map_err(|e| format!("{e}; expected a number such as 5 or 0.5"))?;
    if rate > 0.0 && rate <= 10_000.0 {
        Ok(rate)
    } else {
        Err("must be greater than 0 and at most 10000".to_owned())
    }
}

/// Parses a label with its value, such as `k8s-app=kube-dns`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn label(text: &str) -> Result<(String, String), String> {
    // Rules of Kubernetes: letters and digits, with `-`, `_` and `.` between them; a label may have a prefix.
    let is_plain = |part: &str| {
        let alone = |c: char| c.is_ascii_alphanumeric();
        part.starts_with(alone)
            && part.ends_with(alone)
            && part.chars().all(|c| alone(c) || "-_.".contains(c))
            && part.len() <= 63
    };
    let is_key = |key: &str| match key.split_once('/') {
        Some((prefix, name)) => dns_name(prefix).is_ok() && is_plain(name),
        None => is_plain(key),
    };
    match text.split_once('=') {
        Some((key, value)) if is_key(key) && is_plain(value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!(
            "invalid label `{text}`; expected LABEL=VALUE, such as k8s-app=kube-dns"
        )),
    }
}

/// Parses the name of a Kubernetes object.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn dns_name(text: &str) -> Result<String, String> {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |part: &str| {
        part.starts_with(ends) && part.ends_with(ends) && part.chars().all(|c| ends(c) || c == '-')
    };
    if text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid object name `{text}`; expected lowercase letters and digits, with `-` and `.` between them"
    ))
}

/// Parses a positive proxy buffer size, such as `16k`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn buffer_size(text: &str) -> Result<String, String> {
    let number = text.strip_suffix(['k', 'K', 'm', 'M']).unwrap_or(text);
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if is_number && number.parse().is_ok_and(|size: u32| size > 0) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid buffer size `{text}`; expected a size such as 16k"
    ))
}

/// Parses a size in bytes such as `64Gi`, `500M` or `1024`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn bytes(text: &str) -> Result<i64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor: i64 = match unit {
        "" => 1,
        "k" => 1_000,
        "Ki" => 1 << 10,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        "G" => 1_000_000_000,
        "Gi" => 1 << 30,
        "T" => 1_000_000_000_000,
        "Ti" => 1 << 40,
        other => {
            return Err(format!(
                "unknown unit `{other}`; expected k, M, G, T, Ki, Mi, Gi or Ti"
            ));
        }
    };
    let number: i64 = number
        .parse()
        .map_err(|e| format!("invalid size `{number}`: {e}; expected a size such as 64Gi"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "value too large".to_owned())
}

/// Parses CPU cores such as `16`, or `500m` for half a core. Returns millicores.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn cores(text: &str) -> Result<i64, String> {
    let (number, factor) = text.strip_suffix('m').map_or((text, 1_000), |milli| (milli, 1));
    let number: i64 = number
        .parse()
        .map_err(|e| format!("{e}; expected a number of cores such as 16 or 500m"))?;
    if number < 0 {
        return Err("must not be negative".to_owned());
    }
    number
        .checked_mul(factor)
        .ok_or_else(|| "value too large".to_owned())
}

/// Parses an attribute `key=value`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn attribute(text: &str) -> Result<Attribute, String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    Ok(Attribute::new(key, value))
}

/// Parses a storage class with its size, for example `beta2=1Ti`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn storage_class(text: &str) -> Result<(String, i64), String> {
    let (class, size) = text
        .split_once('=')
        .ok_or("expected class=size, for example beta2=1Ti")?;
    if class.is_empty() {
        return Err("missing class name; expected class=size, for example beta2=1Ti".to_owned());
    }
    Ok((class.to_owned(), bytes(size)?))
}

/// Parses GPUs `vendor/model[/memory[/interface]]=count`, for example `nvidia/a100/80Gi/pcie=2`.
///
/// # Errors
/// Returns the reason if the text is invalid.
pub fn gpus(text: &str) -> Result<GpuSpec, String> {
    let wanted = "expected vendor/model[/memory[/interface]]=count, for example nvidia/a100/80Gi/pcie=2";
    let (name, count) = text.split_once('=').ok_or(wanted)?;
    let count: u32 = count
        .parse()
        .map_err(|e| format!("invalid count `{count}`: {e}; {wanted}"))?;
    match *name.split('/').collect::<Vec<_>>() {
        [vendor, model] => Ok(GpuSpec::new(vendor, model, "", "", count)),
        [vendor, model, memory] => Ok(GpuSpec::new(vendor, model, memory, "", count)),
        [vendor, model, memory, interface] => Ok(GpuSpec::new(vendor, model, memory, interface, count)),
        _ => Err(wanted.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_and_cores() {
        assert_eq!(bytes("64Gi"), Ok(64 << 30));
        assert_eq!(bytes("1024"), Ok(1024));
        assert_eq!(cores("16"), Ok(16_000));
        assert_eq!(cores("500m"), Ok(500));
        for bad in [
            "",
            "Gi",
            "1X",
            "-1",
            "99999999999999999999Gi",
            "9223372036854775807Ti",
        ] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert!(cores("-1").is_err());
        assert!(duration("0s").unwrap_err().contains("greater than zero"));
        assert!(rate("0").is_err() && rate("NaN").is_err());
    }

    #[test]
    fn parses_durations_and_booleans_of_go() {
        assert_eq!(go_duration("0"), Ok(Duration::ZERO));
        assert_eq!(go_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(go_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(go_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(go_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in [
            "",
            "5",
            "m",
            "-5m",
            "5 m",
            "1.2.3s",
            "9e99h",
            "99999999999999999999h",
        ] {
            assert!(go_duration(bad).is_err(), "{bad}");
        }
        assert_eq!((go_bool("T"), go_bool("0")), (Ok(true), Ok(false)));
        assert!(go_bool("yes").is_err());
    }

    #[test]
    fn converts_log_levels_of_the_go_provider() {
        for (theirs, ours) in [
            ("info", "info"),
            ("fatal", "error"),
            ("disabled", "off"),
            ("state:debug,*:error", "error"),
            ("state:debug", "info"),
            (
                "akash_provider_core::engine=debug,info",
                "akash_provider_core::engine=debug,info",
            ),
        ] {
            assert_eq!(log_levels(theirs), ours, "{theirs}");
            assert_eq!(check_log_levels(theirs), Ok(()), "{theirs}");
        }
    }

    #[test]
    fn rejects_an_invalid_log_level() {
        for good in [
            "",
            "info",
            "WARN",
            "off,akash_provider_core::engine=trace",
            "3",
            "[bid]=debug",
        ] {
            assert_eq!(check_log_levels(good), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("verbose", "verbose"),
            ("inof", "inof"),
            ("info,debgu", "debgu"),
            ("akash_provider_core", "akash_provider_core"),
            ("*:loud", "loud"),
        ] {
            let message = check_log_levels(bad).unwrap_err();
            assert!(
                message.starts_with(&format!("invalid log level `{word}`")),
                "{bad}: {message}"
            );
        }
    }

    #[test]
    fn parses_gpus_and_storage_classes() {
        assert_eq!(
            gpus("nvidia/a100/80Gi=2"),
            Ok(GpuSpec::new("nvidia", "a100", "80Gi", "", 2))
        );
        assert_eq!(storage_class("beta2=1Ti"), Ok(("beta2".to_owned(), 1 << 40)));
        for bad in ["a100=2", "nvidia/a100", "nvidia/a100=x", ""] {
            assert!(gpus(bad).unwrap_err().contains("nvidia/a100"), "{bad}");
        }
    }
}
