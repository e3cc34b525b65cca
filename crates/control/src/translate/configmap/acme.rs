//! Keys about certificates from authorities that speak ACME.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::{Finding, Global};
use crate::acme::{Binding, ChallengeKind, Directory, Settings, directory_url};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{At, ConfigMap, Secret, Sourced};
use crate::options::Options;
use crate::problem::{Reason, Severity};
use crate::providers::Url;
use crate::translate::inputs::Inputs;
use crate::translate::value::{self, Parsed};

/// The key with the authorities.
const DIRECTORIES: &str = "forebay-acme-directories";
/// The key with the Secrets of authorities.
const SECRETS: &str = "forebay-acme-secrets";

/// Entries of a Secret about an authority.
const BINDING_ID: &str = "eab-kid";
const BINDING_KEY: &str = "eab-hmac-key";
const TRUSTED: &str = "ca.crt";

/// The values of the keys.
#[derive(Debug)]
pub(in crate::translate) struct Keys {
    pub(super) directories: Vec<String>,
    pub(super) email: Option<String>,
    pub(super) secrets: Vec<OfDirectory>,
    pub(super) challenges: Vec<ChallengeKind>,
    pub(super) orders_per_hour: u32,
    pub(super) profile: Option<String>,
    /// None where no certificate can be obtained.
    pub(in crate::translate) settings: Option<Arc<Settings>>,
}

/// The Secret of an authority.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfDirectory {
    /// URL of the directory; none for the first one.
    url: Option<String>,
    secret: NsName,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            directories: Vec::new(),
            email: None,
            secrets: Vec::new(),
            challenges: ChallengeKind::ALL.to_vec(),
            orders_per_hour: 60,
            profile: None,
            settings: None,
        }
    }
}

/// Parses the URLs of directories, or their names.
pub(super) fn directories(text: &str) -> Parsed<Vec<String>> {
    let urls = value::list(text).into_iter().map(|one| {
        let url = directory_url(&one);
        Url::parse(url).map(|_| url.to_owned())
    });
    urls.collect()
}

/// Parses an address of electronic mail; none for an empty text.
pub(super) fn email(text: &str) -> Parsed<Option<String>> {
    let Some(text) = value::name(text) else { return Ok(None) };
    let is_address = text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
    let is_plain = text.chars().all(|char| char.is_ascii_graphic() && !"?,<>\"".contains(char));
    if is_address && is_plain {
        Ok(Some(text))
    } else {
        Err(format!("{text:?} is not an address such as ops@example.com"))
    }
}

/// Parses kinds of challenges.
pub(super) fn challenges(text: &str) -> Parsed<Vec<ChallengeKind>> {
    let kind = |name: &String| {
        ChallengeKind::named(name)
            .ok_or_else(|| format!("{name:?} is neither \"http-01\" nor \"tls-alpn-01\""))
    };
    let kinds: Vec<_> = value::list(text).iter().map(kind).collect::<Result<_, _>>()?;
    if kinds.is_empty() { Err("no challenge is named".to_owned()) } else { Ok(kinds) }
}

/// Parses the Secrets of directories: `[DIRECTORY=]namespace/name`.
pub(super) fn secrets(text: &str) -> Parsed<Vec<OfDirectory>> {
    let one = |text: String| {
        let (url, name) = match text.rsplit_once('=') {
            Some((url, name)) => (Some(directory_url(url).to_owned()), name),
            None => (None, text.as_str()),
        };
        let secret = name.parse().map_err(|error| format!("{error}"))?;
        Ok(OfDirectory { url, secret })
    };
    value::list(text).into_iter().map(one).collect()
}

/// The Secrets that the settings name.
pub(crate) fn named_secrets(index: &Index, options: &Options) -> Vec<NsName> {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let text = settings.and_then(|settings| settings.data.get(SECRETS));
    let all = text.and_then(|text| secrets(&text.value).ok()).unwrap_or_default();
    all.into_iter().map(|one| one.secret).collect()
}

