//! The command line of what `forebay serve` writes to the cluster.

use std::time::Duration;

use clap::{ArgAction, Args};
use control::NsName;
use control::status::StatusOptions;

/// Options for writing to the cluster.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct Status {
    /// Write addresses into the status of Ingresses. Off for a trial beside another controller.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) update_status: bool,
    /// Clear the status when the last replica stops.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) update_status_on_shutdown: bool,
    /// Seconds after which the status is checked again without a change.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) status_update_interval: u64,
    /// Service whose addresses are written.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "publish_status_address")]
    pub(crate) publish_service: Option<NsName>,
    /// Addresses and names that are written as they are.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) publish_status_address: Vec<String>,
    /// Write internal addresses of nodes, where those of nodes are written.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) report_node_internal_ip_address: bool,
    /// Name of the Lease that says which replica writes.
    #[arg(long, value_name = "NAME", default_value = "ingress-controller-leader")]
    pub(crate) election_id: String,
    /// Time after which the Lease of a replica that has stopped expires.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "30s")]
    pub(crate) election_ttl: Duration,
    /// Have every replica write.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) disable_leader_election: bool,
    /// Publish no Event when an Ingress is served.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) disable_sync_events: bool,
}

impl Status {
    pub(crate) fn options(&self, pod: Option<NsName>) -> StatusOptions {
        StatusOptions {
            update: self.update_status,
            update_on_shutdown: self.update_status_on_shutdown,
            interval: Duration::from_secs(self.status_update_interval),
            publish_service: self.publish_service.clone(),
            publish_address: self.publish_status_address.clone(),
            report_node_internal_ip: self.report_node_internal_ip_address,
            election_id: self.election_id.clone(),
            election_ttl: self.election_ttl,
            leader_election: !self.disable_leader_election,
            sync_events: !self.disable_sync_events,
            pod,
        }
    }
}
