//! Whether a cluster is in use, for routes with other clusters to turn to.
//!
//! Never in here: which of them takes a request.

use balance::Usability;
use clock::Moment;

use super::{Cluster, Member};

/// Whether a cluster is in use. An endpoint is, unless its health checks fail, connects to it fail, or it is
/// ejected where `ejects` says that this counts.
pub(crate) fn of(cluster: &Cluster, ejects: bool, now: Moment) -> Usability {
    let mut best = Usability::Out;
    for member in cluster.members() {
        match of_member(member, ejects, now) {
            Usability::InUse => return Usability::InUse,
            Usability::Probable => best = Usability::Probable,
            Usability::Out => {}
        }
    }
    best
}

fn of_member(Member { health, verdict, .. }: &Member, ejects: bool, now: Moment) -> Usability {
    if verdict.as_ref().is_some_and(|verdict| verdict.is_out()) {
        return Usability::Out;
    }
    let (pacer, record) = (&health.pacer, &health.record);
    let is_ejected = ejects && record.is_ejected();
    if !pacer.is_failing() && !is_ejected {
        Usability::InUse
    } else if pacer.may_connect(now) && (!is_ejected || record.is_probe_due(now)) {
        Usability::Probable
    } else {
        Usability::Out
    }
}
