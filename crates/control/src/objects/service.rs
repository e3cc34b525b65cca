use model::Transport;
use serde::{Deserialize, Serialize};

use super::de::{list, nullable};
use super::{At, Metadata};
use crate::names::PortRef;

/// A Service: a group of Pods, or a name outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Service {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: ServiceSpec,
}

/// The desired state of a [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Virtual address; the text `None` for a headless Service.
    #[serde(default, rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<String>,
    /// DNS name of an `ExternalName` Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_name: Option<At<String>>,
    /// Ports of the Service.
    #[serde(default, deserialize_with = "list")]
    pub ports: Vec<ServicePort>,
}

/// A port of a [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; optional if the Service has only one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port number of the Service.
    pub port: u16,
    /// Port number or name of the Pods; none if it equals the Service's port number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<PortRef>,
    /// Transport; none stands for `TCP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Application protocol, such as `kubernetes.io/h2c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

impl Service {
    /// Whether the type of the Service is `ExternalName`.
    pub fn is_external(&self) -> bool {
        self.spec.kind.as_deref() == Some("ExternalName")
    }

    /// The TCP port that a backend of an Ingress names: by number or name, or, as in ingress-nginx, by number
    /// or name of the Pods' port.
    pub fn backend_port(&self, wanted: &PortRef) -> Option<&ServicePort> {
        let is_wanted = |port: &ServicePort| match wanted {
            PortRef::Number(number) => port.port == *number,
            PortRef::Name(name) => port.name.as_ref() == Some(name),
        };
        let mut ports = self.spec.ports.iter().filter(|port| is_of(Transport::Tcp, port.protocol.as_deref()));
        ports.find(|port| is_wanted(port) || port.target_port.as_ref() == Some(wanted))
    }

    /// The port that a backend names. TCP and UDP may use the same number, so the transport has to be given.
    pub fn port(&self, wanted: &PortRef, transport: Transport) -> Option<&ServicePort> {
        self.spec.ports.iter().filter(|port| is_of(transport, port.protocol.as_deref())).find(|port| {
            match wanted {
                PortRef::Number(number) => port.port == *number,
                PortRef::Name(name) => port.name.as_ref() == Some(name),
            }
        })
    }
}

/// Whether the text of a `protocol` field is this transport. "Default is TCP."
pub(crate) fn is_of(transport: Transport, protocol: Option<&str>) -> bool {
    let name = match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    };
    protocol.unwrap_or("TCP") == name
}
