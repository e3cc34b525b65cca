//! Every bound of the data plane that the configuration does not set, with its unit.

use std::time::Duration;

/// Bytes of the buffer that a request head is read into at first, and that heads are written to.
pub(crate) const SMALL_BUFFER_BYTES: usize = 4 << 10;
/// Bytes of the buffer that responses and bodies are read into.
pub(crate) const LARGE_BUFFER_BYTES: usize = 16 << 10;
/// Buffers for the rest of a body that is at least as long: a read, a write and four TLS records at once.
pub(crate) const BULK_BUFFER_BYTES: usize = 64 << 10;
/// Bytes in the buffers of one size that a worker caches. A request that waits for its response holds two
/// small ones; buffers beyond this are allocated and zeroed anew.
pub(crate) const BUFFER_BYTES_KEPT_MAX: usize = 8 << 20;
/// Bytes of the response head of an endpoint that speaks HTTP/2, or of a service that gets a subrequest.
pub(crate) const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of a response head in HTTP/1, whatever a route allows.
pub(crate) const ROUTE_RESPONSE_HEAD_BYTES_MAX: usize = 4 << 20;
/// Interim (1xx) responses before the final one.
pub(crate) const INTERIM_RESPONSES_MAX: u32 = 16;
/// Spare heads that a worker caches, for requests and for responses each.
pub(crate) const SPARE_VALUES_MAX: usize = 64;

/// Handshakes of clients that a worker has in progress; further clients are refused. Each takes about 10 KB.
pub(crate) const HANDSHAKES_MAX: usize = 4096;
/// Costly steps of handshakes in one turn of a worker's loop. A signature takes as long as ten requests:
/// with more of them in a turn, established connections would wait for a flood of handshakes.
pub(crate) const HANDSHAKES_PER_TURN_MAX: usize = 1;
/// Bytes of TLS records read at once where the caller provides no buffer.
pub(crate) const TLS_PEEK_BYTES: usize = 4 << 10;
/// Memory for encrypted output that a worker's thread keeps for the next write: four records of the largest
/// size.
pub(crate) const SEALED_BYTES_KEPT_MAX: usize = 128 << 10;
/// Bytes of the sessions that are cached for resumption, all workers together: some 40,000, as nginx has
/// with ingress-nginx's `ssl-session-cache-size` of 10 MB.
pub(crate) const SESSION_BYTES_MAX: usize = 16 << 20;
/// Session tickets that a client gets after a handshake. Each costs two per cent of it; one that is used is
/// replaced.
pub(crate) const SESSIONS_PER_HANDSHAKE: usize = 1;
/// Sessions that a worker caches for resumption with one endpoint.
pub(crate) const UPSTREAM_SESSIONS_MAX: usize = 8;

/// Remaining bytes of a body from which on it is spliced instead of copied.
pub(crate) const SPLICE_BYTES_MIN: u64 = 64 << 10;
/// Consecutive reads that fill their buffer, after which a tunnel changes from copying to splicing.
pub(crate) const BULK_READS: u8 = 4;
/// Bytes moved at once below which spliced data does not count as bulk; after [`BULK_READS`] of such moves
/// in a row a tunnel goes back to copying.
pub(crate) const BULK_BYTES_MIN: usize = LARGE_BUFFER_BYTES;
/// Reads that a tunnel does in one direction before other tasks run and the sockets are polled.
pub(crate) const TUNNEL_READS_PER_TURN_MAX: u32 = 16;
/// Requested size of a pipe in bytes; the kernel may grant less.
pub(crate) const PIPE_BYTES: usize = 1 << 20;
/// Empty pipes that a worker caches.
pub(crate) const PIPES_KEPT_MAX: usize = 64;

