//! A request that goes through an external processor: the conversation about it, the stream that carries the
//! conversation, and the response that the processor gives in place of the endpoint's.
//!
//! Both directions of a request share the stream. Each one sends a part, and waits for the answer to it; what
//! comes for the other direction is put aside. So a message is sent only when the one before it in the same
//! direction has been answered, and what is buffered is bounded by two messages each way.
//!
//! Never in here: which endpoint of the processor is asked, and the meaning of a head.

mod line;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use deciders::processing::{
    Change, Conversation, Direction, Head, HeadField, HeadKind, Immediate, Modes, Parts, Received,
};
use deciders::proto::processing::{ProcessingRequest, ProcessingResponse};
use model::{ProcessedBody, ProcessedParts, ProcessorPolicy};
use observe::{ProcessorResult, Reason};
use prost::Message;

use crate::body::{Answering, Piece, Processor, RelayError};
use crate::io::deadline::{Deadline, Elapsed};
use crate::limits::PROCESSED_HEAD_BYTES_MAX;
use crate::request::reply::Answer;
use line::{Line, Read};

pub(crate) use line::Opened;

/// A request that goes through an external processor.
pub(crate) struct Processing {
    pub(crate) policy: Arc<ProcessorPolicy>,
    /// Whether the client is told of faults in gRPC's terms.
    is_grpc: bool,
    conversation: RefCell<Conversation>,
    line: RefCell<Option<Box<Line>>>,
    /// The first message, which is sent again where the stream turns out to be dead.
    first: RefCell<Vec<u8>>,
    request: Side,
    response: Side,
    /// The reason why the conversation was ended early.
    fault: Cell<Option<Reason>>,
    /// The fault is one that no setting excuses.
    is_grave: Cell<bool>,
    answer: RefCell<Option<Box<Answer>>>,
    has_answered: Cell<bool>,
    messages: Cell<u64>,
    waited: Cell<Duration>,
}

/// One direction, as far as its waiting task has to be told of it.
#[derive(Default)]
struct Side {
    change: RefCell<Option<Change>>,
    /// The time that the processor has asked for.
    time: Cell<Option<Duration>>,
}

/// The end of a wait for an answer.
enum Heard {
    Change(Box<Change>),
    MoreTime(Duration),
    /// The conversation is over.
    Over,
    /// The stream was dead before anything was heard.
    Lost,
}

/// The answer to a part.
pub(crate) enum Outcome {
    Change(Box<Change>),
    /// The part stays as it is: the processor gets nothing else.
    Over,
    /// The stream was dead: another one may be opened for the same message.
    Lost,
}

/// One direction of a conversation, for bodies.
pub(crate) struct Exchange<'p> {
    processing: &'p Processing,
    direction: Direction,
    /// The trailers that the processor has been sent.
    trailers: RefCell<Head>,
}

impl Processing {
    pub(crate) fn new(policy: &Arc<ProcessorPolicy>, is_grpc: bool) -> Self {
        let modes = Modes { request: parts(policy.request), response: parts(policy.response) };
        let (allows_override, time_max) = (policy.allows_mode_override, policy.message_timeout_max);
        Self {
            policy: Arc::clone(policy),
            is_grpc,
            conversation: RefCell::new(Conversation::new(modes, allows_override, time_max)),
            line: RefCell::default(),
            first: RefCell::default(),
            request: Side::default(),
            response: Side::default(),
            fault: Cell::new(None),
            is_grave: Cell::new(false),
            answer: RefCell::default(),
            has_answered: Cell::new(false),
            messages: Cell::new(0),
            waited: Cell::new(Duration::ZERO),
        }
    }

    /// The parts of a direction that the processor gets.
    pub(crate) fn wants(&self, direction: Direction) -> Parts {
        self.conversation.borrow().wants(direction)
    }

    /// Whether there is a stream, or none is needed any more.
    pub(crate) fn is_open(&self) -> bool {
        self.line.borrow().is_some() || self.conversation.borrow().is_over()
    }

    /// Whether the processor gets nothing else.
    pub(crate) fn is_over(&self) -> bool {
        self.conversation.borrow().is_over()
    }

    /// Takes a stream that has been opened. A first message is sent again.
    pub(crate) fn take_line(&self, opened: Opened) {
        let first = self.first.borrow().clone();
        let message_bytes_max = usize::try_from(self.policy.body_bytes_max)
            .unwrap_or(usize::MAX)
            .saturating_add(MESSAGE_ROOM_BYTES);
        *self.line.borrow_mut() = Some(Box::new(Line::new(opened, &first, message_bytes_max)));
    }

    /// Ends the conversation because of a fault.
    pub(crate) fn fail(&self, reason: Reason) {
        if !self.conversation.borrow().is_over() {
            self.fault.set(Some(reason));
        }
        self.end();
    }

