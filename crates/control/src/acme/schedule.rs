//! When something is due for a certificate, and at which authority.
//!
//! Never in here: IO, a clock. Times are seconds since 1970.

use super::entry::{AccountEntry, Entry, Failure};
use super::settings::Settings;
use crate::certificate::Pair;

/// Seconds until an authority is asked again after a failure, by the number of failures; the last one holds
/// for all further ones. Four failures within an hour: Let's Encrypt refuses a host after five. The second
/// attempt comes soon, since the authority may have looked during a restart.
const BACKOFF_S: [i64; 6] = [30, 300, 900, 2700, 8100, 21_600];

/// Longest time in seconds for which an authority's `Retry-After` is obeyed for a host.
const RETRY_AFTER_MAX_S: i64 = 7 * 86_400;

/// Longest time in seconds for which an overloaded authority is not asked for any host.
const ACCOUNT_PAUSE_MAX_S: i64 = 300;

/// Least time in seconds from the beginning of a certificate's validity to its renewal, whatever the
/// authority suggests: one that is always late with its suggestions must not be asked without end.
const RENEWED_AFTER_S: i64 = 6 * 3600;

/// Seconds in which orders are counted.
const HOUR_S: i64 = 3600;

/// Shortest and longest time in seconds until an authority is asked again when a certificate should be
/// renewed (RFC 9773 section 4.3.3).
const RENEWAL_INFO_S: (i64, i64) = (3600, 86_400);

/// The work that is done for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// An order is placed, or taken up again, at the authority with this number among those of the settings.
    Order(usize),
    /// The authority that has issued the certificate is asked when it should be renewed.
    AskRenewal,
}

/// The next work for a certificate, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: i64,
    pub(super) work: Work,
}

/// Decides on the next work. `account` finds what is stored of the account at a directory.
pub(super) fn next<'a>(
    entry: &Entry,
    pair: Option<&Pair>,
    settings: &Settings,
    account: impl Fn(&str) -> Option<&'a AccountEntry>,
    now: i64,
) -> Option<Due> {
    let free_at = |url: &str| {
        let failure = entry.state.failures.get(url).map_or(0, |failure| failure.until);
        let resumes = entry.state.order.as_ref().is_some_and(|order| order.directory == url);
        let of_account = account(url).map_or(0, |account| {
            let full = if resumes { 0 } else { full_until(account, settings.orders_per_hour, now) };
            account.until.max(full)
        });
        failure.max(of_account)
    };
    let times = settings.directories.iter().map(|directory| free_at(&directory.url)).enumerate();
    // The first authority that can be asked now; if there is none, the one that can be asked first.
    let (number, free) = times.min_by_key(|(number, free)| (*free.max(&now), *number))?;
    let needed = needed_at(entry, pair, settings);
    let order = Due { at: needed.max(free), work: Work::Order(number) };
    let ask = renewal_question_at(entry, pair, settings).map(|at| Due { at, work: Work::AskRenewal });
    Some(ask.filter(|ask| ask.at < order.at).unwrap_or(order))
}

/// The time from which a certificate is needed.
pub(super) fn needed_at(entry: &Entry, pair: Option<&Pair>, settings: &Settings) -> i64 {
    let Some(pair) = pair else { return 0 };
    if entry.state.order.is_some() {
        return 0;
    }
    let issuer = entry.state.issued_by.as_deref();
    if !settings.directories.iter().any(|directory| issuer == Some(&directory.url)) {
        // The authority has been replaced, as in the change from a staging environment to production.
        return 0;
    }
    let lifetime = (pair.not_after() - pair.not_before()).max(0);
    let usual = pair.not_after() - lifetime / 3;
    let latest = pair.not_after() - lifetime / 10;
    let suggested = entry.state.renewal.as_ref().and_then(|renewal| renewal.at);
    let suggested = suggested.map(|at| at.max(pair.not_before() + RENEWED_AFTER_S));
    suggested.unwrap_or(usual).min(latest)
}

fn renewal_question_at(entry: &Entry, pair: Option<&Pair>, settings: &Settings) -> Option<i64> {
    pair?;
    let issuer = entry.state.issued_by.as_deref()?;
    let is_configured = settings.directories.iter().any(|directory| directory.url == issuer);
    is_configured.then(|| entry.state.renewal.as_ref().map_or(0, |renewal| renewal.ask_at))
}

