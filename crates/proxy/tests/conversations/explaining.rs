//! Explanations of requests that are not served, for the rules of the Gateway API's routes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use model::{
    Action, Backend, BackendFilters, Backends, ClusterId, HeaderChanges, Host, HostName, HostTls, Listener,
    Mirror, Model, PathChange, Protocol, RequestFilter, RequestFilters, Route, Share, Split, TlsStream,
    UrlRewrite,
};
use proxy::explain::{Asked, Explanation, Outcome, Stage, Verdict, explain};
use routing::compile;

use crate::world::{cluster, host, http};

fn explained(model: &Model, server_name: Option<&str>) -> Explanation {
    let snapshot = Arc::new(compile(model, None, 1));
    let listener = snapshot.listeners()[0].id;
    let head = b"GET /a/b?q HTTP/1.1\r\nHost: web.test\r\n\r\n";
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let relief = proxy::guard::Relief::default();
    explain(
        &snapshot,
        &Asked { listener, port: 80, client, server_name, head, body: b"", relief, rollouts: None },
    )
    .unwrap()
}

/// A host whose route forwards, changed.
fn serving(change: impl FnOnce(&mut Route)) -> Model {
    let mut host = host("web.test");
    change(Arc::make_mut(&mut host.routes[0]));
    let clusters = [(); 2].map(|()| cluster(&[([192, 0, 2, 1], 80).into()])).into_iter().collect();
    Model { listeners: vec![http(80, host)], clusters, ..Model::default() }
}

fn text(told: &Explanation, stage: Stage) -> (Verdict, &str) {
    let step = told.steps.iter().find(|step| step.stage == stage);
    let step = step.unwrap_or_else(|| panic!("{stage:?} of {:?}", told.steps));
    (step.verdict, &step.text)
}

#[test]
fn changes_copies_and_tries_are_told() {
    let model = serving(|route| {
        let path = Some(PathChange::Prefix { from: "/a".to_owned(), to: "/x".to_owned() });
        let set = vec![("X-Set".to_owned(), "1".to_owned())];
        let changes = HeaderChanges::new(set, Vec::new(), vec!["X-Gone".to_owned()]).unwrap();
        let rewrite = UrlRewrite { host: model::HeadText::new("other.test").ok(), path };
        let filters =
            vec![RequestFilter::UrlRewrite(Arc::new(rewrite)), RequestFilter::Headers(Arc::new(changes))];
        route.request_filters = RequestFilters::new(filters).unwrap();
        let Action::Forward(forward) = &mut route.action else { panic!("it forwards") };
        forward.transfer.mirrors =
            Some([Mirror { cluster: ClusterId(1), copy: None, share: Share::new(1, 4) }].into());
        forward.timeouts.backend_request = Some(Duration::from_secs(2));
        forward.retry.backoff = Some(Duration::from_millis(100));
    });
    let told = explained(&model, None);
    assert_eq!(text(&told, Stage::Rewrite), (Verdict::Changes, "the endpoint is asked for /x/b?q"));
    assert_eq!(text(&told, Stage::RequestHeaders), (Verdict::Changes, "sets X-Set; removes X-Gone"));
    let (_, copy) = text(&told, Stage::Mirror);
    assert_eq!(copy, "1/4 of them: a copy goes to default-echo-7: /x/b?q of other.test");
    assert!(text(&told, Stage::Timeouts).1.ends_with(", 2 s for one try"));
    assert_eq!(text(&told, Stage::Retries).1, "tries at most: 3, 0.1 s apart");
    let Outcome::Forwarded(to) = &told.outcome else { panic!("{:?}", told.outcome) };
    assert!(to[0].head.starts_with("GET /x/b?q HTTP/1.1\r\nHost: other.test\r\n"), "{}", to[0].head);
}

#[test]
fn backends_that_are_invalid_or_have_filters_are_told() {
    let with = |backends: Vec<Backend>| {
        serving(|route| {
            let Action::Forward(forward) = &mut route.action else { panic!("it forwards") };
            forward.backends = Backends::Split(Split::new(backends).unwrap());
        })
    };
    let told = explained(&with(vec![Backend::invalid(1)]), None);
    let Outcome::Answered(answered) = &told.outcome else { panic!("{:?}", told.outcome) };
    assert_eq!(answered.status, 500);
    let (verdict, why) = text(&told, Stage::Backend);
    assert!(verdict == Verdict::Answers && why.contains("does not exist or may not be referred to"), "{why}");

    let filters = Some(Arc::new(BackendFilters::default()));
    let one = Backend { filters, ..Backend::new(ClusterId(0), 1) };
    let told = explained(&with(vec![one]), None);
    let Outcome::Forwarded(to) = &told.outcome else { panic!("{:?}", told.outcome) };
    assert_eq!(to[0].choice.as_deref(), Some("chance: 1 of 1, with filters of its own"));
}

#[test]
fn bytes_that_are_passed_on_are_told() {
    for (is_terminated, protocol) in
        [(true, "as the client speaks, decrypted"), (false, "as the client speaks")]
    {
        let backends = Backends::One(ClusterId(0));
        let stream = TlsStream { is_terminated, backends, labels: model::Labels::default() };
        let tls = HostTls { stream: Some(Arc::new(stream)), ..HostTls::default() };
        let any = Host { name: HostName::Any, tls: Arc::new(tls), routes: Vec::new(), ..host("any.test") };
        let protocol_of = Protocol::Https(Arc::new(vec![Arc::new(any)].into()));
        let listeners = vec![Listener { address: None, port: 443, protocol: protocol_of }];
        let model = Model { listeners, ..serving(|_| ()) };
        for name in [Some("web.test"), None] {
            let Outcome::PassedThrough(to) = explained(&model, name).outcome else { panic!("{name:?}") };
            assert_eq!((to.upstream.as_str(), to.protocol), ("default-echo-7", protocol));
        }
    }
}
