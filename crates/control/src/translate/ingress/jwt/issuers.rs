//! Issuers of tokens, in the form that annotations and policies have for them.

use std::sync::Arc;
use std::time::Duration;

use identity::jwk::Key;
use identity::{Algorithm, Algorithms, Expression, KeySet, Origin, Terms};
use serde::Deserialize;
use serde_json::Value;

use crate::objects::ConfigMap;
use crate::problem::Reason;
use crate::providers::Url;
use crate::translate::ingress::resolve::{Context, Fault};
use crate::translate::value::{self, Parsed};

/// The most issuers of an object, the most items of a list in one, and the most characters of a text.
pub(crate) const ISSUERS_MAX: usize = 32;
pub(crate) const ITEMS_MAX: usize = 64;
pub(crate) const TEXT_MAX: usize = 2048;

/// By how much the clock of an issuer may be off, if it is not given.
const LEEWAY: Duration = Duration::from_mins(1);

/// The most of it.
const LEEWAY_MAX: Duration = Duration::from_mins(10);

/// The key of a Secret or `ConfigMap` with an issuer's keys, if none is named.
pub(super) const KEYS: &str = "jwks.json";

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    pub(crate) terms: Terms,
    pub(crate) keys: KeyPlace,
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    Url { url: Url, authority: Option<InObject> },
    Secret(InObject),
    ConfigMap(InObject),
}

/// An object of the same namespace, and one of its keys: `name`, or `name/key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InObject {
    name: String,
    key: Option<String>,
}

/// An issuer as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    issuer: String,
    jwks: Option<String>,
    ca: Option<String>,
    secret: Option<String>,
    config_map: Option<String>,
    audiences: Vec<String>,
    algorithms: Vec<String>,
    leeway: Option<String>,
    required_claims: Vec<String>,
}

/// Reads the text of an annotation: a list in YAML. Without a text there are no issuers.
pub(super) fn of_annotation(text: &str) -> Parsed<Arc<[Issuer]>> {
    if text.trim().is_empty() {
        return Ok(Arc::default());
    }
    Ok(read(&value::yaml(text)?)?.into())
}

/// The objects that an annotation or a field names, as far as they can be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) secrets: Vec<String>,
    pub(crate) configmaps: Vec<String>,
}

impl Names {
    /// The objects that the text of an annotation names.
    pub(crate) fn of_text(text: &str) -> Self {
        value::yaml(text).map(|value| Self::of(&value)).unwrap_or_default()
    }

    /// The objects that a list of issuers names.
    pub(crate) fn of(value: &Value) -> Self {
        let items = || value.as_array().into_iter().flatten();
        let named = |fields: &[&str]| -> Vec<String> {
            let texts = items().flat_map(|item| fields.iter().filter_map(|field| item.get(*field)?.as_str()));
            texts.filter_map(|text| InObject::parse(text).ok()).map(|object| object.name).collect()
        };
        Self { secrets: named(&["secret", "ca"]), configmaps: named(&["configMap"]) }
    }
}

/// Reads a list of issuers.
///
/// # Errors
///
/// The place of the first fault, and what it is.
fn read(value: &Value) -> Result<Vec<Issuer>, String> {
    let Value::Array(items) = value else { return Err("a list of issuers is needed".to_owned()) };
    if items.is_empty() {
        return Err("the list has no issuer, so that nobody could be let in".to_owned());
    }
    if items.len() > ISSUERS_MAX {
        return Err(format!("there are {} issuers, and {ISSUERS_MAX} are the most", items.len()));
    }
    let mut issuers: Vec<Issuer> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let written = Written::deserialize(item).map_err(|error| format!("[{at}]: {error}"))?;
        let issuer = written.read().map_err(|why| format!("[{at}]{why}"))?;
        if issuers.iter().any(|known| known.terms.issuer == issuer.terms.issuer) {
            return Err(format!("[{at}].issuer: {:?} is there twice", issuer.terms.issuer));
        }
        issuers.push(issuer);
    }
    Ok(issuers)
}

impl Written {
    /// The issuer, or the field with a fault and what it is.
    fn read(self) -> Result<Issuer, String> {
        let keys = self.keys()?;
        for (name, count) in [
            ("audiences", self.audiences.len()),
            ("algorithms", self.algorithms.len()),
            ("requiredClaims", self.required_claims.len()),
        ] {
            if count > ITEMS_MAX {
                return Err(format!(".{name}: {count} items, and {ITEMS_MAX} are the most"));
            }
        }
        bounded(&self.issuer).map_err(|why| format!(".issuer: {why}"))?;
        for (at, audience) in self.audiences.iter().enumerate() {
            bounded(audience).map_err(|why| format!(".audiences[{at}]: {why}"))?;
        }
        let algorithms = algorithms(&self.algorithms, &keys)?;
        let leeway = match &self.leeway {
            None => LEEWAY,
            Some(text) => value::duration(text).map_err(|why| format!(".leeway: {why}"))?,
        };
        if leeway > LEEWAY_MAX {
            return Err(format!(".leeway: {} minutes are the most", LEEWAY_MAX.as_secs() / 60));
        }
        let required = self.required_claims.iter().enumerate().map(|(at, text)| {
            Expression::parse(text).map_err(|error| format!(".requiredClaims[{at}]: {error}"))
        });
        let required = required.collect::<Result<_, _>>()?;
        let terms = Terms { issuer: self.issuer, audiences: self.audiences, algorithms, leeway, required };
        Ok(Issuer { terms, keys })
    }

