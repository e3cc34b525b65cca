//! The annotations for ingress-nginx in values, documentation and issues of public charts, one set for each
//! chart.

/// A chart with common values.
#[derive(Clone, Copy)]
pub(crate) struct Chart {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) path_type: &'static str,
    pub(crate) annotations: &'static [(&'static str, &'static str)],
}

const fn chart(name: &'static str, annotations: &'static [(&'static str, &'static str)]) -> Chart {
    Chart { name, path: "/", path_type: "Prefix", annotations }
}

const fn at(path: &'static str, path_type: &'static str, chart: Chart) -> Chart {
    Chart { path, path_type, ..chart }
}

const WEBSOCKET: &str = "proxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection \"upgrade\";\n";

const NEXTCLOUD: &str = "server_tokens off;
proxy_hide_header X-Powered-By;
rewrite ^/.well-known/webfinger /index.php/.well-known/webfinger last;
rewrite ^/.well-known/nodeinfo /index.php/.well-known/nodeinfo last;
rewrite ^/.well-known/host-meta /public.php?service=host-meta last;
location = /.well-known/carddav {
  return 301 $scheme://$host/remote.php/dav;
}
location = /robots.txt {
  allow all;
  log_not_found off;
  access_log off;
}
location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)/ {
  deny all;
}
location ~ ^/(?:autotest|occ|issue|indie|db_|console) {
  deny all;
}
";

const WORDPRESS: &str = "client_max_body_size 64m;
location ~* /(wp-config\\.php|xmlrpc\\.php|readme\\.html)$ { deny all; access_log off; log_not_found off; }
location ~* ^/wp-content/uploads/.*\\.php$ { return 403; }
";

const MINIO: &str = "chunked_transfer_encoding off;
proxy_connect_timeout 300;
proxy_buffering off;
proxy_set_header X-Forwarded-Proto $scheme;
";

const OAUTH2: &str = "auth_request_set $user $upstream_http_x_auth_request_user;
auth_request_set $email $upstream_http_x_auth_request_email;
proxy_set_header X-User $user;
proxy_set_header X-Email $email;
auth_request_set $auth_cookie $upstream_http_set_cookie;
add_header Set-Cookie $auth_cookie;
";

const MATTERMOST: &str = "proxy_force_ranges on;
proxy_cache mattermost_cache;
proxy_cache_revalidate on;
proxy_cache_min_uses 2;
proxy_cache_use_stale timeout;
proxy_cache_lock on;
";

const SECURITY_HEADERS: &str = "more_set_headers \"X-Frame-Options: SAMEORIGIN\";
more_set_headers \"X-Content-Type-Options: nosniff\";
more_set_headers \"Referrer-Policy: strict-origin-when-cross-origin\";
more_clear_headers \"Server\";
";

