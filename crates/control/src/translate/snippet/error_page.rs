//! Answers in place of responses with an error: `error_page`, with a URL, or with a location of the same
//! Ingress that answers itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Block, ErrorPageContent, ErrorPageStatus, OwnErrorPage};

use super::parse::Directive;
use super::{Fault, Reader};

/// The locations of a host that answer in place of errors, by name (`@name`) or path.
pub(super) type ErrorBlocks = BTreeMap<String, Arc<Block>>;

/// The answers of a snippet in place of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::translate) struct OwnErrors {
    pub(in crate::translate) pages: Vec<OwnErrorPage>,
    /// Errors of endpoints are replaced too (`proxy_intercept_errors`).
    pub(in crate::translate) intercepts: bool,
}

const ELSEWHERE: &str = "has a target that is neither a URL nor a location of the same Ingress that answers with \"return\"; \
    for pages of a Service use the annotations custom-http-errors, default-backend";

impl Reader<'_> {
    /// Reads `error_page CODE ... [=[CODE]] TARGET`, once all locations of the host are known.
    pub(super) fn error_page(
        &self,
        directive: &Directive,
        blocks: &ErrorBlocks,
    ) -> Result<OwnErrorPage, Fault> {
        let harmless = |what: &str| Fault { is_harmless: true, ..directive.fault(what) };
        let [codes @ .., target] = directive.words.as_slice() else { return Err(harmless("has no target")) };
        let (codes, answer) = match codes {
            [codes @ .., last] if last.starts_with('=') => (codes, Some(&last[1..])),
            codes => (codes, None),
        };
        let status = |text: &str| text.parse().ok().filter(|code: &u16| (300..600).contains(code));
        let statuses: Option<Vec<u16>> = codes.iter().map(|code| status(code)).collect();
        let statuses = statuses.filter(|statuses| !statuses.is_empty());
        let statuses = statuses.ok_or_else(|| harmless("needs statuses from 300 to 599, and a target"))?;
        let answer = match answer {
            None => ErrorPageStatus::Kept,
            Some("") => ErrorPageStatus::OfAnswer,
            Some(code) => match code.parse().ok().filter(|code| (200..600).contains(code)) {
                Some(code) => ErrorPageStatus::Fixed(code),
                None => return Err(harmless("has an answer that is no status")),
            },
        };
        let is_url = ["http://", "https://", "$scheme://"].iter().any(|begin| target.starts_with(begin));
        let content = if is_url {
            let code = match answer {
                ErrorPageStatus::Fixed(code @ (301 | 302 | 303 | 307 | 308)) => code,
                _ => 302,
            };
            ErrorPageContent::Redirect(code, self.template(directive, target)?)
        } else {
            let block = blocks.get(target).or_else(|| self.names.error_blocks.get(target));
            ErrorPageContent::Steps(Arc::clone(block.ok_or_else(|| harmless(ELSEWHERE))?))
        };
        Ok(OwnErrorPage { statuses, status: answer, content })
    }

    /// The answers of the snippet in place of errors.
    pub(super) fn own_errors(&self, blocks: &ErrorBlocks) -> OwnErrors {
        let mut pages = Vec::new();
        for directive in self.error_pages.take() {
            match self.error_page(&directive, blocks) {
                Ok(page) => pages.push(page),
                Err(fault) => self.note(fault),
            }
        }
        OwnErrors { pages, intercepts: self.intercepts.get() }
    }
}
