//! Responses of endpoints: the length of their heads, the transfer of their bodies, and the rewriting of
//! locations and cookies.

use std::sync::Arc;

use model::{Pace, Replacements, ResponsePolicy, Substitution};

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

/// The reason why these settings have no effect, also in the `ConfigMap`.
pub(in crate::translate) const ALL_MAY_BE_BUSY: &str =
    "all that is read ahead of a client may be on its way to it";
pub(in crate::translate) const IN_MEMORY: &str = "responses are read ahead into memory only";

annotations! {
    "limit-rate", Location, "0", Supported(|s, v| set(&mut s.responses.rate_kib, value::number(v))),
        "Speed of a response in KiB/s, with `proxy-buffering` on; 0 for no limit.";
    "limit-rate-after", Location, "0", Supported(|s, v| set(&mut s.responses.rate_after_kib, value::number(v))),
        "KiB of a response before `limit-rate` applies.";
    "proxy-buffer-size", Location, "4k", Supported(|s, v| set(&mut s.responses.head_bytes_max, head_bytes(v))),
        "Longest response head; a longer one becomes 502.";
    "proxy-buffering", Location, "off", Supported(|s, v| set(&mut s.responses.reads_ahead, value::on_off(v))),
        "Reads responses ahead of clients that are slow.";
    "proxy-buffers-number", Location, "4", Supported(|s, v| set(&mut s.responses.buffers, value::number(v))),
        "How much is read ahead, in units of `proxy-buffer-size`.";
    "proxy-busy-buffers-size", Location, "", Ignored(ALL_MAY_BE_BUSY),
        "Buffers that may be busy sending.";
    "proxy-cookie-domain", Location, "off", Supported(|s, v| set(&mut s.responses.cookie_domain, cookie_domain(v))),
        "Rewrites the Domain of cookies: `FROM TO`.", Medium;
    "proxy-cookie-path", Location, "off", Supported(|s, v| set(&mut s.responses.cookie_path, cookie_path(v))),
        "Rewrites the beginning of the Path of cookies: `FROM TO`.", Medium;
    "proxy-max-temp-file-size", Location, "1024m", Ignored(IN_MEMORY),
        "Disk space for a response.";
    "proxy-redirect-from", Location, "off", Supported(|s, v| set(&mut s.responses.redirect_from, redirect_part(v))),
        "Beginning of Location, and of the URL in Refresh, that is replaced.", Medium;
    "proxy-redirect-to", Location, "off", Supported(|s, v| set(&mut s.responses.redirect_to, redirect_part(v))),
        "What replaces it.", Medium;
}

/// Settings of responses.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) head_bytes_max: u64,
    pub(in crate::translate) reads_ahead: bool,
    pub(in crate::translate) buffers: u64,
    /// Rate in KiB per second; 0 and negative numbers mean no limit.
    pub(in crate::translate) rate_kib: i64,
    pub(in crate::translate) rate_after_kib: i64,
    pub(in crate::translate) redirect_from: String,
    pub(in crate::translate) redirect_to: String,
    pub(in crate::translate) cookie_domain: Option<Substitution>,
    pub(in crate::translate) cookie_path: Option<Substitution>,
    /// Replacements of texts, from snippets.
    pub(in crate::translate) replacements: Option<Arc<Replacements>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            head_bytes_max: 4 << 10,
            reads_ahead: false,
            buffers: 4,
            rate_kib: 0,
            rate_after_kib: 0,
            redirect_from: OFF.to_owned(),
            redirect_to: OFF.to_owned(),
            cookie_domain: None,
            cookie_path: None,
            replacements: None,
        }
    }
}

const OFF: &str = "off";
const DEFAULT: &str = "default";

impl Settings {
    /// The rewriting of `Location`. "proxy-redirect-from/-to work only as a pair (`off` and `default` alone
    /// change nothing here)."
    fn location(&self) -> Option<Substitution> {
        let Self { redirect_from: from, redirect_to: to, .. } = self;
        let is_pair = ![OFF, DEFAULT].contains(&from.as_str()) && to != OFF;
        is_pair.then(|| Substitution { from: from.clone(), to: to.clone() })
    }

