//! Discovery of the Gateway API's kinds, and of Forebay's own kinds, by regular requests: CRDs appear,
//! disappear, and change their versions.
//!
//! Never in here: the objects of these kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::Request;
use http::header::ACCEPT;
use http::request::Builder;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::watch::Trouble;
use crate::objects::forebay_policy;
use crate::objects::gateway_api::{EXPERIMENTAL_GROUP, GROUP};

/// Time between two requests.
const INTERVAL: Duration = Duration::from_secs(10);

/// Least and most time before a failed request is repeated.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The API groups, each with the versions that can be read, the best first.
const GROUPS: [(&str, &[&str]); 3] = [
    (GROUP, &["v1", "v1beta1", "v1alpha3", "v1alpha2"]),
    (EXPERIMENTAL_GROUP, &["v1alpha1"]),
    (forebay_policy::GROUP, &[forebay_policy::VERSION]),
];

/// The kinds and the release that the API server has.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// The plurals of the kinds, each with the best version.
    pub(super) kinds: BTreeMap<String, &'static str>,
    /// The release of the Gateway API that the CRDs name.
    pub(super) bundle: Option<String>,
}

/// The CRD whose metadata names the release, and the annotation with it.
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gatewayclasses.gateway.networking.k8s.io";
const BUNDLE_VERSION: &str = "gateway.networking.k8s.io/bundle-version";
/// Requests the metadata without the schema, because the schema is long.
const METADATA_ALONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// An endless stream of answers.
pub(super) type Answers = BoxStream<'static, Result<Served, Trouble>>;

/// Sends the first request at once, and further requests at intervals.
pub(super) fn answers(client: Client) -> Answers {
    let ask = |(client, wait, failures): (Client, Duration, u32)| async move {
        sleep(wait).await;
        let answer = ask(&client).await;
        let failures = if answer.is_ok() { 0 } else { failures + 1 };
        let wait = match failures {
            0 => INTERVAL,
            _ => WAIT_MIN.saturating_mul(1 << (failures - 1).min(10)).min(WAIT_MAX),
        };
        Some((answer, (client, wait, failures)))
    };
    stream::unfold((client, Duration::ZERO, 0), ask).boxed()
}

async fn ask(client: &Client) -> Result<Served, Trouble> {
    let mut served = Served::default();
    for (name, versions) in GROUPS {
        let Some(group) = get::<APIGroup>(client, Request::get(format!("/apis/{name}"))).await? else {
            continue;
        };
        let has = |version: &str| group.versions.iter().any(|of| of.version == version);
        for &version in versions.iter().filter(|version| has(version)) {
            let request = Request::get(format!("/apis/{name}/{version}"));
            let Some(list) = get::<APIResourceList>(client, request).await? else { continue };
            // Subresources have a slash in their names.
            for resource in list.resources.into_iter().filter(|resource| !resource.name.contains('/')) {
                served.kinds.entry(resource.name).or_insert(version);
            }
        }
    }
    if !served.kinds.is_empty() {
        let request = Request::get(CRD).header(ACCEPT, METADATA_ALONE);
        let crd: Option<PartialObjectMeta> = get(client, request).await?;
        served.bundle = crd.and_then(|crd| crd.metadata.annotations?.remove(BUNDLE_VERSION));
    }
    Ok(served)
}

/// The decoded response for a path; none if the path does not exist or may not be read.
async fn get<T: DeserializeOwned>(client: &Client, request: Builder) -> Result<Option<T>, Trouble> {
    let request = request.body(Vec::new());
    let request = request.map_err(|error| Trouble { why: error.to_string(), is_forbidden: false })?;
    match client.request(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
        Err(error) => Err(Trouble { why: crate::client::causes(&error), is_forbidden: false }),
    }
}
