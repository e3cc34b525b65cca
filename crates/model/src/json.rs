//! Parts of a configuration as JSON. Secrets are left out: keys, and the hashes of passwords.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::ClusterId;
use crate::cluster::CLUSTER_ID;

/// A part of a configuration as JSON. `cluster` replaces the id of each cluster, which means nothing outside
/// its model. Durations are text, such as `1.5s`; fields without a value are left out.
#[expect(clippy::missing_panics_doc, reason = "no part has a map, and so none has a key that is no text")]
pub fn to_json(part: &(impl Serialize + ?Sized), cluster: &impl Fn(ClusterId) -> Value) -> Value {
    let mut value = serde_json::to_value(part).expect("a part without maps");
    finish(&mut value, cluster);
    value
}

fn finish(value: &mut Value, cluster: &impl Fn(ClusterId) -> Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| finish(item, cluster)),
        Value::Object(fields) => {
            if let Some(id) = fields.get(CLUSTER_ID).and_then(Value::as_u64) {
                *value = cluster(ClusterId(id as u32));
            } else if let Some(duration) = duration(fields) {
                *value = format!("{duration:?}").into();
            } else {
                fields.retain(|_, field| !field.is_null());
                fields.values_mut().for_each(|field| finish(field, cluster));
            }
        }
        _ => {}
    }
}

/// The duration that an object of serde stands for.
fn duration(fields: &Map<String, Value>) -> Option<Duration> {
    let seconds = fields.get("secs")?.as_u64()?;
    let nanoseconds = fields.get("nanos")?.as_u64()?;
    Some(Duration::new(seconds, nanoseconds as u32))
}
