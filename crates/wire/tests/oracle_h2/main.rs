//! The `h2` crate as an oracle for `wire::h2`: random conversations with it at either end, in which all that
//! comes out at the far end has to be what was put in.

mod ours;
mod plan;
mod theirs;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use plan::{Break, End, Exchange, Got, Plan, plan};

/// The longest time of one conversation. None comes near it unless both ends wait for each other.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Messages that have come out of a conversation, by exchange.
#[derive(Clone, Default)]
struct Outcome {
    requests: Arc<Mutex<Vec<(usize, Got)>>>,
    responses: Arc<Mutex<Vec<(usize, Got)>>>,
}

fn note(list: &Mutex<Vec<(usize, Got)>>, index: usize, got: Got) {
    list.lock().unwrap().push((index, got));
}

fn found(list: &Mutex<Vec<(usize, Got)>>, index: usize) -> Got {
    let list = list.lock().unwrap();
    let mut all = list.iter().filter(|(one, _)| *one == index);
    let (_, got) = all.next().unwrap_or_else(|| panic!("nothing came of exchange {index}"));
    assert!(all.next().is_none(), "exchange {index} came twice");
    got.clone()
}

fn run(plan: Plan, we_serve: bool) {
    let plan = Arc::new(plan);
    let outcome = Outcome::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (one, other) = tokio::io::duplex(plan.pipe_bytes);
        let (ours, theirs) = (outcome.clone(), outcome.clone());
        let both = async {
            if we_serve {
                tokio::join!(ours::serve(one, &plan, ours), theirs::ask_all(other, &plan, theirs));
            } else {
                tokio::join!(ours::ask_all(one, &plan, ours), theirs::serve(other, &plan, theirs));
            }
        };
        tokio::time::timeout(TIMEOUT, both).await.expect("an end of the conversation");
    });
    for (index, exchange) in plan.exchanges.iter().enumerate() {
        check(index, exchange, &outcome);
    }
}

fn check(index: usize, exchange: &Exchange, outcome: &Outcome) {
    let (request, response) = (found(&outcome.requests, index), found(&outcome.responses, index));
    let (sent, answer) = (&exchange.request, &exchange.response);
    assert_eq!(request.fields, sent.sorted_fields(), "fields of request {index}");
    assert!(sent.bytes(index).starts_with(&request.content), "content of request {index}");
    match exchange.breaks {
        Break::Never => {
            assert_eq!((request.end, response.end), (End::Whole, End::Whole), "exchange {index}");
            assert_eq!((response.status, response.interim), (exchange.status, exchange.interim));
            assert_eq!(response.fields, answer.sorted_fields(), "fields of response {index}");
            assert!(sent.bytes(index) == request.content, "content of request {index}");
            assert!(answer.bytes(index) == response.content, "content of response {index}");
            assert_eq!(request.trailers, sent.trailers, "trailers of request {index}");
            assert_eq!(response.trailers, answer.trailers, "trailers of response {index}");
        }
        Break::ByServer(_) => {
            assert_eq!(response.end, End::Reset(CANCEL), "exchange {index}");
            assert_eq!((response.status, response.content.len()), (0, 0));
        }
        Break::ByClient(_) => {
            assert_eq!(response.status, exchange.status);
            assert_eq!(response.fields, answer.sorted_fields());
            assert!(answer.bytes(index).starts_with(&response.content), "content of response {index}");
            assert!(matches!(request.end, End::Whole | End::Reset(CANCEL)), "{request:?}");
        }
    }
}

/// The code of all resets here.
const CANCEL: u32 = 8;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn our_server_and_its_client_understand_each_other(plan in plan()) {
        run(plan, true);
    }

    #[test]
    fn our_client_and_its_server_understand_each_other(plan in plan()) {
        run(plan, false);
    }
}
