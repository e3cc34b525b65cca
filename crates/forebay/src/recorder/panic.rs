//! The last words of a thread that panics.

use std::panic::{self, Location, PanicHookInfo};
use std::sync::Arc;

use observe::Registry;
use record::{Event, Recorder, kind};

use super::note;

/// Counts and records each panic, and then does what was done before. The message stays out of the record: it
/// may quote a part of a request. The log has it.
pub(super) fn hook(recorder: &Arc<Recorder>, registry: &Arc<Registry>) {
    let before = panic::take_hook();
    let (recorder, registry) = (Arc::clone(recorder), Arc::clone(registry));
    panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        registry.count_panic();
        recorder.last_words(&event(info.location()));
        before(info);
    }));
}

fn event(place: Option<&Location<'_>>) -> Event {
    let thread = std::thread::current();
    let object = thread.name().unwrap_or("a thread without a name").to_owned();
    let text = match place {
        Some(place) => format!("the thread {object} panicked at {}:{}", place.file(), place.line()),
        None => format!("the thread {object} panicked"),
    };
    note::event(kind::PANIC, &object, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_place_and_not_by_its_message() {
        let told = event(Some(Location::caller()));
        assert_eq!(told.kind, kind::PANIC);
        assert!(told.text.contains("panicked at ") && told.text.contains("panic.rs:"), "{}", told.text);
    }
}
