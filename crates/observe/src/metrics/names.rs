//! Every metric: its name, type and meaning. The first part has the names of ingress-nginx
//! (`internal/ingress/metric`), on which dashboards and alerts depend.

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
    /// The name in Prometheus.
    pub name: &'static str,
    /// Type of the metric.
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
    CONNECT_DURATION: Histogram, "nginx_ingress_controller_connect_duration_seconds", "Time until the connection to the upstream was established";
    UPSTREAM_LATENCY: Summary, "nginx_ingress_controller_ingress_upstream_latency_seconds", "Time until the connection to the upstream was established; deprecated, use connect_duration_seconds";
    REQUEST_SIZE: Histogram, "nginx_ingress_controller_request_size", "Bytes of a request: line, headers and body";
    RESPONSE_SIZE: Histogram, "nginx_ingress_controller_response_size", "Bytes of a response: line, headers and body";
    BYTES_SENT: Histogram, "nginx_ingress_controller_bytes_sent", "Bytes of a response: line, headers and body; deprecated, use response_size";
    BUILD_INFO: Gauge, "nginx_ingress_controller_build_info", "Always 1; the labels describe the build";
    CONFIG_HASH: Gauge, "nginx_ingress_controller_config_hash", "Hash of the configuration that is served; 0 where the last one was refused";
    CONFIG_SUCCESSFUL: Gauge, "nginx_ingress_controller_config_last_reload_successful", "Whether the last configuration was applied";
    CONFIG_SUCCESSFUL_TIMESTAMP: Gauge, "nginx_ingress_controller_config_last_reload_successful_timestamp_seconds", "When a configuration was last applied";
    SUCCESS: Counter, "nginx_ingress_controller_success", "Configurations that were applied";
    ERRORS: Counter, "nginx_ingress_controller_errors", "Configurations that were refused";
    PROBLEMS: Gauge, "forebay_configuration_problems", "Problems with objects at present, by severity and reason";
    WATCHES_FAILING: Gauge, "forebay_watches_failing", "Watches of the API server that fail at present; their last state is still served";
    PANICS: Counter, "forebay_panics_total", "Panics, each of which is a fault of Forebay: that of a connection ends the connection, that of a worker the process";
    DOCTOR_FINDING: Gauge, "forebay_doctor_finding", "Result of each check of `forebay doctor` for this process and its machine: 0 ok, 1 warning, 2 failure, -1 not checked";
    LEADER: Gauge, "nginx_ingress_controller_leader_election_status", "Whether this process leads: 1 or 0";
    ORPHANS: Gauge, "nginx_ingress_controller_orphan_ingress", "Whether an Ingress's Service does not exist (no-service) or has no endpoint (no-endpoint)";
    ADMISSION_CONFIG_SIZE: Gauge, "nginx_ingress_controller_admission_config_size", "Bytes of the webhook's last review";
    ADMISSION_TRANSLATION: Gauge, "nginx_ingress_controller_admission_render_duration", "Seconds of translation in the webhook's last review";
    ADMISSION_TRANSLATED: Gauge, "nginx_ingress_controller_admission_render_ingresses", "Ingresses translated for it";
    ADMISSION_ROUNDTRIP: Gauge, "nginx_ingress_controller_admission_roundtrip_duration", "Seconds of the webhook's last review, from reading it to the response";
    ADMISSION_JUDGING: Gauge, "nginx_ingress_controller_admission_tested_duration", "Seconds of its verdict, translation included";
    ADMISSION_INGRESSES: Gauge, "nginx_ingress_controller_admission_tested_ingresses", "Ingresses that it was judged with, itself included";
    CERTIFICATE_EXPIRES: Gauge, "nginx_ingress_controller_ssl_expire_time_seconds", "Second since 1970 at which the certificate of a host ends";
    CERTIFICATE_INFO: Gauge, "nginx_ingress_controller_ssl_certificate_info", "Always 1; the labels describe a host's certificate";
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
    MEMORY_ACTIVE: Gauge, "forebay_memory_active_bytes", "Pages of the allocator with memory in use: a leak makes them more and more";
    MEMORY_DIRTY: Gauge, "forebay_memory_dirty_bytes", "Free pages that the allocator keeps for a while: they are resident, but no leak";

    FAULTS: Counter, "forebay_faults_total", "Failures, by the side that caused them and by reason";
    ROUTE_FAULTS: Counter, "forebay_route_faults_total", "Requests that were refused or broken off, by namespace, Ingress, Service, status and reason; of one route and status the first four reasons";
    TLS_HANDSHAKES: Counter, "forebay_tls_handshakes_total", "Completed handshakes with clients, full or resumed, by the type of our key";
    CODED_CONTENTS: Counter, "forebay_coded_contents_total", "Contents of responses that were compressed or decompressed (`un...`)";
    CODED_READ: Counter, "forebay_coded_read_bytes_total", "Bytes of these contents as received";
    CODED_WRITTEN: Counter, "forebay_coded_written_bytes_total", "Bytes of these contents as sent";
    CODED_REFUSED: Counter, "forebay_coded_refused_total", "Contents that were sent unchanged because there was no memory for another coder";
    COMPRESSION_EASED: Gauge, "forebay_compression_eased_steps", "Steps by which compression levels are lowered at present, of 4 for each worker";
    SERIES_DROPPED: Counter, "forebay_metrics_series_dropped_total", "Requests without a series in the request metrics, because there are too many";
    MIRRORS_DROPPED: Counter, "forebay_mirrors_dropped_total", "Mirrored requests (mirror-target) dropped for lack of room or of an endpoint";
    FALLBACKS: Counter, "forebay_fallbacks_total", "Requests that went to a Service of `forebay.io/fallback`, since those before it are out of use or failed";
    CACHE_REQUESTS: Counter, "forebay_cache_requests_total", "Requests to routes with a cache, by result: hit, miss, expired, stale, revalidated, collapsed, bypass";
    CACHE_HOME_REQUESTS: Counter, "forebay_cache_home_requests_total", "Requests to other replicas for objects that are cached there, by result: answered, failed";
    CACHE_FORGETS: Counter, "forebay_cache_replica_invalidations_total", "Invalidations (POST and the like) sent to other replicas, by result: told, unreached";
    HTTP3_FORWARDED: Counter, "forebay_http3_forwarded_packets_total", "Packets of HTTP/3 that came to another worker, process or replica than their connection's, by where they were handed: worker, process, replica, client; or not: full, refused";
    HTTP3_RESETS: Counter, "forebay_http3_stateless_resets_total", "Connections over HTTP/3 that clients were told by a stateless reset are gone, by whose they were: ended (this process, or one before a restart), process (replaced in an upgrade), replica";
    LIMIT_SHARED_DATAGRAMS: Counter, "forebay_limit_shared_datagrams_total", "Datagrams with counts of replicas (limit-shared), by result: sent, unsent, taken; rejected as garbage, forged, stale, replayed, strange";
    LIMIT_REDIS_EXCHANGES: Counter, "forebay_limit_redis_exchanges_total", "Exchanges of counts with Redis (--limit-redis), by result: in_time, slow; failed as unreachable, silent, refused, not_redis";
    LIMIT_REDIS_REQUESTS: Counter, "forebay_limit_redis_requests_total", "Requests with a shared limit for which the known counts did not suffice: waited; alone (counted locally without Redis), closed (refused without Redis)";
    CACHE_OBJECTS: Gauge, "forebay_cache_objects", "URLs with cached responses";
    CACHE_BYTES: Gauge, "forebay_cache_bytes", "Bytes that they use, with heads, keys and tables";
    CACHE_EVICTIONS: Counter, "forebay_cache_evictions_total", "Responses that were evicted";
    ABUSE_CLIENTS: Gauge, "forebay_abuse_clients", "Noticed clients by state: watched, slowed, refused; in mode watch, what they would be";
    ABUSE_ACTIONS: Counter, "forebay_abuse_actions_total", "Requests slowed or refused and connections closed for their client's behaviour, by action and mode";
    ABUSE_BYTES: Gauge, "forebay_abuse_table_bytes", "Memory used to track the behaviour of clients";
    CACHE_DISK_BYTES: Gauge, "forebay_cache_disk_bytes", "Bytes of the cache on disk (--cache-folder)";
    CACHE_DISK_BYTES_MAX: Gauge, "forebay_cache_disk_limit_bytes", "Limit of these bytes";
    CACHE_DISK_OBJECTS: Gauge, "forebay_cache_disk_objects", "URLs with responses there";
    CACHE_DISK_HITS: Counter, "forebay_cache_disk_hits_total", "Responses read from disk because memory did not have them";
    CACHE_DISK_WRITES: Counter, "forebay_cache_disk_writes_total", "Records written there";
    CACHE_DISK_DROPPED: Counter, "forebay_cache_disk_dropped_total", "Records not written: the disk was too slow, full or missing, or they were too long";
    CACHE_DISK_EVICTIONS: Counter, "forebay_cache_disk_evictions_total", "Records that were evicted";
    CACHE_DISK_ERRORS: Counter, "forebay_cache_disk_errors_total", "Disk errors, by kind: write (the system refused), read (a record was damaged)";
    CACHE_DISK_FULL: Gauge, "forebay_cache_disk_full", "1 while the file system has less room than the cache may use";
    CACHE_DISK_LOADING: Gauge, "forebay_cache_disk_loading", "1 while the index is read after a start: responses on disk may be missed";
    GUARD_PRESSURE: Gauge, "forebay_guard_pressure_ratio", "How much of a resource Forebay uses, by resource: shares, and seconds for loop_lag";
    GUARD_LEVEL: Gauge, "forebay_guard_level", "Level of overload by resource: 0 none; 1 work is reduced; 2 sheddable requests are refused, 3 normal ones too";
    GUARD_TURNS: Counter, "forebay_guard_turned_on_total", "Times that the resource ran short";
    GUARD_SHED: Counter, "forebay_guard_shed_total", "Requests refused because the process is overloaded, by priority and mode";
    GUARD_SPARE: Counter, "forebay_guard_spare_descriptor_total", "Connections refused because only the spare file descriptor was left";
    WAF_REQUESTS: Counter, "forebay_waf_requests_total", "Requests that a web application firewall looked at, by result: passed, matched or blocked";
    WAF_EXHAUSTED: Counter, "forebay_waf_exhausted_total", "Requests whose rules took more work than they may; they are refused where rules refuse";
    WAF_BLOCKED: Counter, "forebay_waf_blocked_total", "Requests that a web application firewall refused, by phase and id of the rule; 0 for limits, and for rules beyond the first 124";
    TOKENS: Counter, "forebay_jwt_tokens_total", "JSON Web Tokens of requests (auth-jwt), by result: verified, repeated (verified before); absent, malformed, too_long, algorithm, issuer, audience, expired, early, claims, key, signature, no_keys, exhausted";
    TOKEN_KEY_FETCHES: Counter, "forebay_jwt_key_fetches_total", "Fetches of the keys of issuers by URL, by result: fetched, failed";
    EXT_AUTHZ_REQUESTS: Counter, "forebay_ext_authz_requests_total", "Questions to authorization services, by result: allowed, denied or error";
    EXT_AUTHZ_SECONDS: Counter, "forebay_ext_authz_wait_seconds_total", "Time that requests waited for authorization services";
    EXT_PROC_REQUESTS: Counter, "forebay_ext_proc_requests_total", "Requests that went through external processors, by result: processed, answered, failed or passed_by";
    EXT_PROC_MESSAGES: Counter, "forebay_ext_proc_messages_total", "Messages to external processors";
    EXT_PROC_SECONDS: Counter, "forebay_ext_proc_wait_seconds_total", "Time that requests waited for external processors";
    SIGN_INS: Counter, "forebay_oidc_sessions_total", "Sessions of people who sign in at a provider (auth-oidc), by issuer and result: signed_in, failed, renewed, refused (not renewed), unrenewed (the provider was away), signed_out";
    CERTIFICATES_ENDING: Gauge, "forebay_certificates_ending", "Certificates of hosts that end within ten days, or have ended";
    ACME_CERTIFICATES: Gauge, "forebay_acme_certificates", "Certificates that are obtained from authorities (forebay-acme-directories), by state: valid, ordered, failing (the last order failed, a certificate is there) or missing";
    PROVIDER_UP: Gauge, "forebay_oidc_provider_up", "1 if the provider has done as asked when it was asked last, by issuer";
    CANARY_SHARE: Gauge, "forebay_canary_share_ratio", "Share of requests that a canary with steps takes at this moment, by the namespace and name of its Ingress";
    CANARY_STEP: Gauge, "forebay_canary_step", "Step of a canary with steps, counted from 1; the one in which it was stopped where it was";
    CANARY_STOPPED: Gauge, "forebay_canary_stopped", "1 if a canary with steps was stopped since it fails or is slow";
    RELAY_FOLLOWS: Gauge, "forebay_watch_relay_follows", "Whether EndpointSlices come from another replica: 1, or 0 while this one watches the API server itself; with --replicas-per-watch";
    RELAY_FOLLOWERS: Gauge, "forebay_watch_relay_followers", "Replicas that get EndpointSlices from this one";
    RELAY_FALLBACKS: Counter, "forebay_watch_relay_fallbacks_total", "Replicas that did not deliver EndpointSlices, after each of which another one or the API server was asked";
    RELAY_CUT: Counter, "forebay_watch_relay_cut_total", "Replicas that read EndpointSlices too slowly, and had to begin anew";
    RELAY_SENT: Counter, "forebay_watch_relay_sent_bytes_total", "Bytes of EndpointSlices that were sent to other replicas";
    CLIENT_COUNTRIES: Counter, "forebay_client_countries_requests_total", "Requests by the country of the client's address, by code; `unknown` where the database has none, `other` for codes that are not in ISO 3166-1; with forebay-client-country-metrics";
    LOG_DROPPED: Counter, "forebay_access_log_dropped_lines_total", "Lines of the access log that could not be written in time";
    SPANS_SENT: Counter, "forebay_trace_spans_sent_total", "Spans that the trace collector accepted";
    SPANS_DROPPED: Counter, "forebay_trace_spans_dropped_total", "Spans dropped because the queue was full, or rejected by the collector";
    EVENTS_DROPPED: Counter, "forebay_events_dropped_total", "Events on objects dropped because the queue was full";
    UPSTREAM_OPENED: Counter, "forebay_upstream_connections_opened_total", "Connections that were opened";
    UPSTREAM_REUSED: Counter, "forebay_upstream_connections_reused_total", "Requests that went over an idle connection of the same worker";
    UPSTREAM_STOLEN: Counter, "forebay_upstream_connections_stolen_total", "Requests that went over an idle connection of another worker";
    UPSTREAM_EVICTED: Counter, "forebay_upstream_connections_evicted_total", "Idle connections that were closed because of the cap";
    UPSTREAM_REGRETTED: Counter, "forebay_upstream_connections_regretted_total", "Idle connections closed too early: a new one soon followed, so the cap is too small";
    UPSTREAM_STALE: Counter, "forebay_upstream_connections_stale_on_checkout_total", "Idle connections that the endpoint had closed when one was needed";
    UPSTREAM_REQUESTS: Counter, "forebay_upstream_requests_total", "Requests that were sent, retries included";
    UPSTREAM_SERVER_ERRORS: Counter, "forebay_upstream_server_errors_total", "Responses with a status from 500";
    UPSTREAM_FAILURES: Counter, "forebay_upstream_failures_total", "Requests that failed, by reason";
    UPSTREAM_IDLE: Gauge, "forebay_upstream_connections_idle", "Idle connections";
    OVERLOAD_LIMIT: Gauge, "forebay_overload_limit", "Concurrency limit of the endpoints of a cluster, where limits have been found, enforced or not";
    OVERLOAD_IN_FLIGHT: Gauge, "forebay_overload_in_flight", "Requests in flight at the endpoints of a cluster";
    OVERLOAD_QUEUED: Gauge, "forebay_overload_queued", "Requests that wait for a slot at an endpoint of a cluster";
    OVERLOAD_WAITS: Counter, "forebay_overload_waits_total", "Requests that found no slot at a cluster's endpoints, by priority and result: served, timeout, full, refused, client_gone; watched in watch mode";
    OVERLOAD_EJECTED: Gauge, "forebay_overload_ejected", "Workers and upstreams that eject an endpoint at present, or would under `enforce`";
    OVERLOAD_EJECTIONS: Counter, "forebay_overload_ejections_total", "Times that a worker ejected an endpoint, or would have under `enforce`";
    OVERLOAD_CONNECTS_PACED: Counter, "forebay_overload_connects_paced_total", "Requests that went elsewhere, or failed, instead of connecting to an endpoint whose connections fail; or would have under `enforce`";
    HEALTH_CHECKS: Counter, "forebay_health_checks_total", "Active health checks of an endpoint";
    HEALTH_CHECKS_FAILED: Counter, "forebay_health_checks_failed_total", "Those of them that failed";
    HEALTH_CHECK_OUT: Gauge, "forebay_health_check_failing", "Upstreams in which an endpoint fails its health check";
    HEALTH_CHECK_PANIC: Gauge, "forebay_health_check_panic", "Those of them in which it is used all the same, since more than half of the endpoints fail";
    OVERLOAD_RETRIES_DENIED: Counter, "forebay_overload_retries_denied_total", "Retries that the budget of a cluster refused, or would have under `enforce`";
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
