//! PHP-FPM: what people put behind `backend-protocol: FCGI`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::stage::Stage;

const LIMIT: Duration = Duration::from_secs(20);
const UPLOAD_BYTES: usize = 1 << 20;

pub(super) fn run(stage: &Stage) -> Result<String> {
    let told = told(stage, "GET /php/?a=b%20c HTTP/1.0\r\nHost: web.test\r\nX-A: d\r\n\r\n", b"")?;
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/php/?a=b%20c"),
        ("SCRIPT_NAME", "/php/index.php"),
        ("QUERY_STRING", "a=b%20c"),
        ("HTTP_X_A", "d"),
        ("HTTP_HOST", "web.test"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ] {
        ensure!(told["server"][name] == value, "{name} is {}", told["server"][name]);
    }
    ensure!(told["get"]["a"] == "b c", "the query is {}", told["get"]);
    let form = b"name=value&other=1";
    let post = format!(
        "POST /php/index.php HTTP/1.0\r\nHost: web.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n",
        form.len()
    );
    let told = self::told(stage, &post, form)?;
    ensure!(told["post"]["name"] == "value" && told["post"]["other"] == "1", "the form is {}", told["post"]);
    let told = self::told(stage, "GET /php/index.php/a/b HTTP/1.0\r\nHost: web.test\r\n\r\n", b"")?;
    ensure!(told["server"]["PATH_INFO"] == "/a/b", "PATH_INFO is {}", told["server"]["PATH_INFO"]);
    for (target, status) in [
        ("/php/?status=404", 404),
        ("/php/?status=500", 500),
        ("/php/nowhere.php", 404),
        ("/php/index.php", 200),
    ] {
        let (said, _) = ask(stage, &format!("GET {target} HTTP/1.0\r\nHost: web.test\r\n\r\n"), b"")?;
        ensure!(said == status, "{target} is answered with {said}");
    }
    let sent: Vec<u8> = (0..UPLOAD_BYTES).map(|at| (at % 251) as u8).collect();
    let put =
        format!("PUT /php/?echo=1 HTTP/1.0\r\nHost: web.test\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
    let (status, echoed) = ask(stage, &put, &sent)?;
    ensure!(status == 200 && echoed == sent, "{} bytes came back with {status}", echoed.len());
    Ok("PHP-FPM is told what it has to be, and 1 MiB comes back".into())
}

fn told(stage: &Stage, head: &str, body: &[u8]) -> Result<Value> {
    let (status, body) = ask(stage, head, body)?;
    let text = String::from_utf8_lossy(&body).into_owned();
    ensure!(status == 200, "{status}: {text}");
    serde_json::from_str(&text).context(text)
}

/// Status and body of the answer to a request of HTTP/1.0, which ends with the connection.
fn ask(stage: &Stage, head: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(stage.http)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no head came")?;
    let status = std::str::from_utf8(answer.get(9..12).context("no status came")?)?.parse()?;
    Ok((status, answer.split_off(end + 4)))
}
