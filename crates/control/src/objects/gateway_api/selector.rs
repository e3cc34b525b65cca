use serde::{Deserialize, Serialize};

use super::super::Map;
use super::super::de::{list, nullable};
use super::open::SelectorOperator;

/// Conditions about labels, all of which have to be fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with the values that they need.
    #[serde(default, deserialize_with = "nullable")]
    pub match_labels: Map<String>,
    /// Further conditions about labels.
    #[serde(default, deserialize_with = "list")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A condition about a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SelectorRequirement {
    /// Name of the label.
    pub key: String,
    /// The comparison of the label.
    #[serde(default)]
    pub operator: SelectorOperator,
    /// Values for `In` and `NotIn`.
    #[serde(default, deserialize_with = "list")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether the selector matches an object with these labels. An unknown operator matches nothing.
    pub fn selects(&self, labels: &Map<String>) -> bool {
        self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|one| one.is_met(labels))
    }
}

impl SelectorRequirement {
    fn is_met(&self, labels: &Map<String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            SelectorOperator::In => is_listed,
            SelectorOperator::NotIn => !is_listed,
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
            SelectorOperator::Other(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_have_to_be_met() {
        let mut labels = Map::default();
        labels.insert("team", "web".to_owned());
        let selects = |text: &str| serde_json::from_str::<LabelSelector>(text).unwrap().selects(&labels);
        assert!(selects("{}"));
        assert!(selects(r#"{"matchLabels": {"team": "web"}}"#));
        assert!(!selects(r#"{"matchLabels": {"team": "api"}}"#));
        let expression =
            |rest: &str| selects(&format!(r#"{{"matchExpressions": [{{"key": "team", {rest}}}]}}"#));
        assert!(expression(r#""operator": "In", "values": ["api", "web"]"#));
        assert!(!expression(r#""operator": "NotIn", "values": ["api", "web"]"#));
        assert!(expression(r#""operator": "Exists""#));
        assert!(!expression(r#""operator": "DoesNotExist""#));
        assert!(!expression(r#""operator": "Gt", "values": ["1"]"#));
    }
}
