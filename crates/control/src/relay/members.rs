//! The replicas, and which of them are relays: in each zone one of so many, by a hash of their addresses, so
//! that a replica that comes or goes changes one relay at most.
//!
//! Never in here: whether a relay answers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube::{Client, Error};
use serde::Deserialize;

use crate::names::NsName;
use crate::objects::SERVICE_NAME;

/// A replica that is not about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) address: IpAddr,
    pub(super) zone: Option<String>,
}

/// The place of a replica among all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// Whether it watches the API server for others.
    pub(super) is_relay: bool,
    /// The other relays that it may follow, the preferred one first.
    pub(super) relays: Vec<IpAddr>,
}

impl Role {
    /// The role of the replica with this address. A replica that is not listed yet follows a relay of any
    /// zone.
    pub(super) fn of(own: IpAddr, members: &[Member], per_watch: usize) -> Self {
        let mut zones: BTreeMap<Option<&str>, Vec<IpAddr>> = BTreeMap::new();
        for member in members {
            zones.entry(member.zone.as_deref()).or_default().push(member.address);
        }
        let own_zone = members.iter().find(|member| member.address == own).map(|own| own.zone.as_deref());
        let mut relays = Vec::new();
        for (zone, mut addresses) in zones {
            if own_zone.is_some_and(|own| own != zone) {
                continue;
            }
            addresses.sort_unstable();
            addresses.dedup();
            let count = addresses.len().div_ceil(per_watch.max(1));
            addresses.sort_by_cached_key(|address| weight(&[*address]));
            relays.extend(addresses.into_iter().take(count));
        }
        let is_relay = relays.contains(&own);
        relays.retain(|relay| *relay != own);
        relays.sort_by_cached_key(|relay| weight(&[own, *relay]));
        Self { is_relay, relays }
    }
}

/// A number that all replicas compute alike: FNV-1a, mixed once more, since addresses differ in few bits.
fn weight(addresses: &[IpAddr]) -> u64 {
    let texts = addresses.iter().map(|address| format!("{address}\n"));
    let hash = texts.flat_map(String::into_bytes).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// The slices of the replicas' Service, with the zones of its Pods, which [`crate::objects::EndpointSlice`]
/// leaves out.
#[derive(Deserialize)]
struct Slices {
    items: Vec<Slice>,
}

#[derive(Deserialize)]
struct Slice {
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Option<Conditions>,
    #[serde(default)]
    zone: Option<String>,
}

#[derive(Deserialize)]
struct Conditions {
    #[serde(default)]
    terminating: Option<bool>,
}

/// Lists the replicas. Version 0 lets the API server answer from its memory.
pub(super) async fn list(client: &Client, service: &NsName) -> Result<Vec<Member>, Error> {
    let label = SERVICE_NAME.replace('/', "%2F");
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector={label}%3D{}&resourceVersion=0",
        service.namespace, service.name
    );
    let request = http::Request::get(path).body(Vec::new()).map_err(Error::HttpError)?;
    let slices: Slices = client.request(request).await?;
    Ok(slices.items.into_iter().flat_map(Slice::members).collect())
}

impl Slice {
    fn members(self) -> impl Iterator<Item = Member> {
        self.endpoints.into_iter().flatten().filter_map(|endpoint| {
            let is_ending = endpoint.conditions.is_some_and(|it| it.terminating.unwrap_or_default());
            let address = endpoint.addresses.first().filter(|_| !is_ending)?.parse().ok()?;
            Some(Member { address, zone: endpoint.zone })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn members(count: u8, zones: u8) -> Vec<Member> {
        let zone = |number: u8| (zones > 0).then(|| format!("zone-{}", number % zones));
        (1..=count).map(|number| Member { address: address(number), zone: zone(number) }).collect()
    }

    fn relays(members: &[Member], per_watch: usize) -> Vec<IpAddr> {
        let addresses = members.iter().map(|member| member.address);
        addresses.filter(|own| Role::of(*own, members, per_watch).is_relay).collect()
    }

    #[test]
    fn one_of_so_many_is_a_relay_and_the_others_follow_one_of_their_zone() {
        let all = members(60, 3);
        let relays = relays(&all, 10);
        assert_eq!(relays.len(), 6, "two in each zone of twenty");
        for member in &all {
            let role = Role::of(member.address, &all, 10);
            assert_eq!(role.relays.len(), if role.is_relay { 1 } else { 2 });
            for relay in role.relays {
                let relay = all.iter().find(|other| other.address == relay).unwrap();
                assert!(relays.contains(&relay.address) && relay.zone == member.zone);
            }
        }
    }

    #[test]
    fn followers_spread_over_relays() {
        let all = members(200, 0);
        let relays = relays(&all, 20);
        assert_eq!(relays.len(), 10);
        let first = |member: &Member| Role::of(member.address, &all, 20).relays[0];
        let followers = |relay: IpAddr| all.iter().filter(|one| first(one) == relay).count();
        let counts: Vec<_> = relays.into_iter().map(followers).collect();
        assert!(counts.iter().all(|count| (8..=40).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_replica_that_goes_changes_one_relay_at_most() {
        let all = members(100, 0);
        let before = relays(&all, 10);
        for gone in &all {
            let rest: Vec<_> = all.iter().filter(|member| *member != gone).cloned().collect();
            let after = relays(&rest, 10);
            let new = after.iter().filter(|relay| !before.contains(relay)).count();
            assert!(new <= 1, "{gone:?}");
        }
    }

    #[test]
    fn a_replica_that_is_not_listed_follows_a_relay_of_any_zone_and_one_alone_watches() {
        let all = members(6, 3);
        let role = Role::of(address(200), &all, 10);
        assert_eq!((role.is_relay, role.relays.len()), (false, 3));
        assert_eq!(Role::of(address(1), &[], 10), Role::default());
        assert_eq!(Role::of(address(1), &members(1, 0), 10), Role { is_relay: true, relays: Vec::new() });
    }

    #[test]
    fn replicas_are_read_with_their_zones_and_without_those_that_end() {
        let text = r#"{"items": [{"endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}, "zone": "a"},
            {"addresses": ["10.0.0.2"], "conditions": {"terminating": true}},
            {"addresses": ["10.0.0.3"]}, {"addresses": []}]}, {"endpoints": null}]}"#;
        let slices: Slices = serde_json::from_str(text).unwrap();
        let members: Vec<_> = slices.items.into_iter().flat_map(Slice::members).collect();
        let member =
            |number, zone: Option<&str>| Member { address: address(number), zone: zone.map(str::to_owned) };
        assert_eq!(members, [member(1, Some("a")), member(3, None)]);
    }
}