    /// The rate limit. "limit-rate in KiB/s after limit-rate-after KiB (with proxy-buffering on)."
    fn pace(&self) -> Option<Pace> {
        let bytes = |kib: i64| u64::try_from(kib).unwrap_or(0).saturating_mul(1024);
        let (bytes_per_second, after_bytes) = (bytes(self.rate_kib), bytes(self.rate_after_kib));
        (self.reads_ahead && bytes_per_second > 0).then_some(Pace { bytes_per_second, after_bytes })
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports annotations that have an effect only beside another one, which is missing.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let asker = context.asker;
        let is_off = |part: &str| part == OFF || part == DEFAULT;
        let (lacks_from, lacks_to) = (is_off(&self.redirect_from), self.redirect_to == OFF);
        let without = [
            ("limit-rate", !self.reads_ahead && self.rate_kib > 0, "proxy-buffering", ": \"on\""),
            ("proxy-redirect-from", lacks_to && !lacks_from, "proxy-redirect-to", ""),
            ("proxy-redirect-to", lacks_from && !lacks_to, "proxy-redirect-from", ""),
        ];
        for (name, _, other, value) in without.into_iter().filter(|(_, is_alone, ..)| *is_alone) {
            let message =
                format!("{} has no effect without {}{value}", asker.called(name), asker.short(other));
            findings.problems.extend(context.without_effect(name, message));
        }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let ahead = settings.buffers.saturating_mul(settings.head_bytes_max);
    let policy = ResponsePolicy {
        read_ahead_bytes: if settings.reads_ahead { ahead } else { 0 },
        pace: settings.pace(),
        location: settings.location(),
        cookie_domain: settings.cookie_domain.clone(),
        cookie_path: settings.cookie_path.clone(),
        compression: None,
        replacements: settings.replacements.clone(),
    };
    route.transfer.response_head_bytes_max = settings.head_bytes_max;
    route.transfer.response = Some(policy).filter(|it| *it != ResponsePolicy::default()).map(Box::new);
}

/// Parses the length of a head. 0 is invalid, because no head is that short.
pub(in crate::translate) fn head_bytes(text: &str) -> Parsed<u64> {
    value::size(text).ok().filter(|&bytes| bytes > 0).ok_or_else(|| format!("{text:?} is no size above 0"))
}

pub(in crate::translate) fn redirect_part(text: &str) -> Parsed<String> {
    value::characters(text, value::URL)
}

pub(in crate::translate) fn cookie_domain(text: &str) -> Parsed<Option<Substitution>> {
    substitution(text, value::NAME)
}

pub(in crate::translate) fn cookie_path(text: &str) -> Parsed<Option<Substitution>> {
    substitution(text, value::URL)
}

/// Parses `off`, or two words.
fn substitution(text: &str, others: &str) -> Parsed<Option<Substitution>> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.as_slice() {
        [OFF] => Ok(None),
        [from, to] => {
            let (from, to) = (value::characters(from, others)?, value::characters(to, others)?);
            Ok(Some(Substitution { from, to }))
        }
        _ => Err(format!("{text:?} is neither \"off\" nor two words")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_translated_by_a_pair_only() {
        let location = |from: &str, to: &str| {
            let settings = Settings {
                redirect_from: from.to_owned(),
                redirect_to: to.to_owned(),
                ..Settings::default()
            };
            settings.location().is_some()
        };
        assert!(location("http://a/", "/"));
        for (from, to) in [("off", "off"), ("default", "/"), ("off", "/"), ("http://a/", "off")] {
            assert!(!location(from, to), "{from} {to}");
        }
    }

    #[test]
    fn a_pace_needs_a_rate_and_buffering() {
        let settings = Settings { rate_kib: 2, rate_after_kib: -1, reads_ahead: true, ..Settings::default() };
        assert_eq!(settings.pace(), Some(Pace { bytes_per_second: 2048, after_bytes: 0 }));
        assert_eq!(Settings { rate_kib: -2, ..settings.clone() }.pace(), None);
        assert_eq!(Settings { reads_ahead: false, ..settings }.pace(), None);
    }

    #[test]
    fn cookies_have_two_words_of_their_own_characters() {
        let words = |from: &str, to: &str| Some(Substitution { from: from.to_owned(), to: to.to_owned() });
        assert_eq!(cookie_path("/a  /b?"), Ok(words("/a", "/b?")));
        assert_eq!((cookie_path("off"), cookie_domain(" off ")), (Ok(None), Ok(None)));
        assert_eq!(cookie_domain("a.test b.test"), Ok(words("a.test", "b.test")));
        for text in ["", "a", "a b c", "a b;", "a b,c"] {
            assert!(cookie_domain(text).is_err(), "{text}");
        }
    }
}
