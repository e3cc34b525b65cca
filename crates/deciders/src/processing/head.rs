//! Heads as a processor sees them, and what it may change of them.
//!
//! The rules are those that Envoy has without `mutation_rules`, except that `x-envoy-` is no special prefix,
//! and that the fields of framing and of the connection belong to the proxy: attempts to change what is not
//! the processor's are ignored, as by Envoy.

use crate::proto::processing::{HeaderMutation, ImmediateResponse};
use crate::proto::{AppendAction, HeaderMap, HeaderValue, HeaderValueOption};

/// The most fields that a mutation sets, and that it removes.
const MUTATIONS_MAX: usize = 1000;

/// The kind of a head, which decides on the pseudo-header fields that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// Of a request: `:path` can be changed.
    Request,
    /// Of a request whose body is replaced: `:method` too.
    ReplacedRequest,
    /// Of a response: `:status` can be changed.
    Response,
    /// Trailers, which have no such fields.
    Trailers,
}

/// Whether the processor sees a field, and may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The processor sees the field and may change it.
    Open,
    /// The processor sees the field, and cannot change it.
    Shown,
    /// The processor does not see the field.
    Hidden,
}

/// A field of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadField {
    /// The name, in the case of its sender.
    pub name: String,
    /// The value as bytes.
    pub value: Vec<u8>,
    /// Whether the processor sees it.
    pub visibility: Visibility,
}

/// The head of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Pseudo-header fields, with their colons.
    pub pseudo: Vec<(&'static str, Vec<u8>)>,
    /// The other fields in their order.
    pub fields: Vec<HeadField>,
}

/// A mutation that makes no head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMutation {
    /// A name that is no token.
    #[error("a name of a header is malformed: {0:?}")]
    Name(String),
    /// A value with a line break or another control character.
    #[error("the value of {0:?} is malformed")]
    Value(String),
    /// Both forms of a value.
    #[error("{0:?} has two values, one as text and one as bytes")]
    TwoValues(String),
    /// A number that is no action.
    #[error("the action for {0:?} is unknown")]
    Action(String),
    /// More than is read.
    #[error("there are too many changes to headers")]
    TooMany,
    /// The changed head is longer than allowed.
    #[error("the changed head is longer than {0} bytes")]
    TooLong(usize),
}

/// A response that a processor has the client get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Status of the response.
    pub status: u16,
    /// Its fields, without those of framing.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Content of the response.
    pub body: Vec<u8>,
    /// The status for a client that speaks gRPC, if there is one.
    pub grpc_status: Option<u32>,
    /// The reason, for the log.
    pub details: String,
}

impl HeadField {
    /// A field of a received head. Those of framing and of the connection are the proxy's own.
    pub fn new(name: &str, value: &[u8]) -> Self {
        let visibility = match () {
            () if name.eq_ignore_ascii_case("content-length") => Visibility::Shown,
            () if is_of_connection(name) => Visibility::Hidden,
            () => Visibility::Open,
        };
        Self { name: name.to_owned(), value: value.to_vec(), visibility }
    }
}

impl Head {
    /// The fields for the processor: names in lower case, values as bytes.
    pub fn to_map(&self) -> HeaderMap {
        let header =
            |key: String, value: &[u8]| HeaderValue { key, value: String::new(), raw_value: value.to_vec() };
        let pseudo = self.pseudo.iter().map(|(name, value)| header((*name).to_owned(), value));
        let seen = self.fields.iter().filter(|field| field.visibility != Visibility::Hidden);
        let fields = seen.map(|field| header(field.name.to_ascii_lowercase(), &field.value));
        HeaderMap { headers: pseudo.chain(fields).collect() }
    }

    /// Bytes of names and values.
    pub fn byte_len(&self) -> usize {
        let pseudo: usize = self.pseudo.iter().map(|(name, value)| name.len() + value.len()).sum();
        pseudo + self.fields.iter().map(|field| field.name.len() + field.value.len() + 4).sum::<usize>()
    }

    /// The value of a pseudo-header field.
    pub fn pseudo(&self, name: &str) -> &[u8] {
        self.pseudo.iter().find(|(known, _)| *known == name).map_or(&[], |(_, value)| value)
    }

