//! PHP-FPM: what people put behind `backend-protocol: FCGI`.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::stage::Stage;
use super::talk::ask;

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
        let said = ask(stage.http, &format!("GET {target} HTTP/1.0\r\nHost: web.test\r\n\r\n"), b"")?.status;
        ensure!(said == status, "{target} is answered with {said}");
    }
    let sent: Vec<u8> = (0..UPLOAD_BYTES).map(|at| (at % 251) as u8).collect();
    let put =
        format!("PUT /php/?echo=1 HTTP/1.0\r\nHost: web.test\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
    let echoed = ask(stage.http, &put, &sent)?;
    ensure!(
        echoed.status == 200 && echoed.body == sent,
        "{} bytes came back with {}",
        echoed.body.len(),
        echoed.status
    );
    Ok("PHP-FPM is told what it has to be, and 1 MiB comes back".into())
}

fn told(stage: &Stage, head: &str, body: &[u8]) -> Result<Value> {
    let answer = ask(stage.http, head, body)?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    answer.json()
}
