//! Slices and events about them as the API server writes them: pages of a list, and lines of a watch.
//!
//! Never in here: which ones are written.

use bytes::Bytes;
use serde::Serialize;

use crate::objects::{EndpointPort, EndpointSlice, Metadata, SliceEndpoint};

const API_VERSION: &str = "discovery.k8s.io/v1";

/// A page of a list as the API server writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMetadata,
    items: Vec<Wire<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A line of a watch as the API server writes it.
#[derive(Serialize)]
struct Line<T> {
    #[serde(rename = "type")]
    event: &'static str,
    object: T,
}

/// A slice with its version, which [`Metadata`] leaves out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: WireMetadata<'a>,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata<'a> {
    resource_version: String,
    #[serde(flatten)]
    rest: Option<&'a Metadata>,
}

/// The fields of a slice beside its metadata.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    address_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<&'a [SliceEndpoint]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<&'a [EndpointPort]>,
}

impl<'a> Wire<'a> {
    fn of(slice: &'a EndpointSlice, version: u64) -> Self {
        // A field that is added to slices has to be added here.
        let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
        let rest =
            Rest { address_type: address_type.as_deref(), endpoints: Some(endpoints), ports: Some(ports) };
        Self::with(WireMetadata { resource_version: version.to_string(), rest: Some(metadata) }, rest)
    }

    fn with(metadata: WireMetadata<'a>, rest: Rest<'a>) -> Self {
        Self { kind: "EndpointSlice", api_version: API_VERSION, metadata, rest }
    }
}

/// The line of an event about a slice.
pub(super) fn event(event: &'static str, slice: &EndpointSlice, version: u64) -> Bytes {
    line(&Line { event, object: Wire::of(slice, version) }).into()
}

/// A page of a list at a version, with the token of the next page.
pub(super) fn page<'a>(
    version: u64,
    items: impl Iterator<Item = (&'a EndpointSlice, u64)>,
    next: Option<String>,
) -> Vec<u8> {
    let items = items.map(|(slice, version)| Wire::of(slice, version)).collect();
    let metadata = ListMetadata { resource_version: version.to_string(), next };
    json(&Page { kind: "EndpointSliceList", api_version: API_VERSION, metadata, items })
}

/// The line that tells that everything up to a version has been sent.
pub(super) fn bookmark(version: u64) -> Vec<u8> {
    let metadata = WireMetadata { resource_version: version.to_string(), rest: None };
    line(&Line { event: "BOOKMARK", object: Wire::with(metadata, Rest::default()) })
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = json(value);
    line.push(b'\n');
    line
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names are text, and nothing else can fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_written_with_every_field_that_is_read() {
        let text = r#"{"metadata": {"name": "x", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z",
            "uid": "u", "generation": 3, "labels": {"kubernetes.io/service-name": "s"}, "annotations": {"k": "v"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true,
            "serving": true, "terminating": false}, "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]}}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}"#;
        let slice: EndpointSlice = serde_json::from_str(text).unwrap();
        let line = event("MODIFIED", &slice, 7);
        let mut value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(serde_json::from_value::<EndpointSlice>(value["object"].clone()).unwrap(), slice);
        let metadata = value["object"]["metadata"].as_object_mut().unwrap();
        assert_eq!(metadata.remove("resourceVersion").unwrap(), "7");
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["object"]["metadata"], read["metadata"]);
        assert_eq!(value["object"]["endpoints"], read["endpoints"]);
    }
}
