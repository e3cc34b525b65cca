//! The head of an ELF program: its machine, and whether it needs a loader and libraries.
//!
//! Must not be in here: programs of 32 bits or other byte orders, which nobody ships.

use anyhow::{Context, Result, bail, ensure};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Architecture as Machine, LittleEndian, Object as _};

use super::architecture::Architecture;

const MAGIC: &[u8] = b"\x7fELF";

/// A program for Linux.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Elf {
    /// The machine that it is for.
    pub(crate) architecture: Architecture,
    /// The loader that it asks for; `None` if it is static.
    pub(crate) interpreter: Option<String>,
}

impl Elf {
    /// Reads the head of a program.
    pub(crate) fn parse(program: &[u8]) -> Result<Elf> {
        ensure!(program.starts_with(MAGIC), "not a program for Linux");
        let file = ElfFile64::<LittleEndian>::parse(program).context("not a program of 64 bits")?;
        let architecture = match file.architecture() {
            Machine::X86_64 => Architecture::Amd64,
            Machine::Aarch64 => Architecture::Arm64,
            other => bail!("a program for {other:?}, which is neither x86-64 nor AArch64"),
        };
        let mut interpreter = None;
        for segment in file.elf_program_headers() {
            if let Some(path) = segment.interpreter(LittleEndian, program)? {
                interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
        }
        Ok(Elf { architecture, interpreter })
    }
}

#[cfg(test)]
mod tests {
    use object::elf::{EM_AARCH64, EM_X86_64, PT_INTERP};

    use super::*;

    /// A head with one segment.
    fn program(machine: u16, segment: u32) -> Vec<u8> {
        let mut program = vec![0; 64 + 56];
        program[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        program[18..20].copy_from_slice(&machine.to_le_bytes());
        program[32] = 64;
        program[54] = 56;
        program[56] = 1;
        program[64..68].copy_from_slice(&segment.to_le_bytes());
        program[72] = 120;
        program[96] = 8;
        program.extend(b"/lib/ld\0");
        program
    }

    #[test]
    fn a_static_program_asks_for_no_loader() {
        let elf = Elf::parse(&program(EM_AARCH64, 1)).unwrap();
        assert_eq!(elf, Elf { architecture: Architecture::Arm64, interpreter: None });
        let elf = Elf::parse(&program(EM_X86_64, PT_INTERP)).unwrap();
        assert_eq!(elf.interpreter.as_deref(), Some("/lib/ld"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = |program: &[u8]| Elf::parse(program).unwrap_err().to_string();
        assert_eq!(error(b"#!/bin/sh"), "not a program for Linux");
        assert_eq!(error(b"\x7fELF\x01\x01"), "not a program of 64 bits");
        assert!(error(&program(40, 1)).contains("neither x86-64 nor AArch64"));
        let whole = program(EM_X86_64, PT_INTERP);
        for length in 6..whole.len() {
            // Cut anywhere, it is an error or a program, never a panic.
            let _ = Elf::parse(&whole[..length]);
        }
        assert_eq!(error(&whole[..100]), "not a program of 64 bits");
    }
}
