//! The order of Ingresses by age.

use std::cmp::Ordering;

use crate::objects::{Ingress, Sourced};

/// The indices of the Ingresses, the oldest first.
///
/// "Ingresses are sorted by creationTimestamp, ties by `namespace/name` descending." Without creation times,
/// as in most files, they stay in the order of appearance. An Ingress with a creation time is older than one
/// without.
pub(crate) fn by_age<'a>(ingresses: impl Iterator<Item = &'a Sourced<Ingress>>) -> Vec<u32> {
    let mut order: Vec<_> = (0..).zip(ingresses).map(|(place, it)| (birth(it), it, place)).collect();
    order.sort_by(|(a_birth, a, _), (b_birth, b, _)| compare((*a_birth, a), (*b_birth, b)));
    order.into_iter().map(|(_, _, place)| place).collect()
}

fn compare(a: (Option<u64>, &Sourced<Ingress>), b: (Option<u64>, &Sourced<Ingress>)) -> Ordering {
    match (a.0, b.0) {
        (Some(older), Some(newer)) => older.cmp(&newer).then_with(|| path(b.1).cmp(path(a.1))),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Whether an Ingress is older than another one. Of two without creation times neither is.
pub(super) fn is_older(one: &Sourced<Ingress>, other: &Sourced<Ingress>) -> bool {
    compare((birth(one), one), (birth(other), other)).is_lt()
}

/// The digits of the creation time as a number, which compares as the time does: RFC 3339 in UTC with whole
/// seconds has 14 digits.
pub(super) fn birth(ingress: &Sourced<Ingress>) -> Option<u64> {
    let time = ingress.metadata.created()?;
    let digits = time.bytes().filter(u8::is_ascii_digit).take(14);
    Some(digits.fold(0, |number, digit| 10 * number + u64::from(digit - b'0')))
}

/// The text `namespace/name`, which ingress-nginx compares: `a-b/c` comes before `a/c`, because `-` comes
/// before `/`.
fn path(ingress: &Sourced<Ingress>) -> impl Iterator<Item = u8> {
    ingress.namespace().bytes().chain([b'/']).chain(ingress.name().bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::{IngressSpec, IngressStatus, Map, Metadata, Origin};

    fn ingress(namespace: &str, name: &str, created: Option<&str>) -> Sourced<Ingress> {
        let mut metadata = Metadata::labelled(name.into(), Map::default()).created_at(created);
        metadata.namespace = Some(namespace.into());
        let object = Ingress { metadata, spec: IngressSpec::default(), status: IngressStatus::default() };
        Sourced { origin: Origin::default(), object }
    }

    fn sorted(ingresses: &[Sourced<Ingress>]) -> Vec<String> {
        let order = by_age(ingresses.iter());
        order.iter().map(|&place| ingresses[place as usize].key().to_string()).collect()
    }

    const OLD: Option<&str> = Some("2024-01-01T00:00:00Z");
    const NEW: Option<&str> = Some("2024-01-02T00:00:00Z");

    #[test]
    fn the_oldest_comes_first() {
        assert_eq!(sorted(&[ingress("a", "x", NEW), ingress("b", "y", OLD)]), ["b/y", "a/x"]);
    }

    #[test]
    fn ties_go_by_name_descending() {
        let same_age = [ingress("a", "x", OLD), ingress("a", "z", OLD), ingress("a-b", "x", OLD)];
        assert_eq!(sorted(&same_age), ["a/z", "a/x", "a-b/x"]);
    }

    #[test]
    fn without_ages_the_order_of_appearance_stays() {
        let files = [ingress("b", "x", None), ingress("c", "x", None), ingress("a", "x", None)];
        assert_eq!(sorted(&files), ["b/x", "c/x", "a/x"]);
        assert_eq!(sorted(&[ingress("a", "x", None), ingress("b", "y", NEW)]), ["b/y", "a/x"]);
    }

    proptest! {
        /// If the comparison were not a total order, sorting could panic, or give another result for another
        /// algorithm.
        #[test]
        fn the_order_is_total(picks in proptest::collection::vec((0..2, 0..2, 0..3), 3)) {
            let make = |(namespace, name, age): &(i32, i32, i32)| {
                let created = [None, OLD, NEW][usize::try_from(*age).unwrap()];
                ingress(&format!("ns{namespace}"), &format!("n{name}"), created)
            };
            let [a, b, c] = [make(&picks[0]), make(&picks[1]), make(&picks[2])];
            let compare = |a, b| compare((birth(a), a), (birth(b), b));
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
