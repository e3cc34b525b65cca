//! Every metric: its name, type and meaning. The first part has the names of ingress-nginx (`internal/ingress/metric`), on which
//! dashboards and alerts depend.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Numbers of values by their size.
    Histogram,
    /// Number and sum of values; quantiles of one process cannot be added up, and are left out.
    Summary,
}

/// A metric on `/metrics`.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// As Prometheus knows it.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The text of its `# HELP` line.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($const:ident: $kind:ident, $name:literal, $help:literal;)*) => {
        $(pub(crate) const $const: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*

        /// All metrics, for the documentation.
        pub const METRICS: &[Metric] = &[$($const,)*];
    };
}

metrics! {
    REQUESTS: Counter, "nginx_ingress_controller_requests", "Requests of clients";
    REQUEST_DURATION: Histogram, "nginx_ingress_controller_request_duration_seconds", "Time from the first byte of a request to the last of its response";
    RESPONSE_DURATION: Histogram, "nginx_ingress_controller_response_duration_seconds", "Time until the upstream's response had been received";
    HEADER_DURATION: Histogram, "nginx_ingress_controller_header_duration_seconds", "Time until the head of the upstream's response had been received";
    CONNECT_DURATION: Histogram, "nginx_ingress_controller_connect_duration_seconds", "Time until the connection to the upstream stood";
    UPSTREAM_LATENCY: Summary, "nginx_ingress_controller_ingress_upstream_latency_seconds", "Time until the connection to the upstream stood, by Ingress and Service, without quantiles; deprecated, use connect_duration_seconds";
    REQUEST_SIZE: Histogram, "nginx_ingress_controller_request_size", "Bytes of a request: line, headers and body";
    RESPONSE_SIZE: Histogram, "nginx_ingress_controller_response_size", "Bytes of a response: line, headers and body";
    BYTES_SENT: Histogram, "nginx_ingress_controller_bytes_sent", "Bytes of a response: line, headers and body; deprecated, use response_size";
    BUILD_INFO: Gauge, "nginx_ingress_controller_build_info", "Always 1; the labels tell the build";
    CONFIG_HASH: Gauge, "nginx_ingress_controller_config_hash", "Hash of the configuration that is served; 0 where the last one was refused";
    CONFIG_SUCCESSFUL: Gauge, "nginx_ingress_controller_config_last_reload_successful", "Whether the last configuration was taken into service";
    CONFIG_SUCCESSFUL_TIMESTAMP: Gauge, "nginx_ingress_controller_config_last_reload_successful_timestamp_seconds", "When a configuration was last taken into service";
    SUCCESS: Counter, "nginx_ingress_controller_success", "Configurations that were taken into service";
    ERRORS: Counter, "nginx_ingress_controller_errors", "Configurations that were refused";
    PROBLEMS: Gauge, "forebay_configuration_problems", "What is wrong with the objects at present, by severity and reason; the log and Events tell of each";
    WATCHES_FAILING: Gauge, "forebay_watches_failing", "Watches of the API server that are broken at present; what they told of last stays in force";
    DOCTOR_FINDING: Gauge, "forebay_doctor_finding", "What each check of `forebay doctor` says of this process and its machine: 0 ok, 1 warning, 2 failure, -1 could not look";
    LEADER: Gauge, "nginx_ingress_controller_leader_election_status", "Whether this process leads: 1, or 0 for one who follows";
    ORPHANS: Gauge, "nginx_ingress_controller_orphan_ingress", "Whether an Ingress names a Service that does not exist (no-service), or one without an endpoint (no-endpoint)";
    ADMISSION_CONFIG_SIZE: Gauge, "nginx_ingress_controller_admission_config_size", "Bytes of the review that the webhook judged last; what is judged is never written down as a configuration";
    ADMISSION_TRANSLATION: Gauge, "nginx_ingress_controller_admission_render_duration", "Seconds of this verdict in which Ingresses were translated";
    ADMISSION_TRANSLATED: Gauge, "nginx_ingress_controller_admission_render_ingresses", "Ingresses that were translated for it, the one in question included";
    ADMISSION_ROUNDTRIP: Gauge, "nginx_ingress_controller_admission_roundtrip_duration", "Seconds that the webhook took for the Ingress that it judged last, from reading it to the answer";
    ADMISSION_JUDGING: Gauge, "nginx_ingress_controller_admission_tested_duration", "Seconds of this verdict from when the objects around the Ingress were known, translation included";
    ADMISSION_INGRESSES: Gauge, "nginx_ingress_controller_admission_tested_ingresses", "Ingresses amid which the webhook judged the last one, that one included";
    CERTIFICATE_EXPIRES: Gauge, "nginx_ingress_controller_ssl_expire_time_seconds", "Second since 1970 at which the certificate of a host ends";
    CERTIFICATE_INFO: Gauge, "nginx_ingress_controller_ssl_certificate_info", "Always 1; the labels tell of the certificate of a host";
    CONNECTIONS: Gauge, "nginx_ingress_controller_nginx_process_connections", "Client connections by what they do";
    CONNECTIONS_TOTAL: Counter, "nginx_ingress_controller_nginx_process_connections_total", "Client connections that were accepted, and that were handled";
    REQUESTS_TOTAL: Counter, "nginx_ingress_controller_nginx_process_requests_total", "Requests of clients, for whatever host";
    CPU_SECONDS: Counter, "nginx_ingress_controller_nginx_process_cpu_seconds_total", "CPU time used";
    PROCESSES: Gauge, "nginx_ingress_controller_nginx_process_num_procs", "Processes";
    START_TIME: Gauge, "nginx_ingress_controller_nginx_process_oldest_start_time_seconds", "When the process was started";
    READ_BYTES: Counter, "nginx_ingress_controller_nginx_process_read_bytes_total", "Bytes read";
    WRITE_BYTES: Counter, "nginx_ingress_controller_nginx_process_write_bytes_total", "Bytes written";
    RESIDENT_BYTES: Gauge, "nginx_ingress_controller_nginx_process_resident_memory_bytes", "Resident memory";
    VIRTUAL_BYTES: Gauge, "nginx_ingress_controller_nginx_process_virtual_memory_bytes", "Virtual memory";

    FAULTS: Counter, "forebay_faults_total", "What went wrong, by whose fault it is and by reason";
    TLS_HANDSHAKES: Counter, "forebay_tls_handshakes_total", "Handshakes with clients that were completed, in full or resumed, and by the type of our key";
    CODED_CONTENTS: Counter, "forebay_coded_contents_total", "Contents of responses that were compressed, or of which a coding was taken away (`un...`)";
    CODED_READ: Counter, "forebay_coded_read_bytes_total", "Bytes of these contents as they came";
    CODED_WRITTEN: Counter, "forebay_coded_written_bytes_total", "Bytes of these contents as they went on";
    CODED_REFUSED: Counter, "forebay_coded_refused_total", "Contents that stayed as they were since there was no memory for one more coder";
    COMPRESSION_EASED: Gauge, "forebay_compression_eased_steps", "Steps by which levels of compression are below what is asked for at present, of 4 for each worker, since workers are short of CPU";
    SERIES_DROPPED: Counter, "forebay_metrics_series_dropped_total", "Requests that no series of the request metrics had room for";
    MIRRORS_DROPPED: Counter, "forebay_mirrors_dropped_total", "Copies of requests (mirror-target) that there was no room or no endpoint for";
    CACHE_REQUESTS: Counter, "forebay_cache_requests_total", "Requests to routes with a cache, by namespace, ingress, service and what it did: hit, miss, expired, stale, revalidated, collapsed, bypass";
    CACHE_HOME_REQUESTS: Counter, "forebay_cache_home_requests_total", "Requests to other replicas, for objects that have their home there, by what became of them: answered, failed";
    CACHE_FORGETS: Counter, "forebay_cache_replica_invalidations_total", "Changes by POST and the like that other replicas had to be told of, once for each of them, by what became of it: told, unreached";
    LIMIT_SHARED_DATAGRAMS: Counter, "forebay_limit_shared_datagrams_total", "Datagrams by which replicas count together (limit-shared), by what became of them: sent, unsent, taken; garbage, forged, stale, replayed, strange for those that were refused";
    LIMIT_REDIS_EXCHANGES: Counter, "forebay_limit_redis_exchanges_total", "Exchanges of counts with Redis (--limit-redis), by what became of them: in_time, slow; unreachable, silent, refused, not_redis for those that failed";
    LIMIT_REDIS_REQUESTS: Counter, "forebay_limit_redis_requests_total", "Requests with a shared limit for which the counts that were here did not suffice: waited for an exchange; alone (counted here, Redis was not there), closed (refused for that)";
    CACHE_OBJECTS: Gauge, "forebay_cache_objects", "URLs of which responses are kept";
    CACHE_BYTES: Gauge, "forebay_cache_bytes", "Bytes that they take, with heads, keys and tables";
    CACHE_EVICTIONS: Counter, "forebay_cache_evictions_total", "Responses that had to go to make room for others";
    ABUSE_CLIENTS: Gauge, "forebay_abuse_clients", "Clients that were noticed, by what becomes of what they ask for: watched (nothing), slowed, refused; where the mode is watch, what would become of it";
    ABUSE_ACTIONS: Counter, "forebay_abuse_actions_total", "Requests that were slowed or refused and connections that were closed for the behaviour of their client, by action; of mode watch, what was not done and would have been";
    ABUSE_BYTES: Gauge, "forebay_abuse_table_bytes", "Memory for what is known of the behaviour of clients";
    CACHE_DISK_BYTES: Gauge, "forebay_cache_disk_bytes", "Bytes of all files of the cache on disk; this and the following are there only with --cache-folder";
    CACHE_DISK_BYTES_MAX: Gauge, "forebay_cache_disk_limit_bytes", "Bytes that they may take";
    CACHE_DISK_OBJECTS: Gauge, "forebay_cache_disk_objects", "URLs of which responses are found there";
    CACHE_DISK_HITS: Counter, "forebay_cache_disk_hits_total", "URLs of which responses were read there, since memory had them no more";
    CACHE_DISK_WRITES: Counter, "forebay_cache_disk_writes_total", "Records that were written there: what is kept of a URL each time that it changes";
    CACHE_DISK_DROPPED: Counter, "forebay_cache_disk_dropped_total", "Records that were not written, since the disk was too slow, full or gone, or they were too long";
    CACHE_DISK_EVICTIONS: Counter, "forebay_cache_disk_evictions_total", "Records that had to go to make room for others";
    CACHE_DISK_ERRORS: Counter, "forebay_cache_disk_errors_total", "What went wrong there, by kind: write (the system refused), read (a record was not what had been written)";
    CACHE_DISK_FULL: Gauge, "forebay_cache_disk_full", "1 while the file system has no room for what the cache may take";
    CACHE_DISK_LOADING: Gauge, "forebay_cache_disk_loading", "1 while the index is read back after a start: what is on disk may be missed";
    GUARD_PRESSURE: Gauge, "forebay_guard_pressure_ratio", "How much of something of Forebay's own is used, by what it is: shares, and for loop_lag seconds";
    GUARD_LEVEL: Gauge, "forebay_guard_level", "How short of it the process is: 0 not at all; 1 it eases its work; 2 it refuses sheddable requests, 3 normal ones too. In watch mode nothing is done";
    GUARD_TURNS: Counter, "forebay_guard_turned_on_total", "Times that it became short of it";
    GUARD_SHED: Counter, "forebay_guard_shed_total", "Requests that were refused since the process is short of something, by their priority; critical ones never are. Of mode watch, what was not refused and would have been";
    GUARD_SPARE: Counter, "forebay_guard_spare_descriptor_total", "Connections that were answered 503, over TLS ended by an alert, since no file descriptor was left for them but the spare one";
    LOG_DROPPED: Counter, "forebay_access_log_dropped_lines_total", "Lines of the access log that could not be written, or not soon enough";
    SPANS_SENT: Counter, "forebay_trace_spans_sent_total", "Spans that the collector of traces has taken";
    SPANS_DROPPED: Counter, "forebay_trace_spans_dropped_total", "Spans that there was no room for among those waiting to be sent, or that the collector did not take";
    EVENTS_DROPPED: Counter, "forebay_events_dropped_total", "Events on objects that there was no room for among those waiting to be published";
    UPSTREAM_OPENED: Counter, "forebay_upstream_connections_opened_total", "Connections that were opened";
    UPSTREAM_REUSED: Counter, "forebay_upstream_connections_reused_total", "Requests that went over an idle connection of the same worker";
    UPSTREAM_STOLEN: Counter, "forebay_upstream_connections_stolen_total", "Requests that went over an idle connection of another worker";
    UPSTREAM_EVICTED: Counter, "forebay_upstream_connections_evicted_total", "Idle connections that were closed because of the cap";
    UPSTREAM_REGRETTED: Counter, "forebay_upstream_connections_regretted_total", "Evictions that a new connection soon followed: the cap is too small";
    UPSTREAM_STALE: Counter, "forebay_upstream_connections_stale_on_checkout_total", "Idle connections that the endpoint had closed when one was needed";
    UPSTREAM_REQUESTS: Counter, "forebay_upstream_requests_total", "Requests that were sent, retries included";
    UPSTREAM_FAILURES: Counter, "forebay_upstream_failures_total", "Requests that failed, by reason";
    UPSTREAM_IDLE: Gauge, "forebay_upstream_connections_idle", "Idle connections";
    OVERLOAD_LIMIT: Gauge, "forebay_overload_limit", "Requests that the endpoints of a cluster may have at a time, as far as limits have been found, kept or not";
    OVERLOAD_IN_FLIGHT: Gauge, "forebay_overload_in_flight", "Requests that the endpoints of a cluster have";
    OVERLOAD_QUEUED: Gauge, "forebay_overload_queued", "Requests that wait for a place at an endpoint of a cluster";
    OVERLOAD_WAITS: Counter, "forebay_overload_waits_total", "Requests for which no endpoint of a cluster had a place, by what became of them: served, timeout, full, refused, client_gone, or watched where nothing is done; and by priority";
    OVERLOAD_EJECTED: Gauge, "forebay_overload_ejected", "Workers and upstreams for which an endpoint is left out at present, or would be under `enforce`, since it fails or is slow beside the others";
    OVERLOAD_EJECTIONS: Counter, "forebay_overload_ejections_total", "Times that a worker began to leave an endpoint out, or would have under `enforce`";
    OVERLOAD_CONNECTS_PACED: Counter, "forebay_overload_connects_paced_total", "Requests that had another endpoint asked, or failed, since connections to this one fail and it was not time for the next attempt; or would have under `enforce`";
    OVERLOAD_RETRIES_DENIED: Counter, "forebay_overload_retries_denied_total", "Tries that the retry budget of a cluster did not allow, or would not have under `enforce`";
    STREAM_OPENED: Counter, "forebay_stream_connections_total", "Connections of TCP services, sessions of UDP services";
    STREAM_ACTIVE: Gauge, "forebay_stream_connections", "Those of them that are open";
    STREAM_BYTES: Counter, "forebay_stream_bytes_total", "Bytes received from clients and sent to them";
    STREAM_RESPONSE: Histogram, "forebay_stream_response_seconds", "Time from the last byte of a client's message to the first byte of the answer";
    STREAM_OVER_THRESHOLD: Gauge, "forebay_stream_response_over_threshold_ratio", "Share of the answers that took longer than they should";
    STREAM_EVICTED: Counter, "forebay_stream_sessions_evicted_total", "Sessions of UDP services that were ended to make room for others";
    STREAM_LISTEN_FAILURES: Counter, "forebay_stream_listen_failures_total", "Times that the port could not be listened at";
    PORTS_IN_USE: Gauge, "forebay_upstream_ports_in_use", "Local ports that connections hold, by source and endpoint";
    PORTS_EXHAUSTED: Counter, "forebay_upstream_ports_exhausted_total", "Connections that failed because no local port was left";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
    }
}