    /// Ends the conversation because of an answer that cannot be taken. That is an error even where the
    /// processor may be absent, as with Envoy: half of what it wants is not done.
    pub(crate) fn fail_for(&self, why: &dyn std::fmt::Display) {
        tracing::debug!(%why, "an answer of an external processor cannot be taken");
        self.fail(Reason::ProcessorFailed);
        self.is_grave.set(true);
    }

    fn end(&self) {
        self.conversation.borrow_mut().end();
        self.line.borrow_mut().take();
    }

    /// The fault of the request whose conversation is over, if it is one.
    pub(crate) fn verdict(&self) -> Result<(), Reason> {
        if self.has_answered.get() {
            return Err(Reason::ProcessorAnswered);
        }
        match self.fault.get() {
            Some(reason) if self.is_grave.get() || !self.policy.fails_open => Err(reason),
            _ => Ok(()),
        }
    }

    /// The result, the number of messages, and the time that was spent waiting for answers.
    pub(crate) fn figures(&self) -> (ProcessorResult, u64, Duration) {
        let result = match (self.fault.get(), self.verdict()) {
            _ if self.has_answered.get() => ProcessorResult::Answered,
            (None, _) => ProcessorResult::Processed,
            (Some(_), Ok(())) => ProcessorResult::PassedBy,
            (Some(_), Err(_)) => ProcessorResult::Failed,
        };
        (result, self.messages.get(), self.waited.get())
    }

    /// The response of the processor in place of the endpoint's, once.
    pub(crate) fn take_answer(&self) -> Option<Box<Answer>> {
        self.answer.borrow_mut().take()
    }

    /// Sends the head of a message.
    pub(crate) fn send_head(&self, direction: Direction, head: &Head, is_all: bool) {
        let message = self.conversation.borrow_mut().headers(direction, head.to_map(), is_all);
        self.send(&message);
    }

    /// Sends a piece of content.
    pub(crate) fn send_content(&self, direction: Direction, content: &[u8], is_last: bool) {
        let message = self.conversation.borrow_mut().body(direction, content.to_vec(), is_last);
        self.send(&message);
    }

    fn send_trailers(&self, direction: Direction, head: &Head) {
        let message = self.conversation.borrow_mut().trailers(direction, head.to_map());
        self.send(&message);
    }

    fn send(&self, message: &ProcessingRequest) {
        let mut line = self.line.borrow_mut();
        let Some(line) = line.as_deref_mut() else { return };
        self.messages.set(self.messages.get() + 1);
        let is_unheard = line.is_unheard();
        let written = line.write(message);
        if is_unheard {
            self.first.borrow_mut().extend_from_slice(written);
        }
    }

    /// Waits for the answer to what was sent last in a direction.
    pub(crate) async fn answer(&self, direction: Direction, deadline: &Deadline) -> Result<Outcome, Reason> {
        let begin = deadline.now();
        let outcome = self.await_answer(direction, deadline).await;
        self.waited.set(self.waited.get() + deadline.now().since(begin));
        outcome
    }

    async fn await_answer(&self, direction: Direction, deadline: &Deadline) -> Result<Outcome, Reason> {
        let mut time = self.policy.message_timeout;
        loop {
            match deadline.within(time, |cx| self.poll(direction, cx)).await {
                Ok(Heard::Change(change)) => return Ok(Outcome::Change(change)),
                Ok(Heard::MoreTime(longer)) => time = longer,
                Ok(Heard::Over) => return self.verdict().map(|()| Outcome::Over),
                Ok(Heard::Lost) => return Ok(Outcome::Lost),
                Err(Elapsed) => {
                    self.fail(Reason::ProcessorTimeout);
                    return self.verdict().map(|()| Outcome::Over);
                }
            }
        }
    }

    /// Waits for the answer on a stream that has been heard of.
    async fn answer_of_known(
        &self,
        direction: Direction,
        deadline: &Deadline,
    ) -> Result<Option<Box<Change>>, Reason> {
        match self.answer(direction, deadline).await? {
            Outcome::Change(change) => Ok(Some(change)),
            Outcome::Over => Ok(None),
            Outcome::Lost => {
                self.fail(Reason::ProcessorFailed);
                self.verdict().map(|()| None)
            }
        }
    }

    fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Request => &self.request,
            Direction::Response => &self.response,
        }
    }

    fn poll(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<Heard> {
        loop {
            if let Some(change) = self.side(direction).change.borrow_mut().take() {
                return Poll::Ready(Heard::Change(Box::new(change)));
            }
            if self.conversation.borrow().is_over() {
                return Poll::Ready(Heard::Over);
            }
            if let Some(time) = self.side(direction).time.take() {
                return Poll::Ready(Heard::MoreTime(time));
            }
            let read = match &mut *self.line.borrow_mut() {
                None => Poll::Ready(Read::Broken { is_dead: false }),
                Some(line) => line.poll(cx),
            };
            if read.is_ready() {
                // It may be for the other direction, whose wait is in the same task.
                cx.waker().wake_by_ref();
            }
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Read::Message(bytes)) => {
                    self.first.take();
                    self.receive(&bytes);
                }
                // The processor wants to hear nothing else.
                Poll::Ready(Read::End) => self.end(),
                Poll::Ready(Read::Broken { is_dead: true }) => {
                    self.line.borrow_mut().take();
                    return Poll::Ready(Heard::Lost);
                }
                Poll::Ready(Read::Broken { is_dead: false }) => self.fail(Reason::ProcessorFailed),
            }
        }
    }

    fn receive(&self, bytes: &[u8]) {
        let Ok(message) = ProcessingResponse::decode(bytes) else {
            return self.fail(Reason::ProcessorFailed);
        };
        let received = self.conversation.borrow_mut().receive(message);
        match received {
            Ok(Received::Nothing) => {}
            Ok(Received::Answer(direction, change)) => {
                *self.side(direction).change.borrow_mut() = Some(change);
            }
            Ok(Received::MoreTime(time)) => {
                let waiting = [Direction::Request, Direction::Response];
                let awaits = |direction: &Direction| self.conversation.borrow().awaits(*direction);
                for direction in waiting.into_iter().filter(awaits) {
                    self.side(direction).time.set(Some(time));
                }
            }
            Ok(Received::Immediate(response)) => match Immediate::of(response, PROCESSED_HEAD_BYTES_MAX) {
                Ok(immediate) => {
                    self.has_answered.set(true);
                    *self.answer.borrow_mut() = Some(Box::new(Answer::immediate(immediate, self.is_grpc)));
                    self.end();
                }
                Err(error) => self.fail_for(&error),
            },
            Err(violation) => {
                tracing::debug!(%violation, "an external processor breaks the protocol");
                self.fail(Reason::ProcessorFailed);
            }
        }
    }
}

impl<'p> Exchange<'p> {
    pub(crate) fn new(processing: &'p Processing, direction: Direction) -> Self {
        Self { processing, direction, trailers: RefCell::default() }
    }

    /// The trailers with the changes of the processor, in their lines.
    fn changed_trailers(&self, change: &Change) -> Result<Vec<u8>, Reason> {
        let mut trailers = self.trailers.take();
        let changed = trailers.apply(&change.headers, HeadKind::Trailers, PROCESSED_HEAD_BYTES_MAX);
        if let Err(error) = changed {
            self.processing.fail_for(&error);
            return Err(Reason::ProcessorFailed);
        }
        let mut lines = Vec::with_capacity(trailers.byte_len());
        for HeadField { name, value, .. } in &trailers.fields {
            lines.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        Ok(lines)
    }
}

impl Processor for Exchange<'_> {
    fn begin(&self, piece: &Piece<'_>) -> bool {
        let (processing, direction) = (self.processing, self.direction);
        let wanted = processing.wants(direction);
        match piece {
            Piece::Content { bytes, is_last } => {
                let is_wanted = wanted.body == deciders::processing::BodyMode::Streamed;
                if is_wanted {
                    processing.send_content(direction, bytes, *is_last);
                }
                is_wanted
            }
            Piece::Trailers(lines) => {
                if wanted.trailers {
                    let head = trailers(lines);
                    processing.send_trailers(direction, &head);
                    *self.trailers.borrow_mut() = head;
                }
                wanted.trailers
            }
        }
    }

    fn answer<'p>(&'p self, deadline: &'p Deadline) -> Answering<'p> {
        Box::pin(async move {
            let change = self.processing.answer_of_known(self.direction, deadline).await;
            let Some(change) = change.map_err(RelayError::Processor)? else { return Ok(None) };
            if self.trailers.borrow().fields.is_empty() {
                return Ok(change.content);
            }
            self.changed_trailers(&change).map(Some).map_err(RelayError::Processor)
        })
    }
}

/// Room in a message beside the body: for a head, and for what surrounds both.
const MESSAGE_ROOM_BYTES: usize = 2 * PROCESSED_HEAD_BYTES_MAX;

fn parts(parts: ProcessedParts) -> Parts {
    use deciders::processing::BodyMode;
    let body = match parts.body {
        ProcessedBody::None => BodyMode::None,
        ProcessedBody::Streamed => BodyMode::Streamed,
        ProcessedBody::Buffered => BodyMode::Buffered,
        ProcessedBody::BufferedPartial => BodyMode::BufferedPartial,
    };
    Parts { headers: parts.headers, body, trailers: parts.trailers }
}

/// Trailers in their lines.
fn trailers(lines: &[u8]) -> Head {
    let fields = lines.split(|&byte| byte == b'\n').filter_map(field).collect();
    Head { pseudo: Vec::new(), fields }
}

/// The field in a line; none if there is none.
pub(crate) fn field(line: &[u8]) -> Option<HeadField> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok()?;
    Some(HeadField::new(name, line[colon + 1..].trim_ascii()))
}
