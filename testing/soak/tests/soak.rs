//! The soak, as a program: a minute of it in `make test`, as long as one likes in `make soak`.
//!
//! Must not be in here: anything but its start.

use std::process::ExitCode;

fn main() -> ExitCode {
    soak::main()
}
