//! Whether what came of a request is right, or excused by what is being disturbed.
//!
//! Must not be in here: which requests there are.

use std::time::{Duration, Instant};

use crate::ask::Wire;
use crate::content;
use crate::exchange::{Answer, Broken, ID};
use crate::ledger::Outcome;
use crate::lock::locked;
use crate::objects::{AUTH, BUFFERED, LIMIT, MOODY, OUTSIDE, SHARED};
use crate::shared::Shared;
use crate::windows::Kind;

/// The content that an answer of status 200 must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The content of a key, for this request alone.
    Content { key: u64, len: usize },
    /// The content of a key, which a cache may have.
    Cached { key: u64, len: usize },
    /// This digest of the request's body.
    Sum(String),
    /// There must be none: the client has the wrong token.
    Denied,
    /// The content of a key if the host of this number is there, else 404.
    Extra { number: usize, key: u64, len: usize },
}

/// A request whose result is judged.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) id: u64,
    pub(crate) host: &'static str,
    pub(crate) wire: Wire,
    pub(crate) check: &'a Check,
    pub(crate) since: Instant,
    /// When its connection was made, which may have been long before.
    pub(crate) connected: Instant,
    /// The number of the last change that was in effect before it was sent.
    pub(crate) in_effect: Option<u64>,
}

/// Time in which names are looked up again, however busy the machine is.
const LOOKS_UP: Duration = Duration::from_secs(60);

