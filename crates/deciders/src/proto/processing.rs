//! `envoy.service.ext_proc.v3`: a conversation about one request and its response.

use prost::{Enumeration, Message, Oneof};

use super::{HeaderMap, HeaderValueOption, HttpStatus, Time};

/// The path of the call.
pub const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// A message to the processor.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessingRequest {
    /// The part of the request or response.
    #[prost(oneof = "RequestPart", tags = "2, 3, 4, 5, 6, 7")]
    pub request: Option<RequestPart>,
    /// How bodies are sent; in the first message only.
    #[prost(message, optional, tag = "11")]
    pub protocol_config: Option<ProtocolConfiguration>,
}

/// A part of a request or response, for the processor.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum RequestPart {
    /// The head of the request.
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    /// The head of the response.
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    /// The request's body, or a part of it.
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    /// The response's body, or a part of it.
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    /// The trailers of the request.
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    /// The trailers of the response.
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// How bodies are sent.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProtocolConfiguration {
    /// Mode of requests' bodies.
    #[prost(enumeration = "BodySendMode", tag = "1")]
    pub request_body_mode: i32,
    /// Mode of responses' bodies.
    #[prost(enumeration = "BodySendMode", tag = "2")]
    pub response_body_mode: i32,
}

/// `HttpHeaders`: a head.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HttpHeaders {
    /// The fields, after the pseudo-header fields.
    #[prost(message, optional, tag = "1")]
    pub headers: Option<HeaderMap>,
    /// No body follows.
    #[prost(bool, tag = "3")]
    pub end_of_stream: bool,
}

/// `HttpBody`: a piece of content.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HttpBody {
    /// Bytes of the content.
    #[prost(bytes = "vec", tag = "1")]
    pub body: Vec<u8>,
    /// Neither content nor trailers follow.
    #[prost(bool, tag = "2")]
    pub end_of_stream: bool,
}

/// `HttpTrailers`: the trailers of a message.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HttpTrailers {
    /// Fields of the trailers.
    #[prost(message, optional, tag = "1")]
    pub trailers: Option<HeaderMap>,
}

/// A message of the processor.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessingResponse {
    /// Answer to a part.
    #[prost(oneof = "ResponsePart", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub response: Option<ResponsePart>,
    /// The parts that the processor wants of this request and its response.
    #[prost(message, optional, tag = "9")]
    pub mode_override: Option<ProcessingMode>,
    /// The processor needs more time; the rest of the message has no meaning then.
    #[prost(message, optional, tag = "10")]
    pub override_message_timeout: Option<Time>,
}

