//! Judges an Ingress before it is stored: an `AdmissionReview` in, one out (Kubernetes, "Dynamic Admission Control").
//!
//! The object is translated in memory, amid the few objects that bear on it, and what is then wrong with it is the answer.
//!
//! Never in here: IO, async, names that are looked up, or anything that is rendered or run.

mod dry_run;
mod verdict;

use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::index::Index;
use crate::objects::{Ingress, IngressSpec, IngressStatus, Kind, Metadata, Origin, Sourced};
use crate::options::Options;
use crate::translate::ingress::class::is_ours;
use dry_run::DryRun;
use verdict::Verdict;

/// Longest review, in bytes. Kubernetes takes objects of 1.5 MiB (etcd's limit); an update's review holds the old one too.
pub const REVIEW_BYTES_MAX: usize = 4 << 20;

/// A text that is no `admission.k8s.io/v1` `AdmissionReview` with a request.
#[derive(Debug, thiserror::Error)]
#[error("not an AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NotAReview(String);

/// What a review asks.
#[derive(Debug)]
pub struct Request {
    uid: String,
    question: Question,
}

#[derive(Debug)]
enum Question {
    /// Nothing that is judged: another kind, another operation, or an Ingress that is going away.
    Nothing,
    /// Whether an Ingress may be as it is.
    Ingress { object: Arc<Sourced<Ingress>>, is_new: bool },
    /// The same of one that cannot be read. What could be read says of which class it is.
    Undecodable { head: Box<Sourced<Ingress>>, why: String },
}

/// The objects that bear on a request, out of all that there are, and how they are read.
#[derive(Debug)]
pub struct Surroundings {
    near: Index,
    options: Options,
}

impl Surroundings {
    /// How many Ingresses there are among them.
    pub fn ingresses(&self) -> usize {
        self.near.ingresses.iter().count()
    }
}

/// Answers a review by the objects that there are.
///
/// # Errors
///
/// When the body is no review that can be read: see [`Request::parse`].
pub fn answer(body: &[u8], index: &Index, options: &Options, now: SystemTime) -> Result<Vec<u8>, NotAReview> {
    let request = Request::parse(body)?;
    Ok(request.judge(&request.surroundings(index, options), now))
}

impl Request {
    /// Reads a review. An object that cannot be read is no reason to fail: it is refused later.
    ///
    /// # Errors
    ///
    /// When the body is longer than [`REVIEW_BYTES_MAX`], or is no `AdmissionReview` of `admission.k8s.io/v1` with a request.
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

    /// What bears on the request. Costs a look at the hosts of all Ingresses; objects are shared.
    pub fn surroundings(&self, index: &Index, options: &Options) -> Surroundings {
        let near = match &self.question {
            Question::Nothing => Index::default(),
            Question::Ingress { object, .. } => dry_run::around(object, index, options),
            Question::Undecodable { .. } => dry_run::rules(index, options),
        };
        Surroundings { near, options: options.clone() }
    }

    /// The answer: a review again, as JSON.
    pub fn judge(&self, surroundings: &Surroundings, now: SystemTime) -> Vec<u8> {
        let Surroundings { near, options } = surroundings;
        let verdict = match &self.question {
            Question::Ingress { object, is_new } => DryRun { near, options, now }.verdict(object, *is_new),
            Question::Undecodable { head, why } if is_ours(head, near, options) => Verdict::unreadable(why),
            Question::Undecodable { .. } | Question::Nothing => Verdict::default(),
        };
        verdict.review(&self.uid)
    }
}

fn read(body: &[u8], namespace: Option<&str>, is_new: bool) -> Question {
    let sourced = |mut object: Ingress| {
        object.metadata.namespace = object.metadata.namespace.take().or(namespace.map(str::to_owned));
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

/// Of an object of any kind.
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

/// Of an Ingress that cannot be read as a whole.
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
    ingress_class_name: Option<String>,
}

/// Each time only what `T` names is kept of the object: a review is read several times rather than held as a tree.
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
