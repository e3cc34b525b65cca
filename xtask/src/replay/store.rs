//! The objects of a kind, which are listed in pages, and written by name.
//!
//! Must not be in here: sockets, watchers, time.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde_json::Value;

/// The objects of a kind, as JSON.
#[derive(Default)]
pub(super) struct Objects {
    items: Vec<String>,
    /// The index of each object by its name, once an object was asked for by name.
    places: Option<HashMap<String, usize>>,
}

/// The outcome of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The object as it is now.
    Object(Value),
    /// No object has this name.
    Absent,
    /// The write was meant for another object of this name, or for an older version of it.
    Conflict,
}

impl Objects {
    pub(super) fn new(items: Vec<String>) -> Objects {
        Objects { items, places: None }
    }

    pub(super) fn items(&self) -> &[String] {
        &self.items
    }

    /// The object with this name, as `namespace/name` or `name`.
    pub(super) fn find(&mut self, key: &str) -> Result<Option<&str>> {
        Ok(self.place(key)?.map(|place| &*self.items[place]))
    }

    /// Replaces or adds an object. An object that replaces another one keeps the other's status. Returns
    /// whether it replaced one.
    pub(super) fn put(&mut self, object: &mut Value, version: u64) -> Result<bool> {
        let key = key_of(object);
        let place = self.place(&key)?;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if let Some(place) = place {
            let mut old: Value = serde_json::from_str(&self.items[place])?;
            object["status"] = old["status"].take();
            self.items[place] = object.to_string();
            return Ok(true);
        }
        self.items.push(object.to_string());
        self.places.get_or_insert_default().insert(key, self.items.len() - 1);
        Ok(false)
    }

    /// Merges a patch into the status of an object. Its metadata are preconditions.
    pub(super) fn merge_status(&mut self, key: &str, patch: &Value, version: u64) -> Result<Written> {
        let Some(place) = self.place(key)? else { return Ok(Written::Absent) };
        let mut object: Value = serde_json::from_str(&self.items[place])?;
        let differs = |field: &&str| {
            let wanted = &patch["metadata"][field];
            !wanted.is_null() && *wanted != object["metadata"][field]
        };
        if ["uid", "resourceVersion"].iter().any(differs) {
            return Ok(Written::Conflict);
        }
        merge(&mut object["status"], &patch["status"]);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.items[place] = object.to_string();
        Ok(Written::Object(object))
    }

    fn place(&mut self, key: &str) -> Result<Option<usize>> {
        if self.places.is_none() {
            let key = |(place, item): (usize, &String)| {
                let object: Value = serde_json::from_str(item).context("an object is no JSON")?;
                Ok((key_of(&object), place))
            };
            self.places = Some(self.items.iter().enumerate().map(key).collect::<Result<_>>()?);
        }
        Ok(self.places.as_ref().and_then(|places| places.get(key).copied()))
    }
}

fn key_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// A merge patch (RFC 7386).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    for (name, field) in fields {
        if field.is_null() {
            if let Some(fields) = value.as_object_mut() {
                fields.remove(name);
            }
        } else {
            merge(&mut value[name], field);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects() -> Objects {
        let metadata = json!({"name": "a", "namespace": "web", "uid": "u", "resourceVersion": "1"});
        Objects::new(vec![json!({"metadata": metadata, "status": {"x": 1}}).to_string()])
    }

    #[test]
    fn a_status_is_merged_into_the_version_that_the_writer_knows() -> Result<()> {
        let mut objects = objects();
        let patch = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}, "status": {"parents": [1], "x": null}});
        assert_eq!(objects.merge_status("web/b", &patch("u", "1"), 2)?, Written::Absent);
        assert_eq!(objects.merge_status("web/a", &patch("v", "1"), 2)?, Written::Conflict);
        assert_eq!(objects.merge_status("web/a", &patch("u", "0"), 2)?, Written::Conflict);
        let Written::Object(now) = objects.merge_status("web/a", &patch("u", "1"), 2)? else {
            anyhow::bail!("the status is not written");
        };
        assert_eq!(
            (&now["status"], &now["metadata"]["resourceVersion"]),
            (&json!({"parents": [1]}), &json!("2"))
        );
        let stored: Value = serde_json::from_str(objects.find("web/a")?.context("it is there")?)?;
        assert_eq!(stored, now);
        Ok(())
    }

    #[test]
    fn an_object_that_is_replaced_keeps_its_status() -> Result<()> {
        let mut objects = objects();
        let mut object = json!({"metadata": {"name": "a", "namespace": "web"}, "spec": 2});
        assert!(objects.put(&mut object, 5)?);
        assert_eq!(
            (&object["status"], &object["metadata"]["resourceVersion"]),
            (&json!({"x": 1}), &json!("5"))
        );
        let mut other = json!({"metadata": {"name": "b", "namespace": "web"}});
        assert!(!objects.put(&mut other, 6)?);
        assert_eq!((objects.items().len(), objects.find("web/b")?.is_some()), (2, true));
        Ok(())
    }
}
