//! The values that a log line, a header or a key is made of.
//!
//! Never in here: how a value is written, and where it comes from.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use geo::Field;
use model::template::{Template, Variable};
use model::{Captures, Labels, StepBudget, ValueMap};

use super::{Connection, TimeForm, Try};
use crate::Reason;

/// The source of a request's values.
///
/// A text with variables calls one method for each variable that occurs in it, in order, and no other method:
/// a value is computed only for the texts that use it. `None` is a missing value, which the log shows as `-`.
/// The provided methods are those of a request of which only the connection is known.
pub trait Values {
    /// The client's address, determined by the settings of forwarded headers.
    fn remote_addr(&self) -> IpAddr;

    /// The client's connection.
    fn connection(&self) -> Connection<'_>;

    /// The time at which the request ended, since the epoch.
    fn unix_time(&self) -> Duration;

    /// Appends the same time as text. It has no bytes that need an escape.
    fn write_time(&self, form: TimeForm, out: &mut Vec<u8>);

    /// Name of the machine.
    fn hostname(&self) -> &str;

    /// The id of Forebay's process.
    fn pid(&self) -> u32;

    /// User name of Basic authentication.
    fn remote_user(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The unchanged first line of the request.
    fn request_line(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The method of the request.
    fn method(&self) -> Option<&[u8]> {
        None
    }

    /// Request target with its query, as it was sent.
    fn target(&self) -> Option<&[u8]> {
        None
    }

    /// The path after normalisation, without a query.
    fn path(&self) -> Option<&[u8]> {
        None
    }

    /// Query, without the question mark.
    fn query(&self) -> Option<&[u8]> {
        None
    }

    /// Protocol version, such as `HTTP/1.1`.
    fn protocol(&self) -> Option<&str> {
        None
    }

    /// The requested host, in lower case and without a port.
    fn host(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The host for the endpoint, which a trusted hop may have named.
    fn forwarded_host(&self) -> Option<&[u8]> {
        None
    }

    /// The scheme for the endpoint, which a trusted hop may have named.
    fn forwarded_scheme(&self) -> Option<&[u8]> {
        None
    }

    /// The status sent to the client.
    fn status(&self) -> u16 {
        0
    }

    /// Bytes of the response body sent.
    fn body_bytes_sent(&self) -> u64 {
        0
    }

    /// Bytes sent, head included.
    fn bytes_sent(&self) -> u64 {
        0
    }

    /// Bytes received: request line, headers and body.
    fn request_length(&self) -> u64 {
        0
    }

    /// Time from the first byte of the request to the last byte of the response.
    fn request_time(&self) -> Duration {
        Duration::ZERO
    }

    /// `namespace-service-port` of the upstream.
    fn upstream_name(&self) -> Option<&str> {
        None
    }

    /// The canary that served the request; its absence is shown as an empty text, as in ingress-nginx.
    fn alternative_upstream_name(&self) -> Option<&str> {
        None
    }

    /// The cache's verdict; none without a cache.
    fn cache_status(&self) -> Option<&str> {
        None
    }

    /// The reason why Forebay responded itself or aborted the response; none for a response of an endpoint or
    /// a rule.
    fn reason(&self) -> Option<Reason> {
        None
    }

    /// The tries, in order.
    fn tries(&self) -> &[Try] {
        &[]
    }

    /// The request's id.
    fn request_id(&self) -> Option<&[u8]> {
        None
    }

    /// The `traceparent` for endpoints; none for a request that is not traced.
    fn traceparent(&self) -> Option<&[u8; 55]> {
        None
    }

    /// The labels of the route.
    fn labels(&self) -> Option<&Labels> {
        None
    }

    /// The name of a `FastCGI` script for a path that ends in a slash.
    fn index(&self) -> Option<&str> {
        None
    }

    /// A header of the request, by its name in lower case; all values of a repeated header.
    fn request_header(&self, _name: &str) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// A header of the response to the client, by its name in lower case.
    fn response_header(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// A cookie that the client sent.
    fn cookie(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// A parameter of the query, as sent.
    fn argument(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// A claim of the client's token or session, or a label of its API key.
    fn claim(&self, _name: &str) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The value that a database has for the client's address.
    fn geo(&self, _field: Field) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The text that a group of the route's regular expression has matched; groups are counted from 1.
    fn capture(&self, _group: u8) -> Option<&[u8]> {
        None
    }

    /// The value that a script has given to a name.
    fn set(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// The value of a variable without a method of its own.
    fn computed(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The value of a table for a text, and the groups that its expression has captured; none if the look-up
    /// takes too many steps.
    fn in_map<'m>(&self, map: &'m ValueMap, text: &[u8]) -> Option<(&'m Template, Option<Captures>)> {
        map.find(text, &StepBudget::default()).ok()
    }
}
