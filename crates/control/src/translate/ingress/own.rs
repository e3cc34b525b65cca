//! Forebay's own annotations, which ingress-nginx does not know: they have a prefix of their own, whatever
//! `--annotations-prefix` says.

use super::annotation::Annotation;
use super::jwt::issuers::Names;
use super::{
    abuse, acme, api_keys, cache, compression, direct_response, early_data, ext_authz, ext_proc, fallback,
    files, firewall_tuning, health_check, jwt, maintenance, mirror_share, oidc, overload, places, quota,
    rollout,
};
use crate::names::NsName;
use crate::objects::{Ingress, Sourced};

/// The prefix of these annotations.
pub const PREFIX: &str = "forebay.io";

/// All of Forebay's own annotations, by concern.
const CONCERNS: &[&[Annotation]] = &[
    // This comment makes rustfmt put each concern on its own line.
    abuse::ANNOTATIONS,
    acme::ANNOTATIONS,
    api_keys::ANNOTATIONS,
    cache::ANNOTATIONS,
    compression::ANNOTATIONS,
    direct_response::ANNOTATIONS,
    early_data::ANNOTATIONS,
    ext_authz::ANNOTATIONS,
    ext_proc::ANNOTATIONS,
    fallback::ANNOTATIONS,
    files::ANNOTATIONS,
    firewall_tuning::ANNOTATIONS,
    health_check::ANNOTATIONS,
    jwt::ANNOTATIONS,
    maintenance::ANNOTATIONS,
    mirror_share::ANNOTATIONS,
    oidc::ANNOTATIONS,
    overload::ANNOTATIONS,
    places::ANNOTATIONS,
    quota::ANNOTATIONS,
    rollout::ANNOTATIONS,
];

/// All of Forebay's own annotations.
pub fn annotations() -> impl Iterator<Item = &'static Annotation> {
    CONCERNS.iter().copied().flatten()
}

/// The annotation with this name without prefix.
pub(in crate::translate) fn named(name: &str) -> Option<&'static Annotation> {
    annotations().find(|annotation| annotation.name == name)
}

/// The objects that these annotations of an Ingress name.
#[derive(Debug, Default)]
pub(crate) struct OwnNames {
    pub(crate) secrets: Vec<NsName>,
    pub(crate) configmaps: Vec<NsName>,
}

/// The objects that these annotations of an Ingress name, as far as they can be read. Whether they may be of
/// another namespace is decided elsewhere.
pub(crate) fn named_by(ingress: &Sourced<Ingress>) -> OwnNames {
    let text = |name: &str| ingress.metadata.annotations.get(&format!("{PREFIX}/{name}"));
    let nearby = |name: &str| NsName::new(ingress.namespace(), name);
    let mut named = OwnNames::default();
    for annotation in [api_keys::SECRET, oidc::SESSION_SECRET, oidc::AUTHORITIES] {
        let name = text(annotation).map(|value| value.value.trim()).filter(|name| !name.is_empty());
        let full =
            name.and_then(|name| if name.contains('/') { name.parse().ok() } else { Some(nearby(name)) });
        named.secrets.extend(full);
    }
    for annotation in [direct_response::BODY_FROM, maintenance::PAGE] {
        let name = text(annotation).map(|value| value.value.trim()).filter(|name| !name.is_empty());
        let full =
            name.and_then(|name| if name.contains('/') { name.parse().ok() } else { Some(nearby(name)) });
        named.configmaps.extend(full);
    }
    let client_secret = text(oidc::CLIENT_SECRET).and_then(|value| oidc::client_secret_name(&value.value));
    named.secrets.extend(client_secret.map(nearby));
    if let Some(issuers) = text(jwt::ISSUERS) {
        let Names { secrets, configmaps } = Names::of_text(&issuers.value);
        named.secrets.extend(secrets.iter().map(|name| nearby(name)));
        named.configmaps.extend(configmaps.iter().map(|name| nearby(name)));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::super::annotation::Effect;
    use super::*;
    use crate::translate::configmap::Key;

    #[test]
    fn names_are_distinct_and_sorted_within_a_concern() {
        assert!(CONCERNS.iter().all(|concern| concern.is_sorted_by_key(|annotation| annotation.name)));
        let names: std::collections::HashSet<_> = annotations().map(|annotation| annotation.name).collect();
        assert_eq!(names.len(), annotations().count());
    }

    /// The `ConfigMap` can set for all Ingresses each annotation of an Ingress, except files, those that say
    /// who the clients are, services that decide, health checks, canaries, answers in place of endpoints, and
    /// what is about single Services: no two Ingresses have the same.
    #[test]
    fn each_has_a_key_with_its_default() {
        let own = [
            "files",
            "auth-api-key",
            "auth-jwt",
            "auth-oidc",
            "canary",
            "direct-response",
            "ext-authz",
            "ext-proc",
            "fallback",
            "health-check",
            "maintenance",
            "mirror-share",
        ];
        for annotation in annotations()
            .filter(|annotation| matches!(annotation.effect, Effect::Supported(_)))
            .filter(|annotation| !own.iter().any(|own| annotation.name.starts_with(own)))
        {
            let key = Key::named(&format!("forebay-{}", annotation.name));
            assert_eq!(key.map(|key| key.default), Some(annotation.default), "{}", annotation.name);
        }
    }
}
