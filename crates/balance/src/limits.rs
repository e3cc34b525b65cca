//! Every bound of load balancing that the configuration does not set, with its unit.

use std::time::Duration;

/// Time between two reviews of a cluster's endpoints, as long as there are requests.
pub(crate) const OUTLIER_REVIEW_INTERVAL: Duration = Duration::from_millis(250);
/// Errors in a row before an endpoint is ejected.
pub(crate) const OUTLIER_ERRORS_IN_ROW_MIN: u32 = 5;
/// Recent requests before an endpoint's share of errors is judged, and as many of the other endpoints.
pub(crate) const OUTLIER_REQUESTS_MIN: f64 = 20.0;
/// Responses that a latency is found from.
pub(crate) const OUTLIER_SAMPLES_MIN: u32 = 10;
/// Reviews in a row that find an endpoint slow before it is ejected.
pub(crate) const OUTLIER_SLOW_REVIEWS: u32 = 2;
/// Requests in flight at a silent endpoint before the silence counts as slowness.
pub(crate) const OUTLIER_SILENT_MIN: u32 = 3;
/// Latency below which no endpoint is slower than another.
pub(crate) const OUTLIER_LATENCY_MIN: Duration = Duration::from_millis(1);
/// Age at which a latency is forgotten, and time within which the responses have to come that it is found
/// from.
pub(crate) const OUTLIER_AGE_MAX: Duration = Duration::from_secs(10);
/// Time of an endpoint's first ejection; it doubles with each further one.
pub(crate) const EJECTION_FIRST: Duration = Duration::from_secs(1);
/// Longest time of an ejection.
pub(crate) const EJECTION_MAX: Duration = Duration::from_secs(6);
/// Time without an ejection for which one is forgotten.
pub(crate) const EJECTION_FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Good probes in a row that end an ejection.
pub(crate) const PROBES_GOOD: u32 = 3;
/// Time after which another probe is sent though the last one has no outcome.
pub(crate) const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// Time between two requests that probe a cluster that is out of use.
pub(crate) const FAILOVER_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Divisor of the interval of health checks while the last checks contradict an endpoint's state.
pub(crate) const CHECK_DOUBT_SHARE: u32 = 5;
/// Shortest time between health checks then, unless the interval is shorter.
pub(crate) const CHECK_DOUBT_MIN: Duration = Duration::from_millis(100);
/// Share of the time between two health checks by which it is longer or shorter at random.
pub(crate) const CHECK_JITTER: f64 = 0.1;

/// Seconds of which requests and retries are counted for a retry budget.
pub(crate) const RETRY_BUDGET_SECONDS: usize = 10;
/// Steps in which the interval of a Service's bound for retries passes.
pub(crate) const RETRY_CONSTRAINT_SLOTS: usize = 20;
/// Retries in a second that a retry budget always allows.
pub(crate) const RETRIES_FREE_PER_SECOND: u64 = 3;

/// Connects to an endpoint that fail in a row before the next ones are paced.
pub(crate) const CONNECT_PACED_AFTER: u32 = 3;
/// First pause between paced connects; it doubles with each failure.
pub(crate) const CONNECT_PACE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause between paced connects.
pub(crate) const CONNECT_PACE_MAX: Duration = Duration::from_secs(1);