/// Bytes of memory for request bodies that are read whole before the request is sent, all workers together.
/// Beyond it, bodies go to files, or are streamed.
pub(crate) const HELD_BYTES_MAX: usize = 128 << 20;
/// Bytes by which that memory is reserved, and of a read or write of the files.
pub(crate) const HELD_STEP_BYTES: usize = 64 << 10;
/// Bytes of such a body where there is no folder for files, unless the route allows more; longer ones are
/// streamed.
pub(crate) const UNSPOOLED_BYTES_MAX: usize = 1 << 20;
/// Bytes of a request's body for the access log, where its format has `$request_body`. Of a longer body
/// nothing is logged.
pub(crate) const LOGGED_BODY_BYTES_MAX: usize = 64 << 10;
/// Time between two warnings that bodies are streamed that should be read whole.
pub(crate) const UNHELD_TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Threads of a worker for files.
pub(crate) const FILE_THREADS_MAX: usize = 4;
/// Bytes of a response that are read ahead of its client.
pub(crate) const READ_AHEAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of responses that are read ahead, all workers together. Beyond it, a response is read as far ahead
/// as one buffer.
pub(crate) const READ_AHEAD_TOTAL_BYTES_MAX: usize = 128 << 20;

/// Mirrored requests in progress of a worker; `balance::Copies` has the bounds for one cluster. Each holds
/// some 20 KB, and shares a longer body with its request.
pub(crate) const MIRRORS_MAX: usize = 256;

/// Connections that a worker accepts before other tasks run.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 16;
/// Connections that the kernel queues for a worker; `somaxconn` bounds it too.
pub(crate) const ACCEPT_BACKLOG: i32 = 4096;
/// Part of a worker's connections that is closed at a time to make room, if they are idle: a sixteenth.
pub(crate) const IDLE_CLOSED_PER_TURN: usize = 16;
/// Time between two warnings that there are too few descriptors.
pub(crate) const SHORTAGE_TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of a client's request that are read when its connection is refused: unread bytes would cause a
/// reset, which may overtake the answer.
pub(crate) const REFUSED_BYTES_READ: usize = 4 << 10;
/// Connections that are refused in a row with the spare descriptor.
pub(crate) const SPARE_ACCEPTS_MAX: usize = 64;
/// Time for which a connection waits for its next request while the process is short of room for connections.
pub(crate) const GUARD_KEEP_ALIVE_MAX: Duration = Duration::from_secs(2);
/// Costly handshake steps of a worker in a tick while the process is short of time. An RSA signature takes a
/// millisecond, so that they take a fifth of the time at most.
pub(crate) const GUARD_HANDSHAKES_PER_TICK: u32 = 20;
/// Minimum of `Retry-After` in a refusal by the guard, in seconds, and the range of the random seconds added
/// to it.
pub(crate) const GUARD_RETRY_AFTER: usize = 1;
pub(crate) const GUARD_RETRY_JITTER: usize = 3;
/// Pause after an accept that failed for lack of descriptors or memory.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Interval between two sweeps of the deadlines, and between two flushes of the access log.
pub(crate) use clock::TICK;
/// Ticks between two sweeps of the idle upstream connections.
pub(crate) const TICKS_PER_SWEEP: u64 = 10;
/// Ticks after which an idle worker gets only one tick in [`TICKS_PER_SWEEP`]: counts in windows of a second
/// have been reported by then.
pub(crate) const IDLE_TICKS: u32 = 20;
/// Time for which an endpoint may still respond to a client that has shut down its sending side. Such a
/// client cannot be told from one that is gone.
pub(crate) const HALF_CLOSED_GRACE: Duration = Duration::from_secs(1);
/// Time to wait for a request on a connection that was accepted while the worker stops.
pub(crate) const LAST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Pipelined requests that a connection serves before other tasks run and the sockets are polled.
pub(crate) const PIPELINED_PER_TURN_MAX: u32 = 16;
/// Time between a response that came before the end of the request and the reset of its stream.
pub(crate) const HTTP2_RESET_DELAY: Duration = Duration::from_millis(100);
/// The rest of a body that is read though its response has been delivered, so that the client's connection
/// can be used again as it was told; with more, or later, the connection ends.
pub(crate) const PASSED_OVER_BYTES_MAX: u64 = 256 << 10;
/// The time for it.
pub(crate) const PASSED_OVER_TIME_MAX: Duration = Duration::from_secs(1);
/// Silence after which nothing more is expected of a client that has received its last response, as nginx's
/// `lingering_timeout`.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// Time for which such a client's bytes are read and discarded, so that a reset does not destroy the
/// response; nginx's `lingering_time`.
pub(crate) const LINGER_TIME_MAX: Duration = Duration::from_secs(30);
/// The rest of that time once the worker stops.
pub(crate) const LINGER_CLOSING_TIME_MAX: Duration = Duration::from_secs(1);
/// Lingering connections of a worker at a time; one more closes the oldest. It bounds the discarded bytes of
/// all clients together, since one connection has no bound in bytes.
pub(crate) const LINGERING_CONNECTIONS_MAX: usize = 256;
/// Time between an eviction from the pool and a connect to the same endpoint for which the eviction counts
/// as regretted.
pub(crate) const REGRET_WINDOW: Duration = Duration::from_secs(5);
/// A failed try's time in an endpoint's average response time: an endpoint that refuses at once is not a
/// fast one.
pub(crate) const FAILED_RESPONSE_TIME: Duration = Duration::from_secs(1);
/// Half-life of an endpoint's average response time, as in ingress-nginx's `ewma` balancer.
pub(crate) const EWMA_DECAY: Duration = Duration::from_secs(10);

