//! Every bound of the data plane that the configuration does not set, with its unit.

use std::time::Duration;

/// Bytes of the buffer that a request head is read into at first, and that heads are written to.
pub(crate) const SMALL_BUFFER_BYTES: usize = 4 << 10;
/// Bytes of the buffer that responses and bodies are read into.
pub(crate) const LARGE_BUFFER_BYTES: usize = 16 << 10;
/// Bytes in the buffers of one size that a worker keeps for later. A request that waits for its response holds two small
/// ones; what is not kept is allocated and zeroed anew.
pub(crate) const BUFFER_BYTES_KEPT_MAX: usize = 8 << 20;
/// Bytes of the response head of an endpoint that speaks HTTP/2, or of a service that is asked about a request.
pub(crate) const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of a response head in HTTP/1, whatever a route allows.
pub(crate) const ROUTE_RESPONSE_HEAD_BYTES_MAX: usize = 4 << 20;
/// Interim (1xx) responses before the final one.
pub(crate) const INTERIM_RESPONSES_MAX: u32 = 16;
/// Heads that a worker keeps the memory of, for requests and for responses each.
pub(crate) const SPARE_VALUES_MAX: usize = 64;

/// Handshakes of clients that a worker has in progress; further clients are refused. Each takes about 10 KB.
pub(crate) const HANDSHAKES_MAX: usize = 4096;
/// Costly steps of handshakes in one turn of a worker's loop. A signature takes as long as ten requests: with more of them
/// in a turn, established connections would wait for a flood of handshakes.
pub(crate) const HANDSHAKES_PER_TURN_MAX: usize = 1;
/// Bytes of TLS records read at once where there is no room of the caller's to read into.
pub(crate) const TLS_PEEK_BYTES: usize = 4 << 10;
/// Bytes that are decrypted before they are read; rustls' own limit.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of the sessions that are kept to be resumed, all workers together: some 40,000, as nginx keeps in ingress-nginx's
/// `ssl-session-cache-size` of 10 MB.
pub(crate) const SESSION_BYTES_MAX: usize = 16 << 20;
/// Sessions that a client is given to resume after a handshake. Each costs two per cent of it; one that is used is replaced.
pub(crate) const SESSIONS_PER_HANDSHAKE: usize = 1;
/// Sessions that a worker keeps to be resumed with one endpoint.
pub(crate) const UPSTREAM_SESSIONS_MAX: usize = 8;

/// Remaining bytes of a body from which on it is spliced instead of copied.
pub(crate) const SPLICE_BYTES_MIN: u64 = 64 << 10;
/// Reads in a row that fill their buffer, after which a tunnel goes over from copying to splicing.
pub(crate) const BULK_READS: u8 = 4;
/// Bytes moved at once below which what is spliced does not count as bulk; after [`BULK_READS`] of them in a row a tunnel
/// goes back to copying.
pub(crate) const BULK_BYTES_MIN: usize = LARGE_BUFFER_BYTES;
/// Reads that a tunnel does in one direction before others get a turn and the sockets are looked at.
pub(crate) const TUNNEL_READS_PER_TURN_MAX: u32 = 16;
/// Bytes asked of the kernel for a pipe; it may grant less.
pub(crate) const PIPE_BYTES: usize = 1 << 20;
/// Empty pipes that a worker keeps for later.
pub(crate) const PIPES_KEPT_MAX: usize = 64;

/// Bytes of memory for the bodies of requests that are read whole before an endpoint is asked, of all workers together. Where nothing
/// is left, bodies go to files, or are passed on as they come.
pub(crate) const HELD_BYTES_MAX: usize = 128 << 20;
/// Bytes in which that memory is taken, and in which files are written and read.
pub(crate) const HELD_STEP_BYTES: usize = 64 << 10;
/// Bytes of such a body where there is no folder for files, unless the route allows more; what is longer is passed on as it comes.
pub(crate) const UNSPOOLED_BYTES_MAX: usize = 1 << 20;
/// Time between two complaints that bodies are passed on which ought to be read whole.
pub(crate) const UNHELD_TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Threads of a worker for files.
pub(crate) const FILE_THREADS_MAX: usize = 4;
/// Bytes of a response that are read ahead of its client.
pub(crate) const READ_AHEAD_BYTES_MAX: usize = 1 << 20;

