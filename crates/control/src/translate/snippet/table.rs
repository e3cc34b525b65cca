//! The directives of nginx that are neither steps nor about headers: those without effect, those with the
//! meaning of an annotation, and replacements for the others, which close the place of their snippet.
//!
//! Never in here: directives that the readers of blocks understand themselves (`set`, `if`, `return`,
//! `rewrite`, headers, addresses).

use std::fmt;

use super::caching::{cache_bypass, cache_key, cache_on, cache_use_stale, cache_valid};
use crate::translate::value::Parsed;

/// The handling of a directive.
#[derive(Clone, Copy)]
pub(super) enum Class {
    /// The directive has no effect here and needs none: the reason, for a remark.
    Nothing(&'static str),
    /// The directive has no effect with one of these first words; with others the class applies.
    NothingWith(&'static [&'static str], &'static str, &'static Class),
    /// The directive sets for one host the value that a key of the `ConfigMap` sets for all. The line is
    /// ignored with a warning.
    ForAll(&'static str),
    /// The directive has the meaning of annotations or keys, with the values that its words give.
    Same(fn(&[String]) -> Asked),
    /// The directive closes the place of its snippet.
    Closes(Instead, Loss),
}

/// The settings of a directive, or the reason why its words cannot be read.
pub(super) type Asked = Parsed<Vec<(Target, String)>>;

/// The setting that a directive stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::translate) enum Target {
    /// An annotation, without its prefix.
    Annotation(&'static str),
    /// A key of the `ConfigMap`, whose value applies to the locations of one Ingress.
    Key(&'static str),
    /// An annotation of Forebay's own, without its prefix.
    Own(&'static str),
}

impl Target {
    /// Whether further lines add to the value.
    pub(super) fn is_list(self) -> bool {
        self == Own("cache-bypass")
    }

    /// Whether the setting may restrict access.
    pub(super) fn restricts(self) -> bool {
        const GUARDS: &[&str] = &[
            "limit-rate",
            "limit-rate-after",
            "proxy-body-size",
            "proxy-ssl-verify-depth",
            "satisfy",
            "ssl-ciphers",
        ];
        matches!(self, Annotation(name) if GUARDS.contains(&name))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Annotation(name) => write!(f, "the annotation {name}"),
            Key(name) => write!(f, "the key {name} of the ConfigMap"),
            Own(name) => write!(f, "the annotation forebay.io/{name}"),
        }
    }
}

/// The replacement for a directive.
#[derive(Clone, Copy)]
pub(super) enum Instead {
    /// Annotations, without their prefix.
    Annotations(&'static [&'static str]),
    /// Keys of the `ConfigMap`.
    Keys(&'static [&'static str]),
    /// A replacement in words.
    Words(&'static str),
    /// No replacement exists.
    Nothing,
}

/// The effect of serving without a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Clients may be served that the directive refuses, or by another backend.
    Restriction,
    /// No client is served that the snippet refuses.
    Harmless,
}

use Class::{Closes, ForAll, Nothing, NothingWith, Same};
use Instead::{Annotations, Keys, Words};
use Loss::{Harmless, Restriction};
use Target::{Annotation, Key, Own};

const BUFFERS: &str = "Forebay sizes its buffers itself";
const KERNEL: &str = "Forebay sets its sockets itself";
const LOGS: &str = "logs go where the keys of the ConfigMap say";
const TRACING: &str = "traces are those of enable-opentelemetry";
const SESSIONS: &str = "TLS sessions are resumed as the ConfigMap says";
const NO_CACHE: &str = "no response is cached unless forebay.io/cache is set";
const OF_FILES: &str = "it is about files of nginx";
const DNS: &str = "names are resolved by the resolver of the Pod";
const HASHES: &str = "Forebay has no such tables";
const MODSECURITY: Instead =
    Words("the web application firewall is turned on by annotations, such as enable-modsecurity");
const FILES: Instead = Words("files are served from --files-root");
const LUA: Instead =
    Words("Lua is not run; docs/snippets.md says what to use (auth-url, a typed step, an annotation)");

