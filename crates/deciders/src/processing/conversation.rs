//! The order of a conversation: each part that is sent is answered once, in each direction of its own.

use std::time::Duration;

use super::{BodyMode, Direction, Modes, Parts};
use crate::proto::HeaderMap;
use crate::proto::processing::{
    CommonResponse, HeaderMutation, HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse, Mutation,
    ProcessingRequest, ProcessingResponse, ProtocolConfiguration, RequestPart, ResponsePart, ResponseStatus,
};

/// A conversation about one request and its response.
#[derive(Clone, Debug)]
pub struct Conversation {
    modes: Modes,
    allows_override: bool,
    /// The longest time that the processor may ask for; none if it may not ask.
    time_max: Option<Duration>,
    request: Half,
    response: Half,
    has_begun: bool,
    is_over: bool,
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// The part that has been sent and not been answered.
    awaited: Option<Part>,
    /// The processor has asked for more time to answer it.
    has_more_time: bool,
    /// The processor gets nothing else of this direction.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Headers,
    Body,
    Trailers,
}

/// The meaning of a message of the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The answer to the part of this direction that was sent last.
    Answer(Direction, Change),
    /// The client gets this response. The conversation is over.
    Immediate(ImmediateResponse),
    /// The processor needs so much more time for what it has to answer.
    MoreTime(Duration),
    /// Nothing: a wish that is not granted.
    Nothing,
}

/// The changes of the processor to a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Changes to the head, or to trailers.
    pub headers: HeaderMutation,
    /// Other content; none where it stays.
    pub content: Option<Vec<u8>>,
    /// The content is the whole body, and the processor gets nothing else of this direction.
    pub replaces: bool,
}

/// A message that the protocol does not allow at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It answers what was not sent.
    #[error("the processor answers a part that was not sent to it")]
    Unasked,
    /// It has no meaning.
    #[error("the processor's message has no answer")]
    Empty,
    /// A mode or a form of content that is not offered.
    #[error("the processor asks for a mode that is not offered")]
    Mode,
}

impl Conversation {
    /// A conversation before its first message.
    pub fn new(modes: Modes, allows_override: bool, time_max: Option<Duration>) -> Self {
        let half = Half::default();
        Self {
            modes,
            allows_override,
            time_max,
            request: half,
            response: half,
            has_begun: false,
            is_over: false,
        }
    }

    /// The parts of a direction that are sent from now on.
    pub fn wants(&self, direction: Direction) -> Parts {
        let nothing = Parts { headers: false, body: BodyMode::None, trailers: false };
        if self.is_over || self.half(direction).is_over { nothing } else { self.modes.of(direction) }
    }

    /// Whether the processor gets nothing else.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a part of a direction has not been answered.
    pub fn awaits(&self, direction: Direction) -> bool {
        !self.is_over && self.half(direction).awaited.is_some()
    }

    /// Ends the conversation: the stream has ended, or the processor is not waited for any more.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// The message with a head.
    pub fn headers(
        &mut self,
        direction: Direction,
        headers: HeaderMap,
        end_of_stream: bool,
    ) -> ProcessingRequest {
        let headers = HttpHeaders { headers: Some(headers), end_of_stream };
        let part = match direction {
            Direction::Request => RequestPart::RequestHeaders(headers),
            Direction::Response => RequestPart::ResponseHeaders(headers),
        };
        self.message(direction, Part::Headers, part)
    }

    /// The message with content.
    pub fn body(&mut self, direction: Direction, body: Vec<u8>, end_of_stream: bool) -> ProcessingRequest {
        let body = HttpBody { body, end_of_stream };
        let part = match direction {
            Direction::Request => RequestPart::RequestBody(body),
            Direction::Response => RequestPart::ResponseBody(body),
        };
        self.message(direction, Part::Body, part)
    }

    /// The message with trailers.
    pub fn trailers(&mut self, direction: Direction, trailers: HeaderMap) -> ProcessingRequest {
        let trailers = HttpTrailers { trailers: Some(trailers) };
        let part = match direction {
            Direction::Request => RequestPart::RequestTrailers(trailers),
            Direction::Response => RequestPart::ResponseTrailers(trailers),
        };
        self.message(direction, Part::Trailers, part)
    }

