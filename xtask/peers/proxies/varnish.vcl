vcl 4.1;
backend web { .host = "{{ upstreams[0]|ip }}"; .port = "{{ upstreams[0]|port }}"; }
sub vcl_backend_response { set beresp.ttl = 1h; }