/// An answer about a part of a request or response.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum ResponsePart {
    /// To the head of the request.
    #[prost(message, tag = "1")]
    RequestHeaders(PartResponse),
    /// To the head of the response.
    #[prost(message, tag = "2")]
    ResponseHeaders(PartResponse),
    /// To content of the request.
    #[prost(message, tag = "3")]
    RequestBody(PartResponse),
    /// To content of the response.
    #[prost(message, tag = "4")]
    ResponseBody(PartResponse),
    /// To the trailers of the request.
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersResponse),
    /// To the trailers of the response.
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    /// The client gets this in place of the endpoint's response.
    #[prost(message, tag = "7")]
    ImmediateResponse(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`, which have the same form.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartResponse {
    /// The changes; absent where there are none.
    #[prost(message, optional, tag = "1")]
    pub response: Option<CommonResponse>,
}

/// The answer to trailers.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TrailersResponse {
    /// The changes; absent where there are none.
    #[prost(message, optional, tag = "1")]
    pub header_mutation: Option<HeaderMutation>,
}

/// Changes to a head and to content.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommonResponse {
    /// A number of [`ResponseStatus`].
    #[prost(enumeration = "ResponseStatus", tag = "1")]
    pub status: i32,
    /// Changes to the head.
    #[prost(message, optional, tag = "2")]
    pub header_mutation: Option<HeaderMutation>,
    /// Changes to the content.
    #[prost(message, optional, tag = "3")]
    pub body_mutation: Option<BodyMutation>,
    /// The route should be looked up again.
    #[prost(bool, tag = "5")]
    pub clear_route_cache: bool,
}

/// `CommonResponse.ResponseStatus`: how the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum ResponseStatus {
    /// The conversation goes on.
    Continue = 0,
    /// The body is replaced as a whole, and nothing else of this message is sent to the processor.
    ContinueAndReplace = 1,
}

/// Changes to fields.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderMutation {
    /// Fields that are set or added.
    #[prost(message, repeated, tag = "1")]
    pub set_headers: Vec<HeaderValueOption>,
    /// Names of fields that are removed first.
    #[prost(string, repeated, tag = "2")]
    pub remove_headers: Vec<String>,
}

/// `BodyMutation`: other content.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BodyMutation {
    /// The content, or its removal.
    #[prost(oneof = "Mutation", tags = "1, 2, 3")]
    pub mutation: Option<Mutation>,
}

/// Content in place of other content.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Mutation {
    /// The new content.
    #[prost(bytes, tag = "1")]
    Body(Vec<u8>),
    /// Whether the content is removed.
    #[prost(bool, tag = "2")]
    ClearBody(bool),
    /// Content of a mode that is not offered.
    #[prost(message, tag = "3")]
    StreamedResponse(StreamedBodyResponse),
}

/// Content in the mode `FULL_DUPLEX_STREAMED`, whose fields are of no use here.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StreamedBodyResponse {}

/// A response in place of the endpoint's.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ImmediateResponse {
    /// The status; absent for 200.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// Changes to the fields that an answer has.
    #[prost(message, optional, tag = "2")]
    pub headers: Option<HeaderMutation>,
    /// Content of the response.
    #[prost(bytes = "vec", tag = "3")]
    pub body: Vec<u8>,
    /// The status of a gRPC call.
    #[prost(message, optional, tag = "4")]
    pub grpc_status: Option<GrpcStatus>,
    /// The reason, for the log.
    #[prost(string, tag = "5")]
    pub details: String,
}

/// A status of gRPC.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct GrpcStatus {
    /// Code of the status.
    #[prost(uint32, tag = "1")]
    pub status: u32,
}

/// `envoy.extensions.filters.http.ext_proc.v3.ProcessingMode`: the parts that are sent.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProcessingMode {
    /// The head of the request; without effect in an override.
    #[prost(enumeration = "HeaderSendMode", tag = "1")]
    pub request_header_mode: i32,
    /// The head of the response.
    #[prost(enumeration = "HeaderSendMode", tag = "2")]
    pub response_header_mode: i32,
    /// The request's body.
    #[prost(enumeration = "BodySendMode", tag = "3")]
    pub request_body_mode: i32,
    /// The response's body.
    #[prost(enumeration = "BodySendMode", tag = "4")]
    pub response_body_mode: i32,
    /// The trailers of the request.
    #[prost(enumeration = "HeaderSendMode", tag = "5")]
    pub request_trailer_mode: i32,
    /// The trailers of the response.
    #[prost(enumeration = "HeaderSendMode", tag = "6")]
    pub response_trailer_mode: i32,
}

/// `ProcessingMode.HeaderSendMode`: whether a head is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum HeaderSendMode {
    /// As it is configured.
    Default = 0,
    /// They are sent.
    Send = 1,
    /// They are not sent.
    Skip = 2,
}

/// `ProcessingMode.BodySendMode`: how content is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum BodySendMode {
    /// No content is sent.
    None = 0,
    /// Content is sent piece by piece.
    Streamed = 1,
    /// The whole content is sent in one message.
    Buffered = 2,
    /// As much of the content as may be buffered is sent in one message.
    BufferedPartial = 3,
    /// The processor answers when it likes. Not offered.
    FullDuplexStreamed = 4,
}