/// Lowest adaptive limit: requests of one worker in flight at an endpoint.
pub(crate) const LIMIT_MIN: f64 = 1.0;
/// One slot in this many of an adaptive limit is kept free of sheddable requests. With a larger reserve, a
/// limit that only they use could not grow.
pub(crate) const LIMIT_SHEDDABLE_RESERVE: u32 = 5;
/// First adaptive limit, at least: requests of one worker in flight at an endpoint.
pub(crate) const LIMIT_FIRST: f64 = 10.0;
/// Highest adaptive limit: requests of one worker in flight at an endpoint.
pub(crate) const LIMIT_MAX: f64 = 10_000.0;
/// Latency below which an endpoint is never overloaded, whatever its latency without load.
pub(crate) const LIMIT_LATENCY_MIN: Duration = Duration::from_millis(1);
/// Responses that a decision about a limit needs.
pub(crate) const LIMIT_SAMPLES_MIN: u32 = 15;
/// Time within which they have to come; from a lower rate nothing is concluded.
pub(crate) const LIMIT_WINDOW_TIME_MAX: Duration = Duration::from_secs(4);
/// Responses that a measurement of the latency without load needs.
pub(crate) const LIMIT_PROBE_SAMPLES: u32 = 8;
/// Time between two measurements of the latency without load.
pub(crate) const LIMIT_BASE_AGE_MAX: Duration = Duration::from_secs(30);
/// The same where the last measurement is in doubt.
pub(crate) const LIMIT_DOUBT_TIME: Duration = Duration::from_secs(1);
/// Longest time of such a measurement.
pub(crate) const LIMIT_PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// Requests that wait at a worker for slots at the endpoints of one cluster.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 1024;
/// Bytes of memory that these requests hold together.
pub(crate) const QUEUE_BYTES_MAX: usize = 16 << 20;
/// The divisor of the queue timeout once the queue has not been empty for a whole timeout: a tenth of it is
/// left.
pub(crate) const QUEUE_OVERFULL_SHARE: u32 = 10;
/// Time for which a queue has not been empty before the newest request is served first.
pub(crate) const QUEUE_STRESS_AFTER: Duration = Duration::from_millis(100);

/// Rows of the sketch of clients' requests: with [`FAIR_CELLS`], 6 KB for a cluster whose limits are
/// enforced.
pub(crate) const FAIR_ROWS: usize = 3;
/// Cells in a row of that sketch.
pub(crate) const FAIR_CELLS: usize = 1024;
/// Recent requests below which a client is not in excess.
pub(crate) const FAIR_ASKED_MIN: f64 = 20.0;
/// Multiple of the other clients' mean from which on a client is served after them.
pub(crate) const FAIR_MUCH: f64 = 4.0;
/// Multiple of the other clients' mean from which on a client has caused the overload itself.
pub(crate) const FAIR_FAR: f64 = 16.0;

/// Looks at a canary that is just at its bound after which it is stopped by chance, on average at the
/// earliest; there are ten a second.
pub(crate) const ROLLOUT_LOOKS_MIN: f64 = 1e6;
/// Weight of the mainline's counts that is left after a look: they halve within about 30 s.
pub(crate) const ROLLOUT_BASE_KEPT: f64 = 0.9977;
/// Weight of the canary's counts that is left after a look, for the words about a stop: they halve within
/// about 0.5 s.
pub(crate) const ROLLOUT_SAID_KEPT: f64 = 0.87;
/// The last requests to the mainline that count as recent; older ones count less and less.
pub(crate) const ROLLOUT_RECENT_REQUESTS: f64 = 20.0;
/// Recent requests to the mainline from which its recent figures are known.
pub(crate) const ROLLOUT_RECENT_MIN: f64 = 10.0;
/// Requests to the mainline that show whether it has the same fault, after one was found.
pub(crate) const ROLLOUT_CONFIRMING_REQUESTS: u64 = 10;
/// Looks after which a canary is stopped though there were fewer.
pub(crate) const ROLLOUT_CONFIRMING_LOOKS: u32 = 10;
/// Responses of the mainline from which its 99th percentile is known.
pub(crate) const ROLLOUT_SAMPLES_MIN: f64 = 300.0;
/// Runs of canaries that are remembered though the configuration does not have them.
pub(crate) const ROLLOUTS_REMEMBERED_MAX: usize = 1000;
/// News about canaries that wait to be taken.
pub(crate) const ROLLOUT_NEWS_MAX: usize = 1000;
/// Longest time that canaries get nothing since their states have not been read yet.
pub(crate) const ROLLOUTS_HELD_MAX: Duration = Duration::from_secs(60);