/// Bytes that a client may send on one stream before they are read: at first, and where it sends as fast as
/// they are read. On all streams of a connection.
pub(crate) const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
pub(crate) const HTTP2_STREAM_WINDOW_BYTES_MAX: u32 = 256 << 10;
pub(crate) const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of content that wait to be written to a client's connection, all its streams together.
pub(crate) const HTTP2_UNWRITTEN_BYTES_MAX: usize = 64 << 10;
/// Bytes that an endpoint may send on one stream before they are read, and on all streams of a session.
/// Streams of many clients share a session: slow clients must not use up the room of others.
pub(crate) const HTTP2_ENDPOINT_STREAM_WINDOW_BYTES: u32 = 64 << 10;
pub(crate) const HTTP2_ENDPOINT_WINDOW_BYTES: u32 = 128 * HTTP2_ENDPOINT_STREAM_WINDOW_BYTES;
/// Bytes of the table with which a peer's headers are compressed (RFC 7541 section 4.2).
pub(crate) const HTTP2_HEADER_TABLE_BYTES: u32 = 4 << 10;
/// Streams of one connection that its client may reset before their response has ended, beside one for each
/// [`HTTP2_STREAMS_PER_CANCEL`] completed ones; more end the connection. Each costs an endpoint a
/// connection.
pub(crate) const HTTP2_CANCELS_MAX: u64 = 100;
/// Streams that it may reset, counted in the same way, before its requests run behind those of others.
pub(crate) const HTTP2_CANCELS_UNSUSPECTED_MAX: u64 = 20;
/// Completed streams for each one that may be reset.
pub(crate) const HTTP2_STREAMS_PER_CANCEL: u64 = 10;
/// Streams of one connection that may be malformed; more end it.
pub(crate) const HTTP2_MALFORMED_STREAMS_MAX: u32 = 256;
/// Streams opened to an endpoint before it has announced its limit.
pub(crate) const HTTP2_STREAMS_ASSUMED: usize = 100;
/// Silence of an endpoint on whose session requests wait, after which it is asked whether it is there.
/// Servers of gRPC close a connection that asks more often than every five minutes (gRPC proposal A8).
pub(crate) const HTTP2_PING_AFTER: Duration = Duration::from_mins(5);
/// Time for its answer.
pub(crate) const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of content that are read for a stream of HTTP/3 before it is known whether it has room for them.
pub(crate) const HTTP3_PIECE_BYTES_MAX: usize = 16 << 10;
/// Hosts that are remembered as reached over HTTP/3, and the time for which one is without a handshake.
pub(crate) const HTTP3_PROVEN_HOSTS: usize = 4096;
pub(crate) const HTTP3_PROVEN_AGE_MAX: Duration = Duration::from_secs(3600);
/// One connection in this many to another host is told of HTTP/3.
pub(crate) const HTTP3_TRIAL_SHARE: u64 = 16;
/// Time for which a client may remember that a host is served over HTTP/3.
pub(crate) const HTTP3_OFFER_MIN: Duration = Duration::from_secs(60);
pub(crate) const HTTP3_OFFER_MAX: Duration = Duration::from_secs(86_400);
/// Bytes of a connection of QUIC that have been written and that its client has not acknowledged: the least
/// and the largest bound. The least one is twice the first window of congestion control, so that connections
/// that send little take nothing of what all share.
pub(crate) const QUIC_SEND_WINDOW_MIN: u64 = 29 << 10;
pub(crate) const QUIC_UNACKNOWLEDGED_BYTES_MAX: u64 = 1 << 20;
/// Bytes that the bounds of all connections of a worker exceed the least one by, and the part of them that
/// one connection may take.
pub(crate) const QUIC_SEND_WINDOWS_MAX: u64 = 8 << 20;
pub(crate) const QUIC_SEND_WINDOW_PART: u64 = 8;
/// A connection that would send more than such a part, and may have less than this, is served behind others.
/// So it is where more than a hundred download at once.
pub(crate) const QUIC_SEND_WINDOW_SHORT: u64 = 64 << 10;
/// Streams that a client may open before it has shown that it uses many, and after that. `quinn-proto` keeps
/// tables with room for all of them: with 100, which RFC 9114 section 6.1 asks for, they take 5.4 KB, and
/// with 20 and [`QUIC_UNI_STREAMS_MAX`] 1.3. A client with half as many requests open may open 100 a round
/// trip later.
pub(crate) const QUIC_STREAMS_FIRST: u32 = 20;
pub(crate) const QUIC_STREAMS_SECOND: u32 = 100;
/// Requests of a connection whose tasks begin before others have their turn.
pub(crate) const QUIC_REQUESTS_PER_TURN_MAX: u32 = 8;
/// Connection ids that a client has at a time: one in use, and two for changes of its path. Each takes some
/// 150 bytes.
pub(crate) const QUIC_CONNECTION_IDS_MAX: u8 = 3;
/// Unidirectional streams that a client may have open: three that HTTP/3 needs, and others that are ignored.
pub(crate) const QUIC_UNI_STREAMS_MAX: u32 = 8;
/// Least time without a packet after which a client is gone.
pub(crate) const QUIC_IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(30);
/// Connections of a worker's socket that are asked for and wait for their handshake; packets that come for
/// them meanwhile.
pub(crate) const QUIC_INCOMING_MAX: usize = 1024;
pub(crate) const QUIC_INCOMING_BYTES_MAX: u64 = 4 << 20;
/// Handshakes over QUIC in progress, of a worker and of one network, from which on a client has to show first
/// that it receives at its address. Each takes some 40 KB.
pub(crate) const QUIC_HALF_OPEN_UNVALIDATED_MAX: usize = 32;
pub(crate) const QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX: usize = 16;
/// Handshakes over QUIC in progress, of a worker and of one network; first packets of others are dropped.
pub(crate) const QUIC_HALF_OPEN_MAX: usize = 1024;
pub(crate) const QUIC_HALF_OPEN_PER_NETWORK_MAX: usize = 256;
/// Connections of a network that may end for a flood within the time for which a worker remembers them. After
/// more, the network begins one handshake in each interval.
pub(crate) const QUIC_FLOODS_MAX: u32 = 8;
pub(crate) const QUIC_FLOOD_MEMORY: Duration = Duration::from_secs(10);
pub(crate) const QUIC_FLOOD_HANDSHAKE_INTERVAL: Duration = Duration::from_millis(100);
/// Networks of which it is remembered.
pub(crate) const QUIC_FLOODING_NETWORKS_MAX: usize = 1024;
/// Changes of a client's address within a time, after more of which its connection is served behind others.
pub(crate) const QUIC_MOVES_MAX: u32 = 8;
pub(crate) const QUIC_MOVES_MEMORY: Duration = Duration::from_secs(10);
/// Packets that wait for a connection whose client is suspected of a flood, and for all of a socket; further
/// ones are lost.
pub(crate) const QUIC_SUSPECT_PACKETS_MAX: usize = 32;
pub(crate) const QUIC_SUSPECT_PACKETS_OF_ALL_MAX: usize = 2048;
/// Longest time of a handshake over QUIC: with three packets in ten lost, some take longer than ten seconds.
pub(crate) const QUIC_HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);
/// Datagrams that a socket of QUIC receives before other tasks run and the sockets are polled. One receive
/// may exceed it by what the kernel has joined.
pub(crate) const QUIC_DATAGRAMS_RECEIVED_PER_TURN_MAX: usize = 32;
/// Streams of HTTP/3 of a worker whose heads have not come, about a kilobyte each. Beyond it, a connection
/// ends that has more than a share of its own.
pub(crate) const HTTP3_HEADS_WAITING_MAX: usize = 4096;
pub(crate) const HTTP3_HEADS_WAITING_SHARE: usize = 16;
/// Receives of the kernel in one call. Each is of up to 64 KiB, which it may have joined from datagrams.
pub(crate) const QUIC_BATCH: usize = 8;
/// Buffers of the kernel for a socket of QUIC, where it allows them.
pub(crate) const QUIC_RECEIVE_BUFFER_BYTES: usize = 4 << 20;
pub(crate) const QUIC_SEND_BUFFER_BYTES: usize = 4 << 20;
/// Datagrams that leave in one call of the kernel, which takes 64 KiB, and those that leave before other
/// connections are served.
pub(crate) const QUIC_DATAGRAMS_PER_SEND_MAX: usize = 40;
pub(crate) const QUIC_DATAGRAMS_SENT_PER_TURN_MAX: usize = 200;
/// Full calls of the kernel that are written ahead of what was sent: bytes that are sent soon are still in
/// the CPU's caches.
pub(crate) const QUIC_SENDS_AHEAD: usize = 2;
/// Bytes of a datagram that are not content: header, tag and frame.
pub(crate) const QUIC_DATAGRAM_OVERHEAD: usize = 48;
/// Time by which a timer of a connection is late if its worker has been kept from running.
pub(crate) const QUIC_TIMER_LATE_MIN: Duration = Duration::from_millis(20);
/// Packets that wait for the worker whose connection they belong to.
pub(crate) const QUIC_HANDED_OVER_MAX: usize = 256;
/// Clients of one worker whose packets other replicas forward.
pub(crate) const QUIC_FORWARDED_CLIENTS_MAX: usize = 4096;
/// Time without a packet after which such a client may be forgotten.
pub(crate) const QUIC_FORWARDED_CLIENT_AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum age of a packet that a replica has forwarded, and of the lead of that replica's clock.
pub(crate) const QUIC_FORWARDED_AGE_MAX: Duration = Duration::from_secs(30);
/// Replicas that are listed no more and are remembered; the time between two questions to one of them
/// whether it is there. It is gone after so many questions in so long a time without an answer: a process
/// that gets no CPU has been seen to take some seconds, and one question is lost easily.
pub(crate) const QUIC_LEFT_REPLICAS_MAX: usize = 256;
pub(crate) const QUIC_REPLICA_ASK_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const QUIC_REPLICA_QUESTIONS_MIN: u32 = 3;
pub(crate) const QUIC_REPLICA_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time between two stateless resets of a worker. None is longer than the packet that it answers.
pub(crate) const QUIC_RESET_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Tokens for later connections that a client gets for each of its packets that shows that it receives at its
/// address, commonly two or three, and the age after which they are not taken.
pub(crate) const QUIC_TOKENS_SENT: u32 = 1;
pub(crate) const QUIC_TOKEN_LIFETIME: Duration = Duration::from_secs(3600);
/// Tokens that have been used within their lifetime. Others are not taken.
pub(crate) const QUIC_TOKENS_USED_MAX: usize = 1 << 16;
/// Sessions with one endpoint on which a request is tried while the endpoint does not process it.
pub(crate) const HTTP2_SESSIONS_PER_TRY_MAX: u32 = 4;

