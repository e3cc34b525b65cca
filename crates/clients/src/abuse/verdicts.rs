//! The present verdicts: an immutable table, which is made after a window for all workers.

use super::key::ClientKey;

/// The verdict on a client whose behaviour is far off the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its requests are delayed.
    Slow,
    /// Its requests are refused.
    Refuse {
        /// End of the refusal, in seconds since the clock's start.
        until_s: u32,
        /// Whether its connections are closed as soon as they are accepted.
        closes_connections: bool,
    },
}

/// The verdicts, in a hash table with open addressing: a lookup reads one slot, seldom a few, however many
/// verdicts there are.
pub(super) struct Verdicts {
    slots: Box<[Slot]>,
    len: usize,
    /// The points within a window of one worker from which on a client is noticed.
    pub(super) threshold: u16,
}

#[derive(Clone, Copy)]
struct Slot {
    client: ClientKey,
    until_s: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Slow,
    Refuse,
    Close,
}

const EMPTY: Slot = Slot { client: ClientKey::NOBODY, until_s: 0, kind: Kind::Slow };

impl Verdicts {
    /// A table of `count` clients and their verdicts; `hash` hashes a client.
    pub(super) fn new(
        count: usize,
        held: impl Iterator<Item = (ClientKey, Verdict)>,
        threshold: u16,
        hash: impl Fn(ClientKey) -> u64,
    ) -> Self {
        // A fifth of the slots at least is empty, which ends each probe sequence.
        let len = if count == 0 { 0 } else { (count + count / 4 + 1).next_power_of_two() };
        let mut slots = vec![EMPTY; len].into_boxed_slice();
        for (client, verdict) in held.take(count) {
            let (kind, until_s) = match verdict {
                Verdict::Slow => (Kind::Slow, 0),
                Verdict::Refuse { until_s, closes_connections: false } => (Kind::Refuse, until_s),
                Verdict::Refuse { until_s, closes_connections: true } => (Kind::Close, until_s),
            };
            let mut at = hash(client) as usize & (len - 1);
            while slots[at].client != ClientKey::NOBODY {
                at = (at + 1) & (len - 1);
            }
            slots[at] = Slot { client, until_s, kind };
        }
        Self { slots, len: count, threshold }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The verdict on a client with this hash.
    pub(super) fn get(&self, client: ClientKey, hash: u64) -> Option<Verdict> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // The sequence ends at an empty slot.
        while self.slots[at].client != ClientKey::NOBODY {
            let Slot { client: found, until_s, kind } = self.slots[at];
            if found == client {
                return Some(match kind {
                    Kind::Slow => Verdict::Slow,
                    Kind::Refuse => Verdict::Refuse { until_s, closes_connections: false },
                    Kind::Close => Verdict::Refuse { until_s, closes_connections: true },
                });
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_verdict_and_others_have_none() {
        let client = |number: u32| ClientKey::of(std::net::Ipv4Addr::from_bits(number + 1).into());
        // Many clients have the same hash.
        let hash = |client: ClientKey| client.bits() % 7;
        for count in [0, 1, 2, 100] {
            let verdict = |number: u32| match number % 3 {
                0 => Verdict::Slow,
                kind => Verdict::Refuse { until_s: number, closes_connections: kind == 2 },
            };
            let held: Vec<_> = (0..count).map(|number| (client(number), verdict(number))).collect();
            let verdicts = Verdicts::new(held.len(), held.iter().copied(), 4, hash);
            assert_eq!(verdicts.is_empty(), count == 0);
            for number in 0..count + 20 {
                let expected = (number < count).then(|| verdict(number));
                let found = verdicts.get(client(number), hash(client(number)));
                assert_eq!(found, expected, "{number} of {count}");
            }
        }
    }
}
