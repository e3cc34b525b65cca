//! Judges an Ingress before it is stored: an `AdmissionReview` in, an `AdmissionReview` out (Kubernetes,
//! "Dynamic Admission Control").
//!
//! The object is translated in memory, together with the few objects that can affect it. The answer lists the
//! problems that this translation finds.
//!
//! Never in here: IO, async, DNS look-ups, or anything that is rendered or run.

mod dry_run;
mod verdict;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::index::Index;
use crate::objects::{Ingress, IngressSpec, IngressStatus, Kind, Metadata, Origin, Sourced};
use crate::options::Options;
use crate::translate::ingress::class::is_ours;
use dry_run::DryRun;
use verdict::Verdict;

/// Longest review, in bytes. Kubernetes takes objects of 1.5 MiB (etcd's limit); an update's review holds the
/// old one too.
pub const REVIEW_BYTES_MAX: usize = 4 << 20;

/// The body is not an `AdmissionReview` of `admission.k8s.io/v1` that holds a request.
#[derive(Debug, thiserror::Error)]
#[error("not an AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NotAReview(String);

/// The request of a review: may this object be stored?
#[derive(Debug)]
pub struct Request {
    uid: String,
    question: Question,
}

#[derive(Debug)]
enum Question {
    /// Nothing to judge: the kind or the operation is not one that is judged, or the Ingress is being
    /// deleted.
    Nothing,
    /// An Ingress is created or updated.
    Ingress { object: Arc<Sourced<Ingress>>, is_new: bool },
    /// A created or updated Ingress that cannot be decoded. `head` holds the fields that could be decoded;
    /// they decide its class.
    Undecodable { head: Box<Sourced<Ingress>>, why: String },
}

/// The stored objects that can affect the answer to a request, and the options by which they are translated.
#[derive(Debug)]
pub struct ReviewContext {
    near: Index,
    options: Options,
}

/// The answer to a request, and the cost of it.
#[derive(Debug)]
pub struct Judgement {
    /// The answering `AdmissionReview`, as JSON.
    pub answer: Vec<u8>,
    /// Time that the translations of Ingresses took.
    pub translating: Duration,
}

impl ReviewContext {
    /// The number of Ingresses among these objects.
    pub fn ingresses(&self) -> usize {
        self.near.ingresses.iter().count()
    }
}

/// Answers a review, given all stored objects.
///
/// # Errors
///
/// When the body is no review that can be read: see [`Request::parse`].
pub fn answer(body: &[u8], index: &Index, options: &Options, now: SystemTime) -> Result<Vec<u8>, NotAReview> {
    let request = Request::parse(body)?;
    Ok(request.judge(&request.surroundings(index, options), now).answer)
}

impl Request {
    /// Reads a review. An object that cannot be decoded is not an error here: [`judge`](Self::judge) refuses
    /// it.
    ///
    /// # Errors
    ///
    /// When the body is longer than [`REVIEW_BYTES_MAX`], or is no `AdmissionReview` of `admission.k8s.io/v1`
    /// with a request.
    pub fn parse(body: &[u8]) -> Result<Self, NotAReview> {
        if body.len() > REVIEW_BYTES_MAX {
            return Err(NotAReview(format!("longer than {REVIEW_BYTES_MAX} bytes")));
        }
        let Call { uid, kind, sub_resource, operation, namespace, object } =
            call::<Glance>(body).map_err(|error| NotAReview(error.to_string()))?;
        let is_judged = matches!(operation.as_str(), "CREATE" | "UPDATE")
            && sub_resource.is_none_or(|name| name.is_empty())
            && Kind::of(&kind.api_version(), &kind.kind) == Some(Kind::Ingress)
            && object.is_none_or(|object| object.metadata.deletion_timestamp.is_none());
        let question = if is_judged {
            read(body, namespace.as_deref(), operation == "CREATE")
        } else {
            Question::Nothing
        };
        Ok(Self { uid, question })
    }

    /// Selects the stored objects that can affect the answer. This looks at the hosts of every Ingress;
    /// objects are shared, not copied.
    pub fn surroundings(&self, index: &Index, options: &Options) -> ReviewContext {
        let near = match &self.question {
            Question::Nothing => Index::default(),
            Question::Ingress { object, .. } => dry_run::around(object, index, options),
            Question::Undecodable { .. } => dry_run::rules(index, options),
        };
        let firewalls = Arc::new(options.firewalls.for_review());
        let providers = options.providers.for_review();
        ReviewContext { near, options: Options { firewalls, providers, ..options.clone() } }
    }

    /// Judges the object of the request.
    pub fn judge(&self, surroundings: &ReviewContext, now: SystemTime) -> Judgement {
        let ReviewContext { near, options } = surroundings;
        let dry_run = DryRun { near, options, now, translating: Cell::default() };
        let verdict = match &self.question {
            Question::Ingress { object, is_new } => dry_run.verdict(object, *is_new),
            Question::Undecodable { head, why } if is_ours(head, near, options) => Verdict::unreadable(why),
            Question::Undecodable { .. } | Question::Nothing => Verdict::default(),
        };
        Judgement { answer: verdict.review(&self.uid), translating: dry_run.translating.get() }
    }
}

fn read(body: &[u8], namespace: Option<&str>, is_new: bool) -> Question {
    let sourced = |mut object: Ingress| {
        object.metadata.namespace = object.metadata.namespace.take().or(namespace.map(Box::from));
        Sourced { origin: Origin::default(), object }
    };
    let why = match call::<Ingress>(body) {
        Ok(Call { object: Some(object), .. }) => {
            return Question::Ingress { object: Arc::new(sourced(object)), is_new };
        }
        Ok(_) => "there is no object".to_owned(),
        Err(error) => error.to_string(),
    };
    let head = call::<Head>(body).ok().and_then(|call| call.object).unwrap_or_default();
    let spec = IngressSpec { ingress_class_name: head.spec.ingress_class_name, ..IngressSpec::default() };
    let head = sourced(Ingress { metadata: head.metadata, spec, status: IngressStatus::default() });
    Question::Undecodable { head: Box::new(head), why }
}

// === the parts of a review that are read ===

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<T> {
    api_version: String,
    kind: String,
    request: Call<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<T> {
    uid: String,
    kind: GroupVersionKind,
    sub_resource: Option<String>,
    operation: String,
    namespace: Option<String>,
    object: Option<T>,
}

#[derive(Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// The fields that are read of an object of any kind.
#[derive(Deserialize)]
struct Glance {
    #[serde(default)]
    metadata: MetadataGlance,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataGlance {
    deletion_timestamp: Option<IgnoredAny>,
}

/// The fields that are read of an Ingress that cannot be decoded as a whole.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: HeadSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadSpec {
    ingress_class_name: Option<Box<str>>,
}

/// Keeps only the fields of the object that `T` names. The review is parsed several times, because that takes
/// less memory than one tree of the whole review.
fn call<T: DeserializeOwned>(body: &[u8]) -> Result<Call<T>, serde_json::Error> {
    let review: Review<T> = serde_json::from_slice(body)?;
    let is_review = review.api_version == "admission.k8s.io/v1" && review.kind == "AdmissionReview";
    if !is_review {
        let found = format!("{} of {}", review.kind, review.api_version);
        return Err(serde::de::Error::custom(format!("it is {found}")));
    }
    Ok(review.request)
}

impl GroupVersionKind {
    fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}
