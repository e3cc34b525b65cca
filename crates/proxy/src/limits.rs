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
/// Bytes of a request's body that are kept for the access log, where its format has `$request_body`. Of a longer body nothing is logged.
pub(crate) const LOGGED_BODY_BYTES_MAX: usize = 64 << 10;
/// Time between two complaints that bodies are passed on which ought to be read whole.
pub(crate) const UNHELD_TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Threads of a worker for files.
pub(crate) const FILE_THREADS_MAX: usize = 4;
/// Bytes of a response that are read ahead of its client.
pub(crate) const READ_AHEAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of responses that are read ahead, all workers together. Where there is no more, a response is read as far ahead as one buffer.
pub(crate) const READ_AHEAD_TOTAL_BYTES_MAX: usize = 128 << 20;

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
/// Connections that are turned away in a row with the spare descriptor.
pub(crate) const SPARE_ACCEPTS_MAX: usize = 64;
/// Time for which a connection waits for its next request while the process is short of room for connections.
pub(crate) const GUARD_KEEP_ALIVE_MAX: Duration = Duration::from_secs(2);
/// Costly steps of handshakes of a worker in a tick while the process is short of what they cost. An RSA signature takes a
/// millisecond, so that it is a fifth of the time at most.
pub(crate) const GUARD_HANDSHAKES_PER_TICK: u32 = 20;
/// Seconds after which who was refused may come again, at least, and so many more at random.
pub(crate) const GUARD_RETRY_AFTER: usize = 1;
pub(crate) const GUARD_RETRY_JITTER: usize = 3;
/// Pause after an accept that failed for want of descriptors or memory.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Between two looks at the deadlines, and between two flushes of the access log.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks between two sweeps of the idle upstream connections.
pub(crate) const TICKS_PER_SWEEP: u64 = 10;
/// A worker on which nothing has waited for so many ticks is told of one tick in [`TICKS_PER_SWEEP`] until something does: what is counted by
/// windows of a second has been told by then.
pub(crate) const IDLE_TICKS: u32 = 20;
/// Time for which an endpoint may still answer a client that has shut down its sending side. Such a client cannot be
/// told from one that is gone.
pub(crate) const HALF_CLOSED_GRACE: Duration = Duration::from_secs(1);
/// Time for which a request is waited for on a connection that was accepted while the worker stops.
pub(crate) const LAST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Requests of a pipeline that a connection serves before others get a turn and the sockets are looked at.
pub(crate) const PIPELINED_PER_TURN_MAX: u32 = 16;
/// Silence after which no more is expected of a client that has had its last response, as nginx's `lingering_timeout`.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// Time for which what such a client still sends is read, so that a reset does not destroy the response; nginx's `lingering_time`.
pub(crate) const LINGER_TIME_MAX: Duration = Duration::from_secs(30);
/// The rest of that time once the worker stops.
pub(crate) const LINGER_CLOSING_TIME_MAX: Duration = Duration::from_secs(1);
/// Connections of a worker on which that is done at a time; one more closes the oldest. It bounds what is read in vain from all
/// clients together, since one connection has no bound in bytes.
pub(crate) const LINGERING_CONNECTIONS_MAX: usize = 256;
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
/// Counters of `limit-requests`, all workers together; those that have not been used for longest are forgotten. Each takes some 80 bytes, and
/// some 100 more for each other replica where all count together.
pub(crate) const QUOTA_COUNTERS_MAX: usize = 100_000;
/// Time between two times that a replica tells the others what it counts.
pub(crate) const QUOTA_TELL_INTERVAL: Duration = Duration::from_millis(50);
/// Datagrams in which it does so at a time; what has no room in them comes the next time.
pub(crate) const QUOTA_TOLD_MAX: usize = 64;
/// Bytes of one of them, which no usual network takes apart.
pub(crate) const REPLICA_DATAGRAM_BYTES_MAX: usize = 1200;
/// Replicas whose counts are known at a time.
pub(crate) const REPLICAS_MAX: usize = 64;
/// Time between two tries to open the socket for it.
pub(crate) const REPLICA_BIND_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two exchanges of counts with Redis, where nobody waits for one.
pub(crate) const LIMIT_REDIS_INTERVAL: Duration = Duration::from_millis(50);
/// Counters of one exchange; others come with the next one.
pub(crate) const LIMIT_REDIS_COUNTERS_MAX: usize = 2000;
/// Time after which an exchange is slow, and no request waits for it any more. One that comes while another exchange is under way waits for
/// that and for its own.
pub(crate) const LIMIT_REDIS_SLOW: Duration = Duration::from_millis(50);
/// Longest wait of a request for Redis.
pub(crate) const LIMIT_REDIS_WAIT_MAX: Duration = LIMIT_REDIS_SLOW.saturating_mul(2);
/// Time for an exchange, and for connecting; Redis is taken to be gone then.
pub(crate) const LIMIT_REDIS_ANSWER_TIME: Duration = Duration::from_secs(1);
/// For so long what Redis has said of a counter is known.
pub(crate) const LIMIT_REDIS_WORD_AGE_MAX: Duration = Duration::from_secs(1);
/// Longest time between two exchanges, so that it is known whether Redis is there.
pub(crate) const LIMIT_REDIS_QUIET_MAX: Duration = Duration::from_secs(1);
/// Pauses before Redis is connected to again, from the first to the longest; each is as long as the one before twice, and then by chance
/// shorter by up to half.
pub(crate) const LIMIT_REDIS_PAUSE_MIN: Duration = Duration::from_millis(100);
pub(crate) const LIMIT_REDIS_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Rows of the sketch in which a worker counts what clients do within a window.
pub(crate) const ABUSE_SKETCH_ROWS: usize = 3;
/// Counters in each of them. Two clients are taken for one by all rows with a chance of one in 4096 to the power of three.
pub(crate) const ABUSE_SKETCH_CELLS: usize = 4096;
/// Clients that are counted one by one within a window, once the sketch of a worker has noticed them, all workers together.
pub(crate) const ABUSE_TRACKED_MAX: usize = 16_384;
/// Clients that are judged, all workers together; the least busy of those that nothing is held against go first.
pub(crate) const ABUSE_CLIENTS_MAX: usize = 100_000;
/// Values that tell clients apart which a worker notes within a window, of clients against whom something is held.
pub(crate) const ABUSE_VALUES_PER_WINDOW: usize = 64;
/// Values that are remembered for operators, all workers together.
pub(crate) const ABUSE_VALUES_MAX: usize = 1024;
/// Characters of a value that operators are shown.
pub(crate) const ABUSE_VALUE_CHARS_MAX: usize = 64;
/// Ticks of a window, at whose end what was counted is judged.
pub(crate) const ABUSE_TICKS_PER_WINDOW: u64 = 10;
/// Windows of one worker that wait to be judged; a worker goes on counting in its present one where there are more.
pub(crate) const ABUSE_WINDOWS_WAITING_MAX: usize = 2;
/// Clients that have to be active for any of them to be far off the others by their rate.
pub(crate) const ABUSE_ACTIVE_CLIENTS_MIN: usize = 10;
/// Requests a second below which nobody is far off.
pub(crate) const ABUSE_RATE_MIN: f32 = 50.0;
/// How many times the median of active clients a rate has to be.
pub(crate) const ABUSE_MEDIANS_MIN: f32 = 20.0;
/// Part of all requests, or of all faults of a kind, that a client has to have.
pub(crate) const ABUSE_PART_MIN: f32 = 0.02;
/// Part of a client's own requests or connections that has to be faulty.
pub(crate) const ABUSE_SHARE_MIN: f32 = 0.5;
/// How many times the others' share that has to be.
pub(crate) const ABUSE_SHARE_FACTOR: f32 = 4.0;
/// Errors, connections without a request and handshakes without one, each a second, below which nobody is far off.
pub(crate) const ABUSE_FAULTS_MIN: f32 = 10.0;
/// Times a second that a client was too slow, below which nobody is far off.
pub(crate) const ABUSE_SLOW_MIN: f32 = 1.0;
/// Requests and connections of the others a second without which there is nothing to compare a share with.
pub(crate) const ABUSE_OTHERS_MIN: f32 = 1.0;
/// Time by which a request of a client that is slowed waits.
pub(crate) const ABUSE_DELAY: Duration = Duration::from_millis(500);
/// Requests of a worker that wait so; further ones of such clients are refused.
pub(crate) const ABUSE_DELAYED_MAX: usize = 1024;
/// Time for which a client is refused first. It doubles each time.
pub(crate) const ABUSE_REFUSAL_TIME: Duration = Duration::from_secs(10);
/// Longest time for which a client is refused.
pub(crate) const ABUSE_REFUSAL_TIME_MAX: Duration = Duration::from_secs(600);
/// Time without an offence after which one refusal is forgotten.
pub(crate) const ABUSE_FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// Parts of the table of connections by client, so that workers seldom wait for each other.
pub(crate) const CLIENT_CONNECTIONS_SHARDS: usize = 64;
/// Clients of whom an idle connection is looked for on other workers, at a time.
pub(crate) const CLIENT_EVICTIONS_MAX: usize = 1024;
/// Most time that a client which was faster may have gained for later.
pub(crate) const RATE_ALLOWANCE_MAX: Duration = Duration::from_secs(60);
/// Texts that the key of a limit may come to for one request, which counts for each of them; a request with
/// more is refused.
pub(crate) const KEY_TEXTS_MAX: usize = 8;
/// Answers of auth services that are kept, all workers together.
pub(crate) const AUTH_ANSWERS_MAX: usize = 10_000;
/// Time for which an answer that may not be kept has the requests with its key ask by themselves, without waiting for each other.
pub(crate) const AUTH_UNSHARED_TIME: Duration = Duration::from_secs(1);
/// Bytes of headers of such an answer; a longer one is not kept.
pub(crate) const AUTH_ANSWER_BYTES_MAX: usize = 8 << 10;
/// Bytes of the body that a service answers with, or that answers the copy of a request, which are passed over; after more the
/// connection is closed.
pub(crate) const SUBREQUEST_BODY_BYTES_MAX: usize = 64 << 10;
/// Calls of auth services for one request, where connections break.
pub(crate) const AUTH_TRIES_MAX: u32 = 3;

