use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::open::SubjectAltNameType;
use super::references::ObjectReference;

/// Settings of TLS towards the endpoints of Services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendTlsPolicy {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: BackendTlsPolicySpec,
}

/// The desired state of a [`BackendTlsPolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// Services to which the policy applies.
    #[serde(default, deserialize_with = "list")]
    pub target_refs: Vec<At<PolicyTarget>>,
    /// Verification of the endpoints' certificates.
    pub validation: BackendValidation,
}

/// A reference to an object in the policy's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTarget {
    /// Group; empty for the core group.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind of the object.
    pub kind: Box<str>,
    /// Name of the object.
    pub name: Box<str>,
    /// Name of a port; none for all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Box<str>>,
}

/// Verification of endpoints' certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendValidation {
    /// `ConfigMap`s or Secrets with authorities.
    #[serde(default, rename = "caCertificateRefs", deserialize_with = "list")]
    pub ca_certificate_refs: Vec<At<ObjectReference>>,
    /// `System` for the authorities of the system.
    #[serde(default, rename = "wellKnownCACertificates", skip_serializing_if = "Option::is_none")]
    pub well_known_ca_certificates: Option<Box<str>>,
    /// The server name for endpoints, which their certificates have to contain.
    pub hostname: Box<str>,
    /// Names of which a certificate has to contain at least one; they replace `hostname` in the verification.
    #[serde(default, deserialize_with = "list")]
    pub subject_alt_names: Vec<At<SubjectAltName>>,
}

/// An alternative name of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SubjectAltName {
    /// The kind of the name.
    #[serde(rename = "type")]
    pub kind: SubjectAltNameType,
    /// A host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// The name as a URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Box<str>>,
}
