//! Snippets for the request to an auth service: steps before it is sent, its method and its headers.

use model::{AuthScript, Block, Step};

use super::block::Context;
use super::parse::Directive;
use super::{Fault, Reader, RemarkKind};

const NO_BODY: &str = "has no effect here: the auth service gets no body";

fn is_no_body(words: &[String]) -> bool {
    matches!(words, [name, value] if name.eq_ignore_ascii_case("content-length") && value.is_empty())
}

impl Reader<'_> {
    pub(super) fn auth(&self, directives: &[Directive]) -> AuthScript {
        let mut script = AuthScript::default();
        for directive in directives {
            self.add_to_auth(directive, &mut script).unwrap_or_else(|fault| self.note(fault));
        }
        script
    }

    fn add_to_auth(&self, directive: &Directive, script: &mut AuthScript) -> Result<(), Fault> {
        match directive.name.as_str() {
            "proxy_method" => {
                let [text] = directive.arguments()?;
                script.method = Some(self.template(directive, text)?);
            }
            "proxy_set_header" => {
                let is_host = directive.words.first().is_some_and(|name| name.eq_ignore_ascii_case("host"));
                if is_host {
                    return Err(directive.fault("is about Host, which is that of auth-url"));
                }
                if is_no_body(&directive.words) {
                    self.remark(RemarkKind::NoEffect, directive.fault(NO_BODY));
                    return Ok(());
                }
                self.header(directive, Context::Location, &mut script.block.headers)?;
            }
            "proxy_pass_request_body" => self.remark(RemarkKind::NoEffect, directive.fault(NO_BODY)),
            "if" => {
                let test = self.condition(directive)?;
                let mut inside = Block::default();
                for directive in directive.inside()? {
                    let added = self.add_to_question(directive, &mut inside);
                    added.unwrap_or_else(|fault| self.note(fault));
                }
                script.block.steps.push(Step::If(test, inside));
            }
            _ => self.add_to_question(directive, &mut script.block)?,
        }
        Ok(())
    }

    /// Adds a directive that is also allowed within a condition.
    fn add_to_question(&self, directive: &Directive, to: &mut Block) -> Result<(), Fault> {
        match directive.name.as_str() {
            _ if directive.block.is_some() => Err(directive.unknown()),
            "set" | "return" | "break" | "log_not_found" | "rewrite_log" => {
                self.step(directive, &mut to.steps).map(drop)
            }
            "more_set_input_headers" | "more_clear_input_headers" => {
                self.header(directive, Context::IfInLocation, &mut to.headers)
            }
            "add_header" | "more_set_headers" | "more_clear_headers" | "expires" => {
                let what = "has no effect, as in nginx: nobody sees the response of the auth service";
                self.remark(RemarkKind::NoEffect, directive.fault(what));
                Ok(())
            }
            "proxy_method" | "proxy_set_header" | "if" => Err(directive.misplaced()),
            _ => self.setting(directive, false),
        }
    }
}
