//! The contents of a snippet for a host: those of a block, and locations of its own.

use std::sync::Arc;

use model::{HostScript, Networks, Return, ReturnContent, ScriptPath, ScriptPlace, Step};

use super::block::{Contents, Context};
use super::error_page::ErrorBlocks;
use super::parse::Directive;
use super::pass::forwards;
use super::{Fault, OfHost, Reader};

impl Reader<'_> {
    pub(super) fn server(&self, directives: &[Directive]) -> OfHost {
        let (mut contents, mut places) = (Contents::default(), Vec::new());
        let mut error_blocks = ErrorBlocks::new();
        for directive in directives {
            let read = match directive.name.as_str() {
                "location" => self.place(directive, &mut error_blocks).map(|place| places.extend(place)),
                _ => self.add(directive, Context::Server, &mut contents),
            };
            read.unwrap_or_else(|fault| self.note(fault));
        }
        let Contents { block, rules, .. } = contents;
        let script = HostScript { block, places, ..HostScript::default() };
        OfHost { script, rules, error_blocks, ..OfHost::default() }
    }

    /// Reads a location; none is returned for one with a name, which answers in place of errors alone.
    fn place(&self, directive: &Directive, errors: &mut ErrorBlocks) -> Result<Option<ScriptPlace>, Fault> {
        let name = directive.words.first().filter(|word| word.starts_with('@'));
        let path = if name.is_none() { Some(self.path(directive)?) } else { None };
        let before = self.asks.borrow().len();
        let directives = directive.inside()?;
        let is_passing = name.is_none() && forwards(directives);
        let context = if is_passing { Context::PassingLocation } else { Context::SourceLocation };
        let (passing, others): (Vec<_>, Vec<_>) =
            directives.iter().cloned().partition(|one| is_passing && one.name == "proxy_pass");
        let Contents { mut block, rules, is_internal } = self.contents(&others, context);
        let why = if is_passing {
            "requests that a snippet forwards have the times and the longest body of the Ingress"
        } else {
            "this location forwards no request"
        };
        for ask in self.asks.borrow_mut().drain(before..) {
            self.remarks.borrow_mut().push(ask.remark(why));
        }
        if block.steps.iter().any(|step| matches!(step, Step::Return(_))) {
            let key = name.cloned().or_else(|| match &path {
                Some(ScriptPath::Exact(path) | ScriptPath::Prefix(path) | ScriptPath::FirmPrefix(path)) => {
                    Some(path.clone())
                }
                _ => None,
            });
            errors.extend(key.map(|key| (key, Arc::new(block.clone()))));
        }
        let Some(path) = path else { return Ok(None) };
        let pass = passing.first().map(|one| self.pass(one, Some(&path))).transpose()?;
        if is_internal {
            block.steps.insert(0, Step::Return(Return { status: 404, content: ReturnContent::Nothing }));
        }
        let networks = (!rules.is_empty()).then(|| Networks { rules: rules.into(), ..Networks::default() });
        Ok(Some(ScriptPlace { path, block, networks, pass }))
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