    fn keys(&self) -> Result<KeyPlace, String> {
        let object = |name: &str, text: &str| InObject::parse(text).map_err(|why| format!(".{name}: {why}"));
        let place = match (&self.jwks, &self.secret, &self.config_map) {
            (Some(url), None, None) => {
                bounded(url).map_err(|why| format!(".jwks: {why}"))?;
                let url = Url::parse(url).map_err(|why| format!(".jwks: {why}"))?;
                let authority = self.ca.as_ref().map(|text| object("ca", text)).transpose()?;
                return Ok(KeyPlace::Url { url, authority });
            }
            (None, Some(text), None) => KeyPlace::Secret(object("secret", text)?),
            (None, None, Some(text)) => KeyPlace::ConfigMap(object("configMap", text)?),
            _ => return Err(": one of jwks, secret and configMap is needed".to_owned()),
        };
        if self.ca.is_some() {
            return Err(".ca: it is for the URL in jwks".to_owned());
        }
        Ok(place)
    }
}

/// The algorithms that are named; without names all that have public keys.
fn algorithms(names: &[String], keys: &KeyPlace) -> Result<Algorithms, String> {
    if names.is_empty() {
        return Ok(Algorithms::default());
    }
    let mut named = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let algorithm = Algorithm::parse(name).ok_or_else(|| {
            let known: Vec<_> = Algorithm::ALL.iter().map(|known| known.name()).collect();
            format!(".algorithms[{at}]: {name:?} is none of {}", known.join(", "))
        })?;
        if algorithm.is_symmetric() && !matches!(keys, KeyPlace::Secret(_)) {
            return Err(format!(".algorithms[{at}]: {name} needs a secret, which only a Secret may have"));
        }
        named.push(algorithm);
    }
    let symmetric = named.iter().filter(|algorithm| algorithm.is_symmetric()).count();
    if symmetric != 0 && symmetric != named.len() {
        return Err(".algorithms: those with a secret do not go with those that have public keys".to_owned());
    }
    Ok(named.into_iter().collect())
}

impl Issuer {
    /// Reads the keys of an object. At least one has to have an algorithm that is allowed.
    pub(super) fn read_keys(&self, document: &[u8], origin: Origin) -> Result<KeySet, String> {
        let algorithms = self.terms.algorithms;
        let is_symmetric = algorithms.iter().any(Algorithm::is_symmetric);
        let keys = if is_symmetric && !document.trim_ascii_start().starts_with(b"{") {
            KeySet::of_secret(document.strip_suffix(b"\n").unwrap_or(document))?
        } else {
            KeySet::parse(document, origin)?
        };
        let is_usable = |key: &Key| key.algorithms().any(|algorithm| algorithms.contains(algorithm));
        if keys.keys().iter().any(is_usable) {
            return Ok(keys);
        }
        let names: Vec<_> = algorithms.iter().map(Algorithm::name).collect();
        Err(format!("no key is for one of the algorithms {}", names.join(", ")))
    }
}

impl InObject {
    fn parse(text: &str) -> Result<Self, String> {
        bounded(text)?;
        let (name, key) = match text.split_once('/') {
            Some((name, key)) => (name, Some(key)),
            None => (text, None),
        };
        let is_name = |text: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text.bytes().all(is_allowed)
        };
        if !is_name(name) || !key.is_none_or(is_name) {
            return Err(format!("{text:?} is neither a name nor a name and a key, as in keys/jwks.json"));
        }
        Ok(Self { name: name.to_owned(), key: key.map(str::to_owned) })
    }

    /// Returns the name of a key in a Secret, for messages, and its content.
    pub(super) fn of_secret(
        &self,
        context: &Context<'_, '_>,
        default: &str,
    ) -> Result<(String, Vec<u8>), Fault> {
        let secret = context.secret(&context.with_namespace(&self.name))?;
        let key = self.key_or(default, secret.keys());
        let name = format!("Secret {}, key {key}", secret.key());
        let content = secret.content(&key).map_err(|why| (Reason::Secret, format!("{name}: {why}")))?;
        Ok((name, content))
    }

    /// Returns the name of a key in a `ConfigMap`, for messages, and its content.
    pub(super) fn of_configmap(&self, context: &Context<'_, '_>) -> Result<(String, Vec<u8>), Fault> {
        let found = context.configmap(&context.with_namespace(&self.name))?;
        let map: &ConfigMap = found;
        let key = self.key_or(KEYS, map.data.keys().map(String::as_str));
        let name = format!("ConfigMap {}, key {key}", found.key());
        match map.data.get(&key) {
            Some(content) => Ok((name, content.value.as_bytes().to_vec())),
            None => Err((Reason::Missing, format!("{name} is missing"))),
        }
    }

    /// The key that is named; else the only one of the object, or the usual one.
    fn key_or<'k>(&self, default: &str, mut keys: impl Iterator<Item = &'k str>) -> String {
        if let Some(key) = &self.key {
            return key.clone();
        }
        match (keys.next(), keys.next()) {
            (Some(only), None) => only.to_owned(),
            _ => default.to_owned(),
        }
    }
}

