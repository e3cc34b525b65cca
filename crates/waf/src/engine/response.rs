//! The response: its head and body as variables.
//!
//! Never in here: rules.

use super::Transaction;
use super::store::Bag;
use crate::report::Verdict;
use crate::settings::{LimitAction, Mode};
use crate::variables::Variable;

impl Transaction {
    /// Takes the head of the response, and runs phase 3.
    pub fn response_head<'h>(
        &mut self,
        status: u16,
        protocol: &str,
        headers: impl IntoIterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Verdict {
        if self.mode == Mode::Off {
            return Verdict::Pass;
        }
        self.store.changed = true;
        self.store.set(Variable::ResponseStatus, status.to_string().as_bytes());
        self.store.set(Variable::ResponseProtocol, protocol.as_bytes());
        for (name, value) in headers {
            self.store.add(Bag::ResponseHeaders, name, value);
            if name.eq_ignore_ascii_case(b"content-type") {
                self.store.set(Variable::ResponseContentType, value);
            }
        }
        self.run(3);
        self.verdict.clone()
    }

    /// The bytes of the response's body that rules look at; `None` if they look at none.
    pub fn response_body_limit(&self) -> Option<usize> {
        let wanted = self.mode != Mode::Off
            && self.reads_response_body
            && self.verdict.passes()
            && !self.rules.phase(4).is_empty();
        (wanted && self.has_wanted_type()).then_some(self.response_body_bytes_max)
    }

    fn has_wanted_type(&self) -> bool {
        let kind = self.store.bytes(Variable::ResponseContentType);
        let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let kind: &[u8] = if kind.is_empty() { b"null" } else { kind };
        let types = &self.rules.settings().response_body_types;
        types.iter().any(|wanted| wanted.as_bytes().eq_ignore_ascii_case(kind))
    }

    /// Takes a piece of the response's body.
    pub fn response_body(&mut self, piece: &[u8]) -> Verdict {
        let Some(limit) = self.response_body_limit() else { return self.verdict.clone() };
        let room = limit.saturating_sub(self.response_body.len());
        let part = &piece[..piece.len().min(room)];
        if part.len() < piece.len() {
            self.store.response_too_long = true;
            self.store.changed = true;
            let reject = self.rules.settings().response_body_limit_action == LimitAction::Reject;
            if reject && self.mode == Mode::On {
                self.verdict = Verdict::Deny { status: 500, rule: 0 };
                return self.verdict.clone();
            }
        }
        self.store.changed = true;
        self.store.response_body_bytes += part.len();
        self.store.texts.see(part.len());
        self.response_body.extend_from_slice(part);
        Verdict::Pass
    }

    /// Ends the response's body, and runs phase 4.
    pub fn response_end(&mut self) -> Verdict {
        if self.mode == Mode::Off || !self.verdict.passes() {
            return self.verdict.clone();
        }
        if !self.response_body.is_empty() {
            let body = std::mem::take(&mut self.response_body);
            let text = self.store.texts.add(&body);
            self.store.set_text(Variable::ResponseBody, text);
            self.store.set_text(Variable::StreamOutputBody, text);
        }
        self.run(4);
        self.verdict.clone()
    }
}
