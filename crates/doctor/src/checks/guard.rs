//! Shortages of Forebay itself, as its own guard reports them.

use super::contention::contention;
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::whole;
use crate::read::metrics::{GUARD_LEVEL, GUARD_SPARE, GUARD_TURNS, Pages};
use crate::read::prometheus;
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::{Text, say};

/// The level from which on requests are refused where the guard enforces.
const SHEDS: f64 = 2.0;
/// The resources that a process is short of where threads wait for CPUs, as a label's values.
const OF_CPU: &[&str] = &["cpu_stalled", "loop_lag", "accept_queue"];

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "guard",
    category: "guard",
    what: "Forebay itself has too little CPU time, memory, descriptors or ports, so that it responds late or refuses requests",
    how: "forebay_guard_level by resource: level 1 is a warning, level 2 a failure; so are connections without a file descriptor (forebay_guard_spare_descriptor_total)",
    severity: Verdict::Failure,
    remedy: "more of the resource, or more replicas (docs/guard.md); `forebay-guard: enforce` serves critical requests first meanwhile",
    case: "E",
    look: guard,
}];

fn guard(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let short: Vec<_> = prometheus::named(pages.last(), GUARD_LEVEL)
        .filter(|series| series.value > 0.0)
        .filter_map(|series| Some((series.label("of")?.into_owned(), series.value)))
        .collect();
    let was_short: Vec<_> =
        pages.growth_by(GUARD_TURNS, "of").into_iter().filter(|(_, times)| *times > 0.0).collect();
    let refused = pages.growth(GUARD_SPARE);
    let Some(refused) = refused else {
        return Err(Unknown(say!("the proxy's metrics tell of no guard")));
    };
    let now = names(short.iter().map(|(of, _)| of.as_str()));
    // Threads of others that want the CPUs are a reason for these alone.
    let is_of_cpu = short.iter().chain(&was_short).any(|(of, _)| OF_CPU.contains(&of.as_str()));
    let contention = contention(samples).filter(|_| is_of_cpu);
    let beside = |message: Text| contention.map_or(message.clone(), |contention| contention.beside(&message));
    let outcome = if refused > 0.0 {
        Outcome::failure(say!(
            "{} connections were turned away since no file descriptor was left",
            whole(refused)
        ))
    } else if short.iter().any(|(_, level)| *level >= SHEDS) {
        Outcome::failure(beside(say!("this process is very short: {}", now)))
    } else if !short.is_empty() {
        Outcome::warning(beside(say!("this process is short: {}", now)))
    } else if !was_short.is_empty() {
        let before = names(was_short.iter().map(|(of, _)| of.as_str()));
        Outcome::warning(beside(say!("this process was short meanwhile: {}", before)))
    } else {
        Outcome::ok(say!("this process is short of nothing"))
    };
    let outcome = contention.into_iter().fold(outcome, |outcome, contention| contention.evident(outcome));
    let outcome =
        short.iter().fold(outcome, |outcome, (of, level)| outcome.with(format!("level_{of}"), *level));
    Ok(outcome.with("turned_away", refused))
}

/// The names of resources, one after the other.
fn names<'a>(of: impl Iterator<Item = &'a str>) -> Text {
    let mut names = Vec::new();
    for of in of {
        if !names.is_empty() {
            names.push(say!(", "));
        }
        names.push(resource(of));
    }
    names.into_iter().collect()
}

/// The name of a resource, which is a label's value.
fn resource(of: &str) -> Text {
    match of {
        "cpu_throttled" => say!("cpu throttled"),
        "cpu_stalled" => say!("cpu stalled"),
        "memory" => say!("memory"),
        "descriptors" => say!("descriptors"),
        "ports" => say!("ports"),
        "accept_queue" => say!("accept queue"),
        "loop_lag" => say!("loop lag"),
        other => Text::from(&other.replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::Verdict;
    use crate::testing::{Scene, scene};

    fn with(memory: u8, turned_on: u8, spare: u8) -> Scene {
        let page = |level: u8, turned_on: u8, spare: u8| {
            format!(
                "forebay_guard_level{{of=\"memory\"}} {level}\nforebay_guard_level{{of=\"loop_lag\"}} 0\n\
                 forebay_guard_turned_on_total{{of=\"memory\"}} {turned_on}\n\
                 forebay_guard_spare_descriptor_total {spare}\n"
            )
        };
        scene().grows("forebay/metrics", &page(0, 0, 0), &page(memory, turned_on, spare))
    }

    #[test]
    fn what_is_short_is_named() {
        let warning = with(1, 1, 0).finding("guard");
        assert_eq!((warning.verdict, &*warning.message), (Verdict::Warning, "this process is short: memory"));
        let failure = with(2, 1, 0).finding("guard");
        assert_eq!(
            (failure.verdict, &*failure.message),
            (Verdict::Failure, "this process is very short: memory")
        );
        assert!((failure.number("level_memory") - 2.0).abs() < f64::EPSILON);
        let over = with(0, 1, 0).finding("guard");
        assert_eq!(
            (over.verdict, &*over.message),
            (Verdict::Warning, "this process was short meanwhile: memory")
        );
        assert_eq!(with(0, 0, 0).finding("guard").verdict, Verdict::Ok);
    }

    #[test]
    fn a_loop_that_lags_on_a_machine_without_cpus_to_spare_says_so() {
        let page = |of: &str| {
            format!("forebay_guard_level{{of=\"{of}\"}} 1\nforebay_guard_spare_descriptor_total 0\n")
        };
        let pressure = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
        let finding = |of| {
            let scene = scene().grows("proc/pressure/cpu", &pressure(0), &pressure(4_000_000));
            scene.file("forebay/metrics", &page(of)).finding("guard")
        };
        let lag = finding("loop_lag");
        let expected = "this process is short: loop lag, while threads of this machine waited for a CPU 40 % \
                        of the time";
        assert_eq!((lag.verdict, &*lag.message), (Verdict::Warning, expected));
        assert!(lag.tells("cpu_waiting_percent", 40.0));
        assert_eq!(finding("memory").message, "this process is short: memory");
    }

    #[test]
    fn who_was_turned_away_for_a_descriptor_is_a_failure() {
        let finding = with(0, 0, 3).finding("guard");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(finding.message, "3 connections were turned away since no file descriptor was left");
    }

    #[test]
    fn another_proxy_has_no_guard() {
        let finding = scene().grows("forebay/metrics", "a 1\n", "a 2\n").finding("guard");
        assert_eq!(finding.verdict, Verdict::Unknown);
    }
}
