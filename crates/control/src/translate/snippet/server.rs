//! The contents of a snippet for a host: those of a block, and locations of its own.

use model::{HostScript, Networks, ScriptPath, ScriptPlace};

use super::block::{Contents, Context};
use super::parse::Directive;
use super::{Fault, OfHost, Reader};

impl Reader<'_> {
    pub(super) fn server(&self, directives: &[Directive]) -> OfHost {
        let (mut contents, mut places) = (Contents::default(), Vec::new());
        for directive in directives {
            let read = match directive.name.as_str() {
                "location" => self.place(directive).map(|place| places.push(place)),
                _ => self.add(directive, Context::Server, &mut contents),
            };
            read.unwrap_or_else(|fault| self.note(fault));
        }
        let Contents { block, rules } = contents;
        OfHost { script: HostScript { block, places, ..HostScript::default() }, rules, asks: Vec::new() }
    }

    fn place(&self, directive: &Directive) -> Result<ScriptPlace, Fault> {
        let path = self.path(directive)?;
        let before = self.asks.borrow().len();
        let Contents { block, rules } = self.contents(directive.inside()?, Context::SourceLocation);
        for ask in self.asks.borrow_mut().drain(before..) {
            self.remarks.borrow_mut().push(ask.remark("this location forwards no request"));
        }
        let networks = (!rules.is_empty()).then(|| Networks { rules: rules.into(), ..Networks::default() });
        Ok(ScriptPlace { path, block, networks })
    }

    /// A path with its modifier, which may be written without a blank between them.
    fn path(&self, directive: &Directive) -> Result<ScriptPath, Fault> {
        let (modifier, path) = match directive.words.as_slice() {
            [modifier, path] => (modifier.as_str(), path.as_str()),
            [path] => ["=", "^~", "~*", "~"]
                .into_iter()
                .find_map(|modifier| Some((modifier, path.strip_prefix(modifier)?)))
                .unwrap_or(("", path)),
            _ => return Err(directive.fault("needs a path, and a modifier before it if there is one")),
        };
        let literal = |make: fn(String) -> ScriptPath| {
            let is_path = path.starts_with('/');
            let fault = || directive.fault(format!("has {path:?}, which is no path"));
            is_path.then(|| make(path.to_owned())).ok_or_else(fault)
        };
        match modifier {
            "" => literal(ScriptPath::Prefix),
            "=" => literal(ScriptPath::Exact),
            "^~" => literal(ScriptPath::FirmPrefix),
            "~" => Ok(ScriptPath::Matching(self.expression(directive, path, false)?)),
            "~*" => Ok(ScriptPath::Matching(self.expression(directive, path, true)?)),
            _ => Err(directive.fault(format!("has the modifier {modifier:?}, which is not understood"))),
        }
    }
}
