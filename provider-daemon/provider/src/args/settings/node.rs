//! Settings file as names and values, independent of YAML types.

use akash_provider_chain::regular_file;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Maximum size of a settings file, in bytes.
const BYTES_MAX: u64 = 1 << 20;
const DEPTH_MAX: usize = 16;

/// YAML value.
#[derive(Debug, PartialEq)]
pub(super) enum YamlValue {
    /// Null.
    Nothing,
    Text(String),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

/// Returns the top-level keys and values of a settings file.
///
/// # Errors
/// Returns an error with the path if the file cannot be read, is too large or is not a map of settings.
pub(super) fn read(path: &Path) -> Result<Vec<(String, YamlValue)>, String> {
    let name = path.display();
    let file =
        regular_file::open(path).map_err(|error| format!("cannot open settings file {name}: {error}"))?;
    let bytes = regular_file::limited(file, BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            format!("cannot read settings file {name}: larger than {BYTES_MAX} bytes")
        }
        _ => format!("cannot read settings file {name}: {error}"),
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("cannot read settings file {name}: invalid UTF-8"))?;
    parse(&text).map_err(|error| format!("{name}: {error}"))
}

pub(super) fn parse(text: &str) -> Result<Vec<(String, YamlValue)>, String> {
    let node = serde_saphyr::from_str::<YamlValue>(text).map_err(|error| error.to_string())?;
    if depth(&node) > DEPTH_MAX {
        return Err(format!("values are nested more than {DEPTH_MAX} levels deep"));
    }
    match node {
        YamlValue::Fields(fields) => Ok(fields),
        YamlValue::Nothing => Ok(Vec::new()),
        YamlValue::Text(_) | YamlValue::List(_) => {
            Err("contains no settings; expected lines such as `bid-timeout: 5m`".to_owned())
        }
    }
}

fn depth(node: &YamlValue) -> usize {
    let below = match node {
        YamlValue::Nothing | YamlValue::Text(_) => None,
        YamlValue::List(nodes) => nodes.iter().map(depth).max(),
        YamlValue::Fields(fields) => fields.iter().map(|(_, node)| depth(node)).max(),
    };
    1 + below.unwrap_or(0)
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false, a list, or lines of settings")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<YamlValue, D::Error> {
        YamlValue::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = items.next_element()? {
            list.push(node);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut lines: A) -> Result<YamlValue, A::Error> {
        let mut fields: Vec<(String, YamlValue)> = Vec::new();
        while let Some((key, node)) = lines.next_entry::<String, YamlValue>()? {
            fields.push((key, node));
        }
        match repeated(fields.iter().map(|(key, _)| key)) {
            Some(key) => Err(Error::custom(format!("duplicate key `{key}`"))),
            None => Ok(YamlValue::Fields(fields)),
        }
    }
}

/// Returns the first item that occurs a second time.
fn repeated<T: Ord + Copy>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.find(|item| !seen.insert(*item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    /// Key that counts its comparisons.
    #[derive(Clone, Copy)]
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Counted<'_> {}

    #[test]
    fn finds_a_duplicate_key_with_few_comparisons() {
        let count = Cell::new(0);
        let keys = (0..10_000).chain([7]).map(|number| Counted(number, &count));
        assert_eq!(repeated(keys).map(|key| key.0), Some(7));
        assert!(count.get() < 10_000 * 40, "{}", count.get());
        assert_eq!(repeated([1, 2, 3].iter()), None);
    }
}
