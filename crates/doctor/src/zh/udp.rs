//! The texts of `checks/udp.rs`.
//!
//! Must not be in here: those of other checks.

pub(super) const TEXTS: &[(&str, &str)] = &[
    (
        "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304, on the node where they are not of the network namespace; then restart the process",
        "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304（如果这两个参数不属于网络命名空间，则在节点上设置），然后重启进程",
    ),
    ("larger buffers (udp-buffers), more CPU or workers", "增大缓冲区（udp-buffers），增加 CPU 或 worker"),
    ("a kernel of version 5.0 or later", "使用 5.0 或更高版本的内核"),
    ("no socket for HTTP/3 is open", "没有打开用于 HTTP/3 的套接字"),
    ("sockets for HTTP/3 may have buffers of {} bytes", "HTTP/3 套接字的缓冲区可以达到 {0} 字节"),
    (
        "sockets for HTTP/3, such as {}, have buffers of at most {} bytes to receive and {} to send; Forebay asks for {}",
        "HTTP/3 套接字（例如 {0}）的接收缓冲区最多 {1} 字节，发送缓冲区最多 {2} 字节；Forebay 请求的是 {3} 字节",
    ),
    ("; most of them at {}: {}", "；最多的是 {0}：{1} 个"),
    (
        "{} datagrams that arrived and {} that were to be sent found no room in a buffer{}",
        "{0} 个到达的数据报和 {1} 个待发送的数据报因缓冲区已满而被丢弃{2}",
    ),
    ("no datagram was dropped for want of room", "没有数据报因缓冲区已满而被丢弃"),
    ("kernel {} sends and receives many datagrams at once", "内核 {0} 可以一次收发多个数据报"),
    ("kernel {} sends or receives each datagram by itself", "内核 {0} 只能逐个发送或接收数据报"),
];
