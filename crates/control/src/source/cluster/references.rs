//! The references of our Ingresses, Gateways and settings to Secrets and `ConfigMap`s. The index holds only
//! objects with such a reference.
//!
//! Never in here: whether an object exists, and its content.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::gateway_references;
use super::named::Named;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{BackendTlsPolicy, Gateway, GatewayClass, ListenerSet};
use crate::objects::{ConfigMap, ForebayPolicy, Ingress, Resource, Sourced};
use crate::options::Options;
use crate::translate::configmap;
use crate::translate::ingress::annotations;
use crate::translate::ingress::class::is_ours;
use crate::translate::ingress::own::{self, OwnNames};

/// The objects of one watch: those of a kind in a namespace, or a single object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Group {
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    /// The name of a single object; none for all objects of the namespace.
    pub(super) object: Option<String>,
}

/// References between objects, in both directions.
///
/// Objects that other objects name are watched by namespace: the number of watches does not grow with the
/// number of objects. Objects that the settings name are watched by name: they are few, and may be in a
/// namespace in which nothing else may be read.
#[derive(Debug, Default)]
pub(super) struct References {
    by_object: HashMap<(&'static str, NsName), BTreeSet<Named>>,
    /// The number of references to each object, by kind and namespace, and by name.
    count: BTreeMap<(&'static str, String), BTreeMap<String, usize>>,
    /// The `ConfigMap`s that the settings name.
    by_settings: BTreeSet<NsName>,
}

impl References {
    /// The references of all Ingresses of an index, and of the settings.
    pub(super) fn of(index: &Index, options: &Options) -> Self {
        let mut references = Self::default();
        references.add(options.default_ssl_certificate.iter().cloned().map(Named::secret));
        references.add(configmap::named_secret(index, options).map(Named::secret));
        references.add(configmap::acme_secrets(index, options).into_iter().map(Named::secret));
        references.by_settings = configmap::named(index, options).collect();
        for ingress in index.ingresses.iter() {
            references.follow(ingress, index, options);
        }
        gateway_references::each(index, |kind, key, named| {
            references.settle(kind, key, named);
        });
        references
    }

    /// Updates the references of an Ingress. Returns whether the set of named objects has changed.
    pub(super) fn follow(&mut self, ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> bool {
        let named =
            if is_ours(ingress, index, options) { named(ingress, index, options) } else { BTreeSet::new() };
        self.settle(Ingress::KIND, ingress.key(), named)
    }

    fn settle(&mut self, kind: &'static str, key: NsName, named: BTreeSet<Named>) -> bool {
        if self.named_by(kind, &key).eq(&named) {
            return false;
        }
        self.forget(kind, &key);
        if named.is_empty() {
            return true;
        }
        self.add(named.iter().cloned());
        self.by_object.insert((kind, key), named);
        true
    }

    /// Removes the references of a deleted object.
    pub(super) fn forget(&mut self, kind: &'static str, key: &NsName) {
        for Named { kind, key } in self.by_object.remove(&(kind, key.clone())).into_iter().flatten() {
            let group = (kind, key.namespace);
            let Some(names) = self.count.get_mut(&group) else { continue };
            if let Some(count) = names.get_mut(&key.name) {
                *count -= 1;
                if *count == 0 {
                    names.remove(&key.name);
                }
            }
            if names.is_empty() {
                self.count.remove(&group);
            }
        }
    }

    /// The groups of objects that have to be watched.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group> {
        let of_objects = self.count.keys();
        let of_objects =
            of_objects.map(|(kind, namespace)| Group { kind, namespace: namespace.clone(), object: None });
        let of_settings = self.by_settings.iter().map(|key| Group {
            kind: ConfigMap::KIND,
            namespace: key.namespace.clone(),
            object: Some(key.name.clone()),
        });
        of_objects.chain(of_settings)
    }

    /// The named objects of a kind in a namespace.
    pub(super) fn within(&self, kind: &'static str, namespace: &str) -> impl Iterator<Item = Named> {
        let names = self.count.get(&(kind, namespace.to_owned()));
        let names = names.into_iter().flat_map(BTreeMap::keys);
        names.map(move |name| Named { kind, key: NsName::new(namespace, name) })
    }

    /// All objects that other objects name.
    pub(super) fn by_objects(&self) -> impl Iterator<Item = Named> {
        self.count.iter().flat_map(|((kind, namespace), names)| {
            names.keys().map(|name| Named { kind, key: NsName::new(namespace.as_str(), name.as_str()) })
        })
    }

    /// The objects that an object names.
    pub(super) fn named_by(&self, kind: &'static str, key: &NsName) -> impl Iterator<Item = &Named> {
        self.by_object.get(&(kind, key.clone())).into_iter().flatten()
    }

    /// Whether the settings or an object name this object.
    pub(super) fn has(&self, kind: &'static str, key: &NsName) -> bool {
        let group = (kind, key.namespace.clone());
        self.count.get(&group).is_some_and(|names| names.contains_key(&key.name))
            || kind == ConfigMap::KIND && self.by_settings.contains(key)
    }

    fn add(&mut self, named: impl IntoIterator<Item = Named>) {
        for Named { kind, key } in named {
            let names = self.count.entry((kind, key.namespace)).or_default();
            *names.entry(key.name).or_default() += 1;
        }
    }
}

/// Whether objects of this Gateway API kind name Secrets or `ConfigMap`s, or decide which objects do.
pub(super) fn names_others(kind: &str) -> bool {
    matches!(
        kind,
        GatewayClass::KIND | Gateway::KIND | ListenerSet::KIND | BackendTlsPolicy::KIND | ForebayPolicy::KIND
    )
}

/// The objects that an Ingress names, in `tls` and in annotations. An object of another namespace counts only
/// if the reference is allowed.
fn named(ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> BTreeSet<Named> {
    let namespace = ingress.namespace();
    let of_tls = ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref());
    let of_tls = of_tls.map(|name| Named::secret(NsName::new(namespace, name.value.as_str())));
    let of_annotation = |name: &&'static str| {
        let value = ingress.metadata.annotations.get(&format!("{}/{name}", options.annotations_prefix))?;
        let text = value.value.trim();
        let is_nearby = annotations::NAMED_NEARBY.contains(name) && !text.contains('/') && !text.is_empty();
        let key = if is_nearby { NsName::new(namespace, text) } else { text.parse::<NsName>().ok()? };
        let is_allowed = key.namespace == namespace || configmap::crosses_namespaces(index, options);
        is_allowed.then_some(key)
    };
    let secrets = annotations::SECRETS.iter().filter_map(of_annotation).map(Named::secret);
    let configmaps = annotations::CONFIGMAPS.iter().filter_map(of_annotation).map(Named::configmap);
    let mut named: BTreeSet<_> = of_tls.chain(secrets).chain(configmaps).collect();
    let is_allowed =
        |key: &NsName| key.namespace == namespace || configmap::crosses_namespaces(index, options);
    let OwnNames { secrets, configmaps } = own::named_by(ingress);
    named.extend(secrets.into_iter().filter(is_allowed).map(Named::secret));
    named.extend(configmaps.into_iter().filter(is_allowed).map(Named::configmap));
    named
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::objects::{Object, Origin, Secret};

    fn ingress(text: &str) -> Arc<Sourced<Ingress>> {
        Arc::new(Sourced { origin: Origin::default(), object: serde_saphyr::from_str(text).unwrap() })
    }

    fn named(references: &References) -> Vec<String> {
        references.by_objects().map(|named| named.key.to_string()).collect()
    }

    #[test]
    fn a_secret_is_kept_for_as_long_as_somebody_of_ours_names_it() {
        let (mut index, options) = (Index::default(), Options::default());
        let mut references = References::default();
        let a = ingress("{metadata: {name: a}, spec: {tls: [{secretName: s}, {secretName: t}]}}");
        let b = ingress("{metadata: {name: b}, spec: {tls: [{secretName: s}]}}");
        let other = ingress("{metadata: {name: o}, spec: {ingressClassName: other, tls: [{secretName: u}]}}");
        for one in [&a, &b, &other] {
            index.apply(&Object::Ingress(Arc::clone(one)));
            references.follow(one, &index, &options);
        }
        assert_eq!(named(&references), ["default/s", "default/t"]);
        assert!(!references.follow(&a, &index, &options), "nothing new");
        references.forget(Ingress::KIND, &a.key());
        assert_eq!(named(&references), ["default/s"]);
        references.forget(Ingress::KIND, &b.key());
        assert_eq!(named(&references), [""; 0]);
    }

    #[test]
    fn a_sign_in_names_its_secrets() {
        let text = "{metadata: {name: a, annotations: {forebay.io/auth-oidc-session-secret: session, \
                    forebay.io/auth-oidc-client-secret: client/other, forebay.io/auth-oidc-ca: roots}}}";
        let index = Index::default();
        let options = Options::default();
        let mut references = References::default();
        references.follow(&ingress(text), &index, &options);
        assert_eq!(named(&references), ["default/client", "default/roots", "default/session"]);
    }

    #[test]
    fn annotations_of_our_own_name_objects_too() {
        let text = "{metadata: {name: a, annotations: {forebay.io/auth-api-keys: keys, forebay.io/auth-jwt: \
                    '[{issuer: a, secret: hmac/k}, {issuer: b, configMap: m}, {issuer: c, jwks: u, ca: roots}]'}}}";
        let index = Index::default();
        let options = Options::default();
        let mut references = References::default();
        references.follow(&ingress(text), &index, &options);
        assert_eq!(named(&references), ["default/m", "default/hmac", "default/keys", "default/roots"]);
    }

    #[test]
    fn annotations_of_other_namespaces_count_only_where_that_is_allowed() {
        let text = |namespace: &str| {
            format!(
                "{{metadata: {{name: a, annotations: {{nginx.ingress.kubernetes.io/auth-tls-secret: {namespace}/ca}}}}}}"
            )
        };
        let mut index = Index::default();
        let options = Options { configmap: Some(NsName::new("default", "settings")), ..Options::default() };
        for (namespace, expected) in [("default", true), ("other", false)] {
            let mut references = References::default();
            references.follow(&ingress(&text(namespace)), &index, &options);
            assert_eq!(references.has(Secret::KIND, &NsName::new(namespace, "ca")), expected, "{namespace}");
        }
        let settings = "{metadata: {name: settings}, data: {allow-cross-namespace-resources: 'true'}}";
        let object = serde_saphyr::from_str(settings).unwrap();
        index.apply(&Object::ConfigMap(Arc::new(Sourced { origin: Origin::default(), object })));
        let mut references = References::default();
        references.follow(&ingress(&text("other")), &index, &options);
        assert!(references.has(Secret::KIND, &NsName::new("other", "ca")));
    }

    #[test]
    fn configmaps_are_named_by_annotations_and_by_the_settings() {
        let mut index = Index::default();
        let options = Options { configmap: Some(NsName::new("default", "settings")), ..Options::default() };
        let prefix = "nginx.ingress.kubernetes.io";
        let text = format!(
            "{{metadata: {{name: a, annotations: {{{prefix}/custom-headers: default/h, {prefix}/fastcgi-params-configmap: f, \
             {prefix}/auth-proxy-set-headers: default/h}}}}}}"
        );
        index.apply(&Object::Ingress(ingress(&text)));
        let settings =
            "{metadata: {name: settings}, data: {add-headers: ours/add, proxy-set-headers: broken}}";
        let object = serde_saphyr::from_str(settings).unwrap();
        index.apply(&Object::ConfigMap(Arc::new(Sourced { origin: Origin::default(), object })));
        let references = References::of(&index, &options);
        assert_eq!(named(&references), ["default/f", "default/h"]);
        assert!(references.has(ConfigMap::KIND, &NsName::new("default", "h")));
        assert!(!references.has(Secret::KIND, &NsName::new("default", "h")));
        assert!(references.has(ConfigMap::KIND, &NsName::new("ours", "add")));
        let group = |namespace: &str, object: Option<&str>| Group {
            kind: ConfigMap::KIND,
            namespace: namespace.to_owned(),
            object: object.map(str::to_owned),
        };
        let groups: Vec<_> = references.groups().collect();
        assert_eq!(groups, [group("default", None), group("ours", Some("add"))]);
    }
}
