//! One system call, on both architectures.

/// A system call and its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) x86_64: u32,
    /// Newer architectures never had the older ways of doing the same.
    pub(super) aarch64: Option<u32>,
}

/// A call that both architectures have.
pub(super) const fn both(name: &'static str, x86_64: u32, aarch64: u32) -> Call {
    Call { name, x86_64, aarch64: Some(aarch64) }
}

/// A call that only the older architecture has.
pub(super) const fn x86(name: &'static str, x86_64: u32) -> Call {
    Call { name, x86_64, aarch64: None }
}

/// A kind of processor, as the kernel names it to filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// The one this program runs on.
    pub(super) const OWN: Self =
        if cfg!(target_arch = "x86_64") { Self::X86_64 } else { Self::Aarch64 };

    /// `AUDIT_ARCH_…` of the kernel. A 32-bit entry point of the same processor has another.
    pub(super) const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// The number of a call, where there is one.
    pub(super) const fn number(self, call: &Call) -> Option<u32> {
        match self {
            Self::X86_64 => Some(call.x86_64),
            Self::Aarch64 => call.aarch64,
        }
    }
}
