//! The metadata that objects of every kind have.
//!
//! There may be 100,000 objects: what objects in files do not have takes one pointer.
//!
//! Never in here: the kinds of objects.

use serde::{Deserialize, Deserializer, Serialize};

use super::de::nullable;
use super::{At, Map};

/// The metadata that objects of every kind have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Form", into = "Form")]
pub struct Metadata {
    /// Name, unique in its namespace and kind.
    pub name: Box<str>,
    /// Namespace. A file may leave it out, which means `default`.
    pub namespace: Option<Box<str>>,
    /// The annotations, with their lines.
    pub annotations: Map<At<String>>,
    /// None where each of its fields is absent.
    rest: Option<Box<Rest>>,
}

/// The metadata that objects in files seldom have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    created: Option<Box<str>>,
    uid: Option<Box<str>>,
    generation: i64,
    labels: Map<String>,
}

/// The form of [`Metadata`] in the API.
#[derive(Deserialize, Serialize)]
#[serde(rename = "Metadata", rename_all = "camelCase")]
struct Form {
    name: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    generation: i64,
    #[serde(default, deserialize_with = "labels")]
    labels: Map<String>,
    #[serde(default, deserialize_with = "nullable")]
    annotations: Map<At<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The label of an `EndpointSlice` that names its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The labels that are kept of objects.
const LABELS_READ: &[&str] = &[SERVICE_NAME];

fn labels<'de, D: Deserializer<'de>>(de: D) -> Result<Map<String>, D::Error> {
    let mut labels: Map<String> = nullable(de)?;
    labels.retain(|name| LABELS_READ.contains(&name));
    Ok(labels)
}

impl Metadata {
    /// The metadata of an object with a name and labels, and nothing else.
    pub fn labelled(name: Box<str>, labels: Map<String>) -> Self {
        Self { name, ..Self::default() }.with(Rest { labels, ..Rest::default() })
    }

    /// The same metadata with another creation time.
    #[must_use]
    pub fn created_at(self, time: Option<&str>) -> Self {
        let rest = self.rest.as_deref().cloned().unwrap_or_default();
        self.with(Rest { created: time.map(Box::from), ..rest })
    }

    /// Time in RFC 3339 in UTC with whole seconds, so that comparing the texts compares the times. Objects in
    /// files seldom have it.
    pub fn created(&self) -> Option<&str> {
        self.rest.as_ref()?.created.as_deref()
    }

    /// Distinguishes an object from a later one with the same name. Objects in files have none.
    pub fn uid(&self) -> Option<&str> {
        self.rest.as_ref()?.uid.as_deref()
    }

    /// The number of changes of the spec, from 1; 0 if it is not known.
    pub fn generation(&self) -> i64 {
        self.rest.as_ref().map_or(0, |rest| rest.generation)
    }

    /// The labels; none without any. Only Namespaces and `EndpointSlice`s have labels.
    pub fn labels(&self) -> Option<&Map<String>> {
        self.rest.as_ref().map(|rest| &rest.labels)
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels()?.get(name).map(String::as_str)
    }

    fn with(self, rest: Rest) -> Self {
        Self { rest: (rest != Rest::default()).then(|| Box::new(rest)), ..self }
    }
}

impl From<Form> for Metadata {
    fn from(form: Form) -> Self {
        let Form { name, namespace, creation_timestamp: created, uid, generation, labels, annotations } =
            form;
        let metadata = Self { name, namespace, annotations, rest: None };
        metadata.with(Rest { created, uid, generation, labels })
    }
}

impl From<Metadata> for Form {
    fn from(metadata: Metadata) -> Self {
        let Metadata { name, namespace, annotations, rest } = metadata;
        let Rest { created: creation_timestamp, uid, generation, labels } =
            rest.map_or_else(Rest::default, |rest| *rest);
        Self { name, namespace, creation_timestamp, uid, generation, labels, annotations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_written_as_it_was_read() {
        for text in [
            r#"{"name":"a","labels":{},"annotations":{"b":"c"}}"#,
            r#"{"name":"a","namespace":"n","creationTimestamp":"2024-01-01T00:00:00Z","uid":"u","generation":3,"labels":{"kubernetes.io/service-name":"s"},"annotations":{}}"#,
        ] {
            let metadata: Metadata = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&metadata).unwrap(), text);
        }
    }

    #[test]
    fn labels_that_nothing_reads_take_no_memory() {
        let text = r#"{"name":"a","labels":{"team":"blue"},"creationTimestamp":null}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        assert_eq!(metadata, Metadata { name: "a".into(), ..Metadata::default() });
        let dated = metadata.clone().created_at(Some("2024-01-01T00:00:00Z"));
        assert_eq!((dated.created(), dated.uid()), (Some("2024-01-01T00:00:00Z"), None));
        assert_eq!(dated.created_at(None), metadata);
    }
}
