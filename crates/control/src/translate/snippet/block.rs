//! What hosts, locations and conditions hold: steps, changes to heads, and which clients are let in.

use model::{AddressRule, Block, Step};

use super::parse::Directive;
use super::{Fault, Reader};
use crate::options::parse_network;

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    Server,
    /// A location of an Ingress.
    Location,
    /// A location of the snippet's own.
    Place,
    IfInServer,
    IfInLocation,
}

/// What a block holds.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) block: Block,
    pub(super) rules: Vec<AddressRule>,
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
    pub(super) fn contents(&self, directives: &[Directive], context: Context) -> Result<Contents, Fault> {
        let mut contents = Contents::default();
        for directive in directives {
            self.add(directive, context, &mut contents)?;
        }
        Ok(contents)
    }

    /// Adds what a directive means to what its block holds.
    pub(super) fn add(
        &self,
        directive: &Directive,
        context: Context,
        to: &mut Contents,
    ) -> Result<(), Fault> {
        let Contents { block, rules } = to;
        let name = directive.name.as_str();
        match name {
            "if" if context.is_if() => return Err(directive.misplaced()),
            "if" => {
                let test = self.condition(directive)?;
                let inside = self.contents(directive.inside()?, context.within_if())?.block;
                block.steps.push(Step::If(test, inside));
                return Ok(());
            }
            _ if directive.block.is_some() => return Err(directive.unknown()),
            _ => {}
        }
        match name {
            "set" => block.steps.push(self.set(directive)?),
            "return" => block.steps.push(Step::Return(self.return_(directive)?)),
            "rewrite" => block.steps.push(Step::Rewrite(self.rewrite(directive)?)),
            "break" => {
                directive.arguments::<0>()?;
                block.steps.push(Step::Break);
            }
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
            // They say what is written to nginx's logs.
            "log_not_found" | "rewrite_log" => {}
            "access_log" if context == Context::Place && directive.words == ["off"] => {}
            _ if context == Context::IfInServer => return Err(directive.unknown()),
            _ => return self.header(directive, context, &mut block.headers),
        }
        Ok(())
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
