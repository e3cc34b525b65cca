//! Regular expressions that take too many steps: nothing is decided by them.

use std::sync::Arc;

use model::template::{Template, Variable};
use model::{
    Action, Block, Check, DirectResponse, Expression, ListedValue, PathMatch, RequestFilter, RequestFilters,
    Return, ReturnContent, Rewrite, Script, Step, Test, ValueMap,
};

use super::{await_fault, route};
use crate::world::{World, web};

/// Looks ahead at each letter, so that a long run of them takes more steps back than there may be.
const LONG: &str = "(?:(?=a)a|a)*c";

fn costly() -> Expression {
    Expression::anywhere(&format!("^/{LONG}")).unwrap()
}

fn get() -> String {
    format!("GET /{} HTTP/1.1\r\nHost: web.test\r\n\r\n", "a".repeat(4000))
}

fn responds(body: &str) -> Action {
    Action::Respond(Box::new(DirectResponse::new(200, body)))
}

/// The answer of an open route, before which something has to be found out.
fn asked(world: &World) -> u16 {
    let status = world.http_client().ask(&get()).status;
    if status == 500 {
        await_fault(world, "expression_steps");
    }
    status
}

#[test]
fn no_later_route_takes_the_request() {
    let world = World::http(&[], |model| {
        route(model, |route| route.action = responds("open"));
        web(model, |host| {
            let mut guarded = (*host.routes[0]).clone();
            guarded.path = PathMatch::regex(&format!("/{LONG}")).unwrap();
            guarded.action = Action::Respond(Box::new(DirectResponse::new(403, "")));
            host.routes.insert(0, Arc::new(guarded));
        });
    });
    assert_eq!(asked(&world), 500);
    let ask = |path: &str| world.http_client().ask(&get().replace(&"a".repeat(4000), path)).status;
    assert_eq!((ask("aac"), ask("aab")), (403, 200));
}

#[test]
fn a_filter_does_not_pass_it_on_as_it_is() {
    let world = World::http(&[], |model| {
        let target = Template::parse("/$1").unwrap();
        let rewrite =
            RequestFilter::Rewrite(Box::new(Rewrite { pattern: costly(), target, redirects: false }));
        route(model, |route| {
            route.action = responds("open");
            route.request_filters = RequestFilters::new(vec![rewrite]).unwrap();
        });
    });
    assert_eq!(asked(&world), 500);
}

/// A route that a snippet guards by this condition: where it holds, the answer is 403.
fn guarded_by(subject: Template, check: Check, is_negated: bool) -> World {
    World::http(&[], |model| {
        let answer = Step::Return(Return { status: 403, content: ReturnContent::Nothing });
        let block = Block { steps: vec![answer], ..Block::default() };
        let steps = vec![Step::If(Test { subject, check, is_negated }, block)];
        let script =
            Script { route: Some(Arc::new(Block { steps, ..Block::default() })), ..Script::default() };
        route(model, |route| {
            route.action = responds("open");
            route.script = Some(Box::new(script));
        });
    })
}

#[test]
fn conditions_of_snippets_neither_hold_nor_fail() {
    let uri = || Template::parse("$uri").unwrap();
    assert_eq!(asked(&guarded_by(uri(), Check::Matches(costly()), false)), 500);
    assert_eq!(asked(&guarded_by(uri(), Check::Matches(costly()), true)), 500);
}

#[test]
fn neither_does_the_value_of_a_table() {
    let text = |text| Template::parse(text).unwrap();
    let map = ValueMap::new(text("$uri"), [].into(), vec![(costly(), text("1"))], text("0"));
    let mapped = || Template::from(Variable::Mapped(Arc::new(map.clone())));
    assert_eq!(asked(&guarded_by(mapped(), Check::IsTrue, false)), 500);
    assert_eq!(asked(&guarded_by(mapped(), Check::Equals(text("0")), true)), 500);
}

#[test]
fn the_access_log_leaves_no_such_request_out() {
    let world = World::http(&[], |model| {
        route(model, |route| route.action = responds("open"));
        model.settings.access_log.skip = vec![ListedValue::Pattern(costly())];
    });
    assert_eq!(asked(&world), 200);
    assert!(world.stop().contains("aaaa"));
}