pub(crate) const CHARTS: &[Chart] = &[
    at(
        "/grafana/?(.*)",
        "ImplementationSpecific",
        chart("grafana", &[("rewrite-target", "/$1"), ("use-regex", "true")]),
    ),
    chart(
        "argo-cd",
        &[("force-ssl-redirect", "true"), ("ssl-passthrough", "true"), ("backend-protocol", "HTTPS")],
    ),
    chart(
        "argo-cd-grpc",
        &[
            ("backend-protocol", "GRPC"),
            (
                "server-snippet",
                "grpc_read_timeout 300s;\ngrpc_send_timeout 300s;\nclient_body_timeout 300s;\n",
            ),
        ],
    ),
    chart(
        "argo-workflows",
        &[("backend-protocol", "HTTPS"), ("configuration-snippet", "proxy_ssl_verify off;\n")],
    ),
    chart(
        "harbor",
        &[
            ("ssl-redirect", "true"),
            ("proxy-body-size", "0"),
            ("ingress.kubernetes.io/ssl-redirect", "true"),
            ("ingress.kubernetes.io/proxy-body-size", "0"),
        ],
    ),
    chart(
        "nextcloud",
        &[
            ("proxy-body-size", "4G"),
            ("enable-cors", "true"),
            ("cors-allow-headers", "X-Forwarded-For"),
            ("server-snippet", NEXTCLOUD),
        ],
    ),
    chart(
        "gitlab",
        &[
            ("proxy-body-size", "512m"),
            ("proxy-read-timeout", "900"),
            ("proxy-connect-timeout", "15"),
            ("service-upstream", "true"),
        ],
    ),
    chart(
        "gitlab-registry",
        &[
            ("proxy-body-size", "0"),
            ("proxy-read-timeout", "900"),
            ("proxy-request-buffering", "off"),
            ("proxy-buffering", "off"),
        ],
    ),
    chart(
        "jenkins",
        &[("proxy-body-size", "50m"), ("proxy-request-buffering", "off"), ("client-body-buffer-size", "1m")],
    ),
    at(
        "/jenkins",
        "ImplementationSpecific",
        chart(
            "jenkins-prefix",
            &[(
                "configuration-snippet",
                "proxy_set_header X-Forwarded-Prefix /jenkins;\nproxy_redirect http:// https://;\n",
            )],
        ),
    ),
    chart("sonarqube", &[("proxy-body-size", "64m"), ("server-snippet", "client_max_body_size 64m;\n")]),
    chart(
        "nexus",
        &[
            ("proxy-body-size", "0"),
            ("proxy-read-timeout", "600"),
            ("configuration-snippet", "proxy_send_timeout 600s;\ngzip off;\n"),
        ],
    ),
    chart(
        "keycloak",
        &[
            ("proxy-buffer-size", "128k"),
            ("proxy-buffers-number", "8"),
            (
                "server-snippet",
                "location ~* \"^/auth/realms/master/metrics\" {\n  return 301 /auth/realms/master;\n}\n",
            ),
        ],
    ),
    chart(
        "oauth2-app",
        &[
            ("auth-url", "https://oauth2.example.com/oauth2/auth"),
            ("auth-signin", "https://oauth2.example.com/oauth2/start?rd=$escaped_request_uri"),
            ("configuration-snippet", OAUTH2),
        ],
    ),
    chart(
        "oauth2-headers",
        &[
            ("auth-url", "http://192.0.2.9/oauth2/auth"),
            ("auth-signin", "https://$host/oauth2/start?rd=$escaped_request_uri"),
            ("auth-response-headers", "X-Auth-Request-User, X-Auth-Request-Email, Authorization"),
        ],
    ),
    chart(
        "authentik",
        &[
            ("auth-url", "http://192.0.2.9:9000/outpost.goauthentik.io/auth/nginx"),
            ("auth-signin", "https://auth.example.com/outpost.goauthentik.io/start?rd=$escaped_request_uri"),
            ("auth-response-headers", "Set-Cookie,X-authentik-username,X-authentik-groups"),
            ("auth-snippet", "proxy_set_header X-Forwarded-Host $http_host;\n"),
        ],
    ),
    chart(
        "authelia",
        &[
            ("auth-method", "GET"),
            ("auth-url", "http://192.0.2.9/api/authz/auth-request"),
            ("auth-signin", "https://auth.example.com?rm=$request_method"),
            ("auth-response-headers", "Remote-User,Remote-Name,Remote-Groups,Remote-Email"),
        ],
    ),
    chart(
        "prometheus",
        &[("auth-type", "basic"), ("auth-secret", "users"), ("auth-realm", "Authentication Required")],
    ),
    chart(
        "alertmanager",
        &[("whitelist-source-range", "10.0.0.0/8,192.168.0.0/16"), ("ssl-redirect", "true")],
    ),
    chart(
        "kibana",
        &[
            ("backend-protocol", "HTTPS"),
            ("proxy-body-size", "8m"),
            ("configuration-snippet", "proxy_ssl_verify off;\nproxy_ssl_server_name on;\n"),
        ],
    ),
    chart(
        "elasticsearch",
        &[
            ("proxy-read-timeout", "600"),
            ("client-max-body-size", "100m"),
            ("configuration-snippet", "client_max_body_size 100m;\nproxy_read_timeout 600s;\n"),
        ],
    ),
    chart("rabbitmq", &[("configuration-snippet", WEBSOCKET), ("proxy-read-timeout", "3600")]),
    chart(
        "minio",
        &[
            ("proxy-body-size", "0"),
            ("configuration-snippet", MINIO),
            ("server-snippet", "ignore_invalid_headers off;\n"),
        ],
    ),
    chart(
        "vault",
        &[
            ("backend-protocol", "HTTPS"),
            ("configuration-snippet", "if ($request_uri ~* \"/v1/sys/metrics\") { return 403; }\n"),
        ],
    ),
    at(
        "/dashboard(/|$)(.*)",
        "ImplementationSpecific",
        chart(
            "kubernetes-dashboard",
            &[
                ("backend-protocol", "HTTPS"),
                ("rewrite-target", "/$2"),
                ("configuration-snippet", "rewrite ^(/dashboard)$ $1/ redirect;\n"),
            ],
        ),
    ),
    chart(
        "rancher",
        &[("proxy-connect-timeout", "30"), ("proxy-read-timeout", "1800"), ("proxy-send-timeout", "1800")],
    ),
    chart("jupyterhub", &[("proxy-body-size", "64m"), ("configuration-snippet", WEBSOCKET)]),
    at(
        "/airflow",
        "Prefix",
        chart("airflow", &[("proxy-buffer-size", "16k"), ("x-forwarded-prefix", "/airflow")]),
    ),
    chart(
        "superset",
        &[
            ("proxy-connect-timeout", "300"),
            ("proxy-read-timeout", "300"),
            ("proxy-send-timeout", "300"),
            ("proxy-body-size", "50m"),
        ],
    ),
    chart(
        "home-assistant",
        &[(
            "configuration-snippet",
            "proxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection $connection_upgrade;\nproxy_set_header X-Real-IP $remote_addr;\n",
        )],
    ),
    chart(
        "mattermost",
        &[("proxy-body-size", "50m"), ("proxy-buffering", "on"), ("configuration-snippet", MATTERMOST)],
    ),
    chart(
        "rocketchat",
        &[
            ("affinity", "cookie"),
            ("session-cookie-name", "rc"),
            ("session-cookie-max-age", "172800"),
            ("session-cookie-expires", "172800"),
        ],
    ),
    chart("wordpress", &[("proxy-body-size", "64m"), ("server-snippet", WORDPRESS)]),
    chart("drupal", &[("configuration-snippet", SECURITY_HEADERS), ("proxy-buffer-size", "16k")]),
    chart(
        "magento",
        &[
            ("proxy-buffer-size", "128k"),
            ("proxy-buffers-number", "4"),
            ("configuration-snippet", "proxy_busy_buffers_size 256k;\nfastcgi_buffers 16 16k;\n"),
        ],
    ),
    chart(
        "odoo",
        &[
            ("proxy-read-timeout", "720"),
            (
                "configuration-snippet",
                "proxy_connect_timeout 720s;\nproxy_send_timeout 720s;\ngzip on;\ngzip_types text/css text/less text/plain text/xml application/xml application/json application/javascript;\n",
            ),
        ],
    ),
    chart("discourse", &[("from-to-www-redirect", "true"), ("proxy-body-size", "25m")]),
    chart(
        "docker-registry",
        &[("proxy-body-size", "0"), ("proxy-read-timeout", "6000"), ("proxy-send-timeout", "6000")],
    ),
    chart(
        "sentry",
        &[
            ("proxy-buffer-size", "16k"),
            ("proxy-body-size", "100m"),
            ("server-snippet", "large_client_header_buffers 4 32k;\nkeepalive_timeout 120s;\n"),
        ],
    ),
    chart("gitea", &[("proxy-body-size", "1024m"), ("proxy-request-buffering", "off")]),
    chart(
        "n8n",
        &[
            ("proxy-body-size", "16m"),
            (
                "configuration-snippet",
                "proxy_buffering off;\nchunked_transfer_encoding off;\nproxy_cache off;\n",
            ),
        ],
    ),
    chart(
        "longhorn",
        &[
            ("auth-type", "basic"),
            ("auth-secret", "users"),
            ("proxy-body-size", "10000m"),
            ("ssl-redirect", "false"),
        ],
    ),
    chart(
        "pgadmin",
        &[(
            "configuration-snippet",
            "proxy_set_header X-Script-Name /;\nproxy_cookie_path / \"/; HttpOnly; Secure\";\n",
        )],
    ),
    chart(
        "loki",
        &[("auth-type", "basic"), ("auth-secret", "users"), ("limit-rps", "50"), ("limit-connections", "20")],
    ),
    chart(
        "influxdb",
        &[("server-snippet", "location /metrics { deny all; }\nlocation = /debug/pprof { return 404; }\n")],
    ),
    chart(
        "vaultwarden",
        &[
            ("limit-rpm", "600"),
            ("configuration-snippet", WEBSOCKET),
            (
                "server-snippet",
                "add_header X-Robots-Tag \"noindex, nofollow\" always;\nlocation /admin { allow 10.0.0.0/8; deny all; return 200; }\n",
            ),
        ],
    ),
    chart(
        "single-page",
        &[(
            "configuration-snippet",
            "if ($request_uri ~* \"\\.(js|css|woff2?)$\") { expires 1M; add_header Cache-Control \"public\"; }\nlimit_except GET HEAD { deny all; }\n",
        )],
    ),
    chart(
        "old-site",
        &[("permanent-redirect", "https://www.example.com"), ("permanent-redirect-code", "308")],
    ),
    chart(
        "canonical",
        &[
            (
                "server-snippet",
                "if ($host = 'old.example.com') { return 301 https://new.example.com$request_uri; }\n",
            ),
            ("app-root", "/home"),
        ],
    ),
    chart(
        "api",
        &[
            ("enable-cors", "true"),
            ("cors-allow-methods", "PUT, GET, POST, OPTIONS"),
            ("cors-allow-origin", "https://app.example.com"),
            ("cors-allow-credentials", "true"),
        ],
    ),
];