/// The directives, in the order of names.
const DIRECTIVES: &[(&str, Class)] = &[
    ("absolute_redirect", Same(|w| Ok(vec![(Annotation("relative-redirects"), flag(w, "off", "on")?)]))),
    ("access_log", Same(access_log)),
    ("add_trailer", Closes(Instead::Nothing, Harmless)),
    ("aio", Nothing(OF_FILES)),
    ("alias", Closes(FILES, Harmless)),
    (
        "auth_basic",
        NothingWith(
            &["off"],
            "passwords are asked for where auth-type says",
            &Closes(Annotations(&["auth-type", "auth-secret", "auth-realm"]), Restriction),
        ),
    ),
    ("auth_basic_user_file", Closes(Annotations(&["auth-type", "auth-secret"]), Restriction)),
    (
        "auth_request",
        NothingWith(
            &["off"],
            "the auth service is asked where auth-url and enable-global-auth say",
            &Closes(Annotations(&["auth-url"]), Restriction),
        ),
    ),
    ("autoindex", Closes(FILES, Harmless)),
    ("brotli", Closes(Words("use the annotation forebay.io/compression"), Harmless)),
    ("brotli_comp_level", Closes(Words("use the annotation forebay.io/compression"), Harmless)),
    ("brotli_types", Closes(Keys(&["brotli-types"]), Harmless)),
    ("charset", Closes(Words("set the header Content-Type by more_set_headers"), Harmless)),
    (
        "chunked_transfer_encoding",
        Nothing("Forebay frames messages as the client's version of HTTP asks for"),
    ),
    ("client_body_buffer_size", Same(|w| one(w, "client-body-buffer-size"))),
    ("client_body_in_file_only", Nothing("bodies are kept in memory and in files without a name")),
    ("client_body_in_single_buffer", Nothing(BUFFERS)),
    ("client_body_temp_path", Nothing("bodies are kept where --body-buffer-dir says")),
    ("client_body_timeout", ForAll("client-body-timeout")),
    ("client_header_buffer_size", ForAll("large-client-header-buffers")),
    ("client_header_timeout", ForAll("client-header-timeout")),
    ("client_max_body_size", Same(|w| one(w, "proxy-body-size"))),
    ("directio", Nothing(OF_FILES)),
    ("error_log", Nothing(LOGS)),
    ("error_page", Closes(Annotations(&["custom-http-errors", "default-backend"]), Harmless)),
    ("etag", Nothing("Forebay leaves the ETag of endpoints as it is, as nginx does")),
    ("fastcgi_buffer_size", Same(|w| one(w, "proxy-buffer-size"))),
    ("fastcgi_buffering", Same(|w| one(w, "proxy-buffering"))),
    ("fastcgi_buffers", Nothing(BUFFERS)),
    ("fastcgi_busy_buffers_size", Nothing(BUFFERS)),
    ("fastcgi_connect_timeout", Same(|w| seconds(w, "proxy-connect-timeout"))),
    ("fastcgi_index", Same(|w| one(w, "fastcgi-index"))),
    ("fastcgi_param", Closes(Annotations(&["fastcgi-params-configmap"]), Restriction)),
    ("fastcgi_pass", Closes(Annotations(&["backend-protocol"]), Restriction)),
    ("fastcgi_read_timeout", Same(|w| seconds(w, "proxy-read-timeout"))),
    ("fastcgi_send_timeout", Same(|w| seconds(w, "proxy-send-timeout"))),
    ("fastcgi_temp_file_write_size", Nothing(BUFFERS)),
    ("grpc_buffer_size", Same(|w| one(w, "proxy-buffer-size"))),
    ("grpc_connect_timeout", Same(|w| seconds(w, "proxy-connect-timeout"))),
    ("grpc_next_upstream", Same(|w| words(w, "proxy-next-upstream"))),
    ("grpc_next_upstream_timeout", Same(|w| seconds(w, "proxy-next-upstream-timeout"))),
    ("grpc_next_upstream_tries", Same(|w| one(w, "proxy-next-upstream-tries"))),
    ("grpc_pass", Closes(Annotations(&["backend-protocol"]), Restriction)),
    ("grpc_read_timeout", Same(|w| seconds(w, "proxy-read-timeout"))),
    ("grpc_send_timeout", Same(|w| seconds(w, "proxy-send-timeout"))),
    ("grpc_socket_keepalive", Nothing(KERNEL)),
    ("grpc_ssl_server_name", NothingWith(&["on", "off"], TLS_NAME, &INVALID)),
    ("grpc_ssl_verify", NothingWith(&["off"], UNVERIFIED, &VERIFIED)),
    ("gunzip", Closes(Words("use the annotation forebay.io/decompression"), Harmless)),
    ("gzip", Same(|w| Ok(vec![(Key("use-gzip"), flag(w, "on", "off")?)]))),
    ("gzip_buffers", Nothing(BUFFERS)),
    ("gzip_comp_level", Same(|w| key(w, "gzip-level"))),
    ("gzip_disable", Same(|w| Ok(vec![(Key("gzip-disable"), w.join("|"))]))),
    ("gzip_http_version", Nothing("responses are compressed for HTTP/1.1 and later, as by ingress-nginx")),
    ("gzip_min_length", Same(|w| key(w, "gzip-min-length"))),
    ("gzip_proxied", Nothing("responses to proxies are compressed too, as by ingress-nginx")),
    ("gzip_static", Nothing(OF_FILES)),
    ("gzip_types", Same(|w| Ok(vec![(Key("gzip-types"), w.join(" "))]))),
    ("gzip_vary", Nothing("compressed responses say Vary: Accept-Encoding")),
    ("http2", Nothing("HTTP/2 is on as use-http2 says")),
    ("http2_max_concurrent_streams", ForAll("http2-max-concurrent-streams")),
    ("http2_max_field_size", ForAll("large-client-header-buffers")),
    ("http2_max_header_size", ForAll("large-client-header-buffers")),
    ("http2_push", Nothing("browsers have no HTTP/2 push any more")),
    ("http2_push_preload", Nothing("browsers have no HTTP/2 push any more")),
    ("if_modified_since", Nothing("endpoints answer conditional requests themselves")),
    ("ignore_invalid_headers", ForAll("ignore-invalid-headers")),
    ("index", Closes(FILES, Harmless)),
    ("internal", Closes(Instead::Nothing, Restriction)),
    ("keepalive_disable", Nothing("connections of all browsers are kept")),
    ("keepalive_requests", ForAll("keep-alive-requests")),
    ("keepalive_timeout", ForAll("keep-alive")),
    ("large_client_header_buffers", ForAll("large-client-header-buffers")),
    ("limit_conn", Closes(Annotations(&["limit-connections"]), Restriction)),
    ("limit_conn_log_level", Nothing(LOGS)),
    ("limit_conn_status", Same(|w| key(w, "limit-conn-status-code"))),
    ("limit_rate", Same(|w| kibibytes(w, "limit-rate"))),
    ("limit_rate_after", Same(|w| kibibytes(w, "limit-rate-after"))),
    ("limit_req", Closes(Annotations(&["limit-rps", "limit-rpm"]), Restriction)),
    ("limit_req_log_level", Nothing(LOGS)),
    ("limit_req_status", Same(|w| key(w, "limit-req-status-code"))),
    ("lingering_close", Nothing(KERNEL)),
    ("lingering_time", Nothing(KERNEL)),
    ("lingering_timeout", Nothing(KERNEL)),
    ("listen", Closes(Words("the ports are those of --http-port and --https-port"), Restriction)),
    ("location", Closes(Words("use a condition on $uri, or a location in server-snippet"), Restriction)),
    ("log_format", Closes(Keys(&["log-format-upstream"]), Harmless)),
    ("log_subrequest", Nothing(LOGS)),
    ("lua_package_path", Closes(LUA, Restriction)),
    ("lua_shared_dict", Closes(LUA, Restriction)),
    ("merge_slashes", Closes(Instead::Nothing, Restriction)),
    ("mirror", Closes(Annotations(&["mirror-target"]), Harmless)),
    ("mirror_request_body", Closes(Annotations(&["mirror-request-body"]), Harmless)),
    (
        "modsecurity",
        NothingWith(
            &["off"],
            "the web application firewall is off without its annotations",
            &Closes(MODSECURITY, Restriction),
        ),
    ),
    ("modsecurity_rules", Closes(MODSECURITY, Restriction)),
    ("modsecurity_rules_file", Closes(MODSECURITY, Restriction)),
    ("open_file_cache", Nothing(OF_FILES)),
    ("open_file_cache_errors", Nothing(OF_FILES)),
    ("open_file_cache_min_uses", Nothing(OF_FILES)),
    ("open_file_cache_valid", Nothing(OF_FILES)),
    ("opentelemetry", Nothing(TRACING)),
    ("opentelemetry_operation_name", Nothing(TRACING)),
    ("opentracing", Nothing(TRACING)),
    ("output_buffers", Nothing(BUFFERS)),
    ("port_in_redirect", Same(|w| Ok(vec![(Annotation("use-port-in-redirects"), flag(w, "on", "off")?)]))),
    ("postpone_output", Nothing(BUFFERS)),
    ("proxy_bind", Closes(Words("use --upstream-source-address"), Harmless)),
    ("proxy_body_size", Closes(Annotations(&["proxy-body-size"]), Restriction)),
    ("proxy_buffer_size", Same(|w| one(w, "proxy-buffer-size"))),
    ("proxy_buffering", Same(|w| one(w, "proxy-buffering"))),
    ("proxy_buffers", Same(buffers)),
    ("proxy_busy_buffers_size", Nothing(BUFFERS)),
    ("proxy_cache", NothingWith(&["off"], NO_CACHE, &Same(cache_on))),
    ("proxy_cache_background_update", Nothing(NO_CACHE)),
    ("proxy_cache_bypass", Same(cache_bypass)),
    ("proxy_cache_convert_head", Nothing(NO_CACHE)),
    ("proxy_cache_key", Same(cache_key)),
    ("proxy_cache_lock", Nothing(NO_CACHE)),
    ("proxy_cache_methods", Nothing(NO_CACHE)),
    ("proxy_cache_min_uses", Nothing(NO_CACHE)),
    ("proxy_cache_path", Nothing("the size of the cache is that of --cache-memory")),
    ("proxy_cache_revalidate", Nothing(NO_CACHE)),
    ("proxy_cache_use_stale", Same(cache_use_stale)),
    ("proxy_cache_valid", Same(cache_valid)),
    ("proxy_connect_timeout", Same(|w| seconds(w, "proxy-connect-timeout"))),
    ("proxy_cookie_domain", Same(|w| words(w, "proxy-cookie-domain"))),
    (
        "proxy_cookie_flags",
        Closes(Words("use proxy_cookie_path / \"/; Secure; HttpOnly; SameSite=Lax\""), Harmless),
    ),
    ("proxy_cookie_path", Same(|w| words(w, "proxy-cookie-path"))),
    ("proxy_force_ranges", Nothing("endpoints answer requests for ranges themselves")),
    ("proxy_headers_hash_bucket_size", Nothing(HASHES)),
    ("proxy_headers_hash_max_size", Nothing(HASHES)),
    (
        "proxy_http_version",
        NothingWith(&["1.1"], "endpoints are asked by HTTP/1.1", &Same(|w| one(w, "proxy-http-version"))),
    ),
    ("proxy_ignore_client_abort", Nothing("a request whose client is gone is ended")),
    ("proxy_ignore_headers", Nothing("the cache obeys what responses say of themselves (RFC 9111)")),
    (
        "proxy_intercept_errors",
        Same(|w| Ok(vec![(Annotation("disable-proxy-intercept-errors"), flag(w, "off", "on")?)])),
    ),
    ("proxy_limit_rate", Closes(Annotations(&["limit-rate"]), Restriction)),
    ("proxy_max_temp_file_size", Nothing("responses are read ahead into memory only")),
    ("proxy_method", Closes(Instead::Nothing, Restriction)),
    ("proxy_next_upstream", Same(|w| words(w, "proxy-next-upstream"))),
    ("proxy_next_upstream_timeout", Same(|w| seconds(w, "proxy-next-upstream-timeout"))),
    ("proxy_next_upstream_tries", Same(|w| one(w, "proxy-next-upstream-tries"))),
    ("proxy_no_cache", Same(cache_bypass)),
    ("proxy_pass", Closes(Words("requests go to the backend of their path"), Restriction)),
    ("proxy_pass_header", Nothing("headers of endpoints are passed on; Server is as the ConfigMap says")),
    ("proxy_pass_request_body", NothingWith(&["on"], "bodies are passed on", &INVALID)),
    ("proxy_pass_request_headers", NothingWith(&["on"], "headers are passed on", &INVALID)),
    ("proxy_read_timeout", Same(|w| seconds(w, "proxy-read-timeout"))),
    ("proxy_redirect", Same(redirect)),
    ("proxy_request_buffering", Same(|w| one(w, "proxy-request-buffering"))),
    ("proxy_send_timeout", Same(|w| seconds(w, "proxy-send-timeout"))),
    ("proxy_socket_keepalive", Nothing(KERNEL)),
    ("proxy_ssl_certificate", Closes(Annotations(&["proxy-ssl-secret"]), Restriction)),
    ("proxy_ssl_certificate_key", Closes(Annotations(&["proxy-ssl-secret"]), Restriction)),
    ("proxy_ssl_ciphers", Closes(Annotations(&["proxy-ssl-ciphers"]), Harmless)),
    ("proxy_ssl_name", Closes(Annotations(&["proxy-ssl-name", "proxy-ssl-secret"]), Harmless)),
    ("proxy_ssl_protocols", Closes(Annotations(&["proxy-ssl-protocols"]), Harmless)),
    ("proxy_ssl_server_name", NothingWith(&["on", "off"], TLS_NAME, &INVALID)),
    ("proxy_ssl_session_reuse", Nothing("TLS sessions with endpoints are resumed")),
    ("proxy_ssl_trusted_certificate", Closes(Annotations(&["proxy-ssl-secret"]), Restriction)),
    ("proxy_ssl_verify", NothingWith(&["off"], UNVERIFIED, &VERIFIED)),
    ("proxy_ssl_verify_depth", Same(|w| one(w, "proxy-ssl-verify-depth"))),
    ("proxy_store", NothingWith(&["off"], NO_CACHE, &INVALID)),
    ("proxy_temp_file_write_size", Nothing(BUFFERS)),
    ("proxy_temp_path", Nothing("responses are read ahead into memory only")),
    ("read_ahead", Nothing(OF_FILES)),
    ("real_ip_header", Closes(Keys(&["forwarded-for-header", "use-forwarded-headers"]), Restriction)),
    ("real_ip_recursive", Closes(Keys(&["proxy-real-ip-cidr"]), Restriction)),
    ("reset_timedout_connection", Nothing(KERNEL)),
    ("resolver", Nothing(DNS)),
    ("resolver_timeout", Nothing(DNS)),
    ("root", Closes(FILES, Harmless)),
    ("satisfy", Same(|w| one(w, "satisfy"))),
    ("send_timeout", Nothing("Forebay decides how long it waits for a client that takes nothing")),
    ("sendfile", Nothing(OF_FILES)),
    ("sendfile_max_chunk", Nothing(OF_FILES)),
    ("server", Closes(Words("use an Ingress for a host, and tcp-services for a port"), Restriction)),
    ("server_name", Closes(Annotations(&["server-alias"]), Restriction)),
    ("server_name_in_redirect", Nothing("redirects name the host that was asked for, as by ingress-nginx")),
    ("server_names_hash_bucket_size", Nothing(HASHES)),
    (
        "server_tokens",
        NothingWith(&["off"], "Forebay is not named unless server-tokens is on", &ForAll("server-tokens")),
    ),
    ("set_real_ip_from", Closes(Keys(&["proxy-real-ip-cidr"]), Restriction)),
    ("ssi", Closes(Words("bodies of responses are not changed"), Harmless)),
    ("ssl_buffer_size", Nothing(BUFFERS)),
    ("ssl_certificate", Closes(Words("use spec.tls"), Restriction)),
    ("ssl_certificate_key", Closes(Words("use spec.tls"), Restriction)),
    ("ssl_ciphers", Same(|w| one(w, "ssl-ciphers"))),
    ("ssl_client_certificate", Closes(Annotations(&["auth-tls-secret"]), Restriction)),
    ("ssl_dhparam", Nothing("key exchange is by elliptic curves")),
    ("ssl_early_data", Nothing("early data is not accepted")),
    ("ssl_ecdh_curve", Nothing("the curves are those of rustls")),
    (
        "ssl_prefer_server_ciphers",
        Same(|w| Ok(vec![(Annotation("ssl-prefer-server-ciphers"), flag(w, "on", "off")?)])),
    ),
    ("ssl_protocols", Closes(Keys(&["ssl-protocols"]), Restriction)),
    ("ssl_session_cache", Nothing(SESSIONS)),
    ("ssl_session_tickets", Nothing(SESSIONS)),
    ("ssl_session_timeout", Nothing(SESSIONS)),
    ("ssl_stapling", Nothing("certificates are sent without a stapled OCSP response")),
    ("ssl_stapling_verify", Nothing("certificates are sent without a stapled OCSP response")),
    ("ssl_verify_client", Closes(Annotations(&["auth-tls-verify-client"]), Restriction)),
    ("ssl_verify_depth", Closes(Annotations(&["auth-tls-verify-depth"]), Restriction)),
    ("sub_filter", Closes(Words("it has its place outside of conditions"), Harmless)),
    ("sub_filter_last_modified", Closes(Words("it has its place outside of conditions"), Harmless)),
    ("sub_filter_once", Closes(Words("it has its place outside of conditions"), Harmless)),
    ("sub_filter_types", Closes(Words("it has its place outside of conditions"), Harmless)),
    ("tcp_nodelay", Nothing(KERNEL)),
    ("tcp_nopush", Nothing(KERNEL)),
    (
        "try_files",
        Closes(Words("use the annotations forebay.io/files and forebay.io/files-fallback"), Harmless),
    ),
    ("types_hash_bucket_size", Nothing(HASHES)),
    ("types_hash_max_size", Nothing(HASHES)),
    ("underscores_in_headers", ForAll("enable-underscores-in-headers")),
    ("uninitialized_variable_warn", Nothing(LOGS)),
    (
        "upstream",
        Closes(Words("endpoints are those of Services; use upstream-hash-by and load-balance"), Restriction),
    ),
    ("variables_hash_bucket_size", Nothing(HASHES)),
    ("variables_hash_max_size", Nothing(HASHES)),
];

