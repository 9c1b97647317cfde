//! Whose things are meant, and how far a caller sees.

use crate::{At, Caller, Role, Tenant};

/// Which tenants' things are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenants {
    /// Everybody's: for what keeps the whole in order.
    All,
    /// Those of this one; what others have does not exist.
    Of(Tenant),
}

impl Tenants {
    /// Whether what belongs to this tenant is among them.
    #[must_use]
    pub fn include(&self, tenant: &Tenant) -> bool {
        match self {
            Self::All => true,
            Self::Of(one) => one == tenant,
        }
    }
}

/// How far a caller sees. It is never read from anything that came from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// What belongs to its tenant.
    #[default]
    Own,
    /// What belongs to any: a server that keeps house, or the owner of the state directory who asked
    /// for all of it.
    All,
}

impl Caller {
    /// A server that asks on its own behalf: it keeps house for all tenants.
    #[must_use]
    pub fn server() -> Self {
        let server = Self::of("server".to_owned(), Role::Operator).above_tenants();
        Self { at: At::Inside, ..server }
    }

    /// The same as one of this tenant.
    #[must_use]
    pub fn in_tenant(mut self, tenant: Tenant) -> Self {
        self.tenant = tenant;
        self
    }

    /// The same, seeing what belongs to any tenant. What it makes is its own tenant's all the same.
    #[must_use]
    pub fn above_tenants(mut self) -> Self {
        self.reach = Reach::All;
        self
    }

    /// Whose things exist for it.
    #[must_use]
    pub fn tenants(&self) -> Tenants {
        match self.reach {
            Reach::All => Tenants::All,
            Reach::Own => Tenants::Of(self.tenant.clone()),
        }
    }
}
