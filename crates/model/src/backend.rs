use crate::{Canary, ClusterId};

/// Where the requests of a route go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backends {
    /// All to one cluster.
    One(ClusterId),
    /// To several, each of which takes its share.
    Split(Split),
    /// To a mainline, or to its canary. On the heap, since few routes have one.
    Canary(Box<Canary>),
}

/// Several backends, at least one of which has a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split(Box<[Backend]>);

/// One of several places where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Whose endpoints take them.
    pub cluster: ClusterId,
    /// Its share is its weight among the sum of all weights; zero takes nothing. It keeps its share when it has no endpoints: those
    /// requests are answered with an error, as the Gateway API asks for.
    pub weight: u32,
}

/// Backends of which none takes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no backend has a weight")]
pub struct NoWeight;

impl Backends {
    /// The cluster that takes all requests, if it is one.
    pub fn only(&self) -> Option<ClusterId> {
        match self {
            Self::One(cluster) => Some(*cluster),
            Self::Split(_) | Self::Canary(_) => None,
        }
    }

    /// All clusters that requests may go to.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let (one, of_split) = match self {
            Self::One(cluster) => ([Some(*cluster), None], [].as_slice()),
            Self::Split(split) => ([None, None], split.backends()),
            Self::Canary(canary) => ([Some(canary.mainline), Some(canary.cluster)], [].as_slice()),
        };
        one.into_iter().flatten().chain(of_split.iter().map(|backend| backend.cluster))
    }
}

impl Split {
    /// Splits requests between backends.
    ///
    /// # Errors
    ///
    /// When none of them has a weight.
    pub fn new(backends: Vec<Backend>) -> Result<Self, NoWeight> {
        let split = Self(backends.into());
        if split.weight() == 0 { Err(NoWeight) } else { Ok(split) }
    }

    /// The backends.
    pub fn backends(&self) -> &[Backend] {
        &self.0
    }

    /// The sum of all weights, which is not zero.
    pub fn weight(&self) -> u64 {
        self.0.iter().map(|backend| u64::from(backend.weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_without_weights_is_refused() {
        let backend = |weight| Backend { cluster: ClusterId(0), weight };
        assert_eq!(Split::new(Vec::new()), Err(NoWeight));
        assert_eq!(Split::new(vec![backend(0), backend(0)]), Err(NoWeight));
        assert_eq!(Split::new(vec![backend(u32::MAX), backend(1)]).unwrap().weight(), 1 << 32);
    }
}
