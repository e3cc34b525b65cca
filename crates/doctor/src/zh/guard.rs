//! The texts of `checks/guard.rs`.
//!
//! Must not be in here: those of other checks.

pub(super) const TEXTS: &[(&str, &str)] = &[
    (
        "more of the resource, or more replicas (docs/guard.md); `forebay-guard: enforce` serves critical requests first meanwhile",
        "增加所缺的资源，或者增加副本（docs/guard.md）；在此之前，`forebay-guard: enforce` 优先服务关键请求",
    ),
    ("the proxy's metrics tell of no guard", "代理的指标中没有 guard"),
    (
        "{} connections were turned away since no file descriptor was left",
        "{0} 条连接因文件描述符用尽而被拒绝",
    ),
    ("this process is very short: {}", "本进程资源严重紧张：{0}"),
    ("this process is short: {}", "本进程资源紧张：{0}"),
    ("this process was short meanwhile: {}", "本进程资源曾一度紧张：{0}"),
    ("this process is short of nothing", "本进程的各项资源都充足"),
    ("cpu throttled", "CPU throttle（CFS 限流）"),
    ("cpu stalled", "等待 CPU 的时间"),
    ("memory", "内存"),
    ("descriptors", "文件描述符"),
    ("accept queue", "全连接队列"),
    ("loop lag", "事件循环的延迟"),
];
