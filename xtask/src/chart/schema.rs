//! Whether the schema knows every key of `values.yaml`: one that it does not know has no type.
//!
//! Must not be in here: a validator. Helm is one.

use anyhow::{Result, ensure};
use serde_json::Value;

pub(super) fn check(values: &str, schema: &str) -> Result<()> {
    let (values, schema): (Value, Value) = (serde_saphyr::from_str(values)?, serde_json::from_str(schema)?);
    let mut unknown = Vec::new();
    find_unknown(&values, &[&schema], &schema, "", &mut unknown);
    ensure!(unknown.is_empty(), "values.schema.json has no type for {}", unknown.join(", "));
    Ok(())
}

/// Collects the paths of keys that none of these schemas of one value has.
fn find_unknown(value: &Value, schemas: &[&Value], root: &Value, path: &str, unknown: &mut Vec<String>) {
    let schemas: Vec<_> = schemas.iter().flat_map(|schema| parts(schema, root)).collect();
    let lists_keys = schemas.iter().any(|schema| schema["properties"].is_object());
    // An object without a list of keys is free: labels, parts of a Pod.
    let Some(keys) = value.as_object().filter(|_| lists_keys) else { return };
    for (key, value) in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let of_key: Vec<_> =
            schemas.iter().map(|schema| &schema["properties"][key]).filter(|it| !it.is_null()).collect();
        if of_key.is_empty() {
            unknown.push(path);
        } else {
            find_unknown(value, &of_key, root, &path, unknown);
        }
    }
}

/// A schema and those that it refers to.
fn parts<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![schema];
    if let Some(place) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        found.extend(root.pointer(place).into_iter().flat_map(|it| parts(it, root)));
    }
    let all = schema["allOf"].as_array().into_iter().flatten();
    found.extend(all.flat_map(|it| parts(it, root)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{
        "properties": {
            "image": {"$ref": "#/definitions/image"},
            "service": {"allOf": [{"$ref": "#/definitions/image"}, {"properties": {"port": {}}}]},
            "labels": {"additionalProperties": {"type": "string"}}
        },
        "definitions": {"image": {"properties": {"tag": {"type": "string"}}}}
    }"##;

    #[test]
    fn a_key_without_a_type_is_named_and_free_objects_have_any() {
        let known = "image: {tag: a}\nservice: {tag: a, port: 80}\nlabels: {x: y}\n";
        check(known, SCHEMA).unwrap();
        let error =
            check("image: {tag: a, digest: b}\nservice: {ports: 1}\n", SCHEMA).unwrap_err().to_string();
        assert_eq!(error, "values.schema.json has no type for image.digest, service.ports");
    }
}
