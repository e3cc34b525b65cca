//! Documents of the result: objects of the Gateway API, with remarks.
//!
//! Never in here: the selection of objects.

use serde::Serialize;
use serde_json::{Value, json};

use super::yaml::{self, Remarks};
use crate::objects::At;
use crate::objects::gateway_api::GROUP;

/// An object of the result, with remarks.
#[derive(Debug)]
pub struct Document {
    kind: &'static str,
    value: Value,
    remarks: Remarks,
}

impl Document {
    /// An object of the Gateway API.
    pub(super) fn of_gateway_api(
        kind: &'static str,
        namespace: Option<&str>,
        name: &str,
        spec: &impl Serialize,
    ) -> Self {
        Self::new(&format!("{GROUP}/v1"), kind, namespace, name, spec)
    }

    /// An object of any group.
    pub(super) fn new(
        api_version: &str,
        kind: &'static str,
        namespace: Option<&str>,
        name: &str,
        spec: &impl Serialize,
    ) -> Self {
        let spec = serde_json::to_value(spec).expect("objects have names of text");
        let value = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        });
        Self { kind, value, remarks: Remarks::new() }
    }

    /// Adds a remark about the field that a JSON pointer names; an empty pointer stands for the whole
    /// document.
    pub(super) fn remark(&mut self, pointer: impl Into<String>, text: impl Into<String>) {
        self.remarks.push((pointer.into(), text.into()));
    }

    /// The kind of the object.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The object as JSON. Fields without a value are left out, as in YAML.
    pub(super) fn json(&self) -> Value {
        let mut value = self.value.clone();
        drop_nulls(&mut value);
        value
    }

    /// Writes the document as YAML.
    pub(super) fn write(&self, out: &mut String) {
        yaml::write(out, &self.value, &self.remarks);
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// A value without a line, because it was read from no file.
pub(super) fn at<T>(value: T) -> At<T> {
    At { value, line: 0 }
}

/// Values without lines, because they were read from no file.
pub(super) fn all<T>(values: impl IntoIterator<Item = T>) -> Vec<At<T>> {
    values.into_iter().map(at).collect()
}
