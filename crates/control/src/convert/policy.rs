//! A `ForebayPolicy` from the annotations that have no field in the Gateway API.
//!
//! Never in here: the annotations that have a field in the Gateway API.

use serde_json::{Map, Value, json};

use super::annotations::Annotations;
use super::document::Document;
use crate::objects::gateway_api::GROUP;
use crate::problem::Severity;
use crate::translate::ingress::annotations::ANNOTATIONS;
use crate::translate::ingress::own;
use crate::translate::policy::fields;

const API_VERSION: &str = "forebay.io/v1alpha1";
pub(super) const KIND: &str = "ForebayPolicy";

/// An object that a policy attaches to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attached {
    pub(super) kind: &'static str,
    pub(super) name: String,
}

/// Settings of a policy, and remarks about lost annotations.
#[derive(Default)]
pub(super) struct Settings {
    sections: Map<String, Value>,
    remarks: Vec<(String, String)>,
    pub(super) lost: Vec<String>,
    /// A setting that restricts access is lost.
    pub(super) is_open: bool,
}

/// The result of converting an annotation.
enum Fate {
    Field(&'static str, &'static str, Value),
    Nothing,
    Lost(Severity, String),
}

/// The field of policies for an annotation with this text. All knowledge about policies in this module is in
/// this function.
fn fate(name: &str, text: &str) -> Fate {
    if let Some(field) = fields::of_annotation(name) {
        return match field.kind.value_of(text) {
            Ok(value) => Fate::Field(field.section.name, &field.name, value),
            Err(why) => Fate::Lost(Severity::Error, why),
        };
    }
    let known = own::annotations().chain(ANNOTATIONS.iter().copied()).find(|known| known.name == name);
    match (fields::instead(name), known) {
        (Some(instead), _) => {
            Fate::Lost(Severity::Warning, format!("it has no counterpart here ({instead})"))
        }
        (None, Some(annotation)) if !annotation.is_supported() => Fate::Nothing,
        (None, Some(_)) => Fate::Lost(Severity::Warning, "it has no counterpart here".to_owned()),
        (None, None) => Fate::Lost(Severity::Notice, "there is no such annotation".to_owned()),
    }
}

impl Settings {
    /// Converts the remaining annotations of an Ingress.
    pub(super) fn of(annotations: &Annotations<'_>) -> Self {
        let mut settings = Self::default();
        for (name, value) in annotations.rest() {
            let text = value.value.as_str();
            if text.trim().is_empty() {
                continue;
            }
            match fate(name, text) {
                Fate::Field(section, field, value) => settings.set(section, field, value, name),
                Fate::Nothing => {}
                Fate::Lost(severity, why) => {
                    settings.is_open |= guards(name, text) || severity == Severity::Error && is_access(name);
                    settings.lost.push(annotations.lose(severity, name, &why));
                }
            }
        }
        settings
    }

    /// Converts the settings for all Ingresses, which are named as annotations.
    pub(super) fn of_gateway(all: &[(String, String)]) -> Self {
        let mut settings = Self::default();
        for (name, text) in all.iter().filter(|(_, text)| !text.is_empty()) {
            if let Fate::Field(section, field, value) = fate(name, text) {
                settings.set(section, field, value, name);
            }
        }
        settings
    }

    fn set(&mut self, section: &'static str, field: &'static str, value: Value, annotation: &str) {
        let fields = self.sections.entry(section).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = fields {
            // The current name of an annotation takes precedence over a former name.
            if !fields.contains_key(field)
                || fields::of_annotation(annotation).is_some_and(|it| it.annotation.name == annotation)
            {
                fields.insert(field.to_owned(), value);
            }
        }
        self.remarks.push((format!("/spec/{section}/{field}"), annotation.to_owned()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The policy, attached to these objects of its namespace.
    pub(super) fn document(self, namespace: &str, name: &str, attached: &[Attached]) -> Document {
        let reference = |one: &Attached| json!({"group": GROUP, "kind": one.kind, "name": one.name});
        let mut spec = self.sections;
        spec.insert("targetRefs".to_owned(), attached.iter().map(reference).collect());
        let mut document = Document::new(API_VERSION, KIND, Some(namespace), name, &spec);
        for (pointer, annotation) in self.remarks {
            document.remark(pointer, annotation);
        }
        document
    }
}

/// Whether an annotation restricts access.
fn is_access(name: &str) -> bool {
    fields::of_annotation(name).is_some_and(|field| ["access", "auth", "waf"].contains(&field.section.name))
}

/// Whether an annotation without a counterpart restricts access, so that its loss would admit clients.
fn guards(name: &str, text: &str) -> bool {
    let is_snippet = name.ends_with("-snippet");
    let words = ["deny", "allow", "auth", "return", "limit"];
    name.starts_with("auth-tls-") || is_snippet && words.iter().any(|word| text.contains(word))
}
