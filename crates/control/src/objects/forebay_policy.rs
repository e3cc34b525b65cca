//! `ForebayPolicy` in its API form: its targets, and its sections with their fields.
//!
//! Never in here: the list of sections and fields.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::de::list;
use super::gateway_api::PolicyTarget;
use super::map::Map;
use super::{At, Metadata};

/// The group of the kind.
pub const GROUP: &str = "forebay.io";

/// The version of the kind.
pub const VERSION: &str = "v1alpha1";

/// Settings for Gateways and their routes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ForebayPolicy {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    #[serde(default)]
    pub spec: ForebayPolicySpec,
}

/// The desired state of a [`ForebayPolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForebayPolicySpec {
    /// The Gateways and routes to which the policy applies, in its namespace.
    pub target_refs: Vec<At<PolicyTarget>>,
    /// The sections, with the values of their fields.
    pub sections: Map<At<Fields>>,
}

/// The fields of a section, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Fields(pub Map<At<Value>>);

/// The field of a spec that is no section.
const TARGETS: &str = "targetRefs";

impl<'de> Deserialize<'de> for ForebayPolicySpec {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        de.deserialize_map(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = ForebayPolicySpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("targetRefs and sections of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ForebayPolicySpec, A::Error> {
        let mut spec = ForebayPolicySpec::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == TARGETS {
                spec.target_refs = map.next_value::<Targets>()?.0;
            } else {
                spec.sections.insert(&name, map.next_value()?);
            }
        }
        Ok(spec)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Targets(#[serde(deserialize_with = "list")] Vec<At<PolicyTarget>>);

impl Serialize for ForebayPolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(TARGETS, &self.target_refs)?;
        for (name, fields) in self.sections.iter() {
            map.serialize_entry(name, fields)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        de.deserialize_any(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section with fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields, A::Error> {
        Map::deserialize(MapAccessDeserializer::new(map)).map(Fields)
    }

    fn visit_unit<E>(self) -> Result<Fields, E> {
        Ok(Fields::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keep_their_values_and_lines() {
        let text = "metadata: {name: a}\nspec:\n  targetRefs:\n  - {group: g, kind: Gateway, name: b}\n  cache:\n    enabled: true\n    \
                    bypass: [\"cookie:a\"]\n  limits:\n    rps: 5\n  logging:\n";
        let policy: ForebayPolicy = serde_saphyr::from_str(text).unwrap();
        let spec = &policy.spec;
        assert_eq!(spec.target_refs[0].value.name, "b".into());
        let names: Vec<_> = spec.sections.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["cache", "limits", "logging"]);
        let field = |section: &str, name: &str| spec.sections.get(section)?.value.0.get(name);
        let rps = field("limits", "rps").unwrap();
        assert_eq!((&rps.value, rps.line), (&Value::from(5), 9));
        assert_eq!(field("cache", "bypass").unwrap().value, serde_json::json!(["cookie:a"]));
        let again: ForebayPolicy = serde_json::from_value(serde_json::to_value(&policy).unwrap()).unwrap();
        assert_eq!(again.spec.sections.get("cache").unwrap().value.0.get("enabled").unwrap().value, true);
        assert!(serde_saphyr::from_str::<ForebayPolicy>("metadata: {name: a}\nspec: {cache: true}").is_err());
    }
}
