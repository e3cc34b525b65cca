//! Clients whose behaviour is far off the others', from Forebay's metrics.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::read::metrics::{ABUSE_ACTIONS, ABUSE_CLIENTS, Pages};
use crate::read::prometheus;
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::say;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "abusive-clients",
    category: "clients",
    what: "clients send far more requests than the others, cause far more errors, or open connections without a request, and \
              are served like all others",
    how: "forebay_abuse_clients by state, and forebay_abuse_actions_total with mode watch",
    severity: Verdict::Warning,
    remedy: "list them with `forebay abuse list`; put gateways with many users into `forebay-abuse-allow`; `forebay-abuse: \
              enforce` slows and refuses the rest",
    case: "none",
    look: abusive_clients,
}];

fn abusive_clients(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let in_state = |state: &str| {
        prometheus::sum_where(pages.last(), ABUSE_CLIENTS, |series| {
            series.label("state").as_deref() == Some(state)
        })
    };
    let (Some(slowed), Some(refused)) = (in_state("slowed"), in_state("refused")) else {
        return Err(Unknown(say!("the metrics have no forebay_abuse_clients")));
    };
    let of_mode = |mode: &str| {
        let growth =
            pages.growth_where(ABUSE_ACTIONS, |series| series.label("mode").as_deref() == Some(mode));
        growth.unwrap_or(0.0)
    };
    let (left_undone, done) = (of_mode("watch"), of_mode("enforce"));
    let count = slowed + refused;
    let clients = if count > 1.0 { say!("{} clients are", count) } else { say!("1 client is") };
    let told = |outcome: Outcome| {
        outcome
            .with("slowed", slowed)
            .with("refused", refused)
            .with("not_refused", left_undone)
            .with("refusals", done)
    };
    Ok(told(if count == 0.0 {
        Outcome::ok(say!("no client is far off the others"))
    } else if left_undone > 0.0 {
        Outcome::warning(say!(
            "{} far off the others, and {} of what they asked for would have been slowed or refused",
            clients,
            left_undone
        ))
    } else {
        Outcome::ok(say!(
            "{} far off the others, of which {} requests or connections were slowed or refused",
            clients,
            done
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    const ID: &str = "abusive-clients";

    fn page(slowed: u32, refused: u32, undone: u32, done: u32) -> String {
        format!(
            "forebay_abuse_clients{{state=\"watched\"}} 3\n\
             forebay_abuse_clients{{state=\"slowed\"}} {slowed}\n\
             forebay_abuse_clients{{state=\"refused\"}} {refused}\n\
             forebay_abuse_actions_total{{action=\"refuse\",mode=\"watch\"}} {undone}\n\
             forebay_abuse_actions_total{{action=\"refuse\",mode=\"enforce\"}} {done}\n"
        )
    }

    #[test]
    fn clients_that_are_only_watched_are_told_of() {
        let finding =
            |before: String, after: String| scene().grows("forebay/metrics", &before, &after).finding(ID);
        let found = finding(page(0, 0, 0, 0), page(1, 2, 40, 0));
        assert_eq!(found.verdict, Verdict::Warning);
        assert_eq!(
            found.message,
            "3 clients are far off the others, and 40 of what they asked for would have been slowed or refused"
        );
        assert_eq!((found.number("refused"), found.number("not_refused")), (2.0, 40.0));
        assert_eq!(finding(page(1, 0, 40, 0), page(1, 0, 40, 9)).verdict, Verdict::Ok, "these are refused");
        assert_eq!(finding(page(0, 0, 0, 0), page(0, 0, 0, 0)).verdict, Verdict::Ok);
        assert_eq!(finding("a 1\n".into(), "a 1\n".into()).verdict, Verdict::Unknown);
    }
}
