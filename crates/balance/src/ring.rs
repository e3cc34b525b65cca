//! Consistent hashing: when an endpoint is added or removed, only its share of the keys moves.
//!
//! The points are those of nginx's `hash ... consistent` and of `OpenResty`'s `resty.chash`, so that a key
//! leads to the same endpoint as in ingress-nginx.

/// Points of each endpoint on the ring, as in nginx.
const POINTS: usize = 160;

/// A ring of hashes: points in order, each with the index of its endpoint.
pub struct Ring(Box<[(u32, u32)]>);

impl Ring {
    /// A ring of endpoints with these names. An endpoint's index is its position among them.
    pub fn new(names: impl Iterator<Item = String>) -> Self {
        let mut points: Vec<(u32, u32)> = (0..)
            .zip(names)
            .flat_map(|(index, name)| points_of(&name).map(move |hash| (hash, index)))
            .collect();
        points.sort_unstable();
        Self(points.into())
    }

    /// The index of the endpoint that a key leads to; none if there is no endpoint.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.find_if(key, |_| true)
    }

    /// The index of the first endpoint from there on for which `suits` is true; none if there is none.
    pub fn find_if(&self, key: &[u8], mut suits: impl FnMut(usize) -> bool) -> Option<usize> {
        let hash = crc32fast::hash(key);
        let at = self.0.partition_point(|(point, _)| *point < hash);
        let (before, from_there) = self.0.split_at(at);
        let mut indices = from_there.iter().chain(before).map(|(_, index)| *index as usize);
        indices.find(|&index| suits(index))
    }
}

/// A number from 0 to 1 that is fixed for a key and independent of its endpoint: of keys that are neighbours
/// on the ring, the numbers are far apart.
pub fn draw(key: &[u8]) -> f64 {
    /// The golden ratio of 2^32 (Knuth, "The art of computer programming", volume 3, 6.4).
    const FACTOR: u32 = 0x9e37_79b9;
    f64::from(crc32fast::hash(key).wrapping_mul(FACTOR)) / (f64::from(u32::MAX) + 1.0)
}

/// The points of an endpoint: each is the hash of the name and of the point before it.
fn points_of(name: &str) -> impl Iterator<Item = u32> + use<> {
    let mut begun = crc32fast::Hasher::new();
    begun.update(name.as_bytes());
    let mut previous = 0_u32;
    std::iter::repeat_with(move || {
        let mut hasher = begun.clone();
        hasher.update(&previous.to_le_bytes());
        previous = hasher.finalize();
        previous
    })
    .take(POINTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(endpoints: &[u8]) -> Ring {
        Ring::new(endpoints.iter().map(|last| format!("10.0.0.{last}:80")))
    }

    fn keys() -> impl Iterator<Item = String> {
        (0..10_000).map(|number| format!("key-{number}"))
    }

    #[test]
    fn each_endpoint_has_about_its_share() {
        let ring = ring(&[1, 2, 3, 4]);
        let mut counts = [0; 4];
        keys().for_each(|key| counts[ring.find(key.as_bytes()).unwrap()] += 1);
        assert!(counts.iter().all(|count| (1_900..3_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn only_the_keys_of_an_endpoint_that_is_removed_move() {
        let (all, fewer) = (ring(&[1, 2, 3, 4]), ring(&[1, 2, 3]));
        for key in keys() {
            let (before, after) = (all.find(key.as_bytes()).unwrap(), fewer.find(key.as_bytes()).unwrap());
            assert!(before == 3 || before == after, "{key}");
        }
    }

    #[test]
    fn the_keys_of_an_endpoint_that_does_not_suit_go_where_they_would_without_it() {
        let (all, fewer) = (ring(&[1, 2, 3, 4]), ring(&[1, 2, 3]));
        for key in keys() {
            assert_eq!(all.find_if(key.as_bytes(), |index| index != 3), fewer.find(key.as_bytes()), "{key}");
        }
        assert_eq!(all.find_if(b"key", |_| false), None);
    }

    #[test]
    fn of_each_endpoint_every_share_of_the_keys_can_be_drawn() {
        let ring = ring(&[1, 2, 3, 4]);
        for share in [0.1, 0.5, 0.9] {
            let of_last = || keys().filter(|key| ring.find(key.as_bytes()) == Some(3));
            let drawn = of_last().filter(|key| draw(key.as_bytes()) < share).count() as f64;
            let expected = of_last().count() as f64 * share;
            assert!((drawn / expected - 1.0).abs() < 0.15, "{share}: {drawn} of {expected}");
        }
    }

    #[test]
    fn without_endpoints_nothing_is_found() {
        assert_eq!(ring(&[]).find(b"key"), None);
    }
}
