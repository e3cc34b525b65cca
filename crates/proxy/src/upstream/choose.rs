//! Which of a route's backends takes a request.

use model::{Backends, ClusterId, Split};

use crate::random::Random;

/// The cluster that takes a request, by the weights of the backends.
pub(crate) fn choose(backends: &Backends, random: &Random) -> ClusterId {
    match backends {
        Backends::One(cluster) => *cluster,
        Backends::Split(split) => by_weight(split, random.next()),
    }
}

fn by_weight(split: &Split, number: u64) -> ClusterId {
    let mut rest = number % split.weight();
    let chosen = split.backends().iter().find(|backend| match rest.checked_sub(backend.weight.into()) {
        Some(below) => {
            rest = below;
            false
        }
        None => true,
    });
    chosen.expect("the weights add up to more than the rest").cluster
}

#[cfg(test)]
mod tests {
    use model::Backend;

    use super::*;

    #[test]
    fn each_takes_its_share_and_zero_takes_nothing() {
        let weights = [0, 3, 0, 1, 0];
        let backend = |(id, weight)| Backend { cluster: ClusterId(id), weight };
        let split = Split::new((0..).zip(weights).map(backend).collect()).unwrap();
        let chosen: Vec<u32> = (0..8).map(|number| by_weight(&split, number).0).collect();
        assert_eq!(chosen, [1, 1, 1, 3, 1, 1, 1, 3]);
    }
}
