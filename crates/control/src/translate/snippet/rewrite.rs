//! The directives `return` and `rewrite`.

use model::{AfterRewrite, Return, ReturnContent, ScriptRewrite};

use super::parse::Directive;
use super::{Fault, Reader};

/// The beginnings of targets that are URLs, not paths.
const ABSOLUTE: &[&str] = &["http://", "https://", "$scheme"];

impl Reader<'_> {
    /// Reads `return CODE`, `return CODE TEXT`, `return CODE URL` with the code of a redirect, and `return
    /// URL` for a 302.
    pub(super) fn return_(&self, directive: &Directive) -> Result<Return, Fault> {
        let (status, text) = match directive.words.as_slice() {
            [url] if is_absolute(url) => ("302", Some(url)),
            [status] => (status.as_str(), None),
            [status, text] => (status.as_str(), Some(text)),
            _ => return Err(directive.fault("needs a status, and a text if there is one to be told")),
        };
        let known = status.parse().ok().filter(|status| (200..600).contains(status));
        let status: u16 =
            known.ok_or_else(|| directive.fault(format!("has {status:?}, which is no status")))?;
        let content = match text {
            None => ReturnContent::Nothing,
            Some(url) if is_redirect(status) => ReturnContent::Location(self.template(directive, url)?),
            Some(text) => ReturnContent::Text(self.template(directive, text)?),
        };
        if content == ReturnContent::Nothing && is_redirect(status) {
            return Err(directive.fault(format!("has the status {status} and no URL")));
        }
        Ok(Return { status, content })
    }

    /// Reads `rewrite REGEX TARGET [last|break|redirect|permanent]`.
    pub(super) fn rewrite(&self, directive: &Directive) -> Result<ScriptRewrite, Fault> {
        let (pattern, target, flag) = match directive.words.as_slice() {
            [pattern, target] => (pattern, target, ""),
            [pattern, target, flag] => (pattern, target, flag.as_str()),
            _ => {
                return Err(
                    directive.fault("needs a regular expression, a target, and a flag if there is one")
                );
            }
        };
        let next = match flag {
            "permanent" => AfterRewrite::Redirect(301),
            "redirect" => AfterRewrite::Redirect(302),
            _ if is_absolute(target) => AfterRewrite::Redirect(302),
            "" => AfterRewrite::GoOn,
            "last" => AfterRewrite::FindRoute,
            "break" => AfterRewrite::Stay,
            _ => return Err(directive.fault(format!("has the flag {flag:?}, which is not understood"))),
        };
        // A question mark at the end drops the client's query.
        let (target, keeps_query) =
            target.strip_suffix('?').map_or((target.as_str(), true), |target| (target, false));
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        Ok(ScriptRewrite {
            pattern: self.expression(directive, pattern, false)?,
            target: self.template(directive, path)?,
            query: query.map(|query| self.template(directive, query)).transpose()?,
            keeps_query,
            next,
        })
    }
}

fn is_absolute(target: &str) -> bool {
    ABSOLUTE.iter().any(|begin| target.starts_with(begin))
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}