    /// Removes the fields of this name, whoever they belong to.
    pub fn remove(&mut self, name: &str) {
        self.fields.retain(|field| !field.name.eq_ignore_ascii_case(name));
    }

    /// Makes the changes that the processor may make: removals first, then the others in their order.
    ///
    /// # Errors
    ///
    /// When the changed head would be malformed or too long.
    pub fn apply(
        &mut self,
        mutation: &HeaderMutation,
        kind: HeadKind,
        bytes_max: usize,
    ) -> Result<(), BadMutation> {
        if mutation.set_headers.len() > MUTATIONS_MAX || mutation.remove_headers.len() > MUTATIONS_MAX {
            return Err(BadMutation::TooMany);
        }
        for name in &mutation.remove_headers {
            if !is_name(name) {
                return Err(BadMutation::Name(name.clone()));
            }
            if is_open(name) {
                self.remove(name);
            }
        }
        for option in &mutation.set_headers {
            self.set(option, kind)?;
        }
        if self.byte_len() > bytes_max { Err(BadMutation::TooLong(bytes_max)) } else { Ok(()) }
    }

    fn set(&mut self, option: &HeaderValueOption, kind: HeadKind) -> Result<(), BadMutation> {
        let Some(header) = &option.header else { return Ok(()) };
        let (name, value) = (&header.key, header.bytes());
        if !header.value.is_empty() && !header.raw_value.is_empty() {
            return Err(BadMutation::TwoValues(name.clone()));
        }
        if !is_name(name) {
            return Err(BadMutation::Name(name.clone()));
        }
        if !is_value(value) {
            return Err(BadMutation::Value(name.clone()));
        }
        let action = action(option)?;
        if name.starts_with(':') {
            return self.set_pseudo(name, value, kind);
        }
        if !is_open(name) {
            return Ok(());
        }
        let exists = self.fields.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        match (action, exists) {
            (AppendAction::AddIfAbsent, true) | (AppendAction::OverwriteIfExists, false) => {}
            (AppendAction::AppendIfExistsOrAdd, _) | (_, false) => {
                self.fields.push(HeadField::new(name, value));
            }
            (AppendAction::OverwriteIfExistsOrAdd | AppendAction::OverwriteIfExists, true) => {
                self.overwrite(name, value);
            }
        }
        Ok(())
    }

    /// Replaces the fields of a name by one, in the place of the first.
    fn overwrite(&mut self, name: &str, value: &[u8]) {
        let mut new = Some(value);
        self.fields.retain_mut(|field| {
            if !field.name.eq_ignore_ascii_case(name) {
                return true;
            }
            let Some(value) = new.take() else { return false };
            value.clone_into(&mut field.value);
            true
        });
    }

    fn set_pseudo(&mut self, name: &str, value: &[u8], kind: HeadKind) -> Result<(), BadMutation> {
        let is_good = match (name, kind) {
            (":path", HeadKind::Request | HeadKind::ReplacedRequest) => is_path(value),
            (":method", HeadKind::ReplacedRequest) => is_token(value) && value != b"CONNECT",
            (":status", HeadKind::Response) => status(value).is_some(),
            _ => return Ok(()),
        };
        if !is_good {
            return Err(BadMutation::Value(name.to_owned()));
        }
        if let Some((_, own)) = self.pseudo.iter_mut().find(|(known, _)| *known == name) {
            value.clone_into(own);
        }
        Ok(())
    }
}

impl Immediate {
    /// The response that a processor has the client get. A status that is none is 200, as with Envoy.
    ///
    /// # Errors
    ///
    /// When its fields would be malformed or too long.
    pub fn of(response: ImmediateResponse, bytes_max: usize) -> Result<Self, BadMutation> {
        let code = response.status.map(|status| status.code);
        let code = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (200..600).contains(code));
        let mut head = Head::default();
        if !response.body.is_empty() {
            head.fields.push(HeadField::new("Content-Type", b"text/plain"));
        }
        if let Some(mutation) = &response.headers {
            head.apply(mutation, HeadKind::Trailers, bytes_max)?;
        }
        Ok(Self {
            status: code.unwrap_or(200),
            fields: head.fields.into_iter().map(|field| (field.name, field.value)).collect(),
            body: response.body,
            grpc_status: response.grpc_status.map(|status| status.status),
            details: response.details,
        })
    }
}

