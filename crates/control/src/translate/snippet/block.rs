//! The contents of hosts, locations and conditions: steps, changes to heads, and access rules by address.

use std::sync::Arc;

use model::{AddressRule, Block, Check, Return, ReturnContent, Step, Test};

use super::content::is_about_content;
use super::parse::Directive;
use super::{AuthVariable, Fault, Reader};
use crate::options::parse_network;

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    Server,
    /// A location of an Ingress.
    Location,
    /// A location that the snippet itself declares.
    SourceLocation,
    /// A location that the snippet itself declares, and that forwards requests.
    PassingLocation,
    IfInServer,
    IfInLocation,
}

/// The contents of a block.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) block: Block,
    pub(super) rules: Vec<AddressRule>,
    /// No request of a client reaches the location.
    pub(super) is_internal: bool,
}

impl Context {
    fn is_if(self) -> bool {
        matches!(self, Self::IfInServer | Self::IfInLocation)
    }

    fn within_if(self) -> Self {
        if self == Self::Server { Self::IfInServer } else { Self::IfInLocation }
    }
}

impl Reader<'_> {
    /// Reads the directives of a block. Faults are collected, so that all of them are reported.
    pub(super) fn contents(&self, directives: &[Directive], context: Context) -> Contents {
        let mut contents = Contents::default();
        for directive in directives {
            self.add(directive, context, &mut contents).unwrap_or_else(|fault| self.note(fault));
        }
        contents
    }

    /// Adds the meaning of a directive to the contents of its block.
    pub(super) fn add(
        &self,
        directive: &Directive,
        context: Context,
        to: &mut Contents,
    ) -> Result<(), Fault> {
        let contents = to;
        let Contents { block, rules, .. } = contents;
        let name = directive.name.as_str();
        match name {
            "if" if context.is_if() => return Err(directive.misplaced()),
            "if" => {
                let test = self.condition(directive)?;
                let mut inside = self.contents(directive.inside()?, context.within_if()).block;
                if !test.is_negated {
                    inside.steps.splice(0..0, self.groups(directive)?);
                }
                block.steps.push(Step::If(test, inside));
                return Ok(());
            }
            "limit_except" if !context.is_if() && context != Context::Server => {
                // `limit_except` comes first, because a step that ends the others, such as `break`, must not
                // precede it.
                block.steps.insert(0, self.limit_except(directive)?);
                return Ok(());
            }
            _ if directive.block.is_some() => return Err(directive.unknown()),
            _ => {}
        }
        if self.step(directive, &mut block.steps)? {
            return Ok(());
        }
        match name {
            "rewrite" => block.steps.push(Step::Rewrite(self.rewrite(directive)?)),
            "allow" | "deny" | "default_type" if context.is_if() => return Err(directive.misplaced()),
            "allow" | "deny" => rules.push(rule(directive)?),
            "default_type" => {
                let [text] = directive.arguments()?;
                let is_token = |char: char| char.is_ascii_graphic();
                if text.is_empty() || !text.chars().all(is_token) {
                    return Err(directive.fault("has no media type"));
                }
                block.headers.media_type = Some(text.clone());
            }
            "auth_request_set" if context == Context::Location => self.auth_variable(directive)?,
            "proxy_pass" if context == Context::IfInLocation => {
                block.steps.push(Step::Pass(self.pass(directive, None)?));
            }
            "valid_referers" => _ = block.steps.splice(0..0, self.valid_referers(directive)?),
            "limit_req" | "limit_conn" if matches!(context, Context::Server | Context::Location) => {
                self.limit(directive)?;
            }
            "error_page" if matches!(context, Context::Server | Context::Location) => {
                self.error_pages.borrow_mut().push(directive.clone());
            }
            _ if is_about_content(name) && matches!(context, Context::Server | Context::Location) => {
                self.replacement(directive)?;
            }
            "internal" if matches!(context, Context::SourceLocation | Context::PassingLocation) => {
                directive.arguments::<0>()?;
                contents.is_internal = true;
            }
            _ if is_about_headers(name) && context == Context::IfInServer => return Err(directive.unknown()),
            _ if is_about_headers(name) => return self.header(directive, context, &mut block.headers),
            _ => return self.setting(directive, !context.is_if()),
        }
        Ok(())
    }

    /// Reads `limit_except METHOD ... { deny all; }`: other methods are refused. GET admits HEAD too.
    fn limit_except(&self, directive: &Directive) -> Result<Step, Fault> {
        let is_method =
            |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let inside: Vec<_> =
            directive.inside()?.iter().map(|one| (one.name.as_str(), one.words.join(" "))).collect();
        if inside != [("deny", "all".to_owned())]
            || directive.words.is_empty()
            || !directive.words.iter().all(is_method)
        {
            return Err(directive.fault("is understood with methods and \"deny all\" alone"));
        }
        let mut methods: Vec<_> = directive.words.iter().map(|word| word.to_ascii_uppercase()).collect();
        if methods.iter().any(|method| method == "GET") {
            methods.push("HEAD".to_owned());
        }
        let pattern = format!("^(?:{})$", methods.join("|"));
        let check = Check::Matches(self.expression(directive, &pattern, false)?);
        let test = Test { subject: self.template(directive, "$request_method")?, check, is_negated: true };
        let refusal = Return { status: 403, content: ReturnContent::Nothing };
        Ok(Step::If(test, Block { steps: vec![Step::Return(refusal)], ..Block::default() }))
    }

    /// Reads `auth_request_set $NAME $upstream_http_HEADER`.
    fn auth_variable(&self, directive: &Directive) -> Result<(), Fault> {
        let [name, value] = directive.arguments()?;
        let name = name.strip_prefix('$').filter(|name| self.names.set.contains(*name));
        let name = name.ok_or_else(|| directive.fault("has no name of a variable"))?;
        let header = value.strip_prefix("$upstream_http_").filter(|header| !header.is_empty());
        let header = header.ok_or_else(|| Fault {
            is_harmless: true,
            ..directive.fault(format!("takes {value:?}, which is no header of the auth service's response"))
        })?;
        let (name, header) = (Arc::from(name), header.to_ascii_lowercase());
        self.auth_variables.borrow_mut().push(AuthVariable { name, header });
        Ok(())
    }

    /// Adds the effect of a directive that has the same meaning in every block. Returns false for any other
    /// directive.
    pub(super) fn step(&self, directive: &Directive, steps: &mut Vec<Step>) -> Result<bool, Fault> {
        match directive.name.as_str() {
            "set" => steps.push(self.set(directive)?),
            "return" => steps.push(Step::Return(self.return_(directive)?)),
            "break" => {
                directive.arguments::<0>()?;
                steps.push(Step::Break);
            }
            // These directives only affect nginx's logs.
            "log_not_found" | "rewrite_log" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&self, directive: &Directive) -> Result<Step, Fault> {
        let [name, value] = directive.arguments()?;
        let name = name.strip_prefix('$').filter(|name| self.names.set.contains(*name));
        let name = name.ok_or_else(|| directive.fault("has no name of a variable"))?;
        if !super::is_new_name(name) || self.names.maps.contains_key(name) {
            return Err(directive.fault(format!("changes ${name}, which is not its own")));
        }
        Ok(Step::Set(name.into(), self.template(directive, value)?))
    }
}

fn rule(directive: &Directive) -> Result<AddressRule, Fault> {
    let [text] = directive.arguments()?;
    let network = match text.as_str() {
        "all" => None,
        text => Some(parse_network(text).map_err(|why| directive.fault(why))?),
    };
    Ok(AddressRule { allows: directive.name == "allow", network })
}

/// Whether [`Reader::header`] reads a directive.
fn is_about_headers(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "add_header",
        "expires",
        "grpc_hide_header",
        "grpc_set_header",
        "more_clear_headers",
        "more_clear_input_headers",
        "more_set_headers",
        "more_set_input_headers",
        "proxy_hide_header",
        "proxy_set_header",
    ];
    NAMES.contains(&name)
}