impl Case<'_> {
    /// The outcome of the request for the books, and the fault if there is one.
    pub(crate) fn judge(
        &self,
        shared: &Shared,
        result: &Result<Answer, Broken>,
    ) -> (Outcome, Option<String>) {
        match result {
            Ok(answer) => self.judge_answer(shared, answer),
            Err(broken) => {
                let wrong = (!self.may_break(shared, broken)).then(|| format!("{broken:?}"));
                (Outcome::Broken, wrong)
            }
        }
    }

    fn judge_answer(&self, shared: &Shared, answer: &Answer) -> (Outcome, Option<String>) {
        let status = answer.status;
        let outcome = Outcome::Answered(status);
        if status == 200 {
            return (outcome, self.wrong_content(answer).or_else(|| self.wrong_presence(shared, true)));
        }
        if status == 404 && matches!(self.check, Check::Extra { .. }) {
            return (outcome, self.wrong_presence(shared, false));
        }
        let during = |kind| shared.windows.overlaps(kind, self.since);
        if during(Kind::Descriptors) && matches!(status, 502..=504) {
            // Whoever is refused before the request is read has no line in the log.
            return (Outcome::Broken, None);
        }
        if self.statuses(shared.is_quiet).contains(&status) {
            return (outcome, None);
        }
        let is_excused = match (self.host, status) {
            (_, 503) => during(Kind::Memory),
            // Without a descriptor the service cannot be asked.
            (AUTH, 500) if during(Kind::Descriptors) => true,
            (AUTH, 500 | 502 | 504) => during(Kind::Auth),
            (BUFFERED, 500 | 502 | 507) => during(Kind::Disk),
            _ => false,
        };
        // A process that begins without the name server knows no address of the Service outside. It waits for
        // two seconds for the first answer, which a busy machine may need.
        let begins_without_names =
            [Kind::Kill, Kind::Restart].iter().any(|kind| self.was_recently(shared, *kind))
                && (self.was_recently(shared, Kind::Names) || shared.windows.is_machine_busy());
        let is_excused = is_excused
            || (status == 503 && self.host == OUTSIDE && begins_without_names)
            || (status == 503 && self.host == AUTH && during(Kind::Auth))
            || (status == 503 && self.host == BUFFERED && during(Kind::Disk));
        let text = || {
            format!(
                "status {status} {:?}",
                String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)])
            )
        };
        (outcome, (!is_excused).then(text))
    }

    /// The statuses beside 200 that are as they should be.
    fn statuses(&self, is_quiet: bool) -> &'static [u16] {
        match (self.check, self.host) {
            (Check::Denied, _) => &[401],
            (_, MOODY) if !is_quiet => &[500, 502, 504],
            (_, LIMIT) => &[503],
            (_, SHARED) => &[429],
            _ => &[],
        }
    }

    /// The fault of an answer of status 200, if it has one.
    fn wrong_content(&self, answer: &Answer) -> Option<String> {
        let is_own = answer.headers.get(ID).is_some_and(|id| id.as_bytes() == self.id.to_string().as_bytes());
        match self.check {
            Check::Denied => Some("a wrong token was let through".to_owned()),
            Check::Cached { key, len } => content::difference(&answer.body, *key, *len),
            _ if !is_own => Some(format!("the answer is that to request {:?}", answer.headers.get(ID))),
            Check::Content { key, len } | Check::Extra { key, len, .. } => {
                content::difference(&answer.body, *key, *len)
            }
            Check::Sum(sum) => (answer.body != sum.as_bytes())
                .then(|| format!("the endpoint got {}, not {sum}", String::from_utf8_lossy(&answer.body))),
        }
    }

    /// The fault of a host that comes and goes: served though it is gone, or the reverse. Changes after the
    /// last one that was seen to be in effect need not be yet.
    fn wrong_presence(&self, shared: &Shared, is_served: bool) -> Option<String> {
        let Check::Extra { number, .. } = self.check else { return None };
        let extra = locked(&shared.extras).get(number).copied();
        let is_there = extra.is_some_and(|extra| extra.is_there);
        let has_settled =
            extra.is_none_or(|extra| self.in_effect.is_some_and(|in_effect| in_effect >= extra.change));
        // A process that begins without the API server serves an older state.
        let is_same_process =
            [Kind::Kill, Kind::Restart].iter().all(|kind| !shared.windows.overlaps(*kind, self.since));
        let is_wrong = has_settled && is_same_process && is_there != is_served;
        is_wrong.then(|| format!("host {number} is served: {is_served}, though it is there: {is_there}"))
    }

    /// Whether it was disturbed within the time that looking up names may take.
    fn was_recently(&self, shared: &Shared, kind: Kind) -> bool {
        self.since.checked_sub(LOOKS_UP).is_none_or(|since| shared.windows.overlaps(kind, since))
    }

    /// Whether the connection may have ended in this way.
    fn may_break(&self, shared: &Shared, broken: &Broken) -> bool {
        // A client notices the end of its connection when it uses it next.
        let during = |kind| shared.windows.overlaps(kind, self.since.min(self.connected));
        if during(Kind::Kill) || shared.windows.overlaps(Kind::Descriptors, self.since) {
            return true;
        }
        match broken {
            // The answer of a moody endpoint is broken off.
            Broken::Cut(_) if self.host == MOODY => !shared.is_quiet,
            // A connection without a request is closed at the end of a process, and its client sends one at
            // that moment (RFC 9112, section 9.6).
            Broken::Silent(_) => {
                during(Kind::Restart) && self.wire != Wire::Http2 && self.wire != Wire::Http2Tls
            }
            // Connections of HTTP/3 end with their process.
            _ => during(Kind::Restart) && self.wire == Wire::Http3,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue};
    use rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::exchange::Target;
    use crate::objects::{CALM, EXTRA, HOSTS};
    use crate::report::Report;
    use crate::shared::Extra;

    const KEY: u64 = 7;
    const LEN: usize = 100;
    const CONTENT: Check = Check::Content { key: KEY, len: LEN };

    fn shared() -> Arc<Shared> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("suites for the versions");
        let tls = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let nowhere = ([127, 0, 0, 1], 1).into();
        let target = Target { http: nowhere, https: nowhere, tls: Arc::new(tls) };
        Shared::new(1, false, target, Report::new(1, Path::new("/nowhere")), Arc::default())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as clients return it")]
    fn answer(status: u16, id: &str, body: Vec<u8>) -> Result<Answer, Broken> {
        let mut headers = HeaderMap::new();
        headers.insert(ID, HeaderValue::from_str(id).expect("a value"));
        Ok(Answer { status, headers, body })
    }

    fn case<'a>(host: &'static str, check: &'a Check) -> Case<'a> {
        let now = Instant::now();
        Case { id: 1, host, wire: Wire::Http1, check, since: now, connected: now, in_effect: Some(10) }
    }

    fn judged(
        shared: &Shared,
        host: &'static str,
        check: &Check,
        result: &Result<Answer, Broken>,
    ) -> (Outcome, Option<String>) {
        case(host, check).judge(shared, result)
    }

    #[test]
    fn an_answer_has_to_be_whole_and_that_to_its_request() {
        let shared = shared();
        let wrong = |check: &Check, id: &str, body: Vec<u8>| {
            judged(&shared, CALM, check, &answer(200, id, body)).1.unwrap_or_default()
        };
        assert_eq!(wrong(&CONTENT, "1", content::bytes(KEY, LEN)), "");
        assert!(wrong(&CONTENT, "2", content::bytes(KEY, LEN)).contains("that to request"));
        assert!(wrong(&CONTENT, "1", content::bytes(KEY, LEN - 1)).contains("99 of 100"));
        assert!(wrong(&CONTENT, "1", content::bytes(KEY + 1, LEN)).contains("differs"));
        assert_eq!(wrong(&Check::Cached { key: KEY, len: LEN }, "2", content::bytes(KEY, LEN)), "");
        assert!(wrong(&Check::Sum("abc 3".to_owned()), "1", b"abd 3".to_vec()).contains("not abc 3"));
        assert!(wrong(&Check::Denied, "1", Vec::new()).contains("wrong token"));
    }

    #[test]
    fn a_status_is_right_only_where_something_excuses_it() {
        let shared = shared();
        let is_wrong =
            |host, status| judged(&shared, host, &CONTENT, &answer(status, "1", Vec::new())).1.is_some();
        assert!(HOSTS.into_iter().all(|host| is_wrong(host, 404)));
        assert_eq!((is_wrong(CALM, 502), is_wrong(MOODY, 502), is_wrong(MOODY, 503)), (true, false, true));
        assert_eq!((is_wrong(LIMIT, 503), is_wrong(SHARED, 429), is_wrong(CALM, 429)), (false, false, true));
        shared.windows.open(Kind::Auth);
        assert_eq!((is_wrong(AUTH, 500), is_wrong(CALM, 500), is_wrong(AUTH, 403)), (false, true, true));
        shared.windows.open(Kind::Disk);
        assert_eq!((is_wrong(BUFFERED, 507), is_wrong(CALM, 507)), (false, true));
        shared.windows.open(Kind::Descriptors);
        for host in [CALM, LIMIT] {
            assert_eq!(
                judged(&shared, host, &CONTENT, &answer(503, "1", Vec::new())),
                (Outcome::Broken, None)
            );
        }
        assert!(is_wrong(CALM, 500));
        let without_descriptors = self::shared();
        without_descriptors.windows.open(Kind::Descriptors);
        let answer = answer(500, "1", Vec::new());
        assert_eq!(judged(&without_descriptors, AUTH, &CONTENT, &answer), (Outcome::Answered(500), None));
    }

    #[test]
    fn a_connection_may_break_only_where_something_excuses_it() {
        let shared = shared();
        let [refused, silent, cut] =
            [Broken::Refused, Broken::Silent, Broken::Cut].map(|kind| kind(String::new()));
        let is_wrong =
            |host, broken: &Broken| judged(&shared, host, &CONTENT, &Err(broken.clone())).1.is_some();
        assert!([&refused, &silent, &cut].into_iter().all(|broken| is_wrong(CALM, broken)));
        assert_eq!((is_wrong(MOODY, &cut), is_wrong(MOODY, &silent)), (false, true));
        shared.windows.open(Kind::Restart);
        assert_eq!(
            (is_wrong(CALM, &silent), is_wrong(CALM, &cut), is_wrong(CALM, &refused)),
            (false, true, true)
        );
        shared.windows.open(Kind::Kill);
        assert!(![&refused, &silent, &cut].into_iter().any(|broken| is_wrong(CALM, broken)));
    }

    #[test]
    fn a_connection_from_before_a_kill_may_break_after_it() {
        let shared = shared();
        let before = Instant::now();
        shared.windows.open(Kind::Kill);
        shared.windows.close(Kind::Kill);
        let long_after = before + Duration::from_secs(1000);
        let is_wrong = |connected| {
            let check = CONTENT;
            let case = Case { since: long_after, connected, ..case(CALM, &check) };
            case.judge(&shared, &Err(Broken::Silent(String::new()))).1.is_some()
        };
        assert_eq!((is_wrong(before), is_wrong(long_after)), (false, true));
    }

    #[test]
    fn a_host_whose_change_is_in_effect_has_to_be_there() {
        let shared = shared();
        let check = Check::Extra { number: 5, key: KEY, len: LEN };
        let present = answer(200, "1", content::bytes(KEY, LEN));
        let absent = answer(404, "1", Vec::new());
        let is_wrong = |result| case(EXTRA, &check).judge(&shared, result).1.is_some();
        assert_eq!((is_wrong(&present), is_wrong(&absent)), (true, false));
        let told = |is_there, change| {
            locked(&shared.extras).insert(5, Extra { is_there, change });
        };
        told(true, 10);
        assert_eq!((is_wrong(&present), is_wrong(&absent)), (false, true));
        told(true, 11);
        assert_eq!((is_wrong(&present), is_wrong(&absent)), (false, false));
        told(true, 10);
        let unseen = Case { in_effect: None, ..case(EXTRA, &check) };
        assert_eq!(unseen.judge(&shared, &absent).1, None);
        shared.windows.open(Kind::Kill);
        assert!(!is_wrong(&absent));
    }
}