const TLS_NAME: &str = "endpoints are sent a name over TLS as the annotations proxy-ssl-* say";
const UNVERIFIED: &str = "certificates of endpoints are not verified unless proxy-ssl-verify is on";
const VERIFIED: Class = Closes(Annotations(&["proxy-ssl-verify", "proxy-ssl-secret"]), Restriction);
const INVALID: Class = Closes(Instead::Nothing, Restriction);

/// The class of a directive with these words.
pub(super) fn class(name: &str, words: &[String]) -> Class {
    const OF_TRACING: &[&str] = &["datadog_", "jaeger_", "opentelemetry_", "opentracing_", "zipkin_"];
    match DIRECTIVES.binary_search_by_key(&name, |(known, _)| known).map(|at| DIRECTIVES[at].1) {
        Ok(NothingWith(usual, why, otherwise)) => match words {
            [word] if usual.contains(&word.as_str()) => Nothing(why),
            _ => *otherwise,
        },
        Ok(class) => class,
        Err(_) if name.contains("_by_lua") => Closes(LUA, Restriction),
        Err(_) if OF_TRACING.iter().any(|begin| name.starts_with(begin)) => Nothing(TRACING),
        // The setting may restrict access, because its meaning is unknown.
        Err(_) => INVALID,
    }
}

