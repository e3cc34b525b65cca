//! The replicas that share a cache and limits: the endpoints of Forebay's own Service.

use model::Replicas;

use super::clusters::ClusterQueries;
use super::inputs::Inputs;
use super::upstream_protocol::UpstreamDraft;
use crate::names::PortRef;
use crate::problem::{Problem, Reason, Severity};

/// The name of the Service's port at which replicas accept requests. If no port has this name, the first one
/// is used.
const PORT: &str = "http";

/// Reads the Service that the options name.
pub(super) fn build(
    inputs: &Inputs<'_>,
    clusters: &mut ClusterQueries<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<Replicas> {
    let options = inputs.options.replicas.as_ref()?;
    let name = &options.service;
    let Some(service) = inputs.service(name) else {
        let message =
            format!("Service {name} of the replicas is missing; each has its own cache and counts alone");
        problems.push(Problem::new(Severity::Warning, message).because(Reason::Missing));
        return None;
    };
    let named = PortRef::Name(PORT.to_owned());
    let port = if service.backend_port(&named).is_some() { named } else { clusters.first_port(name)? };
    let (cluster, fault) = clusters.for_requests(name, &port, &UpstreamDraft::default(), None);
    if let Some(fault) = fault {
        let message = format!("replicas: {fault}; each has its own cache and counts alone");
        problems.push(Problem::new(Severity::Warning, message).because(Reason::Missing));
        return None;
    }
    let unready = inputs.unready(name).into_iter().filter(|address| *address != options.own).collect();
    Some(Replicas { cluster, own: options.own, unready })
}
