//! Certificates of hosts that end soon, or that cannot be obtained, from Forebay's metrics.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::read::metrics::{ACME_CERTIFICATES, CERTIFICATES_ENDING, Pages};
use crate::read::prometheus;
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::say;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "certificates",
    category: "clients",
    what: "certificates of hosts end within ten days or have ended, or cannot be obtained: clients refuse to connect",
    how: "Forebay's forebay_certificates_ending, and forebay_acme_certificates by state",
    severity: Verdict::Failure,
    remedy: "renew the Secrets that nginx_ingress_controller_ssl_expire_time_seconds names; for certificates that Forebay \
              obtains, `/status` says what the authority complains about",
    case: "none",
    look: certificates,
}];

fn certificates(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let Some(ending) = prometheus::sum(pages.last(), CERTIFICATES_ENDING) else {
        return Err(Unknown(say!("the metrics have no forebay_certificates_ending")));
    };
    let in_state = |state: &str| {
        let of_state = |series: &prometheus::Series<'_>| series.label("state").as_deref() == Some(state);
        prometheus::sum_where(pages.last(), ACME_CERTIFICATES, of_state).unwrap_or(0.0)
    };
    let (missing, failing) = (in_state("missing"), in_state("failing"));
    let told =
        |outcome: Outcome| outcome.with("ending", ending).with("missing", missing).with("failing", failing);
    Ok(told(if missing > 0.0 {
        Outcome::failure(say!("{} hosts have no certificate, since no authority gives one", missing))
    } else if ending > 0.0 {
        Outcome::warning(say!("{} certificates end within ten days or have ended", ending))
    } else if failing > 0.0 {
        Outcome::warning(say!("{} certificates could not be renewed yet", failing))
    } else {
        Outcome::ok(say!("no certificate ends within ten days"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    #[test]
    fn certificates_that_end_and_those_that_are_missing_are_told() {
        let finding = |ending: u32, failing: u32, missing: u32| {
            let page = format!(
                "forebay_certificates_ending {ending}\n\
                 forebay_acme_certificates{{state=\"failing\"}} {failing}\n\
                 forebay_acme_certificates{{state=\"missing\"}} {missing}\n"
            );
            scene().file("forebay/metrics", &page).finding("certificates")
        };
        assert_eq!(finding(0, 0, 0).verdict, Verdict::Ok);
        assert_eq!(finding(2, 0, 0).verdict, Verdict::Warning);
        assert_eq!(finding(0, 1, 0).verdict, Verdict::Warning);
        let missing = finding(1, 1, 3);
        assert_eq!((missing.verdict, missing.number("missing")), (Verdict::Failure, 3.0));
        let none = scene().file("forebay/metrics", "other 1\n").finding("certificates");
        assert_eq!(none.verdict, Verdict::Unknown);
    }
}