fn bounded(text: &str) -> Result<(), String> {
    match text.chars().count() {
        0 => Err("it is missing".to_owned()),
        1..=TEXT_MAX => Ok(()),
        count => Err(format!("it has {count} characters, and {TEXT_MAX} are the most")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn issuers_are_read_with_their_defaults() {
        let value = json!([
            {"issuer": "https://a.test", "jwks": "https://a.test/keys"},
            {
                "issuer": "https://b.test", "jwks": "https://b.test/keys", "ca": "authority",
                "audiences": ["shop"], "algorithms": ["ES256", "EdDSA"], "leeway": "5s",
                "requiredClaims": ["claims.email_verified == true"],
            },
            {"issuer": "c", "secret": "keys/c.json", "algorithms": ["HS256"]},
            {"issuer": "d", "configMap": "keys"},
        ]);
        let issuers = read(&value).unwrap();
        assert_eq!(issuers.len(), 4);
        assert_eq!((issuers[0].terms.leeway, issuers[0].terms.algorithms), (LEEWAY, Algorithms::default()));
        assert_eq!(issuers[1].terms.leeway, Duration::from_secs(5));
        assert_eq!(issuers[1].terms.required[0].text(), "claims.email_verified == true");
        let object = InObject { name: "keys".to_owned(), key: Some("c.json".to_owned()) };
        assert_eq!(issuers[2].keys, KeyPlace::Secret(object));
        assert_eq!(of_annotation(" \n"), Ok(Arc::default()));
    }

    #[test]
    fn objects_are_named_even_beside_faults() {
        let text =
            "[{secret: a/k}, {jwks: x, ca: b}, {configMap: c}, {secret: 1, issuer: []}, 7, {secret: ''}]";
        let names = Names { secrets: vec!["a".to_owned(), "b".to_owned()], configmaps: vec!["c".to_owned()] };
        assert_eq!(Names::of_text(text), names);
        assert_eq!((Names::of_text("{"), Names::of_text("a: b")), (Names::default(), Names::default()));
    }

    #[test]
    fn faults_have_their_place() {
        let with = |name: &str, value: Value| {
            let mut issuer = json!({"issuer": "a", "jwks": "https://a.test/keys"});
            issuer[name] = value;
            json!([issuer])
        };
        for (value, expected) in [
            (json!({}), "a list of issuers is needed"),
            (json!([]), "the list has no issuer"),
            (json!([{"issuer": "a"}]), "[0]: one of jwks, secret and configMap is needed"),
            (with("secret", json!("keys")), "[0]: one of jwks, secret and configMap is needed"),
            (json!([{"jwks": "https://a.test/"}]), "[0].issuer: it is missing"),
            (
                json!([{"issuer": "a", "jwks": "http://a.test/"}]),
                "[0].jwks: \"http://a.test/\" is not encrypted",
            ),
            (json!([{"issuer": "a", "secret": "a/b/c"}]), "[0].secret: \"a/b/c\" is neither"),
            (json!([{"issuer": "a", "secret": "a", "ca": "b"}]), "[0].ca: it is for the URL"),
            (with("key", json!("x")), "[0]: unknown field `key`"),
            (with("algorithms", json!(["none"])), "[0].algorithms[0]: \"none\" is none of RS256"),
            (with("algorithms", json!(["HS256"])), "[0].algorithms[0]: HS256 needs a secret"),
            (
                json!([{"issuer": "a", "secret": "a", "algorithms": ["ES256", "HS256"]}]),
                "[0].algorithms: those with a secret do not go",
            ),
            (with("leeway", json!("11m")), "[0].leeway: 10 minutes are the most"),
            (with("leeway", json!("soon")), "[0].leeway: "),
            (with("audiences", json!([""])), "[0].audiences[0]: it is missing"),
            (with("requiredClaims", json!(["claims.a = 1"])), "[0].requiredClaims[0]: character 10: "),
            (
                json!([{"issuer": "a", "secret": "a"}, {"issuer": "a", "configMap": "a"}]),
                "[1].issuer: \"a\" is there twice",
            ),
        ] {
            let fault = read(&value).unwrap_err();
            assert!(fault.starts_with(expected), "{value}: {fault}");
        }
        let many = vec![json!({"issuer": "a", "secret": "a"}); ISSUERS_MAX + 1];
        assert!(read(&many.into()).unwrap_err().contains("are the most"));
    }
}