/// Longest wait of a request for Redis.
pub(crate) const LIMIT_REDIS_WAIT_MAX: Duration = count_exchange::REDIS_SLOW.saturating_mul(2);
/// Delay of a request whose client is slowed down.
pub(crate) const ABUSE_DELAY: Duration = Duration::from_millis(500);
/// Delayed requests of a worker; further ones of such clients are refused.
pub(crate) const ABUSE_DELAYED_MAX: usize = 1024;
/// Time for which the refusal of a client waits that goes on with forged tokens or wrong passwords, and the
/// range of the random milliseconds added to it.
pub(crate) const REFUSAL_DELAY: Duration = Duration::from_secs(1);
pub(crate) const REFUSAL_JITTER_MS: usize = 1000;
/// Refusals of a worker that wait, each of them a request of some 12 KB; further ones are sent at once.
pub(crate) const REFUSALS_HELD_MAX: usize = 1024;
/// The part of a worker's time for one kind of costly work: one nanosecond in this many.
pub(crate) const CPU_SHARE_PART: u32 = 4;
/// Time by which such work may be ahead of its share.
pub(crate) const CPU_SHARE_AHEAD: Duration = Duration::from_millis(20);
/// Tasks of a worker that wait for such work, and among them those of clients that are suspected.
pub(crate) const CPU_SHARE_WAITING_MAX: usize = 1024;
pub(crate) const CPU_SHARE_SUSPECTS_MAX: usize = 64;
/// Longest time that a request waits for the signature of its token to be checked.
pub(crate) const TOKEN_TURN_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest time that a client which was faster may have saved up.
pub(crate) const RATE_ALLOWANCE_MAX: Duration = Duration::from_secs(60);
/// Texts that the key of a limit may have for one request, which counts for each of them; a request with
/// more is refused.
pub(crate) const KEY_TEXTS_MAX: usize = 8;
/// Bytes of the response body of a subrequest or a mirrored request that are drained; after more the
/// connection is closed.
pub(crate) const SUBREQUEST_BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes of the answer of an authorization service, without its head.
pub(crate) const AUTHZ_ANSWER_BYTES_MAX: usize = 64 << 10;
/// Time for which the answer of an authorization service is cached, whatever it says.
pub(crate) const AUTHZ_CACHE_TIME_MAX: Duration = Duration::from_secs(3600);
/// Bytes of a head that an external processor has changed, and of the fields of a response that it gives.
pub(crate) const PROCESSED_HEAD_BYTES_MAX: usize = 64 << 10;
/// Calls of auth services for one request, where connections fail.
pub(crate) const AUTH_TRIES_MAX: u32 = 3;

