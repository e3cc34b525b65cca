//! The share of requests that are mirrored (`forebay.io/mirror-share`).

use model::Share;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::translate::value::{Parsed, set};

annotations! {
    "mirror-share", Ingress, "100%", Supported(|s, v| set(&mut s.mirror.share, share(v))),
        "Share of the requests that are copied to `mirror-target`: `5%`, `0.1%`.";
}

/// Decimal places that a share may have.
const PLACES: usize = 3;
/// Parts of the whole: thousandths of a percent.
pub(crate) const WHOLE: u32 = 100_000;

fn share(text: &str) -> Parsed<Share> {
    Ok(match parts(text)? {
        WHOLE => Share::ALL,
        parts => Share::new(parts, WHOLE),
    })
}

/// The parts of a share in [`WHOLE`].
pub(crate) fn parts(text: &str) -> Parsed<u32> {
    let invalid = || format!("{text:?} is no share from 0% to 100%, such as 5% or 0.1%");
    let number = text.trim().strip_suffix('%').ok_or_else(invalid)?.trim();
    let (whole, places) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(places) || whole.len() > 3 || places.len() > PLACES {
        return Err(invalid());
    }
    let parts = format!("{whole}{places:0<PLACES$}").parse::<u32>().map_err(|_| invalid())?;
    if parts <= WHOLE { Ok(parts) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents() {
        assert_eq!(share("100%"), Ok(Share::ALL));
        assert_eq!(share(" 5 %"), Ok(Share::new(5000, 100_000)));
        assert_eq!(share("0.1%"), Ok(Share::new(100, 100_000)));
        for text in ["5", "101%", "100.1%", "-1%", "NaN%", "%", ".5%", "5.%", "0.0001%", "five%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
