//! A response of an endpoint, as the rules of a firewall see it.
//!
//! Never in here: what the client gets.

use waf::Transaction;
use wire::h1::{Response, Version};

use crate::request::inspection::Inspection;

/// Gives the head of a response to the rules. False where they stop it.
pub(crate) fn head(inspection: &Inspection, response: &Response, head: &[u8]) -> bool {
    let protocol = match response.version {
        Version::Http11 => "HTTP/1.1",
        Version::Http10 => "HTTP/1.0",
    };
    inspection.step(3, |transaction| {
        let headers = response.fields.iter().map(|field| (field.name(head), field.value(head)));
        transaction.response_head(response.status, protocol, headers)
    })
}

/// The bytes of the body that the rules look at; none if they look at none.
pub(crate) fn body_bytes(inspection: &Inspection) -> Option<usize> {
    inspection.ask(Transaction::response_body_limit).flatten()
}

/// Gives the beginning of a body, or all of it, to the rules. False where they stop the response.
pub(crate) fn body(inspection: &Inspection, content: &[u8]) -> bool {
    inspection.step(4, |transaction| transaction.response_body(content))
        && inspection.step(4, Transaction::response_end)
}