/// Bytes of a file that are read at a time, for TLS and HTTP/2.
pub(crate) const FILE_READ_BYTES: usize = LARGE_BUFFER_BYTES;
/// Bytes of a file that the kernel sends at a time, once they are in the page cache.
pub(crate) const SENDFILE_BYTES: u64 = 1 << 20;

/// Tries at an error backend for one request.
pub(crate) const ERROR_BACKEND_TRIES_MAX: u32 = 3;
/// Bytes of a value that a script assigns to a variable, and of a path with its query that it makes.
pub(crate) const SCRIPT_VALUE_BYTES_MAX: usize = 64 << 10;
/// Internal redirects of a request by scripts to another route of its host, as in nginx.
pub(crate) const REROUTES_MAX: usize = 10;

/// The longest API key. Keys have some dozen bytes; this bounds what a made-up one costs to hash.
pub(crate) const API_KEY_BYTES_MAX: usize = 1024;

/// Longest time for which a client waits for its session to be renewed, while it counts and once its tokens
/// have ended.
pub(crate) const OIDC_RENEWAL_TIME_MAX_WHILE_GOOD: Duration = Duration::from_secs(1);
pub(crate) const OIDC_RENEWAL_TIME_MAX: Duration = Duration::from_secs(10);
/// The same for the client of another replica, which has to get the answer before its own time ends.
pub(crate) const OIDC_RENEWAL_TIME_MAX_FOR_REPLICA: Duration = Duration::from_secs(9);
/// Longest time for which a client waits until a provider is known.
pub(crate) const OIDC_DISCOVERY_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time for which a client waits for the provider to redeem its code, or to have its logout token
/// checked.
pub(crate) const OIDC_ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
/// The longest answer of another replica that has renewed a session.
pub(crate) const OIDC_REPLICA_ANSWER_BYTES_MAX: usize = 128 << 10;
/// The longest body of a back-channel logout.
pub(crate) const OIDC_LOGOUT_BYTES_MAX: usize = 64 << 10;

