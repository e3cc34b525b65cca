//! Authorization services in Envoy's protocol, from YAML: `forebay.io/ext-authz-url`, and the Gateway API's
//! `ExternalAuth`.

mod answers;
mod faults;
mod gateway;
mod http;

use deciders::grpc;
use deciders::proto::auth::{
    AttributeContext, CHECK, CheckRequest, CheckResponse, DeniedHttpResponse, HttpRequest, HttpResponse,
    OkHttpResponse,
};
use deciders::proto::{HeaderValue, HeaderValueOption, HttpStatus, RpcStatus};
use prost::Message;
use testkit::manifest::{Ingress, service};
use testkit::{Canned, Connection, Forebay, H2Peer, H2Upstream, Response, Setup};

/// Media type of gRPC.
const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// Where the service is.
const URL: &str = "grpc://authz.default.svc:80";

/// A service over gRPC whose questions the test answers.
struct Service(H2Upstream);

/// A question that waits for its answer.
struct Asked {
    peer: H2Peer,
    attributes: AttributeContext,
}

impl Service {
    fn start() -> Self {
        Self(H2Upstream::clear())
    }

    /// Takes the next question.
    fn asked(&self) -> Asked {
        let mut peer = self.0.accept_request();
        assert_eq!((peer.request.method().as_str(), peer.request.uri().path()), ("POST", CHECK));
        assert_eq!(peer.header("content-type").as_deref(), Some("application/grpc"));
        assert_eq!(peer.header("te").as_deref(), Some("trailers"));
        let (body, _) = peer.body.read_to_end();
        let place = grpc::message(&body, usize::MAX).expect("a message").expect("a whole one");
        assert_eq!(place.end, body.len(), "one message");
        let question = CheckRequest::decode(&body[place]).expect("a question");
        Asked { peer, attributes: question.attributes.expect("attributes") }
    }
}

impl Asked {
    fn http(&self) -> &HttpRequest {
        self.attributes.request.as_ref().and_then(|request| request.http.as_ref()).expect("a request")
    }

    /// Answers with a message, and the status of a call that went well.
    fn answer(&mut self, answer: &CheckResponse) {
        let mut message = Vec::new();
        grpc::write(answer, &mut message);
        self.say(&[], &message);
    }

    /// Answers with these bytes and more headers.
    fn say(&mut self, headers: &[(&str, &str)], message: &[u8]) {
        let headers = [&[GRPC], headers].concat();
        let mut sender = self.peer.respond(200, &headers, false);
        sender.send(message.to_vec(), false);
        sender.send_trailers(&[("grpc-status", "0")]);
    }

    fn allow(&mut self) {
        self.answer(&allowed(OkHttpResponse::default()));
    }
}

fn allowed(ok: OkHttpResponse) -> CheckResponse {
    CheckResponse { status: Some(status(0)), http_response: Some(HttpResponse::Ok(ok)) }
}

fn denied(code: i32, headers: Vec<HeaderValueOption>, body: &str) -> CheckResponse {
    let denied = DeniedHttpResponse { status: Some(HttpStatus { code }), headers, body: body.to_owned() };
    CheckResponse { status: Some(status(7)), http_response: Some(HttpResponse::Denied(denied)) }
}

fn status(code: i32) -> RpcStatus {
    RpcStatus { code, message: String::new() }
}

fn header(name: &str, value: &str) -> HeaderValueOption {
    appended(name, value, None)
}

fn appended(name: &str, value: &str, append: Option<bool>) -> HeaderValueOption {
    let header = HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() };
    HeaderValueOption { header: Some(header), append, append_action: 0, keep_empty_value: false }
}

const TIMEOUT: &str = "forebay.io/ext-authz-timeout";

/// `NAME.test` behind the service, which has much time: many tests run at once.
fn guarded(name: &str) -> Ingress {
    open(name).annotation("forebay.io/ext-authz-url", URL).annotation(TIMEOUT, "20s")
}

fn open(name: &str) -> Ingress {
    Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc")
}

fn house(setup: Setup, upstream: &Canned, service_at: &Service, ingresses: &[Ingress]) -> Forebay {
    let services = [service("svc", &[upstream.address()]), service("authz", &[service_at.0.address()])];
    let documents = ingresses.iter().map(Ingress::document).chain(services).collect::<Vec<_>>().join("---\n");
    setup.manifest("house.yaml", documents).start()
}

/// Sends a request, and leaves its response to be read.
fn send(forebay: &Forebay, host: &str, target: &str, fields: &str) -> Connection {
    let mut client = forebay.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}.test\r\n{fields}\r\n"));
    client
}

/// The response to a request about which the service answers so.
fn answered(forebay: &Forebay, service: &Service, host: &str, answer: &CheckResponse) -> Response {
    let mut client = send(forebay, host, "/", "");
    service.asked().answer(answer);
    client.read_response()
}