    /// Takes a message of the processor.
    ///
    /// # Errors
    ///
    /// When the protocol does not allow the message at this point.
    pub fn receive(&mut self, message: ProcessingResponse) -> Result<Received, Violation> {
        if self.is_over {
            return Ok(Received::Nothing);
        }
        if let Some(time) = message.override_message_timeout {
            return Ok(self.more_time(time.seconds, time.nanos));
        }
        if let Some(wanted) = message.mode_override.filter(|_| self.allows_override && self.is_at_head()) {
            self.modes = self.modes.overridden(&wanted).ok_or(Violation::Mode)?;
        }
        let (direction, part, change) = match message.response.ok_or(Violation::Empty)? {
            ResponsePart::RequestHeaders(answer) => {
                (Direction::Request, Part::Headers, common(answer.response)?)
            }
            ResponsePart::ResponseHeaders(answer) => {
                (Direction::Response, Part::Headers, common(answer.response)?)
            }
            ResponsePart::RequestBody(answer) => (Direction::Request, Part::Body, common(answer.response)?),
            ResponsePart::ResponseBody(answer) => (Direction::Response, Part::Body, common(answer.response)?),
            ResponsePart::RequestTrailers(answer) => {
                (Direction::Request, Part::Trailers, of_trailers(answer.header_mutation))
            }
            ResponsePart::ResponseTrailers(answer) => {
                (Direction::Response, Part::Trailers, of_trailers(answer.header_mutation))
            }
            ResponsePart::ImmediateResponse(response) => {
                self.is_over = true;
                return Ok(Received::Immediate(response));
            }
        };
        self.answered(direction, part, change)
    }

    fn answered(
        &mut self,
        direction: Direction,
        part: Part,
        mut change: Change,
    ) -> Result<Received, Violation> {
        let half = self.half_mut(direction);
        if half.awaited != Some(part) {
            return Err(Violation::Unasked);
        }
        half.awaited = None;
        // A replacement is an answer to a head; content in the answer to a head is nothing else.
        if part == Part::Headers && change.replaces {
            half.is_over = true;
        } else {
            change.replaces = false;
            if part == Part::Headers {
                change.content = None;
            }
        }
        Ok(Received::Answer(direction, change))
    }

    /// Whether a head is waited for: only then the modes can be changed.
    fn is_at_head(&self) -> bool {
        [self.request, self.response].iter().any(|half| half.awaited == Some(Part::Headers))
    }

    fn more_time(&mut self, seconds: i64, nanos: i32) -> Received {
        let time = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        let time = time.filter(|(_, nanos)| *nanos < 1_000_000_000);
        let time = time.map(|(seconds, nanos)| Duration::new(seconds, nanos));
        let is_granted = |time: &Duration| {
            *time >= Duration::from_millis(1) && self.time_max.is_some_and(|max| *time <= max)
        };
        let Some(time) = time.filter(is_granted) else { return Received::Nothing };
        let mut is_needed = false;
        for half in [&mut self.request, &mut self.response] {
            if half.awaited.is_some() && !half.has_more_time {
                half.has_more_time = true;
                is_needed = true;
            }
        }
        if is_needed { Received::MoreTime(time) } else { Received::Nothing }
    }

    fn message(&mut self, direction: Direction, part: Part, request: RequestPart) -> ProcessingRequest {
        let half = self.half_mut(direction);
        debug_assert!(half.awaited.is_none(), "a part is sent when the one before it has been answered");
        (half.awaited, half.has_more_time) = (Some(part), false);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let protocol_config = is_first.then(|| ProtocolConfiguration {
            request_body_mode: self.modes.request.body.number(),
            response_body_mode: self.modes.response.body.number(),
        });
        ProcessingRequest { request: Some(request), protocol_config }
    }

    fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::Request => &self.request,
            Direction::Response => &self.response,
        }
    }

    fn half_mut(&mut self, direction: Direction) -> &mut Half {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }
}

