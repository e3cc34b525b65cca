//! The resources of the payload server, and which of them a request names.
//!
//! Must not be in here: responses.

use std::time::Duration;

use httparse::Header;

/// The resources: a target, and the response to it.
pub const RESOURCES: &[(&str, &str)] = &[
    ("/0", "an empty body"),
    ("/1k", "1 KB (also /, /1kb and /1k.bin)"),
    ("/10k", "10 KB"),
    ("/1m", "1 MB"),
    ("/bytes/N/NAME", "N bytes, at most 10 MB, whatever the name"),
    ("/delay/MS", "answers after MS milliseconds"),
    ("/status/CODE", "answers with that status"),
    ("/echo", "the request that was seen, as JSON"),
    ("/chunked/N", "a chunked body of N chunks (10 without N)"),
    ("/slow/N", "a body in N pieces, 100 ms apart (10 without N)"),
    ("/count", "requests and connections so far, as JSON"),
];

/// The sizes of the static bodies.
pub(super) const SIZES: [usize; 4] = [0, 1024, 10 * 1024, 1024 * 1024];

const PIECES_DEFAULT: usize = 10;
const PIECES_MAX: usize = 10_000;
/// Longest body of `/bytes`.
const BYTES_MAX: usize = 10 * 1024 * 1024;
const DELAY_MAX: Duration = Duration::from_hours(1);

/// The resource that a request names.
#[derive(Debug, PartialEq)]
pub(super) enum Resource {
    /// The static body with this index in [`SIZES`].
    Static(usize),
    /// A body of so many bytes.
    Bytes(usize),
    Delay(Duration),
    Status(u16),
    Echo(Box<Seen>),
    Chunked(usize),
    Slow(usize),
    Count,
    Missing,
}

/// The content of the response to `/echo`.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
}

impl Resource {
    pub(super) fn of(method: &str, target: &str, headers: &[Header]) -> Resource {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let (name, argument) =
            path[1.min(path.len())..].split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
        let number = argument.parse::<usize>().ok();
        let pieces =
            if argument.is_empty() { Some(PIECES_DEFAULT) } else { number.filter(|n| *n <= PIECES_MAX) };
        let found = match name {
            "0" => Some(Resource::Static(0)),
            "" | "1k" | "1kb" | "1k.bin" => Some(Resource::Static(1)),
            "10k" => Some(Resource::Static(2)),
            "1m" => Some(Resource::Static(3)),
            "bytes" => {
                let length = argument.split('/').next().and_then(|text| text.parse().ok());
                length.filter(|length| *length <= BYTES_MAX).map(Resource::Bytes)
            }
            "delay" => number.map(|ms| Resource::Delay(Duration::from_millis(ms as u64).min(DELAY_MAX))),
            "status" => {
                number.filter(|code| (200..600).contains(code)).map(|code| Resource::Status(code as u16))
            }
            "echo" => Some(Resource::Echo(Box::new(Seen::new(method, target, headers)))),
            "chunked" => pieces.map(Resource::Chunked),
            "slow" => pieces.map(Resource::Slow),
            "count" => Some(Resource::Count),
            _ => None,
        };
        found.unwrap_or(Resource::Missing)
    }
}

impl Seen {
    fn new(method: &str, target: &str, headers: &[Header]) -> Seen {
        let text = |value| String::from_utf8_lossy(value).into_owned();
        let headers = headers.iter().map(|header| (header.name.into(), text(header.value))).collect();
        Seen { method: method.into(), target: target.into(), headers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_resources() {
        let table = [
            ("/", Resource::Static(1)),
            ("/1k.bin?x=/delay/9", Resource::Static(1)),
            ("/delay/250", Resource::Delay(Duration::from_millis(250))),
            ("/bytes/7/x", Resource::Bytes(7)),
            ("/bytes/7", Resource::Bytes(7)),
            ("/bytes/99999999", Resource::Missing),
            ("/status/503", Resource::Status(503)),
            ("/status/99", Resource::Missing),
            ("/chunked", Resource::Chunked(10)),
            ("/slow/3", Resource::Slow(3)),
            ("/slow/x", Resource::Missing),
            ("*", Resource::Missing),
        ];
        for (target, resource) in table {
            assert_eq!(Resource::of("GET", target, &[]), resource, "{target}");
        }
    }
}