impl Instead {
    /// The replacement as a part of a message.
    pub(super) fn words(self) -> Option<String> {
        Some(match self {
            Annotations([one]) => format!("use the annotation {one}"),
            Annotations(all) => format!("use the annotations {}", all.join(", ")),
            Keys(all) => format!("use the key {} of the ConfigMap", all.join(", ")),
            Words(words) => words.to_owned(),
            Instead::Nothing => return None,
        })
    }
}

// === values, as annotations have them ===

pub(super) fn single(words: &[String]) -> Parsed<&str> {
    match words {
        [word] => Ok(word),
        _ => Err(format!("has {} arguments, and needs 1", words.len())),
    }
}

fn one(words: &[String], name: &'static str) -> Asked {
    Ok(vec![(Annotation(name), single(words)?.to_owned())])
}

fn key(words: &[String], name: &'static str) -> Asked {
    Ok(vec![(Key(name), single(words)?.to_owned())])
}

fn words(words: &[String], name: &'static str) -> Asked {
    if words.is_empty() {
        return Err("has no argument".to_owned());
    }
    Ok(vec![(Annotation(name), words.join(" "))])
}

/// Returns `true` for the first of two words, and `false` for the other.
fn flag(words: &[String], yes: &str, no: &str) -> Parsed<String> {
    match single(words)? {
        word if word == yes => Ok("true".to_owned()),
        word if word == no => Ok("false".to_owned()),
        word => Err(format!("has {word:?}, which is neither \"on\" nor \"off\"")),
    }
}

