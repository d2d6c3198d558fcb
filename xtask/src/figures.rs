//! Figures printed by benchmarks and by the simulation: one JSON object per line.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            name: name.into(),
            value,
            unit: unit.to_owned(),
        }
    }
}

/// Returns the figures in the output of a program. Other lines are ignored.
pub(crate) fn find<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Figure> {
    lines.into_iter().filter_map(parse).collect()
}

pub(crate) fn json(figure: &Figure) -> Result<String> {
    serde_json::to_string(figure).with_context(|| figure.name.clone())
}

/// Parses a figure. Text before the JSON object, such as the name of the test, is ignored.
pub(crate) fn parse(line: &str) -> Option<Figure> {
    serde_json::from_str(&line[line.find('{')?..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_other_lines() {
        let lines = [
            "running 1 test",
            r#"test seeds ... {"name":"sim_histories","value":20000,"unit":"histories"}"#,
            r#"{"name":"price_scale_us","value":0.7,"unit":"us"}"#,
            r#"{"level":"info"}"#,
            "{",
        ];
        let found = find(lines);
        assert_eq!(
            found.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
            ["sim_histories", "price_scale_us"]
        );
        assert_eq!((found[0].value, found[1].unit.as_str()), (20000.0, "us"));
    }
}
