use serde::{Deserialize, Serialize};

use super::super::Map;
use super::super::de::{list, nullable};
use super::open::SelectorOperator;

/// Labels that objects have to have: all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with their values.
    #[serde(default, deserialize_with = "nullable")]
    pub match_labels: Map<String>,
    /// Labels with conditions.
    #[serde(default, deserialize_with = "list")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A condition about a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SelectorRequirement {
    /// Name of the label.
    pub key: String,
    /// How it is compared.
    #[serde(default)]
    pub operator: SelectorOperator,
    /// Values.
    #[serde(default, deserialize_with = "list")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether it selects something with these labels. An operator that is not known selects nothing.
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
