//! Bodies of requests: bytes in pieces of any size, and in the end names and values.
//!
//! Results do not depend on where the pieces are cut. Names, flags and errors are those of ModSecurity 3.
//! Never in here: rules, variables, a body that is kept as a whole, but for XML, whose parser needs it.

mod budget;
mod json;
mod multipart;
mod sink;
mod urlencoded;
mod xml;

use budget::Budget;
use json::Json;
use multipart::Multipart;
use urlencoded::UrlEncoded;
use xml::Xml;

pub use sink::{Flag, Place, Processor, Settings, Sink};
pub use urlencoded::{Pair, pairs};

/// The parser of one body.
pub struct Parser {
    machine: Machine,
    budget: Budget,
}

/// The parser of one kind of body.
enum Machine {
    UrlEncoded(UrlEncoded),
    Multipart(Box<Multipart>),
    Json(Json),
    Xml(Xml),
    Raw,
}

// === impl Parser ===

impl Parser {
    /// A parser for a body with this `Content-Type`, of which only a multipart body's boundary counts.
    pub fn new(processor: Processor, settings: &Settings, content_type: &[u8]) -> Self {
        let machine = match processor {
            Processor::UrlEncoded => Machine::UrlEncoded(UrlEncoded::new(settings.separator)),
            Processor::Multipart => {
                Machine::Multipart(Box::new(Multipart::new(content_type, settings.files_max)))
            }
            Processor::Json => Machine::Json(Json::new(settings.json_depth_max)),
            Processor::Xml => Machine::Xml(Xml::new(settings.xml_nodes)),
            Processor::Raw => Machine::Raw,
        };
        Self { machine, budget: Budget::new(settings) }
    }

    /// Parses the next piece. After an error the rest of the body is ignored.
    pub fn feed(&mut self, piece: &[u8], sink: &mut dyn Sink) {
        if piece.is_empty() || self.budget.has_failed() {
            return;
        }
        match &mut self.machine {
            Machine::UrlEncoded(machine) => machine.feed(piece, &mut self.budget, sink),
            Machine::Multipart(machine) => machine.feed(piece, &mut self.budget, sink),
            Machine::Json(machine) => machine.feed(piece, &mut self.budget, sink),
            Machine::Xml(machine) => machine.feed(piece),
            Machine::Raw => {}
        }
    }

    /// Ends the body: flags of a multipart body, and errors about what is missing, are reported here.
    pub fn end(mut self, sink: &mut dyn Sink) {
        match self.machine {
            Machine::UrlEncoded(mut machine) => machine.end(&mut self.budget, sink),
            Machine::Multipart(mut machine) => machine.end(&mut self.budget, sink),
            Machine::Json(mut machine) => machine.end(&mut self.budget, sink),
            Machine::Xml(machine) => machine.end(&mut self.budget, sink),
            Machine::Raw => {}
        }
    }
}

#[cfg(test)]
mod tests;
