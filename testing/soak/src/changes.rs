//! Changes of the configuration, so many a second: hosts come and go, annotations and settings change,
//! Secrets are renewed, some objects are wrong. No answer may be different for them, but those of the hosts
//! that come and go.
//!
//! Must not be in here: endpoints that are switched off (`disturb`).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use adversary::Random;
use testkit::Certificate;

use crate::api_server::Objects;
use crate::lock::locked;
use crate::objects::{self, CANARY, EXTRAS, HOSTS};
use crate::shared::{Extra, Shared};

/// Makes so many changes a second until the soak ends; once a second the beacon tells how many there were.
/// In a quiet run no object has a mistake.
pub(crate) fn run(shared: &Arc<Shared>, objects: &Objects, certificates: &[Certificate], rate: u32) {
    let mut random = Random::of_case(shared.seed, "changes", 0);
    let begun = Instant::now();
    for number in 0_u32.. {
        if !shared.is_running() {
            return;
        }
        change(shared, objects, certificates, number.into(), &mut random);
        if number.is_multiple_of(rate) {
            shared.effect.send(number.into());
            objects.apply(objects::beacon(number.into()));
        }
        shared.count("changes");
        let due = begun + Duration::from_secs(1) / rate * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn change(
    shared: &Shared,
    objects: &Objects,
    certificates: &[Certificate],
    change: u64,
    random: &mut Random,
) {
    match random.below(20) {
        0..8 => toggle(shared, objects, random.below(EXTRAS), change),
        8..14 => {
            let host = random.pick(&HOSTS);
            objects.apply(objects::ingress(host, random.below(60) as u32));
        }
        14 => objects.apply(objects::secret(random.pick(certificates))),
        15 => objects.apply(objects::canary_ingress(40 + random.below(21) as u32)),
        16 => objects::settings_with(900 + random.below(200) as u32)
            .into_iter()
            .for_each(|object| objects.apply(object)),
        17 if !shared.is_quiet => objects.apply(objects::broken_ingress(random.number())),
        18 => objects.delete(&objects::broken_ingress(random.number())),
        // An object is written anew without a change, as controllers do.
        _ => objects.apply(objects::ingress(CANARY, 0)),
    }
}

/// Makes a host come, or go.
fn toggle(shared: &Shared, objects: &Objects, number: usize, change: u64) {
    let mut extras = locked(&shared.extras);
    let was_there = extras.get(&number).is_some_and(|extra| extra.is_there);
    let object = objects::extra_ingress(number);
    if was_there {
        objects.delete(&object);
    } else {
        objects.apply(object);
    }
    extras.insert(number, Extra { is_there: !was_there, change });
}
