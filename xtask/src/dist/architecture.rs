//! The kinds of machines that binaries are made for.

use strum::IntoStaticStr;

/// A kind of machine, as container images and Debian call it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, IntoStaticStr, clap::ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Architecture {
    /// `amd64` in Debian's and Go's words.
    Amd64,
    /// `arm64` in Debian's and Go's words.
    Arm64,
}

impl Architecture {
    /// All that binaries are made for.
    pub(crate) const ALL: [Architecture; 2] = [Architecture::Amd64, Architecture::Arm64];

    /// Its name in images, packages and file names.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Its name in targets of Rust and C.
    pub(super) fn machine(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// Whether it is this machine's.
    pub(crate) fn is_native(self) -> bool {
        self.machine() == std::env::consts::ARCH
    }
}
