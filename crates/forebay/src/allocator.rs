//! The allocator of the process, its options, its figures, and the return of memory to the system.
//!
//! Never in here: who uses memory, and how much of it there may be (`guard`).

use std::ffi::CStr;
use std::ptr;

use observe::HeapPages;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads at its start. A thread scans its cache of free memory after so many bytes of
/// allocations: by default after 64 KiB, which is every 24 requests, and costs each of them 1.5 %.
#[expect(unsafe_code, reason = "this is the name that jemalloc looks for, and nothing else has it")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static ALLOCATOR_OPTIONS: &[u8] = b"tcache_gc_incr_bytes:2097152\0";

/// The figures of the allocator now: numbers of pages, which it has without counting allocations.
pub(crate) fn memory() -> HeapPages {
    update();
    let page = figure(c"arenas.page");
    // 4096 stands for all arenas together (`MALLCTL_ARENAS_ALL`).
    HeapPages {
        active_bytes: figure(c"stats.arenas.4096.pactive") * page,
        dirty_bytes: figure(c"stats.arenas.4096.pdirty") * page,
    }
}

/// Makes jemalloc add up the figures of its arenas. Until the next time they stay as they are.
fn update() {
    let mut epoch = 1_u64;
    let epoch = ptr::from_mut(&mut epoch);
    #[expect(unsafe_code, reason = "jemalloc reads a number of this size from there, and writes nothing")]
    // The only error is that of a name that jemalloc does not know.
    let _ = unsafe {
        let (old, len) = (ptr::null_mut(), ptr::null_mut());
        tikv_jemalloc_sys::mallctl(c"epoch".as_ptr(), old, len, epoch.cast(), size_of::<u64>())
    };
}

/// A figure by its name. Zero for a name that jemalloc does not know.
fn figure(name: &CStr) -> u64 {
    let (mut value, mut len) = (0_usize, size_of::<usize>());
    let out = ptr::from_mut(&mut value).cast();
    #[expect(
        unsafe_code,
        reason = "jemalloc writes a number of `len` bytes, or nothing if its size is another"
    )]
    let error = unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), out, &raw mut len, ptr::null_mut(), 0) };
    if error == 0 { value as u64 } else { 0 }
}

/// Gives memory back to the system that no thread has used for ten seconds (`dirty_decay_ms`). Returns
/// whether the allocator could do so.
///
/// The allocator does this by itself only while threads allocate: a control thread that has read a large
/// configuration and then waits for changes would keep what reading it took, which may be as much as the
/// configuration.
#[expect(unsafe_code, reason = "this is how jemalloc is told to do something")]
pub(crate) fn give_back_unused() -> bool {
    /// Number 4096 stands for all arenas (`MALLCTL_ARENAS_ALL`).
    const DECAY: &CStr = c"arena.4096.decay";
    // SAFETY: the name ends in a zero, and the command takes and returns no value.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(DECAY.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0)
    };
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_until_it_is_freed() {
        // Far more than other tests use, and never touched.
        const SIZE: usize = 1 << 30;
        let half = SIZE as u64 / 2;
        let before = memory();
        let block = std::hint::black_box(Vec::<u8>::with_capacity(SIZE));
        let during = memory();
        drop(block);
        let after = memory();
        assert!(during.active_bytes > before.active_bytes + half, "{before:?}, {during:?}");
        assert!(after.active_bytes + half < during.active_bytes, "{during:?}, {after:?}");
        assert_eq!(figure(c"stats.no_such_figure"), 0);
    }

    #[test]
    fn the_allocator_knows_the_command() {
        assert!(give_back_unused());
    }
}
