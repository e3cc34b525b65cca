//! An attack, its cases, and the report of a find.
//!
//! Attacks panic where the proxy misbehaves, as tests do. Each case of a generator is repeated by seed, name
//! and number. Must not be in here: how bytes are made.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Random;
use crate::escape::Escaped;

/// An attack with its name and its kind.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Name by which the attack is selected.
    pub name: &'static str,
    /// How many of its cases are played where no duration is given; 0 for an attack that has no generator.
    pub cases: u64,
    /// Runs the attack.
    pub play: fn(&Run),
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// From which all random numbers come.
    pub seed: u64,
    /// For how long each generator goes on.
    pub duration: Option<Duration>,
    /// The one case that is wanted.
    pub case: Option<u64>,
}

/// An attack while it is played.
#[derive(Debug)]
pub struct Run {
    attack: Attack,
    options: Options,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    finds: Vec<String>,
    cases: u64,
}

/// A case of a generator.
#[derive(Debug)]
pub struct Case {
    /// Number of the case.
    pub number: u64,
    /// Its random numbers.
    pub random: Random,
    sent: Vec<u8>,
}

/// The result of an attack.
#[derive(Debug)]
pub struct Outcome {
    /// The finds, in words.
    pub finds: Vec<String>,
    /// Cases that were played.
    pub cases: u64,
    /// How long it took.
    pub time: Duration,
}

/// Further finds are likely to be the same one.
const FINDS_MAX: usize = 3;

/// The names of threads that play attacks begin so; what they panic with becomes part of a find.
pub const THREAD: &str = "attack ";

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the words of panics of attacks for [`Run`]; those of other threads are printed as ever.
pub fn keep_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with(THREAD)) {
            LAST_PANIC.with_borrow_mut(|last| *last = info.to_string());
        } else {
            usual(info);
        }
    }));
}

impl Attack {
    /// Plays it to its end.
    pub fn run(self, options: &Options) -> Outcome {
        let begun = Instant::now();
        let run = Run { attack: self, options: options.clone(), told: Mutex::default() };
        let result = catch_unwind(AssertUnwindSafe(|| (self.play)(&run)));
        if let Err(payload) = result {
            run.find(None, &*payload);
        }
        let told = run.told.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Told { finds, cases } = told;
        Outcome { finds, cases, time: begun.elapsed() }
    }
}

impl Run {
    /// Runs case after case: up to the number or the time of the options, or only the selected one.
    pub fn each(&self, mut play: impl FnMut(&mut Case)) {
        let begun = Instant::now();
        let first = self.options.case.unwrap_or(0);
        for number in first.. {
            if self.is_enough(number, begun) {
                return;
            }
            let random = Random::of_case(self.options.seed, self.attack.name, number);
            let mut case = Case { number, random, sent: Vec::new() };
            let result = catch_unwind(AssertUnwindSafe(|| play(&mut case)));
            self.told(|told| told.cases += 1);
            if let Err(payload) = result {
                self.find(Some(&case), &*payload);
            }
        }
    }

    /// Random numbers of an attack that has no cases.
    pub fn random(&self) -> Random {
        Random::of_case(self.options.seed, self.attack.name, 0)
    }

    /// Records what cannot be done here.
    pub fn pass_over(&self, what: impl AsRef<str>) {
        testkit::left_out(&format!("{THREAD}{}", self.attack.name), what.as_ref());
    }

    fn is_enough(&self, number: u64, begun: Instant) -> bool {
        let finds = self.told(|told| told.finds.len());
        let is_over = match (self.options.case, self.options.duration) {
            (Some(wanted), _) => number > wanted,
            (None, Some(duration)) => begun.elapsed() >= duration,
            (None, None) => number >= self.attack.cases,
        };
        is_over || finds >= FINDS_MAX
    }

    fn find(&self, case: Option<&Case>, payload: &(dyn Any + Send)) {
        let Options { seed, .. } = self.options;
        let name = self.attack.name;
        let mut text = String::new();
        let mut repeat = format!("cargo xtask adversary --seed {seed} --only {name}");
        if let Some(case) = case {
            let _ = writeln!(text, "  case {} of seed {seed}", case.number);
            let _ = writeln!(text, "  sent: {}", Escaped(&case.sent));
            let _ = write!(repeat, " --case {}", case.number);
        }
        let _ = writeln!(text, "  found: {}", words(payload));
        let _ = write!(text, "  repeat: {repeat}");
        self.told(|told| told.finds.push(text));
    }

    fn told<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Case {
    /// Notes what is sent, for a find. Sent as it is, bytes may follow others.
    pub fn sends(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
    }
}

/// The message of the panic, with its position in the source.
fn words(payload: &(dyn Any + Send)) -> String {
    let kept = LAST_PANIC.with_borrow_mut(std::mem::take);
    if !kept.is_empty() {
        return kept;
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options { seed: 5, duration: None, case: None };

    fn odd_cases_fail(run: &Run) {
        run.each(|case| {
            case.sends(b"GET\r\n");
            assert_eq!(case.number % 2, 0, "even numbers were expected");
        });
    }

    #[test]
    fn a_find_tells_how_it_is_repeated() {
        let attack = Attack { name: "odd", cases: 2, play: odd_cases_fail };
        let outcome = attack.run(&OPTIONS);
        assert_eq!((outcome.cases, outcome.finds.len()), (2, 1));
        let find = &outcome.finds[0];
        assert!(find.contains("sent: b\"GET\\r\\n\""), "{find}");
        assert!(find.ends_with("repeat: cargo xtask adversary --seed 5 --only odd --case 1"), "{find}");
    }

    #[test]
    fn one_case_is_played_alone() {
        let attack = Attack { name: "odd", cases: 2, play: odd_cases_fail };
        let outcome = attack.run(&Options { case: Some(7), ..OPTIONS });
        assert_eq!((outcome.cases, outcome.finds.len()), (1, 1));
    }
}
