//! Lines of snippets in the habits of public charts, documentation and answers to questions.

/// The handling of a line.
#[derive(Clone, Copy)]
pub(crate) enum Becomes {
    /// The line has the same effect as in nginx.
    Obeyed,
    /// The line has no effect, which is reported.
    PassedOver,
    /// The line closes the part that its snippet is for; the message has this text.
    Closes(&'static str),
}

/// A line of a snippet.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) text: &'static str,
    pub(crate) becomes: Becomes,
    pub(crate) annotation: &'static str,
    /// The line is in a location of a `server-snippet`.
    pub(crate) is_in_location: bool,
    /// Annotations beside the snippet.
    pub(crate) beside: &'static [(&'static str, &'static str)],
}

use Becomes::{Closes, Obeyed, PassedOver};

const fn line(text: &'static str, becomes: Becomes) -> Line {
    Line { text, becomes, annotation: "configuration-snippet", is_in_location: false, beside: &[] }
}

const fn of_host(text: &'static str, becomes: Becomes) -> Line {
    Line { annotation: "server-snippet", ..line(text, becomes) }
}

const fn in_location(text: &'static str, becomes: Becomes) -> Line {
    Line { is_in_location: true, ..of_host(text, becomes) }
}

const fn beside(beside: &'static [(&'static str, &'static str)], line: Line) -> Line {
    Line { beside, ..line }
}

pub(crate) const LINES: &[Line] = &[
    line("proxy_set_header Upgrade $http_upgrade;", PassedOver),
    line("proxy_set_header Connection \"upgrade\";", PassedOver),
    line("proxy_http_version 1.1;", PassedOver),
    line("proxy_cache_bypass $http_upgrade;", PassedOver),
    line("proxy_ssl_verify off;", PassedOver),
    line("proxy_ssl_server_name on;", PassedOver),
    line("etag on;", PassedOver),
    of_host("server_tokens off;", PassedOver),
    line("chunked_transfer_encoding off;", PassedOver),
    line("proxy_ignore_client_abort on;", PassedOver),
    line("opentracing_propagate_context;", PassedOver),
    line("proxy_busy_buffers_size 256k;", PassedOver),
    line("client_max_body_size 100m;", Obeyed),
    of_host("client_max_body_size 0;", Obeyed),
    in_location("client_max_body_size 10m;", PassedOver),
    of_host("large_client_header_buffers 4 64k;", PassedOver),
    of_host("client_header_buffer_size 64k;", PassedOver),
    of_host("keepalive_timeout 120s;", PassedOver),
    of_host("client_body_timeout 300s;", PassedOver),
    line("proxy_buffer_size 128k;", Obeyed),
    beside(&[("proxy-buffering", "on")], line("proxy_buffers 8 256k;", Obeyed)),
    line("proxy_read_timeout 3600s;", Obeyed),
    line("proxy_send_timeout 1h;", Obeyed),
    line("proxy_connect_timeout 75s;", Obeyed),
    of_host("proxy_read_timeout 600;", Obeyed),
    beside(&[("backend-protocol", "GRPC")], of_host("grpc_read_timeout 1200s;", Obeyed)),
    beside(&[("backend-protocol", "GRPC")], line("grpc_send_timeout 1200s;", Obeyed)),
    of_host("grpc_read_timeout 300s;", PassedOver),
    line("proxy_buffering on;", Obeyed),
    line("proxy_request_buffering off;", Obeyed),
    line("access_log off;", Obeyed),
    in_location("access_log off;", PassedOver),
    line("proxy_next_upstream error timeout http_502;", Obeyed),
    line("proxy_next_upstream_tries 5;", Obeyed),
    line("proxy_cookie_path / \"/; HttpOnly; Secure; SameSite=None\";", Obeyed),
    line("proxy_redirect http://a.test/ https://a.test/;", Obeyed),
    beside(&[("whitelist-source-range", "10.0.0.0/8")], line("satisfy any;", Obeyed)),
    line("gzip on;", Obeyed),
    line("gzip on; gzip_types text/css application/javascript;", Obeyed),
    beside(&[("custom-http-errors", "404")], line("proxy_intercept_errors off;", Obeyed)),
    beside(
        &[("auth-url", "http://192.0.2.9/check")],
        line(
            "auth_request_set $user $upstream_http_x_auth_request_user; proxy_set_header X-User $user;",
            Obeyed,
        ),
    ),
    line("limit_except GET POST { deny all; }", Obeyed),
    in_location("limit_except GET { deny all; }", Obeyed),
    line("expires 30d;", Obeyed),
    of_host("proxy_hide_header X-Powered-By;", Obeyed),
    line("more_set_headers \"X-Frame-Options: SAMEORIGIN\";", Obeyed),
    line("add_header Strict-Transport-Security \"max-age=31536000\" always;", Obeyed),
    line("proxy_set_header X-Forwarded-Proto https;", Obeyed),
    line("rewrite ^/old/(.*)$ /new/$1 permanent;", Obeyed),
    of_host("if ($http_user_agent ~* (bot|spider)) { return 403; }", Obeyed),
    in_location("deny all;", Obeyed),
    line("sub_filter \"</head>\" \"<script></script></head>\";", Obeyed),
    line("error_page 404 https://a.test/404;", Obeyed),
    line("error_page 404 /404.html;", Closes("custom-http-errors")),
    in_location("proxy_pass http://web.default.svc.cluster.local;", Obeyed),
    line(
        "proxy_pass http://web.default.svc.cluster.local;",
        Closes("requests go to the backend of their path"),
    ),
    line("auth_basic \"restricted\";", Closes("auth-type")),
    line("limit_req zone=one burst=5;", Closes("which no http-snippet has")),
    line("access_by_lua_block { ngx.exit(403) }", Closes("Lua is not run")),
];
