//! Text of the reasons why an order fits a node or not.

use akash_provider_core::inventory::Explanation;

/// Formats an explanation as text, one line for each node and unit.
#[must_use]
pub fn explanation_text(explanation: &Explanation) -> String {
    let mut lines = String::new();
    for node in &explanation.nodes {
        let missing = if node.missing.is_empty() {
            "has room".to_owned()
        } else {
            node.missing.join("; ")
        };
        lines.push_str(&format!(
            "  {:<12} unit {}: takes {}, {missing}\n",
            node.node, node.unit, node.replicas
        ));
    }
    for line in &explanation.cluster {
        lines.push_str(&format!("  cluster      {line}\n"));
    }
    for ignored in &explanation.ignored {
        lines.push_str(&format!("  ignored      {}\n", ignored.reason()));
        if !ignored.help().is_empty() {
            lines.push_str(&format!("  help         {}\n", ignored.help()));
        }
    }
    lines
}
