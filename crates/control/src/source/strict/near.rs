//! Detects a misspelled kind or API version: one that resembles a supported kind and is no other known kind.

use strsim::damerau_levenshtein;

use crate::objects::Kind;

/// The most letters in which a word may differ from the intended word, and the same for short words.
const SLIPS_MAX: usize = 2;
const SHORT_SLIPS_MAX: usize = 1;

/// The length of the shortest long word, and of the shortest word in which a misspelling is recognized.
const LONG_BYTES_MIN: usize = 5;
const WORD_BYTES_MIN: usize = 3;

/// Kinds of other API groups of Kubernetes whose names resemble those of supported kinds.
const OTHERS: &[&str] = &["APIService", "ServiceCIDR", "IngressRoute"];

/// Whether a word is a misspelling of another. Words that differ only in digits are two names.
pub(crate) fn word(word: &str, meant: &str) -> bool {
    let without_digits = |text: &str| text.replace(|char: char| char.is_ascii_digit(), "");
    let most = if meant.len() < LONG_BYTES_MIN { SHORT_SLIPS_MAX } else { SLIPS_MAX };
    word != meant
        && meant.len() >= WORD_BYTES_MIN
        && without_digits(word) != without_digits(meant)
        && damerau_levenshtein(&word.to_ascii_lowercase(), &meant.to_ascii_lowercase()) <= most
}

/// The probable mistake in the `apiVersion` and `kind` of an object that is not supported; none if it is
/// simply another kind.
pub(crate) fn kind(api_version: &str, kind: &str) -> Option<String> {
    if OTHERS.contains(&kind) {
        return None;
    }
    let same = Kind::KNOWN.iter().find(|(name, _)| *name == kind);
    let near = || {
        let near = Kind::KNOWN.iter().filter(|(name, _)| word(kind, name));
        near.min_by_key(|(name, _)| damerau_levenshtein(kind, name))
    };
    let (name, versions) = same.or_else(near)?;
    let newest = versions[0];
    if versions.contains(&api_version) {
        return Some(format!("kind: there is no {kind:?} in {api_version}; write {name}"));
    }
    if !is_near_group(group(api_version), group(newest)) {
        return None;
    }
    let wrong = match api_version {
        "" => "apiVersion: required, and missing".to_owned(),
        _ => format!("apiVersion: there is no {kind:?} in {api_version}"),
    };
    Some(format!("{wrong}; {name} is in {newest}"))
}

/// Whether a group is a misspelling of another. Foreign groups have domains of their own, and may have kinds
/// with the same names.
fn is_near_group(group: &str, meant: &str) -> bool {
    let is_of_kubernetes = !group.contains('.') || group.ends_with(".k8s.io");
    group == meant || is_of_kubernetes || meant.starts_with(group) || word(group, meant)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_from_other_words() {
        for (one, meant) in
            [("ngnix", "nginx"), ("wep", "web"), ("backned", "backend"), ("pathtype", "pathType")]
        {
            assert!(word(one, meant), "{one} {meant}");
        }
        for (one, meant) in
            [("web", "web"), ("app-1", "app-2"), ("v1", "v2"), ("api", "web"), ("shop", "stop-it")]
        {
            assert!(!word(one, meant), "{one} {meant}");
        }
    }

    #[test]
    fn slips_are_told_from_other_kinds() {
        for (api_version, name, said) in [
            (
                "networking.k8s.io/v1",
                "ingress",
                "kind: there is no \"ingress\" in networking.k8s.io/v1; write Ingress",
            ),
            ("networking.k8s.io/v1", "Ingresss", "write Ingress"),
            ("networking.k8s.io/v1", "Igress", "write Ingress"),
            ("networking.k8s.io/v2", "Ingress", "; Ingress is in networking.k8s.io/v1"),
            ("networking.k8s.io", "Ingress", "Ingress is in networking.k8s.io/v1"),
            ("networking.k8s/v1", "Ingress", "Ingress is in networking.k8s.io/v1"),
            ("networking/v1", "Ingress", "Ingress is in networking.k8s.io/v1"),
            ("v1", "Ingress", "Ingress is in networking.k8s.io/v1"),
            ("", "Ingress", "apiVersion: required, and missing; Ingress is in networking.k8s.io/v1"),
            ("extensions/v1", "Ingress", "Ingress is in networking.k8s.io/v1"),
            ("apps/v1", "Service", "Service is in v1"),
            ("v1", "Sevrice", "write Service"),
            ("gateway.networking.k8s.io/v1", "HttpRoute", "write HTTPRoute"),
            (
                "gateway.networking.k8s.io/v1alpha2",
                "HTTPRoute",
                "HTTPRoute is in gateway.networking.k8s.io/v1",
            ),
        ] {
            let told = kind(api_version, name).unwrap_or_default();
            assert!(told.contains(said), "{api_version} {name}: {told}");
        }
        for (api_version, kind_of_others) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("networking.k8s.io/v1", "NetworkPolicy"),
            ("networking.k8s.io/v1", "ServiceCIDR"),
            ("networking.istio.io/v1", "Gateway"),
            ("serving.knative.dev/v1", "Service"),
            ("networking.internal.knative.dev/v1alpha1", "Ingress"),
            ("config.openshift.io/v1", "Ingress"),
            ("apiregistration.k8s.io/v1", "APIService"),
            ("traefik.io/v1alpha1", "IngressRoute"),
            ("", ""),
        ] {
            assert_eq!(kind(api_version, kind_of_others), None, "{api_version} {kind_of_others}");
        }
    }
}