/// Bytes of a file that are read at a time, for TLS and HTTP/2.
pub(crate) const FILE_READ_BYTES: usize = LARGE_BUFFER_BYTES;
/// Bytes of a file that the kernel is told to send at a time, once they are in the page cache.
pub(crate) const SENDFILE_BYTES: u64 = 1 << 20;

/// Tries of a backend of errors for one request.
pub(crate) const ERROR_BACKEND_TRIES_MAX: u32 = 3;
/// Bytes of a value that a script gives to a variable, and of a path with its query that it makes.
pub(crate) const SCRIPT_VALUE_BYTES_MAX: usize = 64 << 10;
/// Times that a script may send a request to another route of its host, as in nginx.
pub(crate) const REROUTES_MAX: usize = 10;

/// Passwords of the users of one Secret that wait to be verified; further clients are refused. One takes some tens of milliseconds.
pub(crate) const PASSWORDS_WAITING_MAX: usize = 64;
/// The same for all Secrets together.
pub(crate) const PASSWORDS_WAITING_TOTAL_MAX: usize = 4096;
/// Longest time for which a client waits for its password to be verified.
pub(crate) const PASSWORD_TIME_MAX: Duration = Duration::from_secs(60);
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

/// Bytes of the coders at work of one worker, at most; further responses go as they are.
pub(crate) const CODER_BYTES_MAX: usize = 256 << 20;
/// Coders of each coding that a worker keeps for later.
pub(crate) const CODERS_KEPT_MAX: usize = 16;
/// Bytes that are compressed or taken apart before other requests of the worker get a turn.
pub(crate) const CODED_BYTES_PER_TURN: u64 = 64 << 10;
/// Bits of the window of gzip, which has no larger one.
pub(crate) const GZIP_WINDOW_BITS: u8 = 15;
/// Bytes of an encoder of gzip with this window.
pub(crate) const GZIP_STATE_BYTES: usize = 288 << 10;
/// Bits of the window of brotli: 512 KiB, as nginx's module has it.
pub(crate) const BROTLI_WINDOW_BITS: u32 = 19;
/// The same for contents that are known to be short.
pub(crate) const BROTLI_WINDOW_BITS_MIN: u32 = 12;
/// Bytes of an encoder of brotli with this window, up to level 9.
pub(crate) const BROTLI_STATE_BYTES: usize = 4 << 20;
/// The same from level 10 on.
pub(crate) const BROTLI_STATE_BYTES_HIGH: usize = 24 << 20;
/// Bits of the window of zstd: 512 KiB.
pub(crate) const ZSTD_WINDOW_BITS: u32 = 19;
/// Bytes of an encoder of zstd with this window, up to level 9.
pub(crate) const ZSTD_STATE_BYTES: usize = 6 << 20;
/// The same from level 10 on.
pub(crate) const ZSTD_STATE_BYTES_HIGH: usize = 16 << 20;
/// Bits of the largest window of zstd that is taken from an endpoint: 8 MiB, as RFC 9659 has it.
pub(crate) const ZSTD_DECODED_WINDOW_BITS: u32 = 23;
/// Bytes of a decoder: the largest window of brotli, and what is beside it.
pub(crate) const DECODER_STATE_BYTES: usize = 17 << 20;
/// Bytes that come of one byte when a coding is taken away, over all of a content but its beginning. What grows more is a bomb.
pub(crate) const DECODED_RATIO_MAX: u64 = 256;
/// Bytes at the beginning of such a content for which the ratio does not count.
pub(crate) const DECODED_BYTES_FREE: u64 = 1 << 20;
/// Bytes of such a content, whatever it came from.
pub(crate) const DECODED_BYTES_MAX: u64 = 4 << 30;
/// Steps by which levels of compression fall to the lowest one while a worker is short of CPU.
pub(crate) const EASE_STEPS_MAX: u8 = 4;
/// Thousandths of a worker's time from which on it is short of CPU.
pub(crate) const LOAD_PERMILLE_HIGH: u16 = 850;
/// Thousandths of a worker's time below which levels come back.
pub(crate) const LOAD_PERMILLE_LOW: u16 = 600;
/// Milliseconds by which a tick may be late before the worker counts as short of CPU.
pub(crate) const EASE_LATE_MAX_MS: u32 = 50;
/// Ticks between two steps down.
pub(crate) const EASE_TICKS_DOWN: u8 = 5;
/// Ticks between two steps up: more, so that levels do not swing.
pub(crate) const EASE_TICKS_UP: u8 = 20;
/// Least memory for a cache, in bytes.
pub const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Bytes of a body that is not kept and has several readers, which the fastest of them may be ahead of the slowest.
pub(crate) const SHARED_WINDOW_BYTES: usize = 1 << 20;
/// Responses that are kept for one URL, each for other requests.
pub(crate) const CACHE_VARIANTS_MAX: usize = 32;
/// Time for which requests for what turned out to be nobody else's do not wait for each other.
pub(crate) const CACHE_PASS_TIME: Duration = Duration::from_secs(60);
/// URLs of which that is remembered.
pub(crate) const CACHE_PASSES_MAX: usize = 10_000;
/// Requests of a worker that bring a stale response up to date for nobody in particular; further ones are left to a later request.
pub(crate) const CACHE_REFRESHES_MAX: usize = 256;
/// Longest time for one of these.
pub(crate) const CACHE_REFRESH_TIME_MAX: Duration = Duration::from_secs(300);
/// Bytes of the URL and the tags by which a response can be purged. What has more is not kept.
pub(crate) const CACHE_LABELS_BYTES_MAX: usize = 16 << 10;
/// Purges that are remembered for the sake of requests that began before. What began before an older one is not kept.
pub(crate) const CACHE_PURGES_MAX: usize = 1000;
/// Changes of pages by clients that are remembered for the same sake.
pub(crate) const CACHE_CHANGES_MAX: usize = 4096;
/// How long a request waits for what is kept on disk, to the next tick; its endpoint is asked then.
pub(crate) const CACHE_DISK_WAIT_MAX: Duration = Duration::from_millis(50);
/// How long a purge waits for the disk; it counts at once in any case.
pub(crate) const CACHE_PURGE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of a content in memory whose compressed forms are kept; a longer one is compressed each time that it is sent.
pub(crate) const FORM_CONTENT_BYTES_MAX: u64 = 1 << 20;
/// The part of the memory for the cache that is for compressed forms of what it keeps: one in so many bytes.
pub(crate) const CACHE_FORMS_SHARE: u64 = 16;
/// Bytes of the compressed forms of small files, at most.
pub(crate) const FILE_FORMS_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a body that is put together to one piece once all of it has come.
pub(crate) const CACHE_PIECE_BYTES: usize = 256 << 10;