/// The time until which no further order may be placed with an account; 0 if one may.
pub(super) fn full_until(account: &AccountEntry, per_hour: u32, now: i64) -> i64 {
    let mut recent: Vec<i64> = account.orders.iter().copied().filter(|at| at + HOUR_S > now).collect();
    recent.sort_unstable();
    let full = recent.len().checked_sub(per_hour.max(1) as usize);
    full.map_or(0, |surplus| recent[surplus] + HOUR_S)
}

/// Records an order that is placed now.
pub(super) fn note_order(account: &mut AccountEntry, now: i64) {
    account.orders.retain(|at| at + HOUR_S > now);
    account.orders.push(now);
}

/// The record of a further failure. `retry_after` is the authority's wish, in seconds.
pub(super) fn failed(before: Option<&Failure>, why: String, retry_after: Option<i64>, now: i64) -> Failure {
    let count = before.map_or(0, |before| before.count).saturating_add(1);
    let place = (count as usize - 1).min(BACKOFF_S.len() - 1);
    let wish = retry_after.unwrap_or(0).clamp(0, RETRY_AFTER_MAX_S);
    Failure { count, until: now + BACKOFF_S[place].max(wish), why }
}

/// The time until which an authority that is overloaded is not asked for any host.
pub(super) fn account_pause(retry_after: Option<i64>, now: i64) -> i64 {
    now + retry_after.unwrap_or(60).clamp(1, ACCOUNT_PAUSE_MAX_S)
}

/// The time at which an authority is asked again about a renewal. It wishes for a time in seconds.
pub(super) fn ask_again(wish: Option<i64>, now: i64) -> i64 {
    let (least, most) = RENEWAL_INFO_S;
    now + wish.unwrap_or(most).clamp(least, most)
}

/// "A uniformly random time within the suggested window" (RFC 9773 section 4.2). `random` is from 0 to 1.
/// A time that was selected before stays for as long as it is within the window.
pub(super) fn within(start: i64, end: i64, before: Option<i64>, random: f64) -> i64 {
    let end = end.max(start);
    if let Some(before) = before.filter(|before| (start..=end).contains(before)) {
        return before;
    }
    start + ((end - start) as f64 * random.clamp(0.0, 1.0)) as i64
}

#[cfg(test)]
mod tests {
    use super::super::entry::{EntryState, Order, Renewal};
    use super::super::settings::{ChallengeKind, Directory};
    use super::*;
    use crate::names::NsName;

    const NOW: i64 = 1_800_000_000;
    const DAY_S: i64 = 86_400;

    fn settings(urls: &[&str], orders_per_hour: u32) -> Settings {
        let directory = |url: &&str| Directory { url: (*url).to_owned(), binding: None, trusted: None };
        Settings {
            directories: urls.iter().map(directory).collect(),
            email: None,
            challenges: ChallengeKind::ALL.to_vec(),
            orders_per_hour,
            profile: None,
        }
    }

