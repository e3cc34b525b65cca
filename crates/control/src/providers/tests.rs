use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use identity::limits::REFRESH_INTERVAL;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const KEY: &str =
    r#"{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "K"}"#;

/// An issuer that gives the answers of a function to the requests in their order.
struct Issuer {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let number = count.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(answer(number).as_bytes()).await;
            }
        });
        Self { port, asked }
    }

    fn place(&self) -> Place {
        let url = Url::parse(&format!("http://127.0.0.1:{}/keys", self.port)).unwrap();
        Place { url, authority: None }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: max-age=600\r\n\r\n{body}", body.len())
}

fn keys(id: &str) -> String {
    answer("200 OK", &format!("{{\"keys\": [{}]}}", KEY.replace("\"K\"", &format!("\"{id}\""))))
}

/// The time since 1970, of which tests make it later than it is.
fn after(time: Duration) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + time
}

#[tokio::test]
async fn keys_are_fetched_and_renewed_on_request() {
    let issuer = Issuer::start(|number| keys(&number.to_string())).await;
    let providers = Providers::default();
    let source = providers.keys(&issuer.place());
    let first = source.refresh(after(Duration::ZERO)).unwrap();
    providers.start(&Options::default());
    first.await;
    assert_eq!(source.condition().keys, ["0"]);
    assert!(Arc::ptr_eq(&source, &providers.keys(&issuer.place())));
    source.refresh(after(Duration::ZERO)).unwrap().await;
    assert_eq!(source.condition().keys, ["1"]);
    assert!(source.refresh(after(Duration::ZERO)).is_none(), "the last one was a moment ago");
    providers.start(&Options::default());
    assert_eq!((issuer.asked(), providers.fetches()), (2, [2, 0]));
    let [(url, condition)] = providers.conditions().try_into().unwrap();
    assert_eq!((url, condition.fetches), (issuer.place().url.to_string(), 2));
}

#[tokio::test]
async fn the_last_keys_stay_while_the_issuer_is_away() {
    let bad = [
        answer("500 Internal Server Error", "{}"),
        answer("302 Found", &format!("{{\"keys\": [{KEY}]}}")),
        answer("200 OK", "<html>"),
        answer("200 OK", &" ".repeat(client::ANSWER_BYTES_MAX + 1)),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        String::new(),
    ];
    let whys = ["HTTP 500", "HTTP 302", "valid JSON", "cannot be read", "cannot be read", "", ""];
    let answers = bad.clone();
    let issuer = Issuer::start(move |number| match number.checked_sub(1) {
        None => keys("good"),
        Some(at) => answers[at].clone(),
    });
    let (issuer, providers) = (issuer.await, Providers::default());
    let source = providers.keys(&issuer.place());
    let first = source.refresh(after(Duration::ZERO)).unwrap();
    providers.start(&Options::default());
    first.await;
    for (at, why) in whys.into_iter().enumerate() {
        source.refresh(after(REFRESH_INTERVAL * (at as u32 + 1))).unwrap().await;
        let condition = source.condition();
        assert_eq!((condition.keys, condition.failures), (vec!["good".to_owned()], at as u64 + 1));
        let (_, found) = condition.failure.unwrap();
        assert!(found.contains(why), "{found}");
    }
}

#[tokio::test]
async fn what_nobody_has_is_not_fetched() {
    let issuer = Issuer::start(|_| keys("a")).await;
    let providers = Providers::default();
    drop(providers.keys(&issuer.place()));
    let review = providers.for_review();
    let _examined = review.keys(&issuer.place());
    providers.start(&Options::default());
    assert!(providers.conditions().is_empty());
    let source = providers.keys(&issuer.place());
    let place = issuer.place();
    assert!(!providers.shared.forget_unused(&place, &Arc::clone(&source)));
    assert!(providers.shared.forget_unused(&place, &source));
    assert!(providers.shared.lock().sources.is_empty());
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test]
async fn addresses_are_judged_in_a_cluster() {
    let issuer = Issuer::start(|_| keys("a")).await;
    let providers = Providers::default();
    let source = providers.keys(&issuer.place());
    let first = source.refresh(after(Duration::ZERO)).unwrap();
    providers.start(&Options { judges_endpoints: true, ..Options::default() });
    first.await;
    let (_, why) = source.condition().failure.unwrap();
    assert_eq!(why, "address 127.0.0.1 cannot be used: it is a loopback address");
    assert_eq!(issuer.asked(), 0);
}
