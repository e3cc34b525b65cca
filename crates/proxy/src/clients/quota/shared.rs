//! What one replica knows of the counts of the others, for one window of one client.
//!
//! Never in here: how they tell each other, which is `replicas`'.

use std::time::Duration;

use super::window::Window;
use crate::clock::Moment;
use crate::limits::{QUOTA_TELL_INTERVAL, REPLICAS_MAX};

/// The own count, as the others are told, and what is known of theirs.
pub(super) struct SharedCount {
    /// All requests that were admitted here, ever: what the others miss, the next number makes good.
    pub(super) own: u32,
    /// Those of them that can still be in the window.
    pub(super) recent: Window,
    /// The number that the others were told last.
    pub(super) told: u32,
    /// It is among those that the others are told of next time.
    pub(super) is_due: bool,
    heard: Vec<Heard>,
}

/// What another replica has said.
struct Heard {
    replica: u64,
    /// All that it had admitted.
    count: u32,
    /// How fast it admits, in requests a second.
    pace: f64,
    at: Moment,
}

impl SharedCount {
    pub(super) fn new(now: Moment) -> Self {
        Self { own: 0, recent: Window::new(now), told: 0, is_due: false, heard: Vec::new() }
    }

    /// Takes what another replica says: all that it has admitted, and how much of that can still be in the window. Returns what is new.
    ///
    /// Of one that has not been heard before, that has begun anew, or that has not been heard for long, what is recent is new.
    pub(super) fn hear(&mut self, replica: u64, count: u32, recent: u32, now: Moment) -> u32 {
        let Some(known) = self.heard.iter_mut().find(|known| known.replica == replica) else {
            self.make_room();
            let pace = f64::from(recent) / QUOTA_TELL_INTERVAL.as_secs_f64();
            self.heard.push(Heard { replica, count, pace, at: now });
            return recent;
        };
        let new = count.wrapping_sub(known.count).min(recent);
        let time = now.since(known.at).clamp(QUOTA_TELL_INTERVAL / 2, QUOTA_TELL_INTERVAL * 2);
        let pace = f64::from(new) / time.as_secs_f64();
        *known = Heard { replica, count, pace, at: now };
        new
    }

    /// Forgets who has been silent for longest, where there are too many.
    fn make_room(&mut self) {
        if self.heard.len() >= REPLICAS_MAX
            && let Some(oldest) = (0..self.heard.len()).min_by_key(|&at| self.heard[at].at)
        {
            self.heard.swap_remove(oldest);
        }
    }

    /// What the others have probably admitted since they were heard, going on as they did: without it each replica would give away
    /// what is free on its own, again and again until it hears of the others.
    pub(super) fn ahead(&self, now: Moment) -> f64 {
        let of_one = |heard: &Heard| {
            let silent = now.since(heard.at);
            let is_there = silent < SILENCE_MAX;
            if is_there { heard.pace * silent.min(QUOTA_TELL_INTERVAL * 2).as_secs_f64() } else { 0.0 }
        };
        self.heard.iter().map(of_one).sum()
    }
}

/// Silence after which another replica does not count as one that admits requests.
const SILENCE_MAX: Duration = QUOTA_TELL_INTERVAL.saturating_mul(4);
