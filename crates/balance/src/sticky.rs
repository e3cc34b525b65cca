//! Session affinity: the keys by which the values of a cookie stand for endpoints.
//!
//! Must not be in here: the cookie's name and attributes, and the request that has it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use clock::Random;
use md5::{Digest, Md5};
use model::{Affinity, AffinityMode};

use crate::ring::Ring;

/// The affinity of a cluster's sessions to its endpoints.
pub struct Sticky {
    /// The settings of the cookie.
    pub affinity: Arc<Affinity>,
    keys: Keys,
    /// The second part of the cookie's value, which distinguishes the cluster from its canary.
    cluster_key: String,
}

enum Keys {
    /// Every key leads to some endpoint.
    Balanced(Ring),
    /// Each endpoint has one key.
    Persistent {
        /// By index of the endpoint.
        keys: Vec<String>,
        indices: HashMap<String, usize>,
    },
}

/// Random keys that are tried to find one that leads to an endpoint that suits.
const RANDOM_KEYS_MAX: usize = 100;

impl Sticky {
    /// The keys of a cluster's endpoints. An endpoint's index is the position of its address.
    pub fn new(affinity: &Arc<Affinity>, cluster: &str, addresses: &[String]) -> Self {
        let keys = match affinity.mode {
            AffinityMode::Balanced => Keys::Balanced(Ring::new(addresses.iter().cloned())),
            AffinityMode::Persistent => {
                let key = |address: &String| name(affinity, cluster, address);
                let keys: Vec<_> = addresses.iter().map(key).collect();
                let indices = keys.iter().cloned().zip(0..).collect();
                Keys::Persistent { keys, indices }
            }
        };
        let cluster_key = match affinity.key {
            None => hex_md5(&format!("{}{cluster}", hex_md5(cluster))),
            Some(_) => name(affinity, cluster, ""),
        };
        Self { affinity: Arc::clone(affinity), keys, cluster_key }
    }

    /// The index of the endpoint that a cookie's value stands for; none if it stands for none.
    pub fn find(&self, value: &[u8]) -> Option<usize> {
        let key = value.split(|&byte| byte == b'|').next().filter(|key| !key.is_empty())?;
        match &self.keys {
            Keys::Balanced(ring) => ring.find(key),
            Keys::Persistent { indices, .. } => indices.get(std::str::from_utf8(key).ok()?).copied(),
        }
    }

    /// Whether a cookie's value was set for this cluster, rather than for its canary.
    pub fn is_of_cluster(&self, value: &[u8]) -> bool {
        value.split(|&byte| byte == b'|').nth(1) == Some(self.cluster_key.as_bytes())
    }

    /// Selects an endpoint for which `suits` is true. Returns its index and a key for it; none if there is
    /// none.
    pub fn pick(&self, random: &Random, suits: impl Fn(usize) -> bool) -> Option<(usize, String)> {
        match &self.keys {
            Keys::Balanced(ring) => (0..RANDOM_KEYS_MAX).find_map(|_| {
                let key = random_key(random);
                let index = ring.find(key.as_bytes()).filter(|index| suits(*index))?;
                Some((index, key))
            }),
            Keys::Persistent { keys, .. } => {
                let first = random.below(keys.len().max(1));
                let mut indices = (0..keys.len()).map(|distance| (first + distance) % keys.len());
                let index = indices.find(|index| suits(*index))?;
                Some((index, keys[index].clone()))
            }
        }
    }

    /// The cookie's value with a key, at a time since 1970, which is part of the value where its age is
    /// bounded.
    pub fn value(&self, key: &str, now: Duration) -> String {
        match self.affinity.age_max {
            None => format!("{key}|{}", self.cluster_key),
            Some(_) => format!("{key}|{}|{}", self.cluster_key, now.as_secs()),
        }
    }

    /// Whether a cookie's value is young enough, at a time since 1970.
    pub fn is_in_time(&self, value: &[u8], now: Duration) -> bool {
        let Some(age_max) = self.affinity.age_max else { return true };
        let since =
            value.split(|&byte| byte == b'|').nth(2).and_then(|since| std::str::from_utf8(since).ok());
        let since = since.and_then(|since| since.parse().ok()).map(Duration::from_secs);
        // A time in the future is not one of ours.
        since.and_then(|since| now.checked_sub(since)).is_some_and(|age| age < age_max)
    }
}

fn random_key(random: &Random) -> String {
    String::from_utf8_lossy(&random.hex_id()).into_owned()
}

/// The name of an endpoint in cookies. Without a secret key it is that of ingress-nginx, whose cookies stay
/// valid.
fn name(affinity: &Affinity, cluster: &str, address: &str) -> String {
    let Some(key) = &affinity.key else { return hex_md5(&format!("{cluster}{address}")) };
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.bytes());
    let code = hmac::sign(&key, format!("{cluster}\n{address}").as_bytes());
    let code = code.as_ref().first_chunk().expect("a code has 32 bytes");
    format!("{:032x}", u128::from_be_bytes(*code))
}

