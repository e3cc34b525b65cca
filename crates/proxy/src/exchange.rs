//! A request on its way: what it says, the configuration that it began with, and what has become of it so far.
//!
//! Never in here: what is done with it, which is `serve`'s.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::{Action, Backends, Canary, ClusterId, Forward, Route, StepBudget};
use observe::Reason;
use wire::Known;
use wire::h1::{Request, TargetForm};

use crate::cache::{Concern, Passage, Told};
use crate::client::{Client, Timeout};
use crate::clients::Admitted;
use crate::clock::Moment;
use crate::conn::Conn;
use crate::deadline::Deadline;
use crate::deliver::Recipient;
use crate::fault::Retry;
use crate::filters::response::Asking;
use crate::filters::{self, Forwarded, Rewritten};
use crate::pace::Direction;
use crate::progress::Progress;
use crate::random::Random;
use crate::replicas::Guest;
use crate::report::Report;
use crate::script_state::ScriptState;
use crate::trace::Trace;
use crate::upstream::Place;
use crate::worker::{Worker, WorkerConfig};

/// What becomes of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRequest {
    /// It waits for another.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is closed once the client has been heard out.
    Linger,
    /// It is closed in the middle of a response.
    Abort,
}

/// A request on its way.
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) conn: &'a Conn,
    /// Where the request came from.
    pub(crate) client: Client<'a>,
    /// For one wait at a time.
    pub(crate) deadline: &'a Deadline,
    /// The configuration that it began with.
    pub(crate) config: &'a WorkerConfig,
    /// The head's bytes, to which `request` refers.
    pub(crate) head: &'a [u8],
    pub(crate) request: &'a Request,
    pub(crate) forwarded: Forwarded<'a>,
    /// Normalised path.
    pub(crate) path: Cow<'a, [u8]>,
    /// Where it goes, once that is known.
    pub(crate) route: Cell<Option<&'a Arc<Route>>>,
    /// Matches of the route's regular expression, and what was made of them.
    pub(crate) rewritten: OnceCell<Box<Rewritten>>,
    /// What scripts have come to, at hosts that have any.
    pub(crate) script: OnceCell<Box<ScriptState<'a>>>,
    /// Whose endpoints are asked, once that is known.
    pub(crate) cluster: Cell<Option<ClusterId>>,
    pub(crate) id: RequestId<'a>,
    /// Steps left to the request's regular expressions.
    pub(crate) steps: StepBudget,
    /// What the checks of its client have found out, where that is anything.
    pub(crate) admitted: OnceCell<Box<Admitted>>,
    /// What the client is to be told of the endpoint that it was given.
    pub(crate) affinity_cookie: RefCell<Option<Box<CookieLine>>>,
    /// The response that another backend gives in place of an error, once that is asked.
    pub(crate) error_page: OnceCell<Box<ErrorPage>>,
    /// What the cache of its route has to do with it, where there is one.
    pub(crate) cache: OnceCell<Concern>,
    /// It is another replica's, and asks for what has its home here.
    pub(crate) guest: OnceCell<Box<Guest>>,
    /// Its span, where it is traced.
    pub(crate) trace: OnceCell<Box<Trace<'a>>>,
    /// Its place at the endpoint that is being tried, where the route has limits.
    pub(crate) place: Cell<Option<Place>>,
    pub(crate) progress: Progress,
    pub(crate) report: Report,
}

/// The value of a `Set-Cookie`, or of the header that stands for it; behind one pointer, since few requests have one.
pub(crate) struct CookieLine(pub(crate) String);

/// A response that a backend of errors gives in place of another.
pub(crate) struct ErrorPage {
    /// The status of that other response.
    pub(crate) status: u16,
    /// The challenges of that other response, which the client is given all the same, as by nginx.
    pub(crate) challenges: Vec<Vec<u8>>,
    /// The request goes to the backend without its body: that is too long or broken, or has been sent to an endpoint and was not kept.
    pub(crate) is_bodiless: Cell<bool>,
    /// The endpoint's connection can take another request though its response goes nowhere, for as long as the endpoint keeps it.
    pub(crate) spent: Cell<Option<Spent>>,
}

/// A connection whose response has come whole, and is of no use.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// How long the endpoint keeps it.
    pub(crate) idle_max: Option<Duration>,
}

/// What a request is called in logs, here and behind.
pub(crate) enum RequestId<'a> {
    Incoming(&'a [u8]),
    Own([u8; 32]),
    None,
}

/// A request as it came in.
#[derive(Clone, Copy)]
pub(crate) struct RequestStart<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) client: Client<'a>,
    pub(crate) deadline: &'a Deadline,
    /// The configuration that it began with.
    pub(crate) config: &'a WorkerConfig,
    /// The bytes of its head.
    pub(crate) head: &'a [u8],
    pub(crate) begin: Moment,
}

impl<'a> RequestId<'a> {
    pub(crate) fn of(head: &'a [u8], request: &Request, random: &Random, generate: bool) -> Self {
        match request.fields.find(Known::XRequestId).map(|field| field.value(head)) {
            Some(id) if !id.is_empty() => Self::Incoming(id),
            _ if generate => Self::Own(random.hex_id()),
            _ => Self::None,
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Incoming(id) => Some(id),
            Self::Own(id) => Some(id),
            Self::None => None,
        }
    }
}