/// The action for a field. Without one, the value replaces others: that is what Envoy's filter does, though
/// the protocol's first action is another.
fn action(option: &HeaderValueOption) -> Result<AppendAction, BadMutation> {
    match (option.append, option.append_action) {
        (Some(true), _) => Ok(AppendAction::AppendIfExistsOrAdd),
        (Some(false), _) | (None, 0) => Ok(AppendAction::OverwriteIfExistsOrAdd),
        (None, action) => AppendAction::try_from(action).map_err(|_| {
            BadMutation::Action(option.header.as_ref().map(|it| it.key.clone()).unwrap_or_default())
        }),
    }
}

/// A status that a processor may give a response.
fn status(value: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() == 3)?;
    text.parse().ok().filter(|status| (200..600).contains(status))
}

/// Whether a processor may change the field of this name.
fn is_open(name: &str) -> bool {
    let is_fixed = ["host", "content-length"].iter().any(|fixed| name.eq_ignore_ascii_case(fixed));
    !name.starts_with(':') && !is_fixed && !is_of_connection(name)
}

/// Whether a field is about one connection, or about the framing of a message on it.
fn is_of_connection(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    // Applications take an underscore for a dash.
    let dashed = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    NAMES.iter().any(|known| name.bytes().map(dashed).eq(known.bytes()))
}

fn is_name(name: &str) -> bool {
    is_token(name.strip_prefix(':').unwrap_or(name).as_bytes())
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn is_value(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f)
}

