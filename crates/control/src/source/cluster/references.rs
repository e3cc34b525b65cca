//! The Secrets that our Ingresses name. Only these are kept.
//!
//! Never in here: whether a Secret exists, and what it holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::index::Index;
use crate::names::NsName;
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::translate::configmap;
use crate::translate::ingress::annotations;
use crate::translate::ingress::class::is_ours;

/// The Secrets that are named, by namespace, and the Ingresses that name them.
#[derive(Debug, Default)]
pub(super) struct References {
    by_ingress: HashMap<NsName, BTreeSet<NsName>>,
    /// The number of Ingresses that name each Secret, by namespace and name.
    count: BTreeMap<String, BTreeMap<String, usize>>,
}

impl References {
    /// The references of all Ingresses of an index.
    pub(super) fn of(index: &Index, options: &Options) -> Self {
        let mut references = Self::default();
        references.add(options.default_ssl_certificate.iter());
        for ingress in index.ingresses.iter() {
            references.follow(ingress, index, options);
        }
        references
    }

    /// Updates the references of an Ingress. Returns whether the set of Secrets has changed.
    pub(super) fn follow(&mut self, ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> bool {
        let named =
            if is_ours(ingress, index, options) { secrets(ingress, index, options) } else { BTreeSet::new() };
        let key = ingress.key();
        if self.by_ingress.get(&key).is_some_and(|old| *old == named) {
            return false;
        }
        self.forget(&key);
        if named.is_empty() {
            return true;
        }
        self.add(&named);
        self.by_ingress.insert(key, named);
        true
    }

    /// Removes the references of an Ingress that is gone.
    pub(super) fn forget(&mut self, ingress: &NsName) {
        for secret in self.by_ingress.remove(ingress).into_iter().flatten() {
            let Some(names) = self.count.get_mut(&secret.namespace) else { continue };
            if let Some(count) = names.get_mut(&secret.name) {
                *count -= 1;
                if *count == 0 {
                    names.remove(&secret.name);
                }
            }
            if names.is_empty() {
                self.count.remove(&secret.namespace);
            }
        }
    }

    /// The namespaces of the Secrets that are named.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.count.keys()
    }

    /// The Secrets of a namespace that are named.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = NsName> {
        let names = self.count.get(namespace).into_iter().flat_map(BTreeMap::keys);
        names.map(move |name| NsName::new(namespace, name))
    }

    /// The Secrets that an Ingress names.
    pub(super) fn named_by(&self, ingress: &NsName) -> impl Iterator<Item = &NsName> {
        self.by_ingress.get(ingress).into_iter().flatten()
    }

    /// Whether an Ingress names this Secret.
    pub(super) fn has(&self, secret: &NsName) -> bool {
        self.count.get(&secret.namespace).is_some_and(|names| names.contains_key(&secret.name))
    }

    fn add<'a>(&mut self, secrets: impl IntoIterator<Item = &'a NsName>) {
        for secret in secrets {
            let names = self.count.entry(secret.namespace.clone()).or_default();
            *names.entry(secret.name.clone()).or_default() += 1;
        }
    }
}

/// The Secrets that an Ingress names, in `tls` and in annotations. One of another namespace counts only if that is allowed.
fn secrets(ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> BTreeSet<NsName> {
    let namespace = ingress.namespace();
    let of_tls = ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref());
    let of_tls = of_tls.map(|name| NsName::new(namespace, name.value.as_str()));
    let of_annotations = annotations::SECRETS.iter().filter_map(|name| {
        let value = ingress.metadata.annotations.get(&format!("{}/{name}", options.annotations_prefix))?;
        let text = value.value.trim();
        let is_nearby = annotations::SECRETS_NEARBY.contains(name) && !text.contains('/') && !text.is_empty();
        let secret = if is_nearby { NsName::new(namespace, text) } else { text.parse::<NsName>().ok()? };
        let is_allowed = secret.namespace == namespace || configmap::crosses_namespaces(index, options);
        is_allowed.then_some(secret)
    });
    of_tls.chain(of_annotations).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::objects::{Object, Origin};

    fn ingress(text: &str) -> Arc<Sourced<Ingress>> {
        Arc::new(Sourced { origin: Origin::default(), object: serde_saphyr::from_str(text).unwrap() })
    }

    fn named(references: &References) -> Vec<String> {
        references
            .namespaces()
            .flat_map(|namespace| references.within(namespace))
            .map(|secret| secret.to_string())
            .collect()
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
        references.forget(&a.key());
        assert_eq!(named(&references), ["default/s"]);
        references.forget(&b.key());
        assert_eq!(named(&references), [""; 0]);
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
            assert_eq!(references.has(&NsName::new(namespace, "ca")), expected, "{namespace}");
        }
        let settings = "{metadata: {name: settings}, data: {allow-cross-namespace-resources: 'true'}}";
        let object = serde_saphyr::from_str(settings).unwrap();
        index.apply(&Object::ConfigMap(Arc::new(Sourced { origin: Origin::default(), object })));
        let mut references = References::default();
        references.follow(&ingress(&text("other")), &index, &options);
        assert!(references.has(&NsName::new("other", "ca")));
    }
}