fn common(answer: Option<CommonResponse>) -> Result<Change, Violation> {
    let Some(answer) = answer else { return Ok(Change::default()) };
    let content = match answer.body_mutation.and_then(|body| body.mutation) {
        None | Some(Mutation::ClearBody(false)) => None,
        Some(Mutation::Body(content)) => Some(content),
        Some(Mutation::ClearBody(true)) => Some(Vec::new()),
        Some(Mutation::StreamedResponse(_)) => return Err(Violation::Mode),
    };
    let replaces = answer.status == i32::from(ResponseStatus::ContinueAndReplace);
    Ok(Change { headers: answer.header_mutation.unwrap_or_default(), content, replaces })
}

fn of_trailers(headers: Option<HeaderMutation>) -> Change {
    Change { headers: headers.unwrap_or_default(), ..Change::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::proto::Time;
    use crate::proto::processing::{BodyMutation, PartResponse, ProcessingMode, TrailersResponse};

    const ALL: Parts = Parts { headers: true, body: BodyMode::Streamed, trailers: true };

    fn conversation() -> Conversation {
        Conversation::new(Modes { request: ALL, response: ALL }, true, Some(Duration::from_secs(1)))
    }

    fn answer(part: ResponsePart) -> ProcessingResponse {
        ProcessingResponse { response: Some(part), ..ProcessingResponse::default() }
    }

    fn with(response: CommonResponse) -> PartResponse {
        PartResponse { response: Some(response) }
    }

    fn content(bytes: &[u8]) -> BodyMutation {
        BodyMutation { mutation: Some(Mutation::Body(bytes.to_vec())) }
    }

    #[test]
    fn each_part_is_answered_in_its_direction() {
        let mut it = conversation();
        let first = it.headers(Direction::Request, HeaderMap::default(), false);
        assert_eq!(first.protocol_config.unwrap().request_body_mode, 1);
        let none = Change::default();
        let answered = it.receive(answer(ResponsePart::RequestHeaders(PartResponse::default())));
        assert_eq!(answered, Ok(Received::Answer(Direction::Request, none.clone())));
        let second = it.body(Direction::Request, b"a".to_vec(), true);
        assert_eq!(second.protocol_config, None, "it is said once");
        it.headers(Direction::Response, HeaderMap::default(), true);
        let answered = it.receive(answer(ResponsePart::ResponseHeaders(PartResponse::default())));
        assert_eq!(answered, Ok(Received::Answer(Direction::Response, none)));
        let change = with(CommonResponse { body_mutation: Some(content(b"b")), ..CommonResponse::default() });
        let Ok(Received::Answer(Direction::Request, change)) =
            it.receive(answer(ResponsePart::RequestBody(change)))
        else {
            panic!("it was asked for");
        };
        assert_eq!(change.content.as_deref(), Some(&b"b"[..]));
        assert!(!it.awaits(Direction::Request) && !it.awaits(Direction::Response));
    }

    #[test]
    fn an_answer_to_nothing_is_a_violation() {
        let mut it = conversation();
        it.headers(Direction::Request, HeaderMap::default(), false);
        let unasked = [
            answer(ResponsePart::RequestBody(PartResponse::default())),
            answer(ResponsePart::ResponseHeaders(PartResponse::default())),
            answer(ResponsePart::RequestTrailers(TrailersResponse::default())),
        ];
        for message in unasked {
            assert_eq!(it.clone().receive(message), Err(Violation::Unasked));
        }
        assert_eq!(it.receive(ProcessingResponse::default()), Err(Violation::Empty));
    }

    #[test]
    fn a_replacement_ends_one_direction() {
        let mut it = conversation();
        it.headers(Direction::Request, HeaderMap::default(), false);
        let status = ResponseStatus::ContinueAndReplace.into();
        let replaced =
            with(CommonResponse { status, body_mutation: Some(content(b"x")), ..CommonResponse::default() });
        let Ok(Received::Answer(_, change)) = it.receive(answer(ResponsePart::RequestHeaders(replaced)))
        else {
            panic!("it was asked for");
        };
        assert!(change.replaces && change.content.as_deref() == Some(b"x"));
        assert_eq!(it.wants(Direction::Request).body, BodyMode::None);
        assert_eq!(it.wants(Direction::Response), ALL);
    }

    #[test]
    fn content_in_the_answer_to_a_head_replaces_nothing_without_the_status() {
        let mut it = conversation();
        it.headers(Direction::Response, HeaderMap::default(), false);
        let change = with(CommonResponse { body_mutation: Some(content(b"x")), ..CommonResponse::default() });
        let received = it.receive(answer(ResponsePart::ResponseHeaders(change)));
        assert_eq!(received, Ok(Received::Answer(Direction::Response, Change::default())));
    }

    #[test]
    fn modes_change_with_the_answer_to_a_head_where_that_is_allowed() {
        let wanted =
            ProcessingMode { response_header_mode: 2, request_body_mode: 2, ..ProcessingMode::default() };
        let message = ProcessingResponse {
            mode_override: Some(wanted),
            ..answer(ResponsePart::RequestHeaders(PartResponse::default()))
        };
        let mut it = conversation();
        it.headers(Direction::Request, HeaderMap::default(), false);
        it.receive(message.clone()).unwrap();
        assert_eq!(it.wants(Direction::Request), Parts { body: BodyMode::Buffered, ..ALL });
        let response = Parts { headers: false, body: BodyMode::None, trailers: true };
        assert_eq!(it.wants(Direction::Response), response);
        let mut strict = Conversation::new(Modes::default(), false, None);
        strict.headers(Direction::Request, HeaderMap::default(), false);
        strict.receive(message.clone()).unwrap();
        assert_eq!(strict.wants(Direction::Request), Parts::default());
        let duplex = ProcessingMode { request_body_mode: 4, ..wanted };
        let mut it = conversation();
        it.headers(Direction::Request, HeaderMap::default(), false);
        let message = ProcessingResponse { mode_override: Some(duplex), ..message };
        assert_eq!(it.receive(message), Err(Violation::Mode));
    }

    #[test]
    fn more_time_is_granted_once_for_a_part_and_within_bounds() {
        let ask = |seconds, nanos| ProcessingResponse {
            override_message_timeout: Some(Time { seconds, nanos }),
            ..ProcessingResponse::default()
        };
        let mut it = conversation();
        assert_eq!(it.receive(ask(1, 0)), Ok(Received::Nothing), "nothing is awaited");
        it.headers(Direction::Request, HeaderMap::default(), false);
        for (seconds, nanos) in [(1, 1), (0, 0), (0, 999_999), (-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(it.receive(ask(seconds, nanos)), Ok(Received::Nothing), "{seconds} {nanos}");
        }
        assert_eq!(it.receive(ask(1, 0)), Ok(Received::MoreTime(Duration::from_secs(1))));
        assert_eq!(it.receive(ask(1, 0)), Ok(Received::Nothing), "once");
        let mut strict = Conversation::new(Modes::default(), false, None);
        strict.headers(Direction::Request, HeaderMap::default(), false);
        assert_eq!(strict.receive(ask(0, 1_000_000)), Ok(Received::Nothing));
    }

    #[test]
    fn an_immediate_response_ends_everything() {
        let mut it = conversation();
        it.headers(Direction::Request, HeaderMap::default(), false);
        let message = answer(ResponsePart::ImmediateResponse(ImmediateResponse::default()));
        assert_eq!(it.receive(message.clone()), Ok(Received::Immediate(ImmediateResponse::default())));
        assert!(it.is_over() && !it.awaits(Direction::Request));
        assert_eq!(it.receive(message), Ok(Received::Nothing));
        assert!(!it.wants(Direction::Response).headers);
    }

    proptest! {
        /// Whatever bytes a processor sends, there is a result, and nothing that was not asked for counts.
        #[test]
        fn no_message_confuses(bytes: Vec<u8>, asks: bool) {
            let mut it = conversation();
            if asks {
                it.headers(Direction::Request, HeaderMap::default(), false);
            }
            if let Ok(message) = ProcessingResponse::decode(&*bytes)
                && let Ok(Received::Answer(direction, _)) = it.receive(message)
            {
                prop_assert!(asks && direction == Direction::Request);
            }
        }
    }
}
