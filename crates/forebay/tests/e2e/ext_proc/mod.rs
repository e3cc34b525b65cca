//! External processors (`forebay.io/ext-proc-url`): requests and responses on their way through a service
//! that changes them.

mod bodies;
mod faults;
mod heads;

use std::sync::{Arc, Mutex};

use deciders::proto::processing::{
    BodyMutation, CommonResponse, HeaderMutation, ImmediateResponse, Mutation, PartResponse,
    ProcessingRequest, ProcessingResponse, RequestPart, ResponsePart, TrailersResponse,
};
use deciders::proto::{HeaderMap, HeaderValue, HeaderValueOption, HttpStatus};
use prost::Message;
use testkit::manifest::{Ingress, service, service_speaking};
use testkit::{Forebay, GrpcReply, GrpcServer, H2Upstream, Setup};

use crate::setup;

/// The parts that a processor has been sent.
type Seen = Arc<Mutex<Vec<RequestPart>>>;

/// A processor that answers each part so.
fn processor(answer: impl Fn(&RequestPart) -> Vec<GrpcReply> + Send + Sync + 'static) -> (GrpcServer, Seen) {
    let seen = Seen::default();
    let for_server = Arc::clone(&seen);
    let server = GrpcServer::new(move |message| {
        let request = ProcessingRequest::decode(message).expect("a message of the protocol");
        let part = request.request.expect("a part");
        for_server.lock().unwrap().push(part.clone());
        answer(&part)
    });
    (server, seen)
}

fn names(seen: &Seen) -> Vec<&'static str> {
    seen.lock().unwrap().iter().map(name).collect()
}

fn name(part: &RequestPart) -> &'static str {
    match part {
        RequestPart::RequestHeaders(_) => "request headers",
        RequestPart::ResponseHeaders(_) => "response headers",
        RequestPart::RequestBody(_) => "request body",
        RequestPart::ResponseBody(_) => "response body",
        RequestPart::RequestTrailers(_) => "request trailers",
        RequestPart::ResponseTrailers(_) => "response trailers",
    }
}

fn message(response: &ProcessingResponse) -> GrpcReply {
    GrpcReply::Message(response.encode_to_vec())
}

/// The answer to a part with these changes.
fn answer(part: &RequestPart, change: CommonResponse) -> ProcessingResponse {
    let headers = change.header_mutation.clone();
    let common = PartResponse { response: Some(change) };
    let trailers = TrailersResponse { header_mutation: headers };
    let response = match part {
        RequestPart::RequestHeaders(_) => ResponsePart::RequestHeaders(common),
        RequestPart::ResponseHeaders(_) => ResponsePart::ResponseHeaders(common),
        RequestPart::RequestBody(_) => ResponsePart::RequestBody(common),
        RequestPart::ResponseBody(_) => ResponsePart::ResponseBody(common),
        RequestPart::RequestTrailers(_) => ResponsePart::RequestTrailers(trailers),
        RequestPart::ResponseTrailers(_) => ResponsePart::ResponseTrailers(trailers),
    };
    ProcessingResponse { response: Some(response), ..ProcessingResponse::default() }
}

fn changed(part: &RequestPart, change: CommonResponse) -> Vec<GrpcReply> {
    vec![message(&answer(part, change))]
}

fn unchanged(part: &RequestPart) -> Vec<GrpcReply> {
    changed(part, CommonResponse::default())
}

fn with_headers(headers: HeaderMutation) -> CommonResponse {
    CommonResponse { header_mutation: Some(headers), ..CommonResponse::default() }
}

fn with_content(content: &[u8]) -> CommonResponse {
    let body = BodyMutation { mutation: Some(Mutation::Body(content.to_vec())) };
    CommonResponse { body_mutation: Some(body), ..CommonResponse::default() }
}

fn set(fields: &[(&str, &str)]) -> HeaderMutation {
    let option = |(name, value): &(&str, &str)| {
        let raw_value = value.as_bytes().to_vec();
        let header = HeaderValue { key: (*name).to_owned(), value: String::new(), raw_value };
        HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
    };
    HeaderMutation { set_headers: fields.iter().map(option).collect(), remove_headers: Vec::new() }
}

/// The value of a header that a processor has been sent.
fn value(headers: Option<&HeaderMap>, name: &str) -> Option<String> {
    let header = headers?.headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8(header.bytes().to_vec()).unwrap())
}

fn immediate(code: i32, headers: &[(&str, &str)], body: &str) -> Vec<GrpcReply> {
    let response = ImmediateResponse {
        status: Some(HttpStatus { code }),
        headers: Some(set(headers)),
        body: body.as_bytes().to_vec(),
        ..ImmediateResponse::default()
    };
    let response = Some(ResponsePart::ImmediateResponse(response));
    vec![message(&ProcessingResponse { response, ..ProcessingResponse::default() })]
}

/// An Ingress for `web.test` whose requests go through the processor.
fn ingress(settings: &[(&str, &str)]) -> Ingress {
    let url = "grpc://proc.default.svc.cluster.local:80";
    let processed = Ingress::new("web").path("web.test", "Prefix", "/", "svc");
    let processed = processed.annotation("forebay.io/ext-proc-url", url);
    let name =
        |name: &str| if name.contains('/') { name.to_owned() } else { format!("forebay.io/ext-proc-{name}") };
    // Many tests share the thread of the processors.
    let patient = ("message-timeout", "20s");
    let is_patient = settings.iter().all(|(name, _)| *name != patient.0);
    let settings = settings.iter().chain(is_patient.then_some(&patient));
    settings.fold(processed, |ingress, (setting, value)| ingress.annotation(&name(setting), value))
}

fn house(setup: Setup, ingress: &Ingress, endpoints: &str, processor: &GrpcServer) -> Forebay {
    let processor = service("proc", &[processor.address()]);
    setup.manifest("house.yaml", format!("{}---\n{endpoints}---\n{processor}", ingress.document())).start()
}

/// A house with these settings of the processor in front of endpoints that speak HTTP/1.
fn start(settings: &[(&str, &str)], upstream: std::net::SocketAddr, processor: &GrpcServer) -> Forebay {
    house(setup(), &ingress(settings), &service("svc", &[upstream]), processor)
}

/// The same in front of endpoints that speak HTTP/2.
fn start_h2(settings: &[(&str, &str)], upstream: &H2Upstream, processor: &GrpcServer) -> Forebay {
    let endpoints = service_speaking("svc", "kubernetes.io/h2c", &[upstream.address()]);
    house(setup(), &ingress(settings), &endpoints, processor)
}