/// Between two comparisons of a cluster's endpoints with each other, as long as there are requests.
pub(crate) const OUTLIER_REVIEW_INTERVAL: Duration = Duration::from_millis(250);
/// Errors in a row before an endpoint is left out.
pub(crate) const OUTLIER_ERRORS_IN_ROW_MIN: u32 = 5;
/// Requests of the last seconds that its share of errors is found from, and as many of the other endpoints.
pub(crate) const OUTLIER_REQUESTS_MIN: f64 = 20.0;
/// Responses that its latency is found from.
pub(crate) const OUTLIER_SAMPLES_MIN: u32 = 10;
/// Comparisons in a row that find it slow before it is left out.
pub(crate) const OUTLIER_SLOW_REVIEWS: u32 = 2;
/// Requests without a response to any, for an endpoint to be left out as one that is slow.
pub(crate) const OUTLIER_SILENT_MIN: u32 = 3;
/// Latency below which no endpoint is slower than another.
pub(crate) const OUTLIER_LATENCY_MIN: Duration = Duration::from_millis(1);
/// Age at which a latency is forgotten, and time in which the responses have to come that it is found from.
pub(crate) const OUTLIER_AGE_MAX: Duration = Duration::from_secs(10);
/// Time for which an endpoint is left out at first; it doubles with each time.
pub(crate) const EJECTION_FIRST: Duration = Duration::from_secs(1);
/// Time to which that grows.
pub(crate) const EJECTION_MAX: Duration = Duration::from_secs(6);
/// Time for which an endpoint has to be well for one ejection to be forgotten.
pub(crate) const EJECTION_FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Requests in a row that an endpoint has to answer well to take its share again.
pub(crate) const PROBES_GOOD: u32 = 3;
/// Time after which another such request is sent though nothing was heard of the last one.
pub(crate) const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// Seconds of which requests and further tries are counted for a retry budget.
pub(crate) const RETRY_BUDGET_SECONDS: usize = 10;
/// Further tries in a second that a retry budget always allows.
pub(crate) const RETRIES_FREE_PER_SECOND: u64 = 3;
/// Connects to an endpoint that fail in a row before the next ones are paced.
pub(crate) const CONNECT_PACED_AFTER: u32 = 3;
/// Time between two of them at first; it doubles with each that fails.
pub(crate) const CONNECT_PACE_FIRST: Duration = Duration::from_millis(100);
/// Time to which that grows.
pub(crate) const CONNECT_PACE_MAX: Duration = Duration::from_secs(1);
/// Time to connect to another replica.
pub(crate) const REPLICA_CONNECT_TIME: Duration = Duration::from_millis(250);
/// Time for another replica to begin its response; what has its home there is asked of an endpoint here then.
pub(crate) const REPLICA_RESPONSE_TIME: Duration = Duration::from_secs(2);
/// Time for which a worker does not ask a replica that has failed, or wait for it.
pub(crate) const REPLICA_REST: Duration = Duration::from_secs(5);
/// Bytes of what a replica tells another about a request, or has it forget, before it is written in letters.
pub(crate) const REPLICA_MARK_BYTES_MAX: usize = 3 << 10;
/// How old the request of another replica may be, or how far ahead its clock.
pub(crate) const REPLICA_MARK_AGE_MAX: Duration = Duration::from_secs(30);
/// Times that one mark counts: a request is sent again where an idle connection turns out to be dead.
pub(crate) const REPLICA_MARK_USES_MAX: u8 = 3;
/// Marks that are remembered to count that, all workers together; with more, those of the longest time ago are forgotten.
pub(crate) const REPLICA_MARKS_REMEMBERED_MAX: usize = 1 << 17;
/// Changes that a worker is telling other replicas at a time, each of them counted.
pub(crate) const REPLICA_ORDERS_MAX: usize = 1000;
/// Longest time for one of these.
pub(crate) const REPLICA_ORDER_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time for a purge at another replica.
pub(crate) const REPLICA_PURGE_TIME_MAX: Duration = Duration::from_secs(10);

