use model::{RolloutShare, RolloutStep, RolloutStop};

use super::*;

const START: Duration = Duration::from_secs(1_800_000_000);

fn plan(name: &str, run: &str) -> Arc<Rollout> {
    let step = |percent: u32, seconds: Option<u64>| RolloutStep {
        share: RolloutShare::of_ten_thousand(percent * 100),
        lasts: seconds.map(Duration::from_secs),
    };
    Arc::new(Rollout {
        name: name.into(),
        run: run.into(),
        steps: [step(5, Some(600)), step(25, Some(600)), step(100, None)].into(),
        stop: Some(RolloutStop {
            errors: Some(RolloutShare::of_ten_thousand(100)),
            p99_thousandths: None,
            requests_min: 20,
        }),
    })
}

fn after(seconds: u64) -> Duration {
    START + Duration::from_secs(seconds)
}

fn outcome(is_error: bool) -> RolloutOutcome {
    RolloutOutcome { is_error, time: Some(Duration::from_millis(3)) }
}

/// Runs that follow one plan from the start on.
fn running(plan: &Arc<Rollout>) -> (Rollouts, Arc<Run>) {
    let rollouts = Rollouts::default();
    rollouts.follow([plan].into_iter(), START);
    let run = rollouts.run(plan).unwrap();
    (rollouts, run)
}

/// Has a canary fail until it is stopped.
fn fail(rollouts: &Rollouts, run: &Run, now: Duration) {
    for _ in 0..1000 {
        run.note(false, outcome(false));
    }
    for _ in 0..20 {
        run.note(true, outcome(true));
    }
    rollouts.tick(now);
    // The mainline's next requests are well.
    for _ in 0..10 {
        run.note(false, outcome(false));
    }
    rollouts.tick(now);
}

#[test]
fn the_share_grows_with_the_steps() {
    let plan = plan("default/web", "1");
    let (rollouts, run) = running(&plan);
    let shares = [0, 599, 600, 1199, 1200, 90_000].map(|seconds| {
        rollouts.tick(after(seconds));
        run.share().to_string()
    });
    assert_eq!(shares, ["5%", "5%", "25%", "25%", "100%", "100%"]);
    let news: Vec<_> = rollouts.take_news().iter().map(|(what, status)| (*what, status.step)).collect();
    assert_eq!(news, [0, 1, 2].map(|step| (RolloutNews::Step, step)));
    assert_eq!(rollouts.status(after(90_000))[0].state, RolloutState::Complete);
}

#[test]
fn a_canary_that_fails_goes_back_to_nothing_and_stays_there() {
    let plan = plan("default/web", "1");
    let (rollouts, run) = running(&plan);
    rollouts.tick(after(700));
    let version = rollouts.version();
    fail(&rollouts, &run, after(701));
    assert!(run.is_stopped() && run.share() == RolloutShare::NONE && rollouts.version() > version);
    let status = &rollouts.status(after(702))[0];
    assert_eq!((status.state, status.step), (RolloutState::Stopped, 1));
    assert!(status.in_words().starts_with("stopped in step 2 of 3: 100.0 % of its requests fail, "));
    assert_eq!(rollouts.take_news().last().unwrap().0, RolloutNews::Stopped);
    rollouts.tick(after(90_000));
    assert_eq!(run.share(), RolloutShare::NONE);
    // The same object again changes nothing; another identity begins anew.
    rollouts.follow([&plan].into_iter(), after(90_000));
    assert!(Arc::ptr_eq(&rollouts.run(&plan).unwrap(), &run));
    let next = self::plan("default/web", "2");
    rollouts.follow([&next].into_iter(), after(90_000));
    assert!(rollouts.run(&plan).is_none());
    assert_eq!(rollouts.run(&next).unwrap().share().to_string(), "5%");
}

#[test]
fn another_process_goes_on_where_the_first_one_was() {
    let plan = plan("default/web", "1");
    let (first, run) = running(&plan);
    let second = Rollouts::held();
    second.follow([&plan].into_iter(), after(650));
    let held = second.run(&plan).unwrap();
    assert_eq!(held.share(), RolloutShare::NONE, "it does not know yet whether it was stopped");
    second.merge(first.kept(), after(650));
    assert_eq!(held.share().to_string(), "25%");
    first.tick(after(651));
    fail(&first, &run, after(651));
    for _ in 0..2 {
        second.merge(first.kept(), after(652));
        assert!(held.is_stopped() && held.share() == RolloutShare::NONE);
    }
    assert_eq!(second.kept(), first.kept());
    let news: Vec<_> = second.take_news().into_iter().map(|(what, _)| what).collect();
    assert_eq!(news, [RolloutNews::Stopped], "it is told once");
    // A third one reads the states before it has the configuration.
    let third = Rollouts::held();
    third.merge(second.kept(), after(660));
    third.follow([&plan].into_iter(), after(660));
    assert!(third.run(&plan).unwrap().is_stopped() && third.take_news().is_empty());
    // States of another run of the same object mean nothing.
    let next = self::plan("default/web", "2");
    let (fourth, run) = running(&next);
    fourth.merge(third.kept(), after(661));
    assert!(!run.is_stopped());
}

#[test]
fn a_stop_that_is_heard_counts_at_once() {
    let plan = plan("default/web", "1");
    let (first, run) = running(&plan);
    first.tick(after(1));
    fail(&first, &run, after(1));
    let second = Rollouts::held();
    second.follow([&plan].into_iter(), after(1));
    let held = second.run(&plan).unwrap();
    for _ in 0..2 {
        second.hear(first.kept(), after(1));
        assert!(held.is_stopped());
    }
    let news: Vec<_> = second.take_news().into_iter().map(|(what, _)| what).collect();
    assert_eq!(news, [RolloutNews::Stopped], "it is told once");
    let next = self::plan("default/web", "2");
    let (third, run) = running(&next);
    third.hear(first.kept(), after(2));
    assert!(!run.is_stopped(), "it is the stop of another run");
}

#[test]
fn states_that_do_not_come_hold_canaries_back_for_a_bounded_time() {
    let plan = plan("default/web", "1");
    let rollouts = Rollouts::held();
    rollouts.follow([&plan].into_iter(), START);
    let run = rollouts.run(&plan).unwrap();
    let shares = [59, 60].map(|seconds| {
        rollouts.tick(after(seconds));
        run.share().to_string()
    });
    assert_eq!(shares, ["0%", "5%"]);
}

#[test]
fn a_canary_that_is_removed_is_forgotten() {
    let plan = plan("default/web", "1");
    let (rollouts, _) = running(&plan);
    rollouts.follow(std::iter::empty(), after(1));
    assert!(rollouts.is_empty() && rollouts.kept().is_empty() && rollouts.run(&plan).is_none());
    rollouts.follow([&plan].into_iter(), after(5000));
    assert_eq!(rollouts.run(&plan).unwrap().share().to_string(), "5%");
}
