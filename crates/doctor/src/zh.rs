//! The Chinese texts of what the checks say, by the English patterns, in the order of the table of checks.
//!
//! Must not be in here: how a pattern is filled ([`crate::text`]).

mod guard;
mod udp;

/// English patterns and their translations, in which `{0}` is the first value, so that the order may be
/// another.
pub(crate) fn catalogue() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    TEXTS.iter().chain(guard::TEXTS).chain(udp::TEXTS)
}

const TEXTS: &[(&str, &str)] = &[
    // Texts of `check.rs`.
    ("not checked: {}", "未检查：{0}"),
    // Texts of `samples.rs`.
    ("nothing was captured", "没有采集到任何内容"),
    ("it takes two samples", "需要两次采样"),
    ("no time passed between the samples", "两次采样之间没有时间流逝"),
    (
        "no process was given (--pid), and this user may not see who listens here",
        "没有指定进程（--pid），而当前用户看不到此处是谁在监听",
    ),
    ("no process was given (--pid), and none listens here", "没有指定进程（--pid），而此处没有进程在监听"),
    // Texts of `sample.rs`.
    ("permission denied", "权限不足"),
    ("a container's view has no host in it", "从容器内看不到宿主机"),
    ("there is no /{}", "没有 /{0}"),
    ("/{}: {}", "/{0}：{1}"),
    ("/{} was not captured", "没有采集 /{0}"),
    ("/{} holds {}, which is no number", "/{0} 的内容是 {1}，不是数字"),
    ("{}: {}", "{0}：{1}"),
    (", ", "、"),
    ("the host's network namespace cannot be seen: {}", "看不到宿主机的网络命名空间：{0}"),
    ("the host's network namespace: {}", "宿主机的网络命名空间：{0}"),
    // Texts of `format.rs`.
    ("{} route", "{0} 条路由"),
    ("{} routes", "{0} 条路由"),
    ("{} machine", "{0} 台机器"),
    ("{} machines", "{0} 台机器"),
    ("{} CPU", "{0} 个 CPU"),
    ("{} CPUs", "{0} 个 CPU"),
    ("{} worker", "{0} 个 worker"),
    ("{} workers", "{0} 个 worker"),
    // Texts of `read/`.
    ("no cgroup's cpu.stat was captured", "没有采集到任何 cgroup 的 cpu.stat"),
    ("container {} of Pod {}", "Pod {1} 的容器 {0}"),
    ("Pod {}", "Pod {0}"),
    ("container {}", "容器 {0}"),
    ("cgroup /{}", "cgroup /{0}"),
    (
        "/{} was captured without cpu.max or cpu.cfs_quota_us",
        "采集的 /{0} 中没有 cpu.max 或 cpu.cfs_quota_us",
    ),
    ("/{} has no {}", "/{0} 中没有 {1}"),
    ("/{} has no {} {}", "/{0} 中没有 {1} {2}"),
    ("/{} has a line that is none: {}", "/{0} 中有一行无法解析：{1}"),
    ("{} is no kernel's release", "{0} 不是内核的版本"),
    ("/{} has no limit of open files", "/{0} 中没有打开文件数的上限"),
    ("the proxy's metrics were not given", "没有提供代理的指标"),
    ("/{} holds {}, which is no range", "/{0} 的内容是 {1}，不是范围"),
    ("/{} is not whole", "/{0} 不完整"),
    // Texts of `checks/connections.rs`.
    (
        "nginx: `keepalive 512;` in the upstream block, with `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`; ingress-nginx, in its ConfigMap: `upstream-keepalive-connections: \"10000\"`, `upstream-keepalive-requests: \"10000\"`, `upstream-keepalive-timeout: \"60\"`; Forebay needs nothing",
        "nginx：在 upstream 块中设置 `keepalive 512;`，并设置 `proxy_http_version 1.1;` 和 `proxy_set_header Connection \"\";`；ingress-nginx：在 ConfigMap 中设置 `upstream-keepalive-connections: \"10000\"`、`upstream-keepalive-requests: \"10000\"`、`upstream-keepalive-timeout: \"60\"`；Forebay 无需任何设置",
    ),
    (
        "raise the cap until the number of connections stops falling: nginx `keepalive`, for each worker and upstream; ingress-nginx `upstream-keepalive-connections`; Forebay sizes the pool by itself where `upstream-keepalive-connections` is not set",
        "提高上限，直到连接数不再下降：nginx 为 `keepalive`，按每个 worker、每个 upstream 计；ingress-nginx 为 `upstream-keepalive-connections`；Forebay 在没有设置 `upstream-keepalive-connections` 时自动调整连接池的大小",
    ),
    (
        "endpoints close the connections: raise their keep-alive timeout and number of requests; remove `upstream-keepalive-connections` and `upstream-keepalive-requests` from the ConfigMap, if they are there",
        "连接由端点关闭：调高端点的 keep-alive 超时和请求数上限；如果 ConfigMap 中有 `upstream-keepalive-connections` 和 `upstream-keepalive-requests`，将其删除",
    ),
    ("{} new upstream connections a second", "每秒新建 {0} 条上游连接"),
    (
        "{} new upstream connection per request ({} a second{})",
        "每个请求新建 {0} 条上游连接（每秒 {1} 条{2}）",
    ),
    (
        "none of {} new connections a second was seen open: whose they are is not known",
        "每秒新建的 {0} 条连接没有一条在打开时被看到，不知道它们属于谁",
    ),
    ("{} new upstream connections a second{}, each open for {}", "每秒新建 {0} 条上游连接{1}，每条存活 {2}"),
    ("{}; {} carried one request alone", "{0}；其中 {1} 是只承载过一个请求的短连接"),
    (
        "no open connection was seen: whether they are kept is not known",
        "没有看到打开的连接，不知道连接是否被保持",
    ),
    (
        "connections are not kept at all: upstream-reuse reports it",
        "连接完全没有保持：由 upstream-reuse 报告",
    ),
    (
        "of {} upstream connections a second this side closes {} and opens them again; {} were open to one address at most, a cap of {} would have sufficed",
        "每秒 {0} 条上游连接中，{1} 由本端关闭，随后又重新建立；到同一地址最多同时打开 {2} 条，上限为 {3} 就足够",
    ),
    (
        "{} new upstream connections a second, {} of them closed by this side",
        "每秒新建 {0} 条上游连接，其中 {1} 由本端关闭",
    ),
    ("{} idle connections were closed and missed soon after", "{0} 条空闲连接被关闭，不久之后又需要它们"),
    (
        "remove `upstream-keepalive-connections` from the ConfigMap: Forebay sizes the pool by itself",
        "从 ConfigMap 中删除 `upstream-keepalive-connections`：Forebay 自动调整连接池的大小",
    ),
    ("no idle connection was closed too soon", "没有空闲连接被过早关闭"),
    (
        "nginx: `keepalive {};` in the upstream block (for each worker; as many times more as the block has servers); ingress-nginx, in its ConfigMap: `upstream-keepalive-connections: \"{}\"`; Forebay sizes the pool by itself",
        "nginx：在 upstream 块中设置 `keepalive {0};`（按每个 worker 计；块中有几个 server 就乘以几）；ingress-nginx：在 ConfigMap 中设置 `upstream-keepalive-connections: \"{1}\"`；Forebay 自动调整连接池的大小",
    ),
    // Texts of `checks/outgoing.rs`.
    (
        "whose {} new connections a second are was not seen: name the process (--pid)",
        "看不到每秒新建的 {0} 条连接属于谁：请指定进程（--pid）",
    ),
    (", {} of them to {}", "，其中 {0} 到 {1}"),
    // Texts of `checks/clients.rs`.
    (
        "have clients reuse connections: HTTP/1.1 without `Connection: close`, `ab -k`, keep-alive in a load balancer in front; in the ConfigMap `keep-alive: \"75\"` and `keep-alive-requests: \"10000\"` (nginx: `keepalive_timeout 75s; keepalive_requests 10000;`)",
        "让客户端使用长连接：使用 HTTP/1.1 且不发送 `Connection: close`，压测时使用 `ab -k`，在前面的负载均衡器上启用 keep-alive；在 ConfigMap 中设置 `keep-alive: \"75\"` 和 `keep-alive-requests: \"10000\"`（nginx：`keepalive_timeout 75s; keepalive_requests 10000;`）",
    ),
    ("{} new connections of clients a second", "客户端每秒新建 {0} 条连接"),
    (
        "{} new connections of clients a second, each open for {}; {} sent one answer alone",
        "客户端每秒新建 {0} 条连接，每条存活 {1}；其中 {2} 只发送过一个应答",
    ),
    (
        "of {} new connections of clients a second hardly any was seen open",
        "客户端每秒新建 {0} 条连接，但几乎没有一条在打开时被看到",
    ),
    (
        "clients send {} requests on a connection ({} new ones a second)",
        "客户端在每条连接上发送 {0} 个请求（每秒新建 {1} 条连接）",
    ),
    (
        "{}: keep-alive-requests seems to be {}, and is reached",
        "{0}：keep-alive-requests 似乎是 {1}，连接达到了这个上限",
    ),
    // Texts of `checks/abuse.rs`.
    (
        "list them with `forebay abuse list`; put gateways with many users into `forebay-abuse-allow`; `forebay-abuse: enforce` slows and refuses the rest",
        "用 `forebay abuse list` 列出这些客户端；身后有许多用户的网关写入 `forebay-abuse-allow`；`forebay-abuse: enforce` 会减速和拒绝其余的客户端",
    ),
    ("the metrics have no forebay_abuse_clients", "指标中没有 forebay_abuse_clients"),
    ("{} clients are", "{0} 个客户端"),
    ("1 client is", "1 个客户端"),
    ("no client is far off the others", "没有客户端的行为明显异于其他客户端"),
    (
        "{} far off the others, and {} of what they asked for would have been slowed or refused",
        "{0}的行为明显异于其他客户端，它们的请求或连接中有 {1} 个本应被减速或拒绝",
    ),
    (
        "{} far off the others, of which {} requests or connections were slowed or refused",
        "{0}的行为明显异于其他客户端，其中 {1} 个请求或连接已被减速或拒绝",
    ),
    // Texts of `checks/shared_limits.rs`.
    (
        "check the log, the address, password and certificate of `--limit-redis`, and the latency of Redis",
        "查看日志，检查 `--limit-redis` 的地址、密码和证书，以及 Redis 的延迟",
    ),
    (
        "the metrics have no forebay_limit_redis_exchanges_total",
        "指标中没有 forebay_limit_redis_exchanges_total",
    ),
    (
        "{} requests were counted by this replica alone, and {} were refused",
        "{0} 个请求由本副本单独计数，{1} 个被拒绝",
    ),
    ("no Redis counts for limits", "没有用 Redis 为限流计数"),
    ("the Redis that counts for limits does not answer; {}", "为限流计数的 Redis 没有应答；{0}"),
    (
        "the Redis that counts for limits was not there in time: {} exchanges failed, {} were slow; {}",
        "为限流计数的 Redis 没有及时应答：{0} 次交互失败，{1} 次过慢；{2}",
    ),
    ("the Redis that counts for limits answers", "为限流计数的 Redis 应答正常"),
    // Texts of `checks/certificates.rs`.
    (
        "renew the Secrets that nginx_ingress_controller_ssl_expire_time_seconds names; for certificates that Forebay obtains, `/status` says what the authority complains about",
        "更新 nginx_ingress_controller_ssl_expire_time_seconds 指出的 Secret；由 Forebay 申请的证书，颁发机构的错误见 `/status`",
    ),
    ("the metrics have no forebay_certificates_ending", "指标中没有 forebay_certificates_ending"),
    ("{} hosts have no certificate, since no authority gives one", "{0} 个主机没有证书：没有颁发机构签发"),
    ("{} certificates end within ten days or have ended", "{0} 张证书将在十天内到期或已经到期"),
    ("{} certificates could not be renewed yet", "{0} 张证书尚未续期成功"),
    ("no certificate ends within ten days", "没有证书将在十天内到期"),
    // Texts of `checks/ports.rs`.
    ("ports", "端口"),
    (
        "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\" in this network namespace (a Pod: securityContext.sysctls), and keep connections instead of opening new ones (upstream-reuse)",
        "在该网络命名空间中执行 sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"（Pod 使用 securityContext.sysctls），并使用长连接而不是新建连接（upstream-reuse）",
    ),
    (
        "keep connections (upstream-reuse, pool-too-small); sysctl -w net.ipv4.tcp_tw_reuse=1 net.ipv4.tcp_timestamps=1 lets new connections take their ports",
        "使用长连接（upstream-reuse、pool-too-small）；sysctl -w net.ipv4.tcp_tw_reuse=1 net.ipv4.tcp_timestamps=1 允许新连接使用它们占用的端口",
    ),
    ("{} of {} ports are in use towards {} ({})", "{1} 个本地端口中有 {0} 个用于到 {2} 的连接（{3}）"),
    ("{} connects found no local port; {}", "{0} 次建立连接时找不到本地端口，端口耗尽；{1}"),
    ("{}: connects fail with EADDRNOTAVAIL", "{0}：端口耗尽，建立连接以 EADDRNOTAVAIL 失败"),
    ("{}; at this rate none are left in {} minutes", "{0}；按此速度，{1} 分钟后端口耗尽"),
    (
        "the port range holds {} ports, {} are Linux's default",
        "本地端口范围有 {0} 个端口，Linux 的默认值为 {1} 个",
    ),
    ("no connection holds any of {} ports", "{0} 个本地端口都没有被连接占用"),
    ("{} TIME_WAIT towards {}: this side closes first", "到 {1} 的连接有 {0} 个 TIME_WAIT：由本端先关闭"),
    ("{}, and the port range holds {}", "{0}，而本地端口范围有 {1} 个端口"),
    (
        "{} TIME_WAIT had no room in tcp_max_tw_buckets ({})",
        "{0} 个 TIME_WAIT 在 tcp_max_tw_buckets（{1}）中没有空间",
    ),
    ("{} TIME_WAIT at {}, which cost memory and no ports", "{1} 上有 {0} 个 TIME_WAIT，占用内存，不占用端口"),
    (
        "{} TIME_WAIT of connections that went out, {} of those that came in",
        "出站连接有 {0} 个 TIME_WAIT，入站连接有 {1} 个",
    ),
    (
        "keep connections (upstream-reuse, pool-too-small): tcp_tw_reuse is on already",
        "使用长连接（upstream-reuse、pool-too-small）：tcp_tw_reuse 已经打开",
    ),
    // Texts of `checks/queues.rs`.
    (
        "sysctl -w net.core.somaxconn=65535, and have the process listen with as long a backlog",
        "sysctl -w net.core.somaxconn=65535，并让进程以同样长的 backlog 监听",
    ),
    (
        "find what drops them: accept-queue or conntrack at the other end, ipvs-reuse behind a Service's address, a firewall in between; reuse connections (upstream-reuse)",
        "查明是谁丢弃了 SYN：对端的 accept-queue 或 conntrack，Service 地址之后的 ipvs-reuse，两者之间的防火墙；复用连接（upstream-reuse）",
    ),
    ("; the fullest is {}", "；最满的是 {0}"),
    (
        "{} attempts to connect found the accept queue full{}",
        "{0} 次建立连接时全连接队列（accept queue）已满{1}",
    ),
    (
        "{} SYN cookies were sent: SYNs came faster than answers",
        "发送了 {0} 个 SYN cookie：SYN 来得比应答快，半连接队列放不下",
    ),
    ("{} connections wait to be accepted{}", "{0} 条连接在全连接队列中等待{1}"),
    ("no accept queue overflowed", "没有全连接队列溢出"),
    (" of {}", "（{0}）"),
    ("{}{} with {} of {}", "{0}{1}，{3} 个位置已占用 {2} 个"),
    (
        "the process asks for a backlog of {}, the kernel would give {}: nginx `listen {} backlog={};`, others their own setting",
        "进程请求的 backlog 为 {0}，内核允许 {1}：nginx 使用 `listen {2} backlog={3};`，其他程序使用各自的设置",
    ),
    (
        "sysctl -w net.core.somaxconn=65535, then restart the process; one that asks for a fixed backlog (nginx: 511) needs `listen ... backlog=65535;` as well",
        "sysctl -w net.core.somaxconn=65535，然后重启进程；请求固定 backlog 的进程（nginx：511）还需要 `listen ... backlog=65535;`",
    ),
    ("{} SYNs were sent again, with {} connections", "重发了 {0} 个 SYN，同期有 {1} 条连接"),
    (
        "{} segments, SYNs among them, timed out, with {} connections",
        "{0} 个报文段（其中包括 SYN）超时，同期有 {1} 条连接",
    ),
    ("{}: such connects take about 1 s, 3 s or 7 s", "{0}：这样的连接要花大约 1 s、3 s 或 7 s 才能建立"),
    // Texts of `checks/limits.rs`.
    (
        "nginx `worker_rlimit_nofile 655350;`, systemd `LimitNOFILE=655350`; sysctl -w fs.file-max=655350",
        "nginx 设置 `worker_rlimit_nofile 655350;`，systemd 设置 `LimitNOFILE=655350`；sysctl -w fs.file-max=655350",
    ),
    (
        "sysctl -w net.netfilter.nf_conntrack_max=2097152 net.netfilter.nf_conntrack_tcp_timeout_established=1200 net.netfilter.nf_conntrack_tcp_timeout_time_wait=30 net.netfilter.nf_conntrack_tcp_timeout_fin_wait=30 net.netfilter.nf_conntrack_tcp_timeout_close_wait=15",
        "sysctl -w net.netfilter.nf_conntrack_max=2097152 net.netfilter.nf_conntrack_tcp_timeout_established=1200 net.netfilter.nf_conntrack_tcp_timeout_time_wait=30 net.netfilter.nf_conntrack_tcp_timeout_fin_wait=30 net.netfilter.nf_conntrack_tcp_timeout_close_wait=15",
    ),
    ("{} of the {} files of the machine are open", "整机最多打开 {1} 个文件，已打开 {0} 个"),
    ("sysctl -w fs.file-max={}", "sysctl -w fs.file-max={0}"),
    (
        "{} (pid {}) holds {} sockets and may hold {} files",
        "{0} (pid {1}) 持有 {2} 个套接字，最多可打开 {3} 个文件",
    ),
    ("/proc/sys/fs/file-nr holds no number", "/proc/sys/fs/file-nr 中没有数字"),
    ("there is no process", "没有进程"),
    ("a process", "某个进程"),
    ("connections are not tracked here", "此处没有连接跟踪（conntrack）"),
    ("{} of {} entries are taken ({})", "conntrack 表的 {1} 个条目已占用 {0} 个（{2}）"),
    ("{} connections were dropped for want of room; {}", "{0} 条连接因 conntrack 表没有空间而被丢弃；{1}"),
    ("{} packets were dropped because entries clashed; {}", "{0} 个数据包因条目冲突而被丢弃；{1}"),
    ("{}{}", "{0}{1}"),
    ("{}; this kernel does not tell of drops", "{0}；该内核不提供丢弃数"),
    ("; {} ones stay for {} s", "；{0} 状态的条目保留 {1} s"),
    // Texts of `checks/traffic.rs`.
    (
        "look for the cause at the upstream: cpu-throttled, with --pods for all Pods on this node",
        "到上游查找原因：cpu-throttled，加上 --pods 检查本节点上的所有 Pod",
    ),
    (
        "in the ConfigMap `ssl-session-cache: \"true\"` and `ssl-session-tickets: \"true\"`; clients that keep connections, or at least sessions (client-keepalive)",
        "在 ConfigMap 中设置 `ssl-session-cache: \"true\"` 和 `ssl-session-tickets: \"true\"`；让客户端使用长连接，或者至少保持会话（client-keepalive）",
    ),
    ("no replies were counted meanwhile", "其间没有应答"),
    ("the proxy's metrics have no times of replies", "代理的指标中没有应答时间"),
    ("no replies were counted", "没有统计到应答"),
    ("{} of {} {} were slow", "{2}共 {1} 个，其中 {0} 过慢"),
    ("{}, while {} waited {} ms for its CPU quota", "{0}，同时 {1} 因 CPU 配额等待了 {2} ms"),
    (
        "{}, while threads of this machine waited for a CPU {} of the time",
        "{0}，同时本机有线程在 {1} 的时间里等待 CPU",
    ),
    ("{}, while the CPUs of this machine were busy {} of the time", "{0}，同时本机 CPU 在 {1} 的时间里繁忙"),
    (
        "more CPUs on this node, or fewer threads that want them; reserve CPUs for the proxy and its upstreams (requests, cpuset); a CPU quota that is too low counts here too: --pods examines all Pods on this node",
        "给本节点更多 CPU，或减少争用 CPU 的线程；为代理和上游预留 CPU（requests、cpuset）；过低的 CPU 配额也计入此项：--pods 检查本节点上的所有 Pod",
    ),
    ("answers of {}/{}:{}", "{0}/{1}:{2} 的应答"),
    ("responses of upstreams", "上游的响应"),
    ("the proxy's metrics do not count handshakes", "代理的指标没有统计握手"),
    ("{} full handshakes a second, {} of all", "每秒 {0} 次完整握手，占全部的 {1}"),
    (
        "{}, {} of them with RSA keys, whose signatures cost many times those of ECDSA",
        "{0}，其中 {1} 使用 RSA 密钥，其签名的开销是 ECDSA 的许多倍",
    ),
    (
        "a certificate with an ECDSA P-256 key (openssl ecparam -name prime256v1 -genkey; cert-manager: `privateKey: {algorithm: ECDSA, size: 256}`)",
        "使用 ECDSA P-256 密钥的证书（openssl ecparam -name prime256v1 -genkey；cert-manager：`privateKey: {algorithm: ECDSA, size: 256}`）",
    ),
    ("{}: hardly any session is resumed", "{0}：几乎没有会话被恢复"),
    // Texts of `checks/hops.rs`.
    (
        "name the last upstream in the Service or Ingress, and have one proxy do what both do",
        "在 Service 或 Ingress 中直接指向最后的上游，由一个代理完成两者的工作",
    ),
    ("who listens at {} cannot be seen", "看不到是谁在监听 {0}"),
    ("no upstream is on this machine", "本机上没有上游"),
    ("none of {} upstreams on this machine is a proxy", "本机上的 {0} 个上游都不是代理"),
    (
        "the upstream {} is {} (pid {}), which passes requests on: {} connections to it, {} of its own",
        "上游 {0} 是 {1} (pid {2})，它继续转发请求：到它的连接有 {3} 条，它自己的连接有 {4} 条",
    ),
    (
        "name the upstreams of {} in the Service or Ingress, and have one proxy do what both do",
        "在 Service 或 Ingress 中直接指向 {0} 的上游，由一个代理完成两者的工作",
    ),
    // Texts of `checks/throttling.rs`.
    (
        "raise the limit (resources.limits.cpu), or remove it; a longer period only moves the wait",
        "提高上限（resources.limits.cpu），或者取消上限；延长周期只会把等待移到别处",
    ),
    ("none of {} cgroups has a limit of CPU", "{0} 个 cgroup 都没有 CPU 上限"),
    (
        "no cgroup was throttled; {} has {} CPUs{}",
        "没有 cgroup 被 throttle（CFS 限流）；{0} 的 CPU 配额为 {1} 个 CPU{2}",
    ),
    (
        "{} was throttled in {} of {} periods ({} %) and waited {} s in all; it has {} CPUs{}",
        "{0} 在 {2} 个周期中有 {1} 个被 throttle（CFS 限流，{3} %），共等待 {4} s；它的 CPU 配额为 {5} 个 CPU{6}",
    ),
    ("resources: {limits: {cpu: {}m}}  # of {}", "resources: {limits: {cpu: {0}m}}  # 用于 {1}"),
    ("systemctl set-property {} CPUQuota={}%  # {}m", "systemctl set-property {0} CPUQuota={1}%  # {2}m"),
    ("echo {} > /{}/cpu.cfs_quota_us  # {}m", "echo {0} > /{1}/cpu.cfs_quota_us  # {2}m"),
    ("echo '{} {}' > /{}/cpu.max  # {}m", "echo '{0} {1}' > /{2}/cpu.max  # {3}m"),
    ("all CPUs of this machine", "这是本机的全部 CPU"),
    ("as much as the largest burst would have used", "这是最大的突发本来会使用的量"),
    ("twice the limit, of which no burst would have used more", "这是上限的两倍，没有突发会使用得更多"),
    (
        "twice the limit, a guess: how large bursts are takes readings while the doctor watches",
        "这是上限的两倍，只是猜测：突发有多大，要在 doctor 观察期间读数才能知道",
    ),
    (", used {} on average", "，平均使用 {0} 个"),
    (" and {} in the busiest {} ms", "，最忙的 {1} ms 内使用 {0} 个"),
    // Texts of `checks/affinity.rs`.
    (
        "pin it: worker_cpu_affinity auto (nginx), kubelet's --cpu-manager-policy=static with whole CPUs as requests and limits, or taskset -apc CPUS PID",
        "绑定 CPU：worker_cpu_affinity auto（nginx）；kubelet 的 --cpu-manager-policy=static，并把 requests 和 limits 设为整数个 CPU；或者 taskset -apc CPUS PID",
    ),
    ("no thread of the {} processes was seen twice", "{0} 个进程中没有任何线程在两次采样中都出现"),
    ("{} ({})", "{0} ({1})"),
    ("moved to another CPU {} times a second", "每秒迁移到另一个 CPU {0} 次"),
    ("moved as often as this kernel does not tell", "迁移到另一个 CPU 的次数未知（该内核不提供）"),
    (
        "{} was {} and taken off its CPU {} times, and waited {} times",
        "{0} {1}，每秒被换下 CPU {2} 次，主动等待 {3} 次",
    ),
    ("{}; it may run on {}", "{0}；可用 {1}"),
    ("{}: it computes more than it waits", "{0}：它计算多于等待"),
    ("worker_cpu_affinity auto; in nginx.conf", "在 nginx.conf 中设置 worker_cpu_affinity auto;"),
    (
        "taskset -apc CPUS {}, or for a Pod kubelet's --cpu-manager-policy=static with whole CPUs as requests and limits",
        "taskset -apc CPUS {0}；如果是 Pod，使用 kubelet 的 --cpu-manager-policy=static，并把 requests 和 limits 设为整数个 CPU",
    ),
    ("{}, on {} CPUs: it should stay on one", "{0}，可用 {1} 个 CPU：应当固定在一个 CPU 上"),
    // Texts of `checks/workers.rs`.
    (
        "as many workers as CPUs: worker_processes (nginx), --workers (Forebay), GOMAXPROCS",
        "worker 的数量与 CPU 数相同：worker_processes（nginx）、--workers（Forebay）、GOMAXPROCS",
    ),
    (
        "no process has workers that can be told from its other threads",
        "没有进程的 worker 可以与它的其他线程区分开",
    ),
    ("/proc/{}/status has no Cpus_allowed_list", "/proc/{0}/status 中没有 Cpus_allowed_list"),
    ("the quota of {} is {} CPUs", "{0} 的 CPU 配额为 {1} 个 CPU"),
    ("it may run on {}", "可用 {0}"),
    ("{} ({}) has {}", "{0} ({1}) 有 {2}"),
    ("{} and {}: {} of them share a CPU", "{0}，{1}：每个 CPU 由 {2} 个 worker 分用"),
    ("{} and {}", "{0}，{1}"),
    ("{}, all busy, while {} CPUs were idle, and {}", "{0}，全部繁忙，而有 {1} 个 CPU 空闲；{2}"),
    ("worker_processes {};", "worker_processes {0};"),
    ("--workers={}", "--workers={0}"),
    // Texts of `checks/ipvs.rs`.
    (
        "a kernel from 5.9 on with sysctl -w net.ipv4.vs.conn_reuse_mode=1",
        "使用 5.9 或更高版本的内核，并执行 sysctl -w net.ipv4.vs.conn_reuse_mode=1",
    ),
    (
        "before Linux 5.9 keep connections open in the clients, or use another kube-proxy mode (iptables, nftables); from 5.9 on sysctl -w net.ipv4.vs.conn_reuse_mode=1; remove one endpoint now with ipvsadm -d -t SERVICE -r ENDPOINT",
        "Linux 5.9 之前让客户端使用长连接，或者让 kube-proxy 使用其他模式（iptables、nftables）；从 5.9 起执行 sysctl -w net.ipv4.vs.conn_reuse_mode=1；要立即移除一个端点，执行 ipvsadm -d -t SERVICE -r ENDPOINT",
    ),
    ("IPVS is not in use", "没有使用 IPVS"),
    (
        "conn_reuse_mode is {}, as it should be from Linux 5.9 on ({})",
        "conn_reuse_mode 为 {0}，从 Linux 5.9 起应当如此（{1}）",
    ),
    (
        "conn_reuse_mode is {} and IPVS does without conntrack: no SYN is dropped",
        "conn_reuse_mode 为 {0}，IPVS 不使用 conntrack：不会丢弃 SYN",
    ),
    (
        "kube-proxy from 1.19 on leaves it so before Linux 4.1",
        "kube-proxy 从 1.19 起在 Linux 4.1 之前的内核上不改动它",
    ),
    (
        "kube-proxy from 1.13 on sets it to 0, so it was set again, or another program runs IPVS",
        "kube-proxy 从 1.13 起将它设为 0，因此它是后来又被设置的，或者 IPVS 由别的程序管理",
    ),
    (
        "conn_reuse_mode is {} with conntrack on Linux {}: a client's port that is used again costs a dropped SYN and 1 s; {}",
        "Linux {1} 上 conn_reuse_mode 为 {0} 且使用 conntrack：客户端重用端口时会丢弃一个 SYN，多花 1 s；{2}",
    ),
    (
        "sysctl -w net.ipv4.vs.conn_reuse_mode=0 (removed Pods then keep getting connections); a kernel from 5.9 on needs no such choice",
        "sysctl -w net.ipv4.vs.conn_reuse_mode=0（此后已移除的 Pod 仍会收到连接）；5.9 或更高版本的内核不需要这样取舍",
    ),
    (
        "; when it is gone its packets are dropped silently (expire_nodest_conn 0)",
        "；Pod 消失后，发给它的数据包被静默丢弃（expire_nodest_conn 0）",
    ),
    (
        "; when it is gone the client gets a reset and tries again (expire_nodest_conn 1)",
        "；Pod 消失后，客户端收到 reset 并重试（expire_nodest_conn 1）",
    ),
    (
        "a client's port that is used again goes to the Pod that it went to before, even one that is being removed{}",
        "客户端重用的端口被送往它之前所去的 Pod，即使那个 Pod 正在移除{0}",
    ),
    ("Linux {} has no conn_reuse_mode: {}", "Linux {0} 没有 conn_reuse_mode：{1}"),
    (
        "a kernel from 5.9 on; until then keep connections open in the clients, and sysctl -w net.ipv4.vs.expire_nodest_conn=1",
        "使用 5.9 或更高版本的内核；在此之前让客户端使用长连接，并执行 sysctl -w net.ipv4.vs.expire_nodest_conn=1",
    ),
    (
        "conn_reuse_mode is 0 on Linux {}, a leftover of kube-proxy before 1.22 or of a sysctl.conf: {}",
        "Linux {0} 上 conn_reuse_mode 为 0，由 1.22 之前的 kube-proxy 或某个 sysctl.conf 遗留：{1}",
    ),
    (
        "sysctl -w net.ipv4.vs.conn_reuse_mode=1 (kube-proxy from 1.22 on leaves it so)",
        "sysctl -w net.ipv4.vs.conn_reuse_mode=1（kube-proxy 从 1.22 起不改动它）",
    ),
    (", as kube-proxy from 1.13 on sets it", "（kube-proxy 从 1.13 起这样设置）"),
    (
        "a kernel from 5.9 on with conn_reuse_mode=1; until then keep connections open in the clients",
        "使用 5.9 或更高版本的内核，并设置 conn_reuse_mode=1；在此之前让客户端使用长连接",
    ),
    ("sysctl -w net.ipv4.vs.expire_nodest_conn=1; {}", "sysctl -w net.ipv4.vs.expire_nodest_conn=1；{0}"),
    ("conn_reuse_mode is 0 on Linux {}{}: {}", "Linux {0} 上 conn_reuse_mode 为 0{1}：{2}"),
    ("no destination of weight 0 has connections", "没有权重为 0 而仍有连接的端点"),
    (
        "{} destinations of weight 0 have connections, and {} s do not tell whether they fall (--watch 30s)",
        "{0} 个权重为 0 的端点仍有连接，{1} s 不足以判断连接数是否在下降（--watch 30s）",
    ),
    ("the connections of {} destinations of weight 0 fall", "{0} 个权重为 0 的端点的连接数在下降"),
    ("between two samples", "在两次采样之间"),
    ("in {} s", "在 {0} s 内"),
    (
        "{} has weight 0 for {} and went from {} to {} connections {} ({} active, {} inactive)",
        "{0} 在 {1} 中的权重为 0，连接数{4}从 {2} 变为 {3}（活动 {5}，非活动 {6}）",
    ),
    ("{}: clients keep them open", "{0}：客户端一直保持着这些连接"),
    (
        "close them: have the endpoint end its keep-alive connections when it has to stop (preStop hook, SIGTERM)",
        "关闭这些连接：让端点在需要停止时结束它的长连接（preStop hook、SIGTERM）",
    ),
    (
        "{}: ports that are used again renew them, so that its removal does not end",
        "{0}：重用的端口不断为这些连接续期，移除不会结束",
    ),
    (
        "{}; IPVS remembers a closed connection for 120 s, so that --watch 130s makes it certain",
        "{0}；IPVS 会记住已关闭的连接 120 s，用 --watch 130s 可以确认",
    ),
    // Texts of `checks/overlay.rs`.
    (
        "plain routes between the nodes: flannel \"Backend\": {\"Type\": \"host-gw\"}; Calico ipipMode or vxlanMode: CrossSubnet; Cilium routing-mode: native with auto-direct-node-routes: true",
        "节点之间使用普通路由：flannel \"Backend\": {\"Type\": \"host-gw\"}；Calico ipipMode 或 vxlanMode: CrossSubnet；Cilium routing-mode: native 和 auto-direct-node-routes: true",
    ),
    ("no route leads through a tunnel", "没有路由经过隧道"),
    (" ({})", "（{0}）"),
    ("/sys does not give the kind of device {}{}", "/sys 没有给出设备 {0} 的类型{1}"),
    ("no tunnel", "没有隧道"),
    ("the link below", "底层链路"),
    ("{} carries {}", "{0} 承载 {1}"),
    (
        "{} to {}; {} of them in a subnet of {}, where no tunnel is needed",
        "{0}，通往 {1}；其中 {2} 台与 {3} 在同一子网，不需要隧道",
    ),
    ("{} to {}, all of them in other subnets", "{0}，通往 {1}，都在其他子网中"),
    (
        "{}, and {} answered on {} itself: if those are the nodes, no tunnel is needed",
        "{0}，并且有 {1}直接在 {2} 上应答：如果它们是节点，就不需要隧道",
    ),
    ("{}, and to which machines was not captured", "{0}，但没有采集到通往哪些机器"),
    (
        "the MTU of {} is {}, and {} bytes fit into the {} of {}",
        "{0} 的 MTU 为 {1}，而 {4} 的 {3} 字节可以容纳 {2} 字节",
    ),
    (
        "ip link set {} mtu {}, or the network plugin's own setting (Calico mtu, Cilium MTU)",
        "ip link set {0} mtu {1}，或者使用网络插件自己的设置（Calico mtu、Cilium MTU）",
    ),
    ("{}: packets are cut in two, or lost", "{0}：数据包会被分片或丢失"),
    ("{}: it takes more packets than it need", "{0}：数据包比必要的多"),
    // Texts of `checks/nic.rs`.
    (
        "a faster link, or fewer bytes: compression and caching in the proxy",
        "使用更快的链路，或者减少字节数：在代理中启用压缩和缓存",
    ),
    ("no queue was captured", "没有采集到任何队列"),
    ("{} sends {} of {} Gbit/s ({} %)", "{0} 发送 {1} Gbit/s，链路为 {2} Gbit/s（{3} %）"),
    ("{} receives {} of {} Gbit/s ({} %)", "{0} 接收 {1} Gbit/s，链路为 {2} Gbit/s（{3} %）"),
    ("{}'s ring", "{0} 的网卡队列（ring）"),
    (
        "ethtool -G {} rx MAX (ethtool -g {} says how many)",
        "ethtool -G {0} rx MAX（最大值用 ethtool -g {1} 查看）",
    ),
    (
        "tc -s qdisc show dev {}; a longer queue or a faster link",
        "tc -s qdisc show dev {0}；使用更长的队列或更快的链路",
    ),
    (
        "ethtool -S {} says why; sysctl -w net.core.netdev_max_backlog=16384",
        "用 ethtool -S {0} 查看原因；sysctl -w net.core.netdev_max_backlog=16384",
    ),
    ("{} dropped {} of {} packets", "{0}：{2} 个数据包中丢包 {1} 个"),
    (
        "the CPUs' queues dropped {} of {} packets, as they were full",
        "CPU 的接收队列已满：{1} 个数据包中丢包 {0} 个",
    ),
    ("sysctl -w net.core.netdev_max_backlog=16384", "sysctl -w net.core.netdev_max_backlog=16384"),
    (
        "CPUs ended {} turns a second with packets left to receive (time_squeeze)",
        "软中断每秒有 {0} 次在数据包尚未收完时结束（time_squeeze）",
    ),
    (
        "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000",
        "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000",
    ),
    ("no link is full, and no packets are lost in devices and queues", "没有链路跑满，网卡和队列也没有丢包"),
    // Texts of `checks/kernel.rs`.
    (
        "set them as on the host: in a Pod securityContext.sysctls, on a machine sysctl -w",
        "设置成与宿主机相同：在 Pod 中使用 securityContext.sysctls，在机器上使用 sysctl -w",
    ),
    ("this is the host's network namespace", "这就是宿主机的网络命名空间"),
    ("no kernel parameter was captured both here and of the host", "没有内核参数同时采集到此处和宿主机的值"),
    ("{} (--reference FILE does without)", "{0}（可以用 --reference FILE 代替）"),
    (
        "there are no parameters of a host to compare with (--reference FILE)",
        "没有可以比较的宿主机内核参数（--reference FILE）",
    ),
    ("{} kernel parameters are the host's", "{0} 个内核参数与宿主机相同"),
    ("{} of {} kernel parameters are larger than the host's", "{1} 个内核参数中有 {0} 个大于宿主机的值"),
    (", and {} more differ", "，另有 {0} 个不同"),
    (
        "in this network namespace: sysctl -w {} (in a Pod: securityContext.sysctls)",
        "在该网络命名空间中执行：sysctl -w {0}（在 Pod 中使用 securityContext.sysctls）",
    ),
    (
        "{} is {} ({} ports) and the host's is {} ({}): {} % of the ports",
        "{0} 为 {1}（{2} 个端口），宿主机为 {3}（{4} 个）：端口数是宿主机的 {5} %",
    ),
    ("{} is {} and the host's is {}", "{0} 为 {1}，宿主机为 {2}"),
];
