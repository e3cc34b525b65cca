//! Clients whose behaviour is far off the others'.

use std::num::NonZeroU32;
use std::time::Duration;

use model::{AbuseMode, MinRate};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "abuse", Location, "watch", Supported(|s, v| set(&mut s.abuse.mode, mode(v))),
        "Clients that are far off the others: `watch` finds and tells of them, `enforce` slows and then refuses their requests, `off` does not count requests.";
}

/// Time for which a client may be slower than the least rate at first, unless the key says otherwise.
const RATE_GRACE: Duration = Duration::from_secs(10);

/// Settings of what is done about such clients.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) mode: AbuseMode,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.abuse = settings.mode;
}

pub(in crate::translate) fn mode(text: &str) -> Parsed<AbuseMode> {
    match text.trim() {
        "off" => Ok(AbuseMode::Off),
        "watch" => Ok(AbuseMode::Watch),
        "enforce" => Ok(AbuseMode::Enforce),
        _ => Err(format!("{text:?} is none of \"watch\", \"enforce\" and \"off\"")),
    }
}

/// A whole number, of which 0 is no bound.
pub(in crate::translate) fn bound(text: &str) -> Parsed<Option<NonZeroU32>> {
    value::number(text.trim()).map(NonZeroU32::new)
}

/// Bytes a second, of which 0 is no bound, and after a colon the grace: `240`, `1k:5s`.
pub(in crate::translate) fn rate(text: &str) -> Parsed<Option<MinRate>> {
    let (bytes, grace) = text.split_once(':').map_or((text, None), |(bytes, grace)| (bytes, Some(grace)));
    let grace = grace.map_or(Ok(RATE_GRACE), |grace| value::duration(grace.trim()))?;
    let bytes = u32::try_from(value::size(bytes.trim())?);
    let bytes = bytes.map_err(|_| format!("{text:?} is more than 4 GB a second"))?;
    Ok(NonZeroU32::new(bytes).map(|bytes| MinRate { bytes, grace }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_modes_and_nothing_is_no_bound() {
        let modes = ["off", " watch", "enforce"].map(mode);
        assert_eq!(modes, [Ok(AbuseMode::Off), Ok(AbuseMode::Watch), Ok(AbuseMode::Enforce)]);
        assert!(mode("true").is_err() && mode("").is_err());
        assert_eq!((bound("0"), bound(" 20")), (Ok(None), Ok(NonZeroU32::new(20))));
        let told = |text| rate(text).map(|rate| rate.map(|rate| (rate.bytes.get(), rate.grace.as_secs())));
        assert_eq!(
            (told("0"), told("1k"), told("240:5s")),
            (Ok(None), Ok(Some((1024, 10))), Ok(Some((240, 5))))
        );
        assert!(bound("-1").is_err() && bound("many").is_err());
        assert!(["5g", "x", "240:", "240:soon"].iter().all(|text| rate(text).is_err()));
    }
}