impl<'a> Exchange<'a> {
    /// Refuses a request of which a text was made although an expression in it took too many steps.
    #[inline]
    pub(crate) fn check_steps(&self) -> Result<(), Reason> {
        if self.steps.is_undecided() { Err(Reason::ExpressionSteps) } else { Ok(()) }
    }

    /// The host that the request is for: its own, whatever a hop before us says that it was.
    pub(crate) fn host(&self) -> &'a [u8] {
        &self.head[self.request.host.clone()]
    }

    /// The canary that serves the request, if one does.
    pub(crate) fn canary(&self) -> Option<&'a Canary> {
        let Action::Forward(Forward { backends: Backends::Canary(canary), .. }) = &self.route.get()?.action
        else {
            return None;
        };
        (self.cluster.get() == Some(canary.cluster)).then_some(canary)
    }

    /// What its route's cache has to do with it, if that is more than to answer it.
    pub(crate) fn passage(&self) -> Option<&Passage> {
        match self.cache.get() {
            Some(Concern::Passage(passage)) => Some(passage),
            Some(Concern::Hit(_)) | None => None,
        }
    }

    /// Notes for how long the response is still fresh, which is told.
    pub(crate) fn tell_ttl(&self, ttl: i64) {
        if let Some(passage) = self.passage() {
            passage.tell(|told| told.ttl = Some(ttl));
        }
    }

    /// What is told of what its route's cache did.
    pub(crate) fn told(&self) -> Option<Told> {
        self.cache.get().map(Concern::told)
    }

    /// The path by which routes are told apart, as the client has asked for it.
    pub(crate) fn client_path(&self) -> &[u8] {
        if self.request.form == TargetForm::Asterisk { b"/" } else { &self.path }
    }

    /// The path by which routes are told apart, as it is once scripts have changed it.
    pub(crate) fn current_path(&self) -> &[u8] {
        self.script.get().and_then(|script| script.path()).unwrap_or_else(|| self.client_path())
    }

    /// Whether a request may be sent again though an endpoint may have acted on it (RFC 9110 section 9.2.2, with nginx's
    /// list of methods).
    pub(crate) fn may_repeat(&self, forward: &Forward, retry: Retry) -> bool {
        let harmless = !matches!(&self.head[self.request.method.clone()], b"POST" | b"LOCK" | b"PATCH");
        match retry {
            Retry::Never => false,
            Retry::Unsent | Retry::Refused => true,
            Retry::Sent => harmless || forward.retry.on.non_idempotent,
        }
    }

    /// Whether the client's connection may stay open after this request.
    pub(crate) fn may_keep_alive(&self) -> bool {
        let client = &self.config.settings().client;
        // What follows a refused CONNECT may be meant for the tunnel that it asked for.
        self.request.form != TargetForm::Authority
            && self.request.is_persistent()
            && !client.keep_alive_timeout.is_zero()
            && self.conn.requests.get() < client.keep_alive_requests
            && !self.conn.is_closing()
    }

    /// Whether it asks for another protocol, and for none but those that are passed on: what an endpoint agrees to besides, such as
    /// h2c, would be a tunnel past every rule of the proxy.
    pub(crate) fn is_upgrade(&self) -> bool {
        let known = &self.config.settings().client.upgrade_protocols;
        let is_known = |name: &[u8]| known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        self.error_page.get().is_none()
            && self.request.is_upgrade()
            && self.request.fields.upgrades(self.head).all(is_known)
    }

    /// What a page of another origin asks for.
    pub(crate) fn asking(&self) -> Asking<'a> {
        let field = |name: &[u8]| Some(self.request.fields.find_name(self.head, name)?.value(self.head));
        Asking {
            origin: field(b"origin"),
            method: &self.head[self.request.method.clone()],
            requested_method: field(b"access-control-request-method"),
            requested_headers: field(b"access-control-request-headers"),
        }
    }

    /// Scheme and host as nginx names them before a path that it redirects to; empty where the route's redirects are relative.
    pub(crate) fn redirect_origin(&self) -> String {
        let form = self.route.get().map(|route| route.slash_redirect).unwrap_or_default();
        let port = form.names_port.then_some(self.conn.local.port());
        if form.relative {
            String::new()
        } else {
            filters::own_origin(self.forwarded.own_scheme, self.host(), port)
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        &self.head[self.request.method.clone()] == b"HEAD"
    }

    /// The client's end, with the time that it has.
    pub(crate) fn timeout(&self) -> Timeout<'_> {
        Timeout { deadline: self.deadline, send_timeout: self.config.settings().client.send_timeout }
    }

    /// Where the response goes.
    pub(crate) fn recipient(&self) -> Recipient<'_> {
        let rate = self.config.settings().client.bounds.read_rate_min;
        if rate.is_some() && !self.has_grpc_content() {
            self.deadline.pace(Direction::Write, rate);
        }
        let (client, timeout) = (self.client, self.timeout());
        let (pipes, bodies) = (&self.worker.pipes, &*self.worker.bodies);
        Recipient { client, timeout, sent: &self.report.sent_body, pipes, bodies }
    }

    /// Whether the client speaks gRPC, and has to be told of faults in its terms.
    pub(crate) fn is_grpc(&self) -> bool {
        self.client.is_http2() && self.has_grpc_content()
    }

    /// Whether its content is that of gRPC, in whichever version of HTTP.
    pub(crate) fn has_grpc_content(&self) -> bool {
        let content_type = self.request.fields.find_name(self.head, b"content-type");
        content_type.is_some_and(|field| field.value(self.head).starts_with(b"application/grpc"))
    }
}