/// Longest time for which a request waits for the keys of the issuer of its token.
pub(crate) const TOKEN_KEYS_WAIT_MAX: Duration = Duration::from_secs(5);

/// Longest time for which a client waits for its password to be verified.
pub(crate) const PASSWORD_TIME_MAX: Duration = Duration::from_secs(60);

/// Timeout of a connect to one endpoint of a TCP service; nginx's default, which ingress-nginx does not
/// change.
pub(crate) const STREAM_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of the PROXY header of a TCP service's client; nginx's default, which ingress-nginx does not
/// change.
pub(crate) const STREAM_PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the longest datagram.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Connections of QUIC whose server name is being read, of a socket; packets of each.
pub(crate) const QUIC_HELLOS_MAX: usize = 256;
pub(crate) const QUIC_HELLO_PACKETS_MAX: usize = 8;
/// Sessions of a socket that pass QUIC through for clients that may not be at their addresses, and how long
/// one lasts.
pub(crate) const QUIC_UNSEEN_CLIENTS_MAX: usize = 256;
pub(crate) const QUIC_UNSEEN_TIMEOUT: Duration = Duration::from_secs(10);
/// UDP sessions of a worker, where there are enough descriptors.
pub(crate) const UDP_SESSIONS_MAX: usize = 8192;
/// UDP sessions that have ended and are still queued by their age, beyond twice those that are open.
pub(crate) const ENDED_SESSIONS_MAX: usize = 64;
/// Time for which a client's datagrams avoid an endpoint that refused one of them.
pub(crate) const UDP_FAILURE_MEMORY: Duration = Duration::from_secs(10);

