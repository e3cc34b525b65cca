//! The metrics about shortages of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::encode::{Page, labels, sum};
use super::names;
use super::registry::Registry;
use super::worker_cells::WorkerCells;
use super::{Counter, Shortage};

impl Registry {
    pub(super) fn encode_guard(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        let of = |shortage: Shortage| labels(&[("of", shortage.name())]);
        page.family(&names::GUARD_PRESSURE);
        for (shortage, cells) in self.guard.all() {
            if let Some(permille) = cells.permille() {
                page.sample(names::GUARD_PRESSURE.name, &of(shortage), permille as f64 / 1000.0);
            }
        }
        page.family(&names::GUARD_LEVEL);
        for (shortage, cells) in self.guard.all() {
            page.sample(names::GUARD_LEVEL.name, &of(shortage), cells.level.load(Ordering::Relaxed));
        }
        page.family(&names::GUARD_TURNS);
        for (shortage, cells) in self.guard.all() {
            page.sample(names::GUARD_TURNS.name, &of(shortage), cells.turned_on.load(Ordering::Relaxed));
        }
        page.family(&names::GUARD_SHED);
        for (priority, mode, counter) in [
            ("normal", "enforce", Counter::GuardShedNormal),
            ("sheddable", "enforce", Counter::GuardShedSheddable),
            ("normal", "watch", Counter::GuardWouldShedNormal),
            ("sheddable", "watch", Counter::GuardWouldShedSheddable),
        ] {
            let labels = labels(&[("priority", priority), ("mode", mode)]);
            page.sample(names::GUARD_SHED.name, &labels, sum(workers, |worker| worker.counter(counter)));
        }
        page.family(&names::GUARD_SPARE);
        let spare = sum(workers, |worker| worker.counter(Counter::SpareDescriptor));
        page.sample(names::GUARD_SPARE.name, "", spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{GuardFigure, MetricsOptions, Process};

    fn page(registry: &Registry) -> String {
        let mut text = String::new();
        registry.encode(&Process::default(), &mut text);
        text
    }

    #[test]
    fn a_shortage_is_shown_while_it_lasts_and_counted_once() {
        let registry = Registry::new(MetricsOptions::default());
        let set = |permille, level| {
            registry.set_shortage(Shortage::Memory, GuardFigure { permille, level });
        };
        assert!(!page(&registry).contains("forebay_guard_pressure_ratio{"), "nothing was measured");
        for level in [1, 2, 1] {
            set(Some(850), level);
        }
        let text = page(&registry);
        assert!(text.contains("forebay_guard_pressure_ratio{of=\"memory\"} 0.85\n"), "{text}");
        assert!(text.contains("forebay_guard_level{of=\"memory\"} 1\n"), "{text}");
        assert!(text.contains("forebay_guard_turned_on_total{of=\"memory\"} 1\n"), "{text}");
        set(Some(0), 0);
        set(None, 2);
        let text = page(&registry);
        assert!(text.contains("forebay_guard_turned_on_total{of=\"memory\"} 2\n"), "{text}");
        assert!(!text.contains("forebay_guard_pressure_ratio{of=\"memory\"}"), "{text}");
    }
}