    fn pair(not_before: i64, not_after: i64) -> Pair {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let date = |second: i64| {
            let time = x509_parser::time::ASN1Time::from_timestamp(second).unwrap();
            time.to_datetime()
        };
        params.not_before = date(not_before);
        params.not_after = date(not_after);
        let chain = params.self_signed(&key).unwrap().pem();
        Pair::parse(&NsName::new("acme", "a.test"), chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    fn issued_by(url: &str) -> Entry {
        let state = EntryState { issued_by: Some(url.to_owned()), ..EntryState::default() };
        Entry { state, ..Entry::default() }
    }

    fn asked(mut entry: Entry, renewal: Option<i64>) -> Entry {
        entry.state.renewal = Some(Renewal { at: renewal, ask_at: i64::MAX, explanation: None });
        entry
    }

    fn due(entry: &Entry, pair: Option<&Pair>, settings: &Settings) -> Due {
        next(entry, pair, settings, |_| None, NOW).unwrap()
    }

    #[test]
    fn a_host_without_certificate_is_due_at_once() {
        let found = due(&Entry::default(), None, &settings(&["a", "b"], 10));
        assert_eq!(found, Due { at: 0, work: Work::Order(0) });
        assert_eq!(next(&Entry::default(), None, &settings(&[], 10), |_| None, NOW), None);
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_time_is_left() {
        let pair = pair(NOW - 60 * DAY_S, NOW + 30 * DAY_S);
        let settings = settings(&["a"], 10);
        assert_eq!(due(&asked(issued_by("a"), None), Some(&pair), &settings).at, NOW);
        // The authority's wish counts, but not until the last tenth of the validity.
        let soon = asked(issued_by("a"), Some(NOW - DAY_S));
        assert_eq!(due(&soon, Some(&pair), &settings).at, NOW - DAY_S);
        let always = asked(issued_by("a"), Some(0));
        assert_eq!(due(&always, Some(&pair), &settings).at, NOW - 60 * DAY_S + RENEWED_AFTER_S);
        let never = asked(issued_by("a"), Some(NOW + 400 * DAY_S));
        assert_eq!(due(&never, Some(&pair), &settings).at, NOW + 21 * DAY_S);
    }

    #[test]
    fn the_issuer_is_asked_about_the_renewal_first() {
        let pair = pair(NOW - DAY_S, NOW + 89 * DAY_S);
        let found = due(&issued_by("a"), Some(&pair), &settings(&["a"], 10));
        assert_eq!(found, Due { at: 0, work: Work::AskRenewal });
        let replaced = due(&issued_by("staging"), Some(&pair), &settings(&["a"], 10));
        assert_eq!(replaced, Due { at: 0, work: Work::Order(0) });
    }

    #[test]
    fn another_authority_is_asked_while_the_first_one_is_left_alone() {
        let both = settings(&["a", "b"], 10);
        let mut entry = Entry::default();
        entry.state.failures.insert("a".to_owned(), failed(None, "away".to_owned(), None, NOW));
        assert_eq!(due(&entry, None, &both).work, Work::Order(1));
        entry.state.failures.insert("b".to_owned(), failed(None, "away".to_owned(), Some(900), NOW));
        assert_eq!(due(&entry, None, &both), Due { at: NOW + 30, work: Work::Order(0) });
        let away = AccountEntry { until: NOW + 100, ..AccountEntry::default() };
        let found = next(&Entry::default(), None, &both, |url| (url == "a").then_some(&away), NOW);
        assert_eq!(found.unwrap().work, Work::Order(1));
    }

    #[test]
    fn failures_are_further_and_further_apart() {
        let mut failure = None;
        let mut waits = Vec::new();
        for _ in 0..7 {
            let next = failed(failure.as_ref(), "no".to_owned(), None, NOW);
            waits.push(next.until - NOW);
            failure = Some(next);
        }
        assert_eq!(waits, [30, 300, 900, 2700, 8100, 21_600, 21_600]);
        assert_eq!(failed(None, String::new(), Some(i64::MAX), NOW).until, NOW + RETRY_AFTER_MAX_S);
        assert_eq!(account_pause(Some(86_400), NOW), NOW + 300);
    }

    #[test]
    fn orders_of_an_hour_are_bounded_but_one_in_progress_goes_on() {
        let one = settings(&["a"], 2);
        let mut account = AccountEntry::default();
        for at in [NOW - 4000, NOW - 1800, NOW - 600] {
            note_order(&mut account, at);
        }
        let found = |entry: &Entry| next(entry, None, &one, |_| Some(&account), NOW).unwrap();
        assert_eq!(found(&Entry::default()).at, NOW - 1800 + 3600);
        let order = Order { directory: "a".to_owned(), url: "u".to_owned(), key: String::new(), placed: NOW };
        let state = EntryState { order: Some(order), ..EntryState::default() };
        assert_eq!(found(&Entry { state, ..Entry::default() }).at, 0);
    }

    #[test]
    fn a_selected_time_stays_while_it_is_in_the_window() {
        assert_eq!(within(100, 200, None, 0.5), 150);
        assert_eq!(within(100, 200, Some(110), 0.5), 110);
        assert_eq!(within(300, 400, Some(110), 0.0), 300);
        assert_eq!(within(300, 200, None, 1.0), 300);
        assert_eq!(ask_again(Some(1), NOW), NOW + 3600);
        assert_eq!(ask_again(None, NOW), NOW + 86_400);
    }
}
