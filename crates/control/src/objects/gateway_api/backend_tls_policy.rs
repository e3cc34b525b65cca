use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::open::SubjectAltNameType;
use super::references::ObjectReference;

/// TLS towards the endpoints of Services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendTlsPolicy {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: BackendTlsPolicySpec,
}

/// The desired state of a [`BackendTlsPolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// Services that it is about.
    #[serde(default, deserialize_with = "list")]
    pub target_refs: Vec<At<PolicyTarget>>,
    /// How certificates are verified.
    pub validation: BackendValidation,
}

/// An object of the policy's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTarget {
    /// Group; empty for the core group.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Name of a port; none for all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Box<str>>,
}

/// How certificates of endpoints are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendValidation {
    /// `ConfigMap`s or Secrets with authorities.
    #[serde(default, rename = "caCertificateRefs", deserialize_with = "list")]
    pub ca_certificate_refs: Vec<At<ObjectReference>>,
    /// `System` for the authorities of the system.
    #[serde(default, rename = "wellKnownCACertificates", skip_serializing_if = "Option::is_none")]
    pub well_known_ca_certificates: Option<Box<str>>,
    /// The name that endpoints are asked for, and that their certificates have to have.
    pub hostname: Box<str>,
    /// Names of which certificates have to have one, instead.
    #[serde(default, deserialize_with = "list")]
    pub subject_alt_names: Vec<At<SubjectAltName>>,
}

/// An alternative name of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SubjectAltName {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: SubjectAltNameType,
    /// Name of a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Box<str>>,
}
