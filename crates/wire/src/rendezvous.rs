//! Rendezvous hashing: selects one of several nodes for a key, with the same result in each of them. If a
//! node is added or removed, only its own keys move.
//!
//! Never in here: the purpose of the nodes. The hashes must never change: processes of different versions
//! have to agree.

use std::net::IpAddr;

/// The node of a key; none without nodes. The order of the nodes does not count.
pub fn home(key: &[u8], nodes: impl IntoIterator<Item = IpAddr>) -> Option<IpAddr> {
    let key = hash(key);
    nodes.into_iter().max_by_key(|&node| (weight(key, node), node))
}

fn weight(key: u64, node: IpAddr) -> u64 {
    let node = match node {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    };
    mix(key ^ mix(node))
}

/// Computes FNV-1a, followed by a mix, because its upper bits hardly depend on the last bytes.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The finaliser of splitmix64: each bit of the result depends on all of the number.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    fn nodes() -> impl Strategy<Value = Vec<IpAddr>> {
        let v4 = any::<[u8; 4]>().prop_map(IpAddr::from);
        let v6 = any::<[u8; 16]>().prop_map(IpAddr::from);
        let some = proptest::collection::btree_set(prop_oneof![v4, v6], 2..9);
        some.prop_map(|nodes: BTreeSet<IpAddr>| nodes.into_iter().collect())
    }

    fn key(number: usize) -> Vec<u8> {
        format!("http web.test /page/{number}").into_bytes()
    }

    proptest! {
        #[test]
        fn every_node_has_about_its_share(nodes in nodes()) {
            let mut counts = HashMap::new();
            let each = 1000;
            for number in 0..each * nodes.len() {
                *counts.entry(home(&key(number), nodes.iter().copied())).or_insert(0) += 1;
            }
            for node in &nodes {
                let count = counts.get(&Some(*node)).copied().unwrap_or(0);
                prop_assert!((800..1200).contains(&count), "{node} has {count} of {each}");
            }
        }

        #[test]
        fn only_what_a_node_takes_or_leaves_changes_hands(nodes in nodes(), at in any::<prop::sample::Index>()) {
            let gone = nodes[at.index(nodes.len())];
            let without = nodes.iter().copied().filter(|node| *node != gone);
            for number in 0..300 {
                let before = home(&key(number), nodes.iter().copied());
                let after = home(&key(number), without.clone());
                prop_assert!(before == after || before == Some(gone), "{number}: {before:?}, then {after:?}");
            }
        }

        #[test]
        fn the_order_does_not_count(nodes in nodes(), key in any::<Vec<u8>>()) {
            prop_assert_eq!(home(&key, nodes.iter().copied()), home(&key, nodes.iter().rev().copied()));
        }
    }

    #[test]
    fn all_versions_agree() {
        let nodes = || ["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1"].map(|node| node.parse().unwrap());
        let homes = (0..8).map(|number| home(&key(number), nodes()).unwrap().to_string());
        let expected = [
            "2001:db8::1",
            "10.0.0.2",
            "10.0.0.2",
            "2001:db8::1",
            "10.0.0.3",
            "10.0.0.3",
            "10.0.0.1",
            "10.0.0.3",
        ];
        assert_eq!(homes.collect::<Vec<_>>(), expected);
        assert_eq!(home(b"key", []), None);
    }
}
