//! The end of the `h2` crate.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::io::DuplexStream;

use crate::plan::{Break, End, Exchange, Fields, Got, Message, Plan, own};
use crate::{Outcome, note};

/// The stream has ended early, or cannot be used.
struct Broken;

impl From<h2::Error> for Broken {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

fn map(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    map
}

fn fields(map: &HeaderMap) -> Fields {
    own(map.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

// === Client ===

pub(crate) async fn ask_all(socket: DuplexStream, plan: &Arc<Plan>, outcome: Outcome) {
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(plan.their_window)
        .header_table_size(plan.their_table)
        .max_frame_size(plan.their_frame)
        .initial_max_send_streams(1)
        .enable_push(false);
    let (send, connection) = builder.handshake::<_, Bytes>(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut asking = Vec::new();
    for index in 0..plan.exchanges.len() {
        let send = send.clone();
        let plan = Arc::clone(plan);
        let outcome = outcome.clone();
        asking.push(tokio::spawn(async move {
            let mut got = Got::default();
            ask(send, &plan.exchanges[index], index, &mut got).await;
            note(&outcome.responses, index, got);
        }));
    }
    drop(send);
    for task in asking {
        task.await.unwrap();
    }
    connection.await.unwrap().expect("a conversation without faults");
}

async fn ask(send: SendRequest<Bytes>, exchange: &Exchange, index: usize, got: &mut Got) {
    let mut request = Request::builder().method("POST").uri("http://a.test/path").body(()).unwrap();
    *request.headers_mut() = map(&exchange.request.all_fields());
    request.headers_mut().insert("x-index", index.into());
    let mut send = send.ready().await.unwrap();
    let is_end = exchange.request.is_head_alone();
    let (mut response, mut stream) = send.send_request(request, is_end).unwrap();
    let sending = send_message(&mut stream, &exchange.request, index);
    let receiving = async {
        while let Some(interim) = poll_fn(|cx| response.poll_informational(cx)).await {
            got.interim += usize::from(interim?.status() == 103);
        }
        let (head, mut content) = response.await?.into_parts();
        (got.status, got.fields) = (head.status.as_u16(), fields(&head.headers));
        let enough = match exchange.breaks {
            Break::ByClient(len) => len,
            _ => usize::MAX,
        };
        receive(&mut content, enough, got).await
    };
    let (_, received) = tokio::join!(sending, receiving);
    if let Err(error) = received {
        got.end = End::Reset(error.reason().map_or(0, Into::into));
    }
    if matches!(exchange.breaks, Break::ByClient(_)) {
        stream.send_reset(Reason::CANCEL);
    }
}

// === Server ===

pub(crate) async fn serve(socket: DuplexStream, plan: &Arc<Plan>, outcome: Outcome) {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(plan.their_window)
        .header_table_size(plan.their_table)
        .max_frame_size(plan.their_frame)
        .max_concurrent_streams(plan.streams_max);
    let mut connection = builder.handshake::<_, Bytes>(socket).await.unwrap();
    let mut tasks = Vec::new();
    while let Some(accepted) = connection.accept().await {
        // The other end closes the connection once it has all responses.
        let Ok((request, respond)) = accepted else { break };
        let (plan, outcome) = (Arc::clone(plan), outcome.clone());
        tasks.push(tokio::spawn(async move {
            let index = request.headers()["x-index"].to_str().unwrap().parse().unwrap();
            let mut got = Got::default();
            answer(request, respond, &plan.exchanges[index], index, &mut got).await;
            note(&outcome.requests, index, got);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    exchange: &Exchange,
    index: usize,
    got: &mut Got,
) {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/path"));
    assert_eq!(request.uri().authority().map(http::uri::Authority::as_str), Some("a.test"));
    let (head, mut content) = request.into_parts();
    got.fields = fields(&head.headers);
    let enough = match exchange.breaks {
        Break::ByServer(len) => len,
        _ => usize::MAX,
    };
    if enough < usize::MAX {
        let _ = receive(&mut content, enough, got).await;
        respond.send_reset(Reason::CANCEL);
        return;
    }
    if !exchange.is_early {
        receive_all(&mut content, got).await;
    }
    let sending = async {
        for _ in 0..exchange.interim {
            respond.send_informational(Response::builder().status(103).body(()).unwrap())?;
        }
        let mut response = Response::builder().status(exchange.status).body(()).unwrap();
        *response.headers_mut() = map(&exchange.response.all_fields());
        let mut stream = respond.send_response(response, exchange.response.is_head_alone())?;
        send_message(&mut stream, &exchange.response, index).await
    };
    if exchange.is_early {
        let (_, ()) = tokio::join!(sending, receive_all(&mut content, got));
    } else {
        let _ = sending.await;
    }
}

async fn receive_all(content: &mut RecvStream, got: &mut Got) {
    if let Err(error) = receive(content, usize::MAX, got).await {
        got.end = End::Reset(error.reason().map_or(0, Into::into));
    }
}

// === Both ===

/// Receives content and trailers, until there is enough.
async fn receive(content: &mut RecvStream, enough: usize, got: &mut Got) -> Result<(), h2::Error> {
    while got.content.len() < enough {
        let Some(data) = content.data().await else {
            got.trailers = content.trailers().await?.map(|trailers| fields(&trailers));
            got.end = End::Whole;
            break;
        };
        let data = data?;
        got.content.extend_from_slice(&data);
        content.flow_control().release_capacity(data.len())?;
    }
    Ok(())
}

async fn send_message(stream: &mut SendStream<Bytes>, message: &Message, index: usize) -> Result<(), Broken> {
    let content = Bytes::from(message.bytes(index));
    let mut at = 0;
    for (number, len) in message.pieces.iter().enumerate() {
        let is_last = number + 1 == message.pieces.len() && message.trailers.is_none();
        send_piece(stream, content.slice(at..at + len), is_last).await?;
        at += len;
    }
    if let Some(trailers) = &message.trailers {
        stream.send_trailers(map(trailers))?;
    }
    Ok(())
}

async fn send_piece(stream: &mut SendStream<Bytes>, mut piece: Bytes, is_last: bool) -> Result<(), Broken> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await.ok_or(Broken)??;
        let part = piece.split_to(room.min(piece.len()));
        stream.send_data(part, is_last && piece.is_empty())?;
    }
    Ok(())
}