/// Looks up the Secrets, and makes the settings. An authority whose Secret cannot be used is left out.
pub(super) fn finish(
    global: &mut Global,
    configmap: &Sourced<ConfigMap>,
    inputs: &Inputs<'_>,
    tell: &mut dyn FnMut(&At<String>, Finding),
) {
    let keys = &mut global.acme;
    let mut report = |key: &str, severity: Severity, reason: Reason, why: String| {
        if let Some(value) = configmap.data.get(key) {
            tell(value, (severity, reason, format!("key {key}: {why}")));
        }
    };
    if keys.directories.is_empty() {
        if global.defaults.acme.is_on {
            let why = format!("no certificate is obtained without {DIRECTORIES}");
            report("forebay-acme", Severity::Warning, Reason::NoEffect, why);
        }
        return;
    }
    if !inputs.options.acme.has_place() {
        let why = "no certificate can be obtained: without --acme-dir there is no place for keys".to_owned();
        report(DIRECTORIES, Severity::Error, Reason::Missing, why);
        return;
    }
    let mut directories = Vec::new();
    for (number, url) in keys.directories.iter().enumerate() {
        let is_of = |one: &&OfDirectory| one.url.as_ref().map_or(number == 0, |of| of == url);
        let named = keys.secrets.iter().find(is_of).map(|one| &one.secret);
        match directory(url, named, inputs) {
            Ok(directory) => directories.push(directory),
            Err((reason, why)) => {
                report(SECRETS, Severity::Error, reason, format!("{why}; {url} is not asked"));
            }
        }
    }
    for one in &keys.secrets {
        if let Some(url) = one.url.as_ref().filter(|url| !keys.directories.contains(url)) {
            let why = format!("{url} is not in {DIRECTORIES}");
            report(SECRETS, Severity::Warning, Reason::NoEffect, why);
        }
    }
    if directories.is_empty() {
        return;
    }
    keys.settings = Some(Arc::new(Settings {
        directories,
        email: keys.email.clone(),
        challenges: keys.challenges.clone(),
        orders_per_hour: keys.orders_per_hour,
        profile: keys.profile.clone(),
    }));
    global.defaults.acme.is_available = true;
}

fn directory(url: &str, secret: Option<&NsName>, inputs: &Inputs<'_>) -> Result<Directory, (Reason, String)> {
    let mut directory = Directory { url: url.to_owned(), binding: None, trusted: None };
    let Some(name) = secret else { return Ok(directory) };
    let fault = |why: String| (Reason::Secret, format!("Secret {name} {why}"));
    let secret = inputs.secret(name).ok_or_else(|| fault("is missing".to_owned()))?;
    directory.binding = binding(secret).map_err(|why| fault(format!("cannot be used: {why}")))?;
    if secret.has_authorities() {
        secret.authorities().as_ref().map_err(|why| fault(format!("cannot be used: {why}")))?;
        directory.trusted = secret.content(TRUSTED).ok().map(Arc::from);
    }
    Ok(directory)
}

/// The key of an account outside of ACME; none if the Secret has none.
fn binding(secret: &Secret) -> Result<Option<Binding>, String> {
    let has = |key: &str| secret.keys().any(|name| name == key);
    if !has(BINDING_ID) && !has(BINDING_KEY) {
        return Ok(None);
    }
    let text = |key: &str| {
        let text = String::from_utf8(secret.content(key)?).map_err(|_| format!("{key} is not text"))?;
        let text = text.trim().to_owned();
        if text.is_empty() { Err(format!("{key} is empty")) } else { Ok(text) }
    };
    let (id, key) = (text(BINDING_ID)?, text(BINDING_KEY)?);
    // Authorities hand out base64url; other tools also accept ordinary base64.
    let plain = key.trim_end_matches('=');
    let key = URL_SAFE_NO_PAD.decode(plain).or_else(|_| STANDARD.decode(&key));
    let key = key.map_err(|_| format!("{BINDING_KEY} is not base64url"))?;
    Ok(Some(Binding { id, key }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_urls_or_names() {
        let parsed = directories("letsencrypt, https://ca.test/dir").unwrap();
        assert_eq!(parsed, ["https://acme-v02.api.letsencrypt.org/directory", "https://ca.test/dir"]);
        assert!(directories("http://ca.test/dir").is_err() && directories("ca.test").is_err());
        assert_eq!(directories("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn values_that_are_none_are_refused() {
        assert_eq!(email("ops@a.test").unwrap().as_deref(), Some("ops@a.test"));
        assert!(email("ops").is_err() && email("a b@c").is_err() && email("").unwrap().is_none());
        let both = [ChallengeKind::TlsAlpn01, ChallengeKind::Http01];
        assert_eq!(challenges("tls-alpn-01,http-01").unwrap(), both);
        assert!(challenges("dns-01").is_err() && challenges(" ").is_err());
        let all = secrets("ns/first, zerossl=ns/second").unwrap();
        assert_eq!(all[0], OfDirectory { url: None, secret: NsName::new("ns", "first") });
        assert_eq!(all[1].url.as_deref(), Some("https://acme.zerossl.com/v2/DV90"));
        assert!(secrets("name").is_err());
    }
}
