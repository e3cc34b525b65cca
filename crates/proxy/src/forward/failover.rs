//! A request whose tries have failed at one cluster goes on to the next one, where its route has others to
//! fall back to.
//!
//! Never in here: the cluster that a request begins with.

use balance::Usability;
use model::{ClusterId, Forward};
use observe::Counter;

use crate::admit::Admitted;
use crate::answer::attempted::Attempted;
use crate::answer::passed::Passed;
use crate::forward::outbound::{Outbound, can_send_body_again};
use crate::forward::retry;
use crate::forward::tries::{self, Begun};
use crate::upstream::{Cluster, usability};

/// Whether a policy that tries each endpoint once lets the request go on after the last one.
#[cold]
pub(super) fn has_other_cluster(attempted: &Attempted<'_, '_>, forward: &Forward) -> bool {
    forward.retry.tries.is_none() && after(attempted, forward).is_some()
}

/// The cluster for the next try, if it is another one: all endpoints of the present one have been tried or
/// are out of use, or one try is left.
#[cold]
pub(super) fn next(
    attempted: &Attempted<'_, '_>,
    cluster: &Cluster,
    outbound: &Outbound<'_, '_>,
) -> Option<ClusterId> {
    let forward = outbound.forward;
    forward.fallback.as_ref()?;
    let now = attempted.worker.clock.now();
    let is_done_here = !retry::has_another(attempted, cluster, forward)
        || cluster.members().iter().all(|member| attempted.report.was_tried(member.endpoint.address))
        || usability::of(cluster, attempted.ejects(), now) != Usability::InUse;
    if !is_done_here || attempted.processing().is_some() {
        return None;
    }
    let id = after(attempted, forward)?;
    let is_sent_again =
        !attempted.parsed.has_body() || can_send_body_again(&attempted.at(Some(id)), outbound);
    is_sent_again.then_some(id)
}

/// The first cluster after the present one that may be in use.
fn after(admitted: &Admitted<'_>, forward: &Forward) -> Option<ClusterId> {
    let clusters = &forward.fallback.as_ref()?.clusters;
    let present = clusters.iter().position(|id| Some(*id) == admitted.cluster);
    let now = admitted.worker.clock.now();
    let may_serve =
        |id: &&ClusterId| usability::of(admitted.cluster_of(**id), admitted.ejects(), now) != Usability::Out;
    clusters.iter().skip(present.map_or(0, |at| at + 1)).find(may_serve).copied()
}

/// Tries the endpoints of another cluster.
pub(super) async fn go_on<'a>(
    mut attempted: Attempted<'_, 'a>,
    outbound: Outbound<'_, '_>,
    id: ClusterId,
) -> Passed<'a> {
    let admitted = Box::new(attempted.at(Some(id)));
    admitted.worker.recorder.borrow().count(Counter::Fallbacks);
    let (cookie, forward) = (attempted.cookie.take(), outbound.forward);
    let cluster = admitted.cluster_of(id);
    let outbound = outbound.readdress(&admitted, forward, true);
    let attempted = Attempted { cookie, ..Attempted::new(&admitted) };
    let begun = Begun::Picked(attempted.pick(cluster, forward));
    let mut passed = Box::pin(tries::go_on(attempted, cluster, outbound, begun)).await;
    passed.elsewhere.get_or_insert(admitted);
    passed
}