fn is_path(value: &[u8]) -> bool {
    value.starts_with(b"/") && value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proto::HttpStatus;

    const BYTES_MAX: usize = 1000;

    fn request() -> Head {
        let fields =
            [("Host", "a.test"), ("X-A", "1"), ("x-a", "2"), ("Connection", "x"), ("Content-Length", "3")];
        Head {
            pseudo: vec![
                (":method", b"GET".to_vec()),
                (":scheme", b"http".to_vec()),
                (":authority", b"a.test".to_vec()),
                (":path", b"/p".to_vec()),
            ],
            fields: fields.map(|(name, value)| HeadField::new(name, value.as_bytes())).to_vec(),
        }
    }

    fn set(name: &str, value: &str) -> HeaderValueOption {
        let header = HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() };
        HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
    }

    fn mutation(set_headers: Vec<HeaderValueOption>, remove: &[&str]) -> HeaderMutation {
        let remove_headers = remove.iter().map(|name| (*name).to_owned()).collect();
        HeaderMutation { set_headers, remove_headers }
    }

    fn values(head: &Head, name: &str) -> Vec<String> {
        let named = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| String::from_utf8_lossy(&field.value).into_owned()).collect()
    }

    fn changed(set_headers: Vec<HeaderValueOption>, remove: &[&str], kind: HeadKind) -> Head {
        let mut head = request();
        head.apply(&mutation(set_headers, remove), kind, BYTES_MAX).unwrap();
        head
    }

    #[test]
    fn a_processor_sees_names_in_lower_case_and_no_field_of_the_connection() {
        let map = request().to_map();
        let names: Vec<_> = map.headers.iter().map(|header| header.key.as_str()).collect();
        assert_eq!(
            names,
            [":method", ":scheme", ":authority", ":path", "host", "x-a", "x-a", "content-length"]
        );
        assert!(map.headers.iter().all(|header| header.value.is_empty()), "values are bytes");
    }

    #[test]
    fn each_action_does_what_it_says() {
        let act = |name: &str, action: i32, append: Option<bool>| {
            let option = HeaderValueOption { append_action: action, append, ..set(name, "3") };
            values(&changed(vec![option], &[], HeadKind::Request), name)
        };
        assert_eq!(act("X-A", 0, None), ["3"], "without an action it replaces, as with Envoy");
        assert_eq!(act("X-A", 0, Some(true)), ["1", "2", "3"]);
        assert_eq!(act("X-A", 1, Some(false)), ["3"]);
        assert_eq!(act("X-A", 1, None), ["1", "2"]);
        assert_eq!(act("X-B", 1, None), ["3"]);
        assert_eq!(act("X-A", 2, None), ["3"]);
        assert_eq!(act("X-A", 3, None), ["3"]);
        assert_eq!(act("X-B", 3, None), [""; 0]);
        let odd = HeaderValueOption { append_action: 9, ..set("X-A", "3") };
        assert!(request().apply(&mutation(vec![odd], &[]), HeadKind::Request, BYTES_MAX).is_err());
    }

    #[test]
    fn what_belongs_to_the_proxy_stays() {
        let names =
            ["host", "Connection", "transfer_encoding", "content-length", ":authority", ":scheme", ":method"];
        let head = changed(names.map(|name| set(name, "evil")).to_vec(), &names, HeadKind::Request);
        assert_eq!(head, request());
        let head = changed(vec![set(":path", "/q?r"), set(":status", "404")], &[":path"], HeadKind::Request);
        assert_eq!(head.pseudo(":path"), b"/q?r");
        let head = changed(vec![set(":method", "POST")], &[], HeadKind::ReplacedRequest);
        assert_eq!(head.pseudo(":method"), b"POST");
    }

    #[test]
    fn a_head_cannot_be_split() {
        for option in [
            set("x\r\ny", "1"),
            set("x y", "1"),
            set("", "1"),
            set("X-B", "1\r\nX-C: 2"),
            set("X-B", "1\0"),
            set(":path", "//evil.test/ HTTP/1.1"),
            set(":path", "evil"),
            set(":path", "/a\tb"),
        ] {
            let mutation = mutation(vec![option], &[]);
            assert!(request().apply(&mutation, HeadKind::Request, BYTES_MAX).is_err(), "{mutation:?}");
        }
        let mut response = Head { pseudo: vec![(":status", b"200".to_vec())], fields: Vec::new() };
        for value in ["100", "20", "0200", "600", "+20", "abc"] {
            let mutation = mutation(vec![set(":status", value)], &[]);
            assert!(response.apply(&mutation, HeadKind::Response, BYTES_MAX).is_err(), "{value}");
        }
        let long = "x".repeat(BYTES_MAX);
        let mutation = mutation(vec![set("X-B", &long)], &[]);
        assert_eq!(
            request().apply(&mutation, HeadKind::Request, BYTES_MAX),
            Err(BadMutation::TooLong(BYTES_MAX))
        );
    }

    #[test]
    fn an_immediate_response_has_a_status_that_is_one() {
        for (code, expected) in
            [(None, 200), (Some(403), 403), (Some(101), 200), (Some(0), 200), (Some(999), 200)]
        {
            let status = code.map(|code| HttpStatus { code });
            let body = b"no".to_vec();
            let headers = Some(mutation(vec![set("X-Why", "x"), set("Content-Length", "9")], &[]));
            let response = ImmediateResponse { status, headers, body, ..ImmediateResponse::default() };
            let immediate = Immediate::of(response, BYTES_MAX).unwrap();
            assert_eq!(immediate.status, expected);
            let names: Vec<_> = immediate.fields.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["Content-Type", "X-Why"]);
        }
    }

    proptest! {
        #[test]
        fn no_mutation_makes_a_malformed_head(name: String, value: Vec<u8>, action in -1_i32..6) {
            let header = HeaderValue { key: name, value: String::new(), raw_value: value };
            let option = HeaderValueOption { header: Some(header), append_action: action, ..HeaderValueOption::default() };
            let mut head = request();
            if head.apply(&mutation(vec![option], &[]), HeadKind::Request, BYTES_MAX).is_ok() {
                for field in &head.fields {
                    prop_assert!(is_token(field.name.as_bytes()) && is_value(&field.value));
                }
                prop_assert_eq!(values(&head, "connection"), ["x"]);
            }
        }
    }
}
