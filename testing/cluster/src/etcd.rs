//! Requests to etcd itself, over its JSON gateway (etcd's documentation, "Why gRPC gateway").

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Any key: only the revision is of interest.
const ANY_KEY: &str = "AA==";

/// Forgets every revision before the current one.
pub(crate) fn compact(address: SocketAddr) -> Result<()> {
    let range = ask(address, "/v3/kv/range", &json!({"key": ANY_KEY, "limit": 1}))?;
    let revision = range["header"]["revision"].as_str().context("no revision")?;
    ask(address, "/v3/kv/compaction", &json!({"revision": revision, "physical": true})).map(drop)
}

fn ask(address: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    ensure!(head.contains(" 200 "), "etcd: {head}\n{body}");
    Ok(serde_json::from_str(body)?)
}