/// Requests that an endpoint has at a time at least where its limit is found, from one worker.
pub(crate) const LIMIT_MIN: f64 = 1.0;
/// One place in so many of a limit that is found is not for those that are served last. Fewer would keep a limit from growing that only they
/// use.
pub(crate) const LIMIT_PART_OF_OTHERS: u32 = 5;
/// Requests that an endpoint may have at a time as soon as its limit is found, from one worker.
pub(crate) const LIMIT_FIRST: f64 = 10.0;
/// Requests to which such a limit grows at most, from one worker.
pub(crate) const LIMIT_MAX: f64 = 10_000.0;
/// Latency below which an endpoint is not asked for too much, whatever it takes when it is idle.
pub(crate) const LIMIT_LATENCY_MIN: Duration = Duration::from_millis(1);
/// Responses that a decision about a limit needs.
pub(crate) const LIMIT_SAMPLES_MIN: u32 = 15;
/// Time in which they have to come; of a lower rate nothing is concluded.
pub(crate) const LIMIT_WINDOW_TIME_MAX: Duration = Duration::from_secs(4);
/// Responses that a measurement of the latency without load needs.
pub(crate) const LIMIT_PROBE_SAMPLES: u32 = 8;
/// Age of an endpoint's latency without load at which that is measured anew.
pub(crate) const LIMIT_BASE_AGE_MAX: Duration = Duration::from_secs(30);
/// The same of one that is doubted.
pub(crate) const LIMIT_DOUBT_TIME: Duration = Duration::from_secs(1);
/// Time for such a measurement.
pub(crate) const LIMIT_PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// Requests that wait at a worker for places at the endpoints of one cluster.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 1024;
/// Bytes of memory that they hold together.
pub(crate) const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Rows of the sketch of what clients ask a cluster for, and cells of a row: 6 KB for a cluster whose limits are kept.
pub(crate) const FAIR_ROWS: usize = 3;
pub(crate) const FAIR_CELLS: usize = 1024;
/// Requests of late below which a client asks for no more than others.
pub(crate) const FAIR_ASKED_MIN: f64 = 20.0;
/// How many times as much as the mean of the others a client asks for who is served after them.
pub(crate) const FAIR_MUCH: f64 = 4.0;
/// The same for one whose own excess it is that it is refused.
pub(crate) const FAIR_FAR: f64 = 16.0;
/// Part of the time that one may wait, which is all that is left of it once the queue has not been empty for so long: a tenth.
pub(crate) const QUEUE_OVERFULL_SHARE: u32 = 10;
/// Seconds after which those who are refused because of overload are told to come again, at most: each is told another number.
pub(crate) const RETRY_AFTER_SECONDS_MAX: usize = 3;
/// Time for which a queue has not been empty before the last who came is served first.
pub(crate) const QUEUE_STRESS_AFTER: Duration = Duration::from_millis(100);

/// Bytes of the target that a rewrite makes of a request's, twice as long as a request line may be; one that is longer is answered 500.
pub(crate) const REWRITE_BYTES_MAX: usize = 64 << 10;
