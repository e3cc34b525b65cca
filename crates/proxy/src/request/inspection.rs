//! A request that a web application firewall looks at: its transaction, the verdict that has stopped it, and
//! the body that was read for the rules.
//!
//! Never in here: what a transaction is given.

use std::cell::{Cell, OnceCell, RefCell};

use waf::{Report, Transaction, Verdict};
use wire::h1::BodyDecoder;

use crate::body::HeldBody;
use crate::request::reply::Answer;

/// A request that a firewall looks at.
pub(crate) struct Inspection {
    /// The id of the transaction.
    id: String,
    /// None once its report has been made.
    transaction: RefCell<Option<Box<Transaction>>>,
    /// The verdict that has stopped the request, with the phase in which it was made.
    stop: RefCell<Option<Box<Verdict>>>,
    phase: Cell<u8>,
    body: RefCell<Option<Box<TakenBody>>>,
    /// The report of the transaction once it is over.
    report: OnceCell<Box<Report>>,
}

/// A body, or its beginning, that was read before an endpoint was selected.
pub(crate) struct TakenBody {
    pub(crate) held: HeldBody,
    /// The state of the rest.
    pub(crate) decoder: BodyDecoder,
    /// All of the body has been read.
    pub(crate) is_whole: bool,
}

impl Inspection {
    pub(crate) fn new(id: String, transaction: Transaction) -> Self {
        Self {
            id,
            transaction: RefCell::new(Some(Box::new(transaction))),
            stop: RefCell::default(),
            phase: Cell::new(0),
            body: RefCell::default(),
            report: OnceCell::new(),
        }
    }

    /// Runs a step of the transaction in one of its phases, unless it is over. False where its verdict stops
    /// the request.
    pub(crate) fn step(&self, phase: u8, step: impl FnOnce(&mut Transaction) -> Verdict) -> bool {
        let mut transaction = self.transaction.borrow_mut();
        let Some(transaction) = transaction.as_deref_mut() else { return true };
        let verdict = step(transaction);
        if verdict.passes() {
            return true;
        }
        self.phase.set(phase);
        *self.stop.borrow_mut() = Some(Box::new(verdict));
        false
    }

    /// A question about the transaction; none once it is over.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Transaction) -> T) -> Option<T> {
        self.transaction.borrow().as_deref().map(question)
    }

    /// Keeps the body that was read.
    pub(crate) fn keep_body(&self, body: TakenBody) {
        *self.body.borrow_mut() = Some(Box::new(body));
    }

    /// Whether all of a body was read, and nobody has taken it yet.
    pub(crate) fn has_whole_body(&self) -> bool {
        self.body.borrow().as_ref().is_some_and(|body| body.is_whole)
    }

    /// The body that was read, for the first that asks.
    pub(crate) fn take_body(&self) -> Option<TakenBody> {
        self.body.borrow_mut().take().map(|body| *body)
    }

    /// The id of the transaction.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The phase in which the request was stopped; 0 if it was not.
    pub(crate) fn phase(&self) -> u8 {
        self.phase.get()
    }

    /// The id of the rule that has stopped the request; 0 for a limit, and without.
    pub(crate) fn rule(&self) -> u64 {
        match self.stop.borrow().as_deref() {
            Some(Verdict::Deny { rule, .. } | Verdict::Redirect { rule, .. } | Verdict::Drop { rule }) => {
                *rule
            }
            Some(Verdict::Pass) | None => 0,
        }
    }

    /// True if the rules took too much work, for which the request was stopped.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ask(Transaction::is_exhausted).unwrap_or(false)
    }

    /// The answer to a request that the rules have stopped.
    pub(crate) fn answer(&self) -> Option<Answer> {
        let stop = self.stop.borrow();
        Some(match &**stop.as_ref()? {
            Verdict::Pass => return None,
            Verdict::Deny { status, .. } if (400..600).contains(status) => Answer::with_status(*status),
            Verdict::Deny { .. } => Answer::with_status(403),
            Verdict::Redirect { status, location, .. } => {
                let visible: Vec<u8> =
                    location.iter().copied().filter(|byte| !byte.is_ascii_control()).collect();
                Answer::redirect(*status, String::from_utf8_lossy(&visible).into_owned())
            }
            Verdict::Drop { .. } => Answer::none(),
        })
    }

    /// Ends the transaction. Returns its report, once.
    pub(crate) fn finish(&self, unix_time: u64) -> Option<&Report> {
        let mut transaction = self.transaction.borrow_mut().take()?;
        transaction.set_time(unix_time);
        Some(self.report.get_or_init(|| Box::new(transaction.finish())))
    }

    /// The report; none before the transaction has ended.
    pub(crate) fn report(&self) -> Option<&Report> {
        self.report.get().map(|report| &**report)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use waf::{Collections, Connection, NoFiles, RequestLine, Rules, Source};

    use super::*;

    fn inspection(action: &str) -> Inspection {
        let text = format!("SecRuleEngine On\nSecAction \"id:1,phase:1,{action}\"");
        let rules = Rules::compile(&[Source { name: "a", text: &text }], &NoFiles).unwrap();
        let connection = Connection {
            client: "192.0.2.1:1".parse().unwrap(),
            server: "192.0.2.2:80".parse().unwrap(),
            unique_id: "a".to_owned(),
            unix_time: 1,
            seed: 1,
        };
        Inspection::new(
            "a".to_owned(),
            Transaction::new(Arc::new(rules), Arc::new(Collections::new(1)), connection),
        )
    }

    #[test]
    fn a_verdict_is_the_answer() {
        for (action, status, location) in [
            ("deny", 403, None),
            ("deny,status:406", 406, None),
            ("deny,status:200", 403, None),
            ("redirect:http://a.test/b", 302, Some("http://a.test/b")),
            ("drop", 444, None),
        ] {
            let inspection = inspection(action);
            let line = RequestLine { method: b"GET", target: b"/", protocol: "HTTP/1.1" };
            assert!(!inspection.step(1, |transaction| transaction.request_head(line, [])), "{action}");
            let answer = inspection.answer().unwrap();
            assert_eq!((answer.status, answer.field("Location")), (status, location), "{action}");
            assert_eq!(inspection.phase(), 1);
            assert_eq!(inspection.finish(2).unwrap().stopped_by, Some(1));
            assert!(inspection.finish(2).is_none(), "one report is made");
        }
        assert!(inspection("pass").step(1, |transaction| transaction.verdict().clone()));
    }
}
