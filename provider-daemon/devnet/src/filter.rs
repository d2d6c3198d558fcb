//! Query language for subscriptions to events. A query is a list of conditions on keys. An event matches if all
//! conditions hold.
//!
//! `tm.event='Tx' AND akash.market.v1.EventBidCreated.id EXISTS AND tx.height > 5`

use std::collections::BTreeMap;

/// Maximum number of conditions of a query. Real clients use fewer than ten.
const CONDITIONS_MAX: usize = 32;

/// Values of an event by key, for comparison with conditions.
pub(super) type Facts = BTreeMap<String, Vec<String>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    Exists,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    key: String,
    operator: ConditionOperator,
    value: String,
}

/// Parsed query with at least one condition and at most [`CONDITIONS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter(Vec<Condition>);

impl Filter {
    /// Parses a query.
    ///
    /// # Errors
    /// Returns an error text with the position of the syntax error, in the format of an Akash node.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut reader = FilterParser { query, at: 0 };
        let mut conditions = Vec::new();
        loop {
            conditions.push(reader.condition()?);
            reader.space();
            if reader.rest().is_empty() {
                return Ok(Self(conditions));
            }
            if conditions.len() >= CONDITIONS_MAX || !reader.word("AND") {
                return Err(reader.error("expected AND"));
            }
        }
    }

    pub(super) fn matches(&self, facts: &Facts) -> bool {
        self.0.iter().all(|condition| condition.holds(facts))
    }

    /// Returns the value in the condition `key = value`, or `None` without such a condition.
    pub(super) fn only(&self, key: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|c| c.key == key);
        let found = found.find(|c| c.operator == ConditionOperator::Equal);
        found.map(|c| c.value.as_str())
    }
}

impl Condition {
    fn holds(&self, facts: &Facts) -> bool {
        let Some(values) = facts.get(&self.key) else {
            return false;
        };
        match self.operator {
            ConditionOperator::Exists => true,
            ConditionOperator::Contains => values.iter().any(|v| v.contains(&self.value)),
            ConditionOperator::Equal => values.contains(&self.value),
            ConditionOperator::Less
            | ConditionOperator::LessOrEqual
            | ConditionOperator::Greater
            | ConditionOperator::GreaterOrEqual => values.iter().any(|v| self.compares(v)),
        }
    }

    fn compares(&self, value: &str) -> bool {
        // Only whole numbers are compared. As texts, "9" would be greater than "10".
        let (Ok(value), Ok(wanted)) = (value.parse::<i128>(), self.value.parse::<i128>()) else {
            return false;
        };
        match self.operator {
            ConditionOperator::Less => value < wanted,
            ConditionOperator::LessOrEqual => value <= wanted,
            ConditionOperator::Greater => value > wanted,
            ConditionOperator::GreaterOrEqual => value >= wanted,
            ConditionOperator::Equal | ConditionOperator::Contains | ConditionOperator::Exists => false,
        }
    }
}

struct FilterParser<'a> {
    query: &'a str,
    at: usize,
}

impl<'a> FilterParser<'a> {
    fn rest(&self) -> &'a str {
        self.query.get(self.at..).unwrap_or_default()
    }

    fn error(&self, what: &str) -> String {
        let what = if self.rest().is_empty() { "EOF" } else { what };
        format!("failed to parse query: offset {}: {what}", self.at)
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn word(&mut self, word: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn condition(&mut self) -> Result<Condition, String> {
        self.space();
        let rest = self.rest();
        // An operator ends a key even without a space before it: clients write `tx.height>5`.
        let end = rest.find(|c: char| c.is_whitespace() || "=<>'".contains(c));
        let key = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if key.is_empty() {
            return Err(self.error("expected a key"));
        }
        self.at += key.len();
        // The longer ones first: `<=` starts with `<`.
        let operators = [
            ("<=", ConditionOperator::LessOrEqual),
            (">=", ConditionOperator::GreaterOrEqual),
            ("=", ConditionOperator::Equal),
            ("<", ConditionOperator::Less),
            (">", ConditionOperator::Greater),
            ("CONTAINS", ConditionOperator::Contains),
            ("EXISTS", ConditionOperator::Exists),
        ];
        let found = operators.into_iter().find(|(word, _)| self.word(word));
        let (_, operator) = found.ok_or_else(|| self.error("expected an operator"))?;
        let value = match operator {
            ConditionOperator::Exists => String::new(),
            _ => self.value()?,
        };
        Ok(Condition {
            key: key.to_owned(),
            operator,
            value,
        })
    }

    fn value(&mut self) -> Result<String, String> {
        self.space();
        let rest = self.rest();
        let (value, length) = match rest.strip_prefix('\'') {
            Some(quoted) => {
                let end = quoted.find('\'');
                let end = end.ok_or_else(|| self.error("a text without an end"))?;
                (quoted.get(..end), end + 2)
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest.get(..end), end)
            }
        };
        let value = value.unwrap_or_default().to_owned();
        if length == 0 {
            return Err(self.error("expected a value"));
        }
        self.at += length;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let facts = [
            ("tm.event", vec!["Tx"]),
            ("tx.height", vec!["12"]),
            ("akash.market.v1.EventBidCreated.id", vec!["{\"dseq\":\"7\"}"]),
            ("message.action", vec!["/a", "/b"]),
        ];
        let owned = |(key, values): (&str, Vec<&str>)| {
            let values = values.into_iter().map(str::to_owned).collect();
            (key.to_owned(), values)
        };
        facts.into_iter().map(owned).collect()
    }

    #[test]
    fn all_conditions_must_hold() {
        for (query, expected) in [
            ("tm.event='Tx'", true),
            (
                "tm.event = 'Tx' AND akash.market.v1.EventBidCreated.id EXISTS",
                true,
            ),
            (
                "tm.event='Tx' AND akash.market.v1.EventLeaseCreated.id EXISTS",
                false,
            ),
            ("tm.event='NewBlock'", false),
            ("tx.height>11 AND tx.height<=12", true),
            ("tx.height > 12", false),
            ("message.action='/b'", true),
            (
                "akash.market.v1.EventBidCreated.id CONTAINS '\"dseq\":\"7\"'",
                true,
            ),
        ] {
            assert_eq!(
                Filter::parse(query).unwrap().matches(&facts()),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn parse_error_names_the_position() {
        for (query, offset) in [("tm.event=", 9), ("", 0), ("tm.event='Tx", 9), ("a=1 OR b=2", 4)] {
            let error = Filter::parse(query).unwrap_err();
            assert!(
                error.starts_with(&format!("failed to parse query: offset {offset}:")),
                "{error}"
            );
        }
        assert_eq!(
            Filter::parse("tm.event=").unwrap_err(),
            "failed to parse query: offset 9: EOF"
        );
    }
}
