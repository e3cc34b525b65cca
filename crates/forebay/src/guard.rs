//! Measures once a second the resources that this process is short of, and orders the reactions: the data
//! plane reads no files. Unused memory is given back to the system at the same time.

use std::io;
use std::time::Duration;

use doctor::Usage;
use doctor::collect::UsageReader;
use model::overload::Mode;
use observe::{GuardFigure, Registry, Shortage};
use proxy::guard::{Change, Guard, GuardHandle, Pressure, Relief};

use crate::allocator::give_back_unused;

const EVERY: Duration = Duration::from_secs(1);

/// Starts the thread, which ends when the workers have.
pub(crate) fn spawn(handle: GuardHandle) -> io::Result<()> {
    let run = move || {
        let mut watch = Watch::new(handle);
        while !watch.handle.is_over() {
            std::thread::sleep(EVERY);
            watch.look();
            give_back_unused();
        }
    };
    std::thread::Builder::new().name("guard".to_owned()).spawn(run).map(drop)
}

struct Watch {
    handle: GuardHandle,
    reader: UsageReader,
    before: Option<Usage>,
    guard: Guard,
}

impl Watch {
    fn new(handle: GuardHandle) -> Self {
        Self { handle, reader: UsageReader::default(), before: None, guard: Guard::default() }
    }

    fn look(&mut self) {
        let mode = self.handle.mode();
        if mode == Mode::Off {
            return self.forget();
        }
        let usage = self.reader.read(&self.handle.ports());
        let lag = self.handle.worst_lag();
        let ports = self.handle.registry().ports_in_use_max();
        let pressure = pressure(self.before.as_ref(), &usage, lag, ports);
        self.before = Some(usage);
        let changes = self.guard.note(&pressure);
        // The metrics say the same by the time that the log does.
        show(self.handle.registry(), &pressure, &self.guard);
        for change in changes {
            tell(change, mode);
        }
        let relief = self.guard.relief();
        self.handle.order(if mode == Mode::Enforce { relief } else { relief.watched() });
    }

    fn forget(&mut self) {
        if self.before.take().is_some() {
            self.guard = Guard::default();
            show(self.handle.registry(), &Pressure::default(), &self.guard);
            self.handle.order(Relief::default());
        }
    }
}

fn pressure(before: Option<&Usage>, now: &Usage, lag: Duration, ports: u64) -> Pressure {
    let mut pressure = Pressure::default();
    let of_ports = now.port_range.map(|range| ports as f64 / range.max(1) as f64);
    for (of, share) in [
        (Shortage::CpuThrottled, before.and_then(|before| now.throttled_since(before))),
        (Shortage::CpuStalled, before.and_then(|before| now.stalled_since(before))),
        (Shortage::Memory, now.memory),
        (Shortage::Descriptors, now.descriptors),
        (Shortage::Ports, of_ports),
        (Shortage::AcceptQueue, now.accept_queue),
        (Shortage::LoopLag, Some(lag.as_secs_f64())),
    ] {
        pressure.set(of, share.map(permille));
    }
    pressure
}

#[expect(clippy::cast_sign_loss, reason = "a share is not below zero")]
fn permille(share: f64) -> u16 {
    (share * 1000.0).clamp(0.0, f64::from(u16::MAX - 1)) as u16
}

fn show(registry: &Registry, pressure: &Pressure, guard: &Guard) {
    for &of in Shortage::ALL {
        registry.set_shortage(of, GuardFigure { permille: pressure.of(of), level: guard.level(of) });
    }
}

/// One line when it begins, and one when it is over; levels in between are in the metrics.
fn tell(change: Change, mode: Mode) {
    let Change { of, from, to, permille } = change;
    let (of, percent) = (of.name(), f64::from(permille) / 10.0);
    let watches = mode == Mode::Watch;
    match (from, to) {
        (0, level) if watches => {
            tracing::warn!(
                of,
                percent,
                level,
                "this process is short of something; nothing is done, since forebay-guard is watch"
            );
        }
        (0, level) => tracing::warn!(
            of,
            percent,
            level,
            "this process is short of something: its work is eased, and requests may be refused"
        ),
        (_, 0) => tracing::info!(of, percent, "this process is short of it no more"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_thousandths() {
        let (before, mut now) = (Usage::default(), Usage::default());
        now.memory = Some(0.8501);
        now.port_range = Some(1000);
        let pressure = pressure(Some(&before), &now, Duration::from_millis(70), 250);
        assert_eq!(pressure.of(Shortage::Memory), Some(850));
        assert_eq!(pressure.of(Shortage::Ports), Some(250));
        assert_eq!(pressure.of(Shortage::LoopLag), Some(70));
        assert_eq!(pressure.of(Shortage::CpuThrottled), None);
        assert_eq!(permille(1e9), u16::MAX - 1);
    }
}
