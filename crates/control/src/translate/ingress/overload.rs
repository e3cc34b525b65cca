//! Handling of overload, when more requests arrive than endpoints can answer: `forebay.io/overload` and the
//! annotations that belong to it.

use std::num::NonZeroU32;
use std::sync::Arc;

use model::Overload;
use model::overload::{Concurrency, Mode, Priority};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "concurrency", Location, "auto", Supported(|s, v| s.overload.set(|overload| set(&mut overload.concurrency, concurrency(v)))),
        "Requests in flight per endpoint: `auto` (found from its latency), a number, or `off`.";
    "ejection", Location, "on", Supported(|s, v| s.overload.set(|overload| set(&mut overload.ejection, value::on_off(v)))),
        "Ejects endpoints that fail or are slower than the others, under `enforce`: `on` or `off`.";
    "overload", Location, "watch", Supported(|s, v| s.overload.set(|overload| set(&mut overload.mode, mode(v)))),
        "Limits for overloaded endpoints: `watch` computes and reports them, `enforce` applies them, `off` does neither.";
    "priority", Location, "normal", Supported(|s, v| set(&mut s.overload.priority, priority(v))),
        "Priority of requests when not all can be served: `critical`, `normal` or `sheddable`.";
    "queue-timeout", Location, "1s", Supported(|s, v| s.overload.set(|overload| set(&mut overload.queue_timeout, value::duration(v)))),
        "How long a request waits for a slot: seconds, or `500ms`; 0 to refuse it at once.";
    "retry-budget", Location, "20%", Supported(|s, v| s.overload.set(|overload| set(&mut overload.retry_budget, retry_budget(v)))),
        "Share of a Service's requests that may be retries, under `enforce`: a percentage such as `20%`, or `off`.";
    "slow-start", Location, "0", Supported(|s, v| s.overload.set(|overload| set(&mut overload.slow_start, value::duration(v)))),
        "How long a new Pod's share grows from a tenth to a full one, under `enforce`: seconds, or `500ms`; 0 for a full one at once.";
}

/// Settings for overload. Ingresses without settings of their own share those of the `ConfigMap`.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    shared: Arc<Overload>,
    /// The priority of requests. It also applies if overload of endpoints is not handled, because Forebay
    /// itself may lack resources.
    pub(in crate::translate) priority: Priority,
}

impl Settings {
    /// Applies a value. The settings stay shared after an invalid value, and after one that changes nothing.
    pub(in crate::translate) fn set(&mut self, take: impl FnOnce(&mut Overload) -> Applied) -> Applied {
        let mut changed = Overload::clone(&self.shared);
        let remark = take(&mut changed)?;
        if changed != *self.shared {
            self.shared = Arc::new(changed);
        }
        Ok(remark)
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let is_off = settings.shared.mode == Mode::Off;
    route.overload = (!is_off).then(|| Arc::clone(&settings.shared));
    route.priority = settings.priority;
}

pub(in crate::translate) fn mode(text: &str) -> Parsed<Mode> {
    match text.trim() {
        "off" => Ok(Mode::Off),
        "watch" => Ok(Mode::Watch),
        "enforce" => Ok(Mode::Enforce),
        _ => Err(format!("{text:?} is none of watch, enforce and off")),
    }
}

pub(in crate::translate) fn priority(text: &str) -> Parsed<Priority> {
    match text.trim() {
        "critical" => Ok(Priority::Critical),
        "normal" => Ok(Priority::Normal),
        "sheddable" => Ok(Priority::Sheddable),
        _ => Err(format!("{text:?} is none of critical, normal and sheddable")),
    }
}

/// Parses the name of a header; none for an empty text.
pub(in crate::translate) fn priority_header(text: &str) -> Parsed<Option<Box<str>>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    value::characters(text, "-_").map(|name| Some(name.into()))
}

pub(in crate::translate) fn concurrency(text: &str) -> Parsed<Concurrency> {
    match text.trim() {
        "auto" => Ok(Concurrency::Auto),
        "off" => Ok(Concurrency::Off),
        number => match number.parse::<NonZeroU32>() {
            Ok(number) => Ok(Concurrency::Fixed(number)),
            Err(_) => Err(format!("{text:?} is neither auto, nor off, nor a whole number above 0")),
        },
    }
}

/// Parses a percentage; none for `off`.
pub(in crate::translate) fn retry_budget(text: &str) -> Parsed<Option<u8>> {
    let text = text.trim();
    if text == "off" {
        return Ok(None);
    }
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(percent @ 0..=100) => Ok(Some(percent)),
        _ => Err(format!("{text:?} is neither off nor a percentage from 0% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_budget_is_a_percentage_or_off() {
        assert_eq!((retry_budget(" 20% "), retry_budget("off")), (Ok(Some(20)), Ok(None)));
        assert_eq!((retry_budget("0%"), retry_budget("100%")), (Ok(Some(0)), Ok(Some(100))));
        for text in ["20", "101%", "-1%", "+5%", "%", "", "0.2", "1.5%", "300%", "on"] {
            assert!(retry_budget(text).is_err(), "{text}");
        }
    }

    #[test]
    fn concurrency_is_a_number_or_a_word() {
        assert_eq!(
            (concurrency("auto"), concurrency(" off ")),
            (Ok(Concurrency::Auto), Ok(Concurrency::Off))
        );
        assert_eq!(concurrency("8"), Ok(Concurrency::Fixed(NonZeroU32::new(8).unwrap())));
        for text in ["0", "-1", "", "many", "1.5", "4294967296"] {
            assert!(concurrency(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_changes_nothing_stays_shared() {
        let all = Settings::default();
        let mut one = all.clone();
        one.set(|overload| set(&mut overload.mode, mode("watch"))).unwrap();
        assert!(one.set(|overload| set(&mut overload.mode, mode("on"))).is_err());
        assert!(Arc::ptr_eq(&one.shared, &all.shared));
        one.set(|overload| set(&mut overload.mode, mode("enforce"))).unwrap();
        assert_eq!((one.shared.mode, all.shared.mode), (Mode::Enforce, Mode::Watch));
    }
}
