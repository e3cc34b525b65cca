//! The version of the ingress-nginx that Forebay replaces. It decides the defaults that "as before" means:
//! version 1.12 changed defaults.
//!
//! Never in here: IO, and the effect of the version on a configuration.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// A version of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OldVersion {
    /// The major version number.
    pub major: u32,
    /// The minor version number.
    pub minor: u32,
}

/// The version that is assumed for the old ingress-nginx, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumed {
    /// The assumed version of ingress-nginx.
    pub version: OldVersion,
    /// The evidence for the version.
    pub why: String,
}

impl OldVersion {
    /// The last release of ingress-nginx, whose defaults Forebay has.
    pub const LAST: Self = Self { major: 1, minor: 15 };

    /// The first release with the stricter defaults.
    pub const STRICT: Self = Self { major: 1, minor: 12 };

    /// Whether the defaults of this version are less strict: `annotations-risk-level` is `Critical`,
    /// `allow-cross-namespace-resources` is `true`, and annotations are not validated.
    pub fn is_lenient(self) -> bool {
        self < Self::STRICT
    }

    /// The controller's image in a text, and the version that the image's tag names.
    pub fn of_image(text: &str) -> Option<(Self, &str)> {
        REPOSITORIES.iter().find_map(|repository| {
            text.match_indices(repository).find_map(|(at, _)| {
                let is_part = |char: char| char.is_ascii_alphanumeric() || "-._:/@".contains(char);
                let start = text[..at].rfind(|char| !is_part(char)).map_or(0, |before| before + 1);
                let end = text[at..].find(|char| !is_part(char)).map_or(text.len(), |end| at + end);
                let image = text[start..end].split('@').next().unwrap_or_default();
                let (_, tag) = text[at..end].split_once(':')?;
                Some((Self::of_tag(tag)?, image))
            })
        })
    }

    /// The version in values for the chart of ingress-nginx: that of the image's tag, if the values name one.
    pub fn of_values(text: &str) -> Option<(Self, String)> {
        #[derive(Deserialize)]
        struct Values {
            controller: Controller,
        }
        #[derive(Deserialize)]
        struct Controller {
            image: Image,
        }
        #[derive(Deserialize)]
        struct Image {
            tag: String,
        }
        let values: Values = serde_saphyr::from_str(text).ok()?;
        let tag = values.controller.image.tag;
        Some((Self::of_tag(&tag)?, tag))
    }

    /// The version in a tag, also behind a name: `v1.11.3`, `nginx-1.9.4-rancher1`.
    fn of_tag(tag: &str) -> Option<Self> {
        let at = tag.find(|char: char| char.is_ascii_digit())?;
        let end = tag[at..].find(|char: char| !char.is_ascii_digit() && char != '.');
        tag[at..end.map_or(tag.len(), |end| at + end)].trim_end_matches('.').parse().ok()
    }
}

/// The ends of the image repositories of ingress-nginx: its own, its former ones, and those of distributions.
const REPOSITORIES: &[&str] = &[
    "ingress-nginx/controller",
    "ingress-nginx-controller",
    "nginx-ingress-controller",
    "nginx-ingress/controller",
];

impl FromStr for OldVersion {
    type Err = String;

    /// Parses `1.11`, `1.11.3` or `v1.11.3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is no version of ingress-nginx such as 1.11");
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        let (major, minor) = number().zip(number()).ok_or_else(invalid)?;
        if major > 1 || parts.any(|part| part.parse::<u32>().is_err()) {
            return Err(invalid());
        }
        Ok(Self { major, minor })
    }
}

impl fmt::Display for OldVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for OldVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_controllers_have_a_version() {
        for (text, version, image) in [
            (
                "image: registry.k8s.io/ingress-nginx/controller:v1.11.3@sha256:d56f135b6462cfc476447cfe564b83a45e8bb7da2774963b00d12161112270b7",
                "1.11",
                "registry.k8s.io/ingress-nginx/controller:v1.11.3",
            ),
            (
                "{\"image\":\"k8s.gcr.io/ingress-nginx/controller:v0.49.3\"}",
                "0.49",
                "k8s.gcr.io/ingress-nginx/controller:v0.49.3",
            ),
            (
                "image: rancher/nginx-ingress-controller:nginx-1.9.4-rancher1",
                "1.9",
                "rancher/nginx-ingress-controller:nginx-1.9.4-rancher1",
            ),
            (
                "image: rancher/nginx-ingress-controller:v1.12.1-hardened1",
                "1.12",
                "rancher/nginx-ingress-controller:v1.12.1-hardened1",
            ),
            (
                "a 'host:5000/mirror/nginx-ingress-controller:0.33.0'",
                "0.33",
                "host:5000/mirror/nginx-ingress-controller:0.33.0",
            ),
        ] {
            assert_eq!(OldVersion::of_image(text), Some((version.parse().unwrap(), image)), "{text}");
        }
        for text in [
            "image: nginx:1.27",
            "ingress-nginx-controller",
            "ingress-nginx/controller:latest",
            "ingress-nginx/controller-x:v1",
        ] {
            assert_eq!(OldVersion::of_image(text), None, "{text}");
        }
    }

    #[test]
    fn values_of_the_chart_have_one_where_they_name_a_tag() {
        let of = |text: &str| OldVersion::of_values(text).map(|(version, _)| version.to_string());
        assert_eq!(
            of("controller:\n  image:\n    tag: v1.10.1\n  config: {a: b}\n"),
            Some("1.10".to_owned())
        );
        assert_eq!(of("controller: {replicaCount: 2}\n"), None);
        assert_eq!(of("- a\n"), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| text.parse::<OldVersion>().unwrap();
        assert!(
            version("1.9").is_lenient() && version("v0.33.0").is_lenient() && version("1.11.8").is_lenient()
        );
        assert!(!version("1.12").is_lenient() && !version("v1.15.1").is_lenient());
        for text in ["", "1", "1.x", "4.11", "1.11.x"] {
            assert!(text.parse::<OldVersion>().is_err(), "{text}");
        }
    }
}
