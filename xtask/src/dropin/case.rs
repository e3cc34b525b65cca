//! The cases as `xtask/dropin/cases` has them, and the objects that they are made of.
//!
//! Must not be in here: requests.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// The class of all Ingresses.
pub(super) const CLASS: &str = "nginx";
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The values that stand for their names in braces in a case.
pub(super) struct Names {
    pub(super) host: String,
    /// The namespace of the case: settings of a Service are shared by all Ingresses that lead to it.
    pub(super) space: String,
    /// The address of the endpoint of the Service `auth`.
    pub(super) auth: SocketAddr,
    /// An address where nobody listens.
    pub(super) closed: SocketAddr,
}

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    pub(super) name: String,
    /// Where ingress-nginx says so: files of its documentation and of its end-to-end tests.
    pub(super) source: Vec<String>,
    pub(super) cases: Vec<Case>,
}

/// Ingresses, and a conversation with them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) what: String,
    /// From the oldest to the youngest.
    ingresses: Vec<Ingress>,
    /// Further objects, in the namespace of all.
    #[serde(default)]
    objects: Vec<Value>,
    pub(super) ask: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ingress {
    /// Names without prefix.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    host: Option<String>,
    /// `TYPE PATH SERVICE`.
    paths: Vec<String>,
    /// The Secret of a certificate for the host.
    tls: Option<String>,
}

/// A request, sent once or several times, and its answer.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// The request's line without its version: `METHOD TARGET`.
    pub(super) ask: String,
    pub(super) host: Option<String>,
    /// Over TLS, with the name of the host.
    #[serde(default)]
    pub(super) tls: bool,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// The length of the body.
    pub(super) sends: Option<usize>,
    /// How often; each answer is judged.
    pub(super) times: Option<usize>,
    /// How many of them are answered with 200; all others with `status`.
    pub(super) passes: Option<usize>,
    pub(super) status: Option<u16>,
    /// Headers of the response; `null` for one that must not be there, `~` before a regular expression.
    #[serde(default)]
    pub(super) answered: BTreeMap<String, Option<String>>,
    /// The body, or `~` and a regular expression.
    pub(super) body: Option<String>,
    /// The Service whose endpoint answered.
    pub(super) by: Option<String>,
    /// The request as that endpoint got it.
    pub(super) saw: Option<Saw>,
}

/// A request as an endpoint gets it.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saw {
    pub(super) method: Option<String>,
    /// With the query.
    pub(super) target: Option<String>,
    pub(super) bytes: Option<usize>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
}

/// All topics, in the order of their files' names.
pub(super) fn topics() -> Result<Vec<Topic>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dropin/cases");
    let mut files: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    files.iter().map(|file| read(file).with_context(|| file.display().to_string())).collect()
}

fn read(file: &Path) -> Result<Topic> {
    let topic: Topic = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
    ensure!(!topic.cases.is_empty() && !topic.source.is_empty(), "no cases or no source");
    for case in &topic.cases {
        ensure!(!case.ingresses.is_empty() && !case.ask.is_empty(), "{}: asks nothing", case.what);
        for question in &case.ask {
            ensure!(question.is_judged(), "{}: nothing is expected of {}", case.what, question.ask);
        }
    }
    Ok(topic)
}

impl Names {
    fn fill(&self, text: &str) -> String {
        let text = text.replace("{host}", &self.host).replace("{space}", &self.space);
        text.replace("{auth}", &self.auth.to_string()).replace("{closed}", &self.closed.to_string())
    }
}

impl Case {
    /// The objects of the case in rounds, each of which is a second younger than the one before it.
    pub(super) fn rounds(&self, names: &Names) -> Result<Vec<Vec<Value>>> {
        let ingresses = self.ingresses.iter().zip('a'..='z');
        let mut rounds: Vec<Vec<_>> = ingresses
            .map(|(ingress, letter)| Ok(vec![ingress.object(&letter.to_string(), names)?]))
            .collect::<Result<_>>()?;
        for object in &self.objects {
            let mut object: Value = serde_json::from_str(&names.fill(&object.to_string()))?;
            object["metadata"]["namespace"] = names.space.clone().into();
            rounds[0].insert(0, object);
        }
        Ok(rounds)
    }
}

impl Ingress {
    fn object(&self, name: &str, names: &Names) -> Result<Value> {
        let host = names.fill(self.host.as_deref().unwrap_or("{host}"));
        let annotations: BTreeMap<_, _> = self
            .annotations
            .iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), names.fill(value)))
            .collect();
        let paths: Vec<_> = self.paths.iter().map(|line| path(line)).collect::<Result<_>>()?;
        let mut object = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"namespace": names.space, "name": name, "annotations": annotations},
            "spec": {"ingressClassName": CLASS, "rules": [{"host": host, "http": {"paths": paths}}]},
        });
        if let Some(secret) = &self.tls {
            object["spec"]["tls"] = json!([{"hosts": [host], "secretName": secret}]);
        }
        Ok(object)
    }
}

/// A path of a rule.
fn path(line: &str) -> Result<Value> {
    let mut words = line.split(' ');
    let (Some(kind), Some(path), Some(service), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        anyhow::bail!("{line:?} is not TYPE PATH SERVICE");
    };
    let backend = json!({"service": {"name": service, "port": {"number": 80}}});
    Ok(json!({"path": path, "pathType": kind, "backend": backend}))
}

impl Question {
    /// The same with the values of the case.
    pub(super) fn at(&self, names: &Names) -> Question {
        let with = |text: &String| names.fill(text);
        let all = |values: &BTreeMap<String, Option<String>>| {
            values.iter().map(|(name, value)| (name.clone(), value.as_ref().map(with))).collect()
        };
        Question {
            ask: with(&self.ask),
            host: Some(self.host.as_ref().map_or_else(|| names.host.clone(), with)),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), with(value))).collect(),
            answered: all(&self.answered),
            body: self.body.as_ref().map(with),
            saw: self.saw.as_ref().map(|saw| Saw {
                target: saw.target.as_ref().map(with),
                headers: all(&saw.headers),
                ..saw.clone()
            }),
            ..self.clone()
        }
    }

    /// Whether anything but the status of 200 is expected, or that expressly.
    fn is_judged(&self) -> bool {
        self.status.is_some()
            || !self.answered.is_empty()
            || self.body.is_some()
            || self.by.is_some()
            || self.saw.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_objects() {
        let topics = topics().expect("cases");
        let cases: Vec<_> = topics.iter().flat_map(|topic| &topic.cases).collect();
        let names: BTreeSet<_> = cases.iter().map(|case| &case.what).collect();
        assert_eq!(names.len(), cases.len(), "two cases of one name");
        let nobody = SocketAddr::from(([192, 0, 2, 1], 1));
        let names = Names { host: "case.test".into(), space: "case".into(), auth: nobody, closed: nobody };
        for case in cases {
            let rounds = case.rounds(&names).expect("objects");
            assert!(rounds.iter().flatten().all(|object| object["metadata"]["namespace"] == "case"));
        }
    }
}