fn hex_md5(text: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(text).into()))
}

#[cfg(test)]
mod tests {
    use model::AffinityCookie;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn sticky(mode: AffinityMode, endpoints: u8) -> Sticky {
        let affinity = Affinity {
            mode,
            change_on_failure: false,
            cookie: AffinityCookie::default(),
            header: None,
            age_max: None,
            key: None,
        };
        let addresses: Vec<_> = (0..endpoints).map(|last| format!("10.0.0.{last}:80")).collect();
        Sticky::new(&Arc::new(affinity), "default-web-80", &addresses)
    }

    #[test]
    fn a_new_key_leads_back_to_its_endpoint() {
        let random = Random::seeded(7);
        for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
            let sticky = sticky(mode, 5);
            for wanted in 0..5 {
                let (index, key) = sticky.pick(&random, |index| index == wanted).unwrap();
                assert_eq!(index, wanted);
                assert_eq!(sticky.find(sticky.value(&key, NOW).as_bytes()), Some(wanted));
                assert!(sticky.is_of_cluster(sticky.value(&key, NOW).as_bytes()));
                assert!(!sticky.is_of_cluster(key.as_bytes()) && !sticky.is_of_cluster(b"a|b"));
            }
            assert_eq!(sticky.pick(&random, |_| false), None);
        }
    }

    /// Addresses and names of clusters are few enough to be tried out.
    #[test]
    fn without_the_secret_key_no_value_tells_the_endpoint() {
        let addresses = ["10.0.0.0:80".to_owned()];
        let of = |secret: &[u8]| {
            let plain = sticky(AffinityMode::Persistent, 1);
            let key = Some(model::SessionKey::new(&[secret, b"uid"]));
            let affinity = Affinity { key, ..Affinity::clone(&plain.affinity) };
            let sticky = Sticky::new(&Arc::new(affinity), "default-web-80", &addresses);
            let (_, key) = sticky.pick(&Random::seeded(7), |_| true).unwrap();
            sticky.value(&key, NOW)
        };
        let value = of(b"secret");
        assert_eq!(value, of(b"secret"), "after a restart, and at another replica");
        let (endpoint, cluster) = value.split_once('|').unwrap();
        let other = of(b"another");
        assert!(!other.contains(endpoint) && !other.contains(cluster));
        let guess = sticky(AffinityMode::Persistent, 1);
        let guess = guess.value(&hex_md5("default-web-8010.0.0.0:80"), NOW);
        assert!(!guess.contains(endpoint) && !guess.contains(cluster));
    }

    #[test]
    fn a_value_that_is_too_old_does_not_count() {
        let plain = sticky(AffinityMode::Persistent, 1);
        let aged = Affinity { age_max: Some(Duration::from_secs(60)), ..Affinity::clone(&plain.affinity) };
        let aged = Sticky::new(&Arc::new(aged), "default-web-80", &["10.0.0.0:80".to_owned()]);
        let value = aged.value("key", NOW);
        let after = |seconds| NOW + Duration::from_secs(seconds);
        assert!(aged.is_in_time(value.as_bytes(), NOW) && aged.is_in_time(value.as_bytes(), after(59)));
        assert!(!aged.is_in_time(value.as_bytes(), after(60)));
        assert!(!aged.is_in_time(value.as_bytes(), NOW.saturating_sub(Duration::from_secs(1))));
        for other in ["key|cluster", "key|cluster|x", ""] {
            assert!(!aged.is_in_time(other.as_bytes(), NOW) && plain.is_in_time(other.as_bytes(), NOW));
        }
        assert!(aged.is_of_cluster(value.as_bytes()));
    }

    #[test]
    fn balanced_takes_any_value_and_persistent_only_its_own() {
        assert!(sticky(AffinityMode::Balanced, 5).find(b"whatever").is_some());
        assert_eq!(sticky(AffinityMode::Persistent, 5).find(b"whatever"), None);
        assert_eq!(sticky(AffinityMode::Balanced, 5).find(b""), None);
        assert_eq!(sticky(AffinityMode::Balanced, 0).find(b"whatever"), None);
    }

    #[test]
    fn persistent_keys_are_those_of_ingress_nginx() {
        let sticky = sticky(AffinityMode::Persistent, 1);
        let (_, key) = sticky.pick(&Random::seeded(7), |_| true).unwrap();
        assert_eq!(key, hex_md5("default-web-8010.0.0.0:80"));
        assert_eq!(hex_md5("a"), "0cc175b9c0f1b6a831c399e269772661", "RFC 1321, A.5");
    }
}
