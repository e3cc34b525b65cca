//! Clients of the web: requests of all kinds over connections of all protocols, each of which is judged.
//!
//! Must not be in here: connections, and what is right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adversary::Random;
use bytes::Bytes;
use http::Method;
use tokio::time::sleep;

use crate::ask::{Client, Wire};
use crate::content;
use crate::endpoints::{SERVED_BY, TOKEN};
use crate::exchange::Request;
use crate::judge::{Case, Check};
use crate::objects::{
    AUTH, BUFFERED, CACHE, CALM, CANARY, CHURN, EXTRA, EXTRAS, LIMIT, MIRROR, MOODY, OUTSIDE, SHARED,
    extra_host,
};
use crate::parts::Parts;
use crate::shared::Shared;

/// The protocols of clients, one each.
const WIRES: [Wire; 14] = [
    Wire::Http1,
    Wire::Http1,
    Wire::Http1,
    Wire::Http1Tls,
    Wire::Http1Tls,
    Wire::Http1Tls,
    Wire::Http2,
    Wire::Http2,
    Wire::Http2Tls,
    Wire::Http2Tls,
    Wire::Http2Tls,
    Wire::Http3,
    Wire::Http3,
    Wire::Http3,
];

/// A request that is going to be sent, and what its answer has to be.
struct Plan {
    host: &'static str,
    /// The name of the host, which is another one for hosts that come and go.
    name: String,
    method: Method,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    pace: Duration,
    check: Check,
}

/// Starts those that are parts of the run. Each waits for about this time between two requests.
pub(crate) fn start(shared: &Arc<Shared>, parts: &Parts, pause: Duration) {
    let wires = WIRES.into_iter().enumerate().filter(|(_, wire)| parts.has_wire(*wire));
    for (number, wire) in wires {
        tokio::spawn(browse(Arc::clone(shared), wire, number as u64, pause));
    }
}

async fn browse(shared: Arc<Shared>, wire: Wire, number: u64, pause: Duration) {
    let mut random = Random::of_case(shared.seed, "client", number);
    let mut client = Client::new(wire, &shared.target);
    while shared.goes_on().await {
        if random.once_in(25) {
            client.close();
        }
        let plan = Plan::choose(&mut random);
        exchange(&shared, &mut client, plan).await;
        sleep(pause.mul_f64(0.2 + random.below(160) as f64 / 100.0)).await;
    }
}

async fn exchange(shared: &Shared, client: &mut Client, plan: Plan) {
    let id = shared.ledger.begin(plan.host);
    let since = Instant::now();
    let in_effect = shared.effect.seen(shared.windows.life());
    let request = Request {
        id,
        method: plan.method,
        host: plan.name,
        server_name: if plan.host == EXTRA { CALM } else { plan.host },
        target: plan.target,
        headers: plan.headers,
        body: plan.body,
        pace: plan.pace,
    };
    let result = client.ask(&request).await;
    let (wire, connected) = (client.wire(), client.connected().unwrap_or(since));
    let case = Case { id, host: plan.host, wire, check: &plan.check, since, connected, in_effect };
    let (outcome, wrong) = case.judge(shared, &result);
    if let Some(wrong) = wrong {
        let Request { method, host, target, .. } = &request;
        let took = since.elapsed();
        shared.report.fault(format!(
            "request {id}, {method} {host}{target} over {:?}, after {took:.1?}: {wrong}",
            client.wire()
        ));
    }
    shared.ledger.end(id, outcome);
    if let Ok(answer) = &result {
        if plan.host == CALM && request.body.is_empty() && request.pace.is_zero() {
            shared.note_latency(since);
        }
        if plan.host == CANARY && answer.status == 200 {
            let is_canary = answer.headers.get(SERVED_BY).is_some_and(|name| name == "canary");
            shared.count(if is_canary { "canary" } else { "stable" });
        }
        if plan.host == LIMIT && answer.status == 200 {
            shared.count("admitted by the limit");
        }
    }
}

// === impl Plan ===

impl Plan {
    fn choose(random: &mut Random) -> Plan {
        match random.below(100) {
            0..30 => Plan::get(random, CALM, 2_000),
            30..36 => Plan::get(random, CALM, 300_000),
            36..38 => Plan::slow(random),
            38..46 => Plan::post(random, CALM, 400_000),
            46..54 => Plan::get(random, CHURN, 20_000),
            54..62 => Plan::get(random, MOODY, 2_000),
            62..72 => Plan::cached(random),
            72..76 => Plan::get(random, CANARY, 1_000),
            76..80 => Plan::get(random, MIRROR, 1_000),
            80..85 => Plan::guarded(random),
            85..88 => Plan::get(random, LIMIT, 100),
            88..91 => Plan::get(random, SHARED, 100),
            91..94 => Plan::get(random, OUTSIDE, 1_000),
            94..97 => Plan::post(random, BUFFERED, 1_500_000),
            _ => Plan::extra(random),
        }
    }

    fn get(random: &mut Random, host: &'static str, len_max: usize) -> Plan {
        let (key, len) = (random.number() >> 1, random.below(len_max));
        Plan {
            host,
            name: host.to_owned(),
            method: Method::GET,
            target: format!("/blob/{key}/{len}"),
            headers: Vec::new(),
            body: Bytes::new(),
            pace: Duration::ZERO,
            check: Check::Content { key, len },
        }
    }

    /// A download by a slow reader.
    fn slow(random: &mut Random) -> Plan {
        Plan { pace: Duration::from_millis(5), ..Plan::get(random, CALM, 2_000_000) }
    }

    /// An upload, of which the endpoint returns the digest.
    fn post(random: &mut Random, host: &'static str, len_max: usize) -> Plan {
        let body = content::bytes(random.number(), 1 + random.below(len_max));
        let check = Check::Sum(content::sum(&body));
        let plan = Plan::get(random, host, 1);
        Plan { method: Method::POST, target: "/sum".to_owned(), body: body.into(), check, ..plan }
    }

    /// One of some hundreds of contents, of which memory holds a part, and the disk another one.
    fn cached(random: &mut Random) -> Plan {
        let key = random.below(400) as u64;
        let len = (content::mixed(key) % 60_000) as usize;
        let check = Check::Cached { key, len };
        Plan { target: format!("/cached/{key}/{len}"), check, ..Plan::get(random, CACHE, 1) }
    }

    /// With the right token or a wrong one.
    fn guarded(random: &mut Random) -> Plan {
        let plan = Plan::get(random, AUTH, 1_000);
        if random.once_in(2) {
            return Plan { headers: vec![("authorization", TOKEN.to_owned())], ..plan };
        }
        let wrong = ["Bearer wrong", "Basic cmlnaHQ6", "right"][random.below(3)].to_owned();
        Plan { headers: vec![("authorization", wrong)], check: Check::Denied, ..plan }
    }

    fn extra(random: &mut Random) -> Plan {
        let number = random.below(EXTRAS);
        let plan = Plan::get(random, EXTRA, 1_000);
        let Check::Content { key, len } = plan.check else { return plan };
        Plan { name: extra_host(number), check: Check::Extra { number, key, len }, ..plan }
    }
}