/// Copies of requests that a worker has at work; each holds some 20 KB, and shares a longer body with its request.
pub(crate) const MIRRORS_MAX: usize = 256;
/// Time for a copy of a request and its response.
pub(crate) const MIRROR_TIME_MAX: Duration = Duration::from_secs(60);

/// Connections that a worker accepts before others get a turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Connections that the kernel holds for a worker to accept; `somaxconn` bounds it too.
pub(crate) const ACCEPT_BACKLOG: i32 = 4096;
/// Part of a worker's connections that is closed at a time to make room, if it waits for requests: a sixteenth.
pub(crate) const IDLE_CLOSED_PER_TURN: usize = 16;
/// Time between two complaints that there are too few descriptors.
pub(crate) const SHORTAGE_TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of a client's request that are read when it is turned away: what is left unread resets the connection, and the reset
/// may overtake the answer.
pub(crate) const REFUSED_BYTES_READ: usize = 4 << 10;
/// Pause after an accept that failed for want of descriptors or memory.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Between two looks at the deadlines, and between two flushes of the access log.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks between two sweeps of the idle upstream connections.
pub(crate) const TICKS_PER_SWEEP: u64 = 10;
/// Time for which an endpoint may still answer a client that has shut down its sending side. Such a client cannot be
/// told from one that is gone.
pub(crate) const HALF_CLOSED_GRACE: Duration = Duration::from_secs(1);
/// Time for which a request is waited for on a connection that was accepted while the worker stops.
pub(crate) const LAST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Time for which what a client still sends is read after its last response, so that a reset does not destroy it.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// Bytes read while lingering.
pub(crate) const LINGER_BYTES_MAX: usize = 1 << 20;
/// Between an eviction from the pool and a connect to the same endpoint, for the eviction to count as regretted.
pub(crate) const REGRET_WINDOW: Duration = Duration::from_secs(5);
/// Turns of the scheduler between two looks at the sockets. Measured equal to bare epoll; tokio's 61 costs about a
/// microsecond a request at 512 connections.
pub(crate) const EVENT_INTERVAL: u32 = 4096;
/// What a failed try counts for in an endpoint's average response time: one that refuses at once is not a fast one.
pub(crate) const FAILED_RESPONSE_TIME: Duration = Duration::from_secs(1);
/// Half-life of an endpoint's average response time, as in ingress-nginx's `ewma` balancer.
pub(crate) const EWMA_DECAY: Duration = Duration::from_secs(10);