/// Bytes that are compressed or decompressed before other tasks of the worker run.
pub(crate) const CODED_BYTES_PER_TURN: u64 = 64 << 10;
/// Minimum memory of a cache, in bytes.
pub const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Bytes by which the fastest of several readers of a body that is not stored may be ahead of the slowest.
pub(crate) const SHARED_WINDOW_BYTES: usize = 1 << 20;
/// Cached responses of one key, each for other requests.
pub(crate) const CACHE_VARIANTS_MAX: usize = 32;
/// Time for which a key whose responses may not be shared is remembered, and its requests do not wait for
/// each other.
pub(crate) const CACHE_PASS_TIME: Duration = Duration::from_secs(60);
/// Number of such keys that are remembered.
pub(crate) const CACHE_PASSES_MAX: usize = 10_000;
/// Refreshes of stale responses that a worker has in progress; further ones are left to a later request.
pub(crate) const CACHE_REFRESHES_MAX: usize = 256;
/// Longest time for a refresh.
pub(crate) const CACHE_REFRESH_TIME_MAX: Duration = Duration::from_secs(300);
/// Bytes of the URL and the tags by which a response can be purged. Responses with more are not stored.
pub(crate) const CACHE_LABELS_BYTES_MAX: usize = 16 << 10;
/// Finished purges that are remembered, for the responses requested before them. Responses requested before
/// an older one are not stored.
pub(crate) const CACHE_PURGES_MAX: usize = 1000;
/// Changed keys that are remembered for the same reason.
pub(crate) const CACHE_CHANGES_MAX: usize = 4096;
/// Longest wait for a response from the disk, rounded up to a tick; the request goes to an endpoint then.
pub(crate) const CACHE_DISK_WAIT_MAX: Duration = Duration::from_millis(50);
/// Longest wait of a purge for the disk; the purge is in force at once in any case.
pub(crate) const CACHE_PURGE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of a content in memory whose compressed forms are stored; a longer one is compressed each time that
/// it is sent.
pub(crate) const FORM_CONTENT_BYTES_MAX: u64 = 1 << 20;
/// The part of the cache's memory for compressed forms: one byte in this many.
pub(crate) const CACHE_FORMS_SHARE: u64 = 16;
/// Bytes of the compressed forms of small files, at most.
pub(crate) const FILE_FORMS_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a body that is joined to one piece once it is complete.
pub(crate) const CACHE_PIECE_BYTES: usize = 256 << 10;

