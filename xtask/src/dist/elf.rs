//! What the head of a program says: for which machine it is, and whether it needs a loader and libraries.
//!
//! Source: the ELF-64 object file format. Must not be in here: programs of 32 bits or other byte orders, which nobody ships.

use anyhow::{Context, Result, ensure};

use super::target::Architecture;

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
/// `e_machine`.
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
/// `p_type` of the segment that names the loader.
const INTERPRETER: u32 = 3;

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
        ensure!(program.get(4..6) == Some(&[CLASS_64, LITTLE_ENDIAN]), "not a program of 64 bits");
        let architecture = match u16::from_le_bytes(bytes(program, 18)?) {
            X86_64 => Architecture::Amd64,
            AARCH64 => Architecture::Arm64,
            other => anyhow::bail!("a program for machine {other}, which is neither x86-64 nor AArch64"),
        };
        let table = u64::from_le_bytes(bytes(program, 32)?) as usize;
        let (size, count) =
            (u16::from_le_bytes(bytes(program, 54)?), u16::from_le_bytes(bytes(program, 56)?));
        let mut interpreter = None;
        for index in 0..usize::from(count) {
            let segment =
                index.checked_mul(size.into()).and_then(|at| at.checked_add(table)).context(SHORT)?;
            if u32::from_le_bytes(bytes(program, segment)?) == INTERPRETER {
                let at = u64::from_le_bytes(bytes(program, segment + 8)?) as usize;
                let length = u64::from_le_bytes(bytes(program, segment + 32)?) as usize;
                let end = at.checked_add(length).context(SHORT)?;
                let path = program.get(at..end).context(SHORT)?;
                interpreter = Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned());
            }
        }
        Ok(Elf { architecture, interpreter })
    }
}

const SHORT: &str = "the program ends before its head does";

fn bytes<const N: usize>(program: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).context(SHORT)?;
    Ok(program.get(at..end).context(SHORT)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head with one segment.
    fn program(machine: u16, segment: u32) -> Vec<u8> {
        let mut program = vec![0; 64 + 56];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
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
        let elf = Elf::parse(&program(AARCH64, 1)).unwrap();
        assert_eq!(elf, Elf { architecture: Architecture::Arm64, interpreter: None });
        let elf = Elf::parse(&program(X86_64, INTERPRETER)).unwrap();
        assert_eq!(elf.interpreter.as_deref(), Some("/lib/ld"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = |program: &[u8]| Elf::parse(program).unwrap_err().to_string();
        assert_eq!(error(b"#!/bin/sh"), "not a program for Linux");
        assert_eq!(error(b"\x7fELF\x01\x01"), "not a program of 64 bits");
        assert!(error(&program(40, 1)).contains("machine 40"));
        let whole = program(X86_64, INTERPRETER);
        for length in 6..whole.len() {
            // Cut anywhere, it is an error or a program, never a panic.
            let _ = Elf::parse(&whole[..length]);
        }
        assert_eq!(error(&whole[..100]), SHORT);
    }
}
