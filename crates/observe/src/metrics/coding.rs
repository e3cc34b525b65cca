//! Counters of content codings, for one worker.

use super::local_counter::LocalCounter;

table! {
    /// The change to the content of a response.
    Recoding {
        "gzip" => Gzip, "It is compressed by gzip.";
        "br" => Brotli, "It is compressed by brotli.";
        "zstd" => Zstd, "It is compressed by zstd.";
        "gunzip" => Gunzip, "Gzip is taken away.";
        "unbr" => Unbrotli, "Brotli is taken away.";
        "unzstd" => Unzstd, "Zstd is taken away.";
    }
}

/// The counters of codings of one worker, their only writer.
#[derive(Debug, Default)]
pub struct CodingCells {
    pub(super) of: [Recoded; Recoding::ALL.len()],
    /// Contents without memory for a coder.
    pub(super) refused: LocalCounter,
    /// Steps by which levels are at present below those that routes request.
    pub(super) eased: LocalCounter,
}

#[derive(Debug, Default)]
pub(super) struct Recoded {
    pub(super) contents: LocalCounter,
    pub(super) read: LocalCounter,
    pub(super) written: LocalCounter,
}

impl CodingCells {
    /// Counts a content with the bytes that went in and came out.
    pub fn note(&self, what: Recoding, read: u64, written: u64) {
        let cells = &self.of[what as usize];
        cells.contents.inc();
        cells.read.add(read);
        cells.written.add(written);
    }

    /// Counts a content that stays unchanged, because no memory for a coder is available.
    pub fn note_refused(&self) {
        self.refused.inc();
    }

    /// Sets the number of steps by which levels are below those that routes request.
    pub fn set_eased(&self, steps: u8) {
        self.eased.add(u64::from(steps).wrapping_sub(self.eased.get()));
    }
}