/// Bytes that a client may send on one stream before they are taken, and on all streams of a connection.
pub(crate) const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
pub(crate) const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of one stream that wait to be written to its connection.
pub(crate) const HTTP2_SEND_BUFFER_BYTES: usize = 64 << 10;
/// Bytes of content that wait to be written to a client's connection, all its streams together.
pub(crate) const HTTP2_UNWRITTEN_BYTES_MAX: usize = 64 << 10;
/// Bytes that an endpoint may send on one stream before they are taken, and on all streams of a session. Streams of many clients
/// share a session: those whose clients do not read must not use up the others' room.
pub(crate) const HTTP2_ENDPOINT_STREAM_WINDOW_BYTES: u32 = 64 << 10;
pub(crate) const HTTP2_ENDPOINT_WINDOW_BYTES: u32 = 128 * HTTP2_ENDPOINT_STREAM_WINDOW_BYTES;
/// Bytes of the table with which a peer's headers are compressed (RFC 7541 section 4.2).
pub(crate) const HTTP2_HEADER_TABLE_BYTES: u32 = 4 << 10;
/// Streams that were reset here and are remembered, since frames of theirs may be on the way.
pub(crate) const HTTP2_RESETS_REMEMBERED_MAX: usize = 64;
/// Streams that a client has reset before they were served ("rapid reset", CVE-2023-44487); more end the connection.
pub(crate) const HTTP2_RESETS_PENDING_MAX: usize = 32;
/// Streams of one connection that its client may break off before their response has ended, beside one for each
/// [`HTTP2_STREAMS_PER_CANCEL`] that ran to their end; more end it. Each costs an endpoint a connection.
pub(crate) const HTTP2_CANCELS_MAX: u64 = 100;
/// Streams that run to their end for each that may be broken off.
pub(crate) const HTTP2_STREAMS_PER_CANCEL: u64 = 10;
/// Streams of one connection that may be malformed; more end it.
pub(crate) const HTTP2_MALFORMED_STREAMS_MAX: usize = 256;
/// Streams that are opened to an endpoint before it has said how many it takes.
pub(crate) const HTTP2_STREAMS_ASSUMED: usize = 100;
/// Sessions with one endpoint on which a request is tried, as long as it has not been looked at.
pub(crate) const HTTP2_SESSIONS_PER_TRY_MAX: u32 = 4;

/// Clients whose requests are counted, all workers together; those that have not come for longest are forgotten.
pub(crate) const CLIENTS_LIMITED_MAX: usize = 100_000;
/// Answers of auth services that are kept, all workers together.
pub(crate) const AUTH_ANSWERS_MAX: usize = 10_000;
/// Bytes of headers of such an answer; a longer one is not kept.
pub(crate) const AUTH_ANSWER_BYTES_MAX: usize = 8 << 10;
/// Bytes of the body that a service answers with, or that answers the copy of a request, which are passed over; after more the
/// connection is closed.
pub(crate) const SUBREQUEST_BODY_BYTES_MAX: usize = 64 << 10;
/// Calls of auth services for one request, where connections break.
pub(crate) const AUTH_TRIES_MAX: u32 = 3;

/// Tries of a backend of errors for one request.
pub(crate) const ERROR_BACKEND_TRIES_MAX: u32 = 3;
/// Bytes of a value that a script gives to a variable, and of a path with its query that it makes.
pub(crate) const SCRIPT_VALUE_BYTES_MAX: usize = 64 << 10;
/// Times that a script may send a request to another route of its host, as in nginx.
pub(crate) const REROUTES_MAX: usize = 10;

/// Passwords that wait to be verified; further clients are refused. One takes some tens of milliseconds.
pub(crate) const PASSWORDS_WAITING_MAX: usize = 64;
/// Passwords that are known to be right, all workers together.
pub(crate) const PASSWORDS_KNOWN_MAX: usize = 100_000;
/// Nonces of digest authentication that have been used and could be used again, all workers together; further clients are refused.
pub(crate) const NONCES_USED_MAX: usize = 50_000;
/// Cost of a bcrypt hash that is computed: 2 to the power of it, some seconds.
pub(crate) const BCRYPT_COST_MAX: u32 = 16;
/// Rounds of a crypt hash that are computed: some seconds.
pub(crate) const SHA_CRYPT_ROUNDS_MAX: usize = 1_000_000;

/// To connect one endpoint of a TCP service; nginx's default, which ingress-nginx leaves as it is.
pub(crate) const STREAM_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// For the PROXY header of a TCP service's client; nginx's default, which ingress-nginx leaves as it is.
pub(crate) const STREAM_PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the longest datagram.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Clients of UDP services that a worker has sessions with, where there are descriptors for as many.
pub(crate) const UDP_SESSIONS_MAX: usize = 8192;
/// Time for which a client's datagrams are kept away from an endpoint that refused one of them.
pub(crate) const UDP_FAILURE_MEMORY: Duration = Duration::from_secs(10);