/// A time with nginx's units, in whole seconds, rounded up.
fn seconds(words: &[String], name: &'static str) -> Asked {
    let text = single(words)?;
    let time = model::parse_duration(text).map_err(|_| format!("has {text:?}, which is no time"))?;
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    Ok(vec![(Annotation(name), seconds.to_string())])
}

/// A size in bytes with nginx's units, in KiB, rounded up.
fn kibibytes(words: &[String], name: &'static str) -> Asked {
    let text = single(words)?;
    let bytes = model::parse_size(text).map_err(|_| format!("has {text:?}, which is no size"))?;
    Ok(vec![(Annotation(name), bytes.div_ceil(1024).to_string())])
}

/// Reads `off`. Another place for the log changes nothing, because all hosts share one log.
fn access_log(words: &[String]) -> Asked {
    let is_on = words.first().is_none_or(|word| word != "off");
    if words.iter().any(|word| word.starts_with("if=")) {
        return Err("has a condition, which is not understood".to_owned());
    }
    Ok(if is_on { Vec::new() } else { vec![(Annotation("enable-access-log"), "false".to_owned())] })
}

/// Reads `NUMBER SIZE`. The size is that of `proxy_buffer_size`.
fn buffers(words: &[String]) -> Asked {
    match words {
        [number, _] => Ok(vec![(Annotation("proxy-buffers-number"), number.clone())]),
        _ => Err(format!("has {} arguments, and needs 2", words.len())),
    }
}

