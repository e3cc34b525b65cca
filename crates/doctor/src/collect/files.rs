//! The list of files that are collected: what the checks read, and nothing else. Environments and command
//! lines are not read.

/// Files that are read as they are. Those under `proc/net` and `proc/sys/net` are those of the examined
/// network namespace.
pub(super) const PATHS: &[&str] = &[
    "proc/loadavg",
    "proc/meminfo",
    "proc/net/arp",
    "proc/net/dev",
    "proc/net/fib_trie",
    "proc/net/ip_vs",
    "proc/net/netstat",
    "proc/net/route",
    "proc/net/snmp",
    "proc/net/snmp6",
    "proc/net/sockstat",
    "proc/net/sockstat6",
    "proc/net/softnet_stat",
    "proc/net/stat/nf_conntrack",
    "proc/pressure/cpu",
    "proc/stat",
    "proc/sys/fs/file-max",
    "proc/sys/fs/file-nr",
    "proc/sys/fs/nr_open",
    "proc/sys/kernel/osrelease",
    "proc/sys/net/netfilter/nf_conntrack_buckets",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/version",
];

/// Kernel parameters that the field cases are about, and related ones: those that can differ between a
/// container and its host.
pub(crate) const PARAMETERS: &[&str] = &[
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/tcp_abort_on_overflow",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_keepalive_time",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_max_tw_buckets",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_syn_retries",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_wmem",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/expire_nodest_conn",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_fin_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_time_wait",
];

/// Files of the host's network namespace, if that is another one, as `host/...`; the parameters are read too.
pub(super) const OF_HOST: &[&str] = &["proc/net/arp", "proc/net/ip_vs", "proc/net/route"];

/// Files of each process in [`crate::SampleOrigin::pids`]: `proc/PID/...`.
pub(super) const OF_PROCESS: &[&str] = &["cgroup", "comm", "limits", "stat", "status"];

/// Files of each of its threads: `proc/PID/task/TID/...`.
pub(super) const OF_THREAD: &[&str] = &["sched", "status"];

/// Files of each examined cgroup and its parents, in the hierarchies of version 1 and in that of version 2.
pub(super) const OF_CGROUP: &[&str] = &[
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpu.max",
    "cpu.shares",
    "cpu.stat",
    "cpu.weight",
    "cpuacct.usage",
    "cpuset.cpus.effective",
];

/// Files of each network device: `sys/class/net/DEVICE/...`.
pub(super) const OF_DEVICE: &[&str] = &[
    "device/uevent",
    "mtu",
    "operstate",
    "speed",
    "statistics/rx_dropped",
    "statistics/rx_missed_errors",
    "statistics/tx_dropped",
    "type",
    "uevent",
];