/// Time to connect to another replica.
pub(crate) const REPLICA_CONNECT_TIME: Duration = Duration::from_millis(250);
/// Time for another replica to begin its response; the request goes to an endpoint from here then.
pub(crate) const REPLICA_RESPONSE_TIME: Duration = Duration::from_secs(2);
/// Time for which a worker does not contact or wait for a replica that has failed.
pub(crate) const REPLICA_REST: Duration = Duration::from_secs(5);
/// Bytes of a message between replicas, before its encoding in a header value.
pub(crate) const REPLICA_MARK_BYTES_MAX: usize = 3 << 10;
/// Maximum age of another replica's request, and of the lead of its clock.
pub(crate) const REPLICA_MARK_AGE_MAX: Duration = Duration::from_secs(30);
/// Times that one mark may be used: a request is sent again where an idle connection turns out to be dead.
pub(crate) const REPLICA_MARK_USES_MAX: u8 = 3;
/// Marks whose use is remembered, all workers together; with more, the oldest are forgotten.
pub(crate) const REPLICA_MARKS_REMEMBERED_MAX: usize = 1 << 17;
/// Orders to other replicas that a worker has in flight, each of them counted.
pub(crate) const REPLICA_ORDERS_MAX: usize = 1000;
/// Longest time for an order to another replica.
pub(crate) const REPLICA_ORDER_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time for a purge at another replica.
pub(crate) const REPLICA_PURGE_TIME_MAX: Duration = Duration::from_secs(10);
/// Purges that wait for the worker that sends them to the other replicas.
pub(crate) const ANNOUNCEMENTS_WAITING_MAX: usize = 8;

/// Health checks that a worker makes at a time; others wait for one to end.
pub(crate) const HEALTH_CHECKS_MAX: usize = 256;
/// Time without another prompted health check of an endpoint after one that has passed.
pub(crate) const HEALTH_CHECK_PROMPTED_GAP: Duration = Duration::from_millis(250);
/// Time for which requests wait for a sign of life of an endpoint before it is checked.
pub(crate) const HEALTH_CHECK_SILENCE: Duration = Duration::from_millis(250);
/// Points of time in an interval at which health checks begin: endpoints share them, so that a worker wakes
/// once for several checks. Forty checks at once cost 12 µs each where ten at once cost 19.
pub(crate) const HEALTH_CHECK_SLOTS: u32 = 25;
/// Health checks in a row that are left out for an endpoint that answers requests.
pub(crate) const HEALTH_CHECKS_LEFT_OUT_MAX: u32 = 3;
/// Health checks in a row over connections that were kept open, before one over a new connection: at the
/// default interval that comes after five minutes.
pub(crate) const HEALTH_CHECKS_REUSED_MAX: u32 = 60;
/// Looks at the requests of an endpoint whose check is due, before the check is made.
pub(crate) const HEALTH_TRAFFIC_LOOKS: u32 = 4;
/// Part of an interval between two such looks.
pub(crate) const HEALTH_TRAFFIC_SHARE: u32 = 30;
/// Part of an interval for which a report about an endpoint waits, to be sent with others.
pub(crate) const HEALTH_REPORT_SHARE: u32 = 4;
/// Longest time for which a report about an endpoint waits, to be sent with others.
pub(crate) const HEALTH_REPORT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Longest time for a report about endpoints to another replica.
pub(crate) const HEALTH_REPORT_TIME_MAX: Duration = Duration::from_secs(2);
/// Changes of verdicts that wait to be published as Events; with more, the oldest are dropped.
pub(crate) const HEALTH_NEWS_MAX: usize = 1000;
/// Bytes of the content of a gRPC health response.
pub(crate) const HEALTH_RESPONSE_BYTES_MAX: usize = 4096;
/// Range of `Retry-After` in refusals because of overload, in seconds: each refusal has a random one.
pub(crate) const RETRY_AFTER_SECONDS_MAX: usize = 3;

/// Bytes of a rewritten target, twice as long as a request line may be; a longer one is answered with 500.
pub(crate) const REWRITE_BYTES_MAX: usize = 64 << 10;

/// Time between two looks whether all workers have begun, while the process starts.
pub(crate) const START_LOOK: Duration = Duration::from_millis(1);