/// Reads `off`, `default`, or a text and its replacement.
fn redirect(words: &[String]) -> Asked {
    let (from, to) = match words {
        [word] if word == "off" || word == "default" => (word, word),
        [from, to] => (from, to),
        _ => return Err("needs \"off\", \"default\", or two texts".to_owned()),
    };
    let ask = |name, text: &String| (Annotation(name), text.clone());
    Ok(vec![ask("proxy-redirect-from", from), ask("proxy-redirect-to", to)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::configmap::KEYS;
    use crate::translate::ingress::annotations::ANNOTATIONS;
    use crate::translate::ingress::own;

    fn is_annotation(name: &str) -> bool {
        ANNOTATIONS.iter().any(|annotation| annotation.name == name)
    }

    fn is_key(name: &str) -> bool {
        KEYS.iter().any(|key| key.name == name)
    }

    #[test]
    fn what_is_named_exists() {
        assert!(DIRECTIVES.is_sorted_by_key(|(name, _)| name));
        for (directive, class) in DIRECTIVES {
            let class = if let NothingWith(_, _, otherwise) = class { otherwise } else { class };
            match class {
                Closes(Annotations(names), _) => {
                    assert!(names.iter().all(|name| is_annotation(name)), "{directive}");
                }
                Closes(Keys(names), _) => assert!(names.iter().all(|name| is_key(name)), "{directive}"),
                ForAll(name) => assert!(is_key(name), "{directive}"),
                Same(asked) => {
                    for words in [&["off"][..], &["1"], &["4", "8k"]] {
                        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
                        for (target, _) in asked(&words).unwrap_or_default() {
                            let (Annotation(name) | Key(name) | Own(name)) = target;
                            let is_own = own::named(name).is_some();
                            assert!(is_annotation(name) || is_key(name) || is_own, "{directive}: {name}");
                        }
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn values_become_those_of_annotations() {
        let asked = |name: &str, text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            let Same(asked) = class(name, &words) else { panic!("{name}") };
            asked(&words).map(|all| all.into_iter().map(|(_, value)| value).collect::<Vec<_>>().join("|"))
        };
        for (name, text, value) in [
            ("proxy_read_timeout", "5m", "300"),
            ("proxy_read_timeout", "1500ms", "2"),
            ("grpc_send_timeout", "1h30m", "5400"),
            ("limit_rate", "1m", "1024"),
            ("limit_rate_after", "500", "1"),
            ("gzip", "on", "true"),
            ("access_log", "off", "false"),
            ("access_log", "/dev/stdout upstreaminfo", ""),
            ("absolute_redirect", "off", "true"),
            ("proxy_redirect", "off", "off|off"),
            ("proxy_redirect", "http://a/ /", "http://a/|/"),
            ("proxy_buffers", "8 16k", "8"),
            ("proxy_next_upstream", "error http_502", "error http_502"),
        ] {
            assert_eq!(asked(name, text).as_deref(), Ok(value), "{name} {text}");
        }
        for (name, text) in [
            ("proxy_read_timeout", "soon"),
            ("gzip", "maybe"),
            ("limit_rate", "fast"),
            ("access_log", "/a combined if=$x"),
            ("proxy_redirect", "a b c"),
        ] {
            assert!(asked(name, text).is_err(), "{name} {text}");
        }
    }
}
