//! Who is asking.

use serde::{Deserialize, Serialize};

use crate::{Alias, Error, ExecId, Network, Reach, Role, Scope, Tenant, Workspace};

/// The party on whose behalf a request is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// A stable name of the party, such as `local:1000`.
    pub principal: String,
    /// Whose cells it sees: those of other tenants do not exist for it.
    #[serde(default)]
    pub tenant: Tenant,
    /// Whether it sees more than that.
    #[serde(skip)]
    pub reach: Reach,
    /// From where it asks.
    #[serde(skip)]
    pub at: At,
    /// What it is there for.
    #[serde(default)]
    pub role: Role,
    /// What it may do, never more than its role may.
    #[serde(default)]
    pub scopes: Vec<Scope>,
    /// Whether it may have the server keep house, whatever its scopes are.
    #[serde(skip)]
    pub keeps_house: bool,
    /// How it sees what has the form of a secret.
    #[serde(default)]
    pub sight: Sight,
    /// How long it waits for a person's word.
    #[serde(skip)]
    pub patience: Patience,
    /// How many runs of code lie between whoever began and this call.
    #[serde(skip)]
    pub depth: u8,
    /// The exec whose code makes the call; none where the caller makes it.
    #[serde(skip)]
    pub code_of: Option<ExecId>,
    /// What the call is known by in logs, traces and the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The cell it means when it names none; made at its first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_cell: Option<Alias>,
    /// What that cell is to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_workspace: Option<Workspace>,
    /// What that cell can reach over the network.
    #[serde(default)]
    pub default_network: Network,
}

impl Caller {
    /// The person or program that runs `hotcell` on this machine under `uid`. It may do everything:
    /// the state directory is its own.
    #[must_use]
    pub fn local(uid: u32) -> Self {
        Self { sight: Sight::Raw, at: At::Here, ..Self::of(format!("local:{uid}"), Role::Operator) }
    }

    /// A party by its name, with all that its role may do.
    #[must_use]
    pub fn of(principal: String, role: Role) -> Self {
        Self {
            principal,
            tenant: Tenant::default(),
            reach: Reach::Own,
            at: At::Served,
            role,
            scopes: role.scopes().to_vec(),
            keeps_house: false,
            sight: Sight::Masked,
            patience: Patience::UntilAnswered,
            depth: 0,
            code_of: None,
            call_id: None,
            default_cell: None,
            default_workspace: None,
            default_network: Network::None,
        }
    }

    /// The same in another role, with all that this role may do.
    #[must_use]
    pub fn in_role(mut self, role: Role) -> Self {
        self.role = role;
        self.sight = Sight::Masked;
        self.at = At::Served;
        self.scopes = role.scopes().to_vec();
        self
    }

    /// The same with a cell to mean when it names none.
    #[must_use]
    pub fn with_default_cell(mut self, alias: Alias) -> Self {
        self.default_cell = Some(alias);
        self
    }

    /// Whether it is whoever runs `hotcell` on this machine, and not somebody who is served.
    #[must_use]
    pub fn is_local_operator(&self) -> bool {
        self.role == Role::Operator && self.at == At::Here
    }

    /// The same as one that sees what has the form of a secret masked, whoever it is.
    #[must_use]
    pub fn masked(mut self) -> Self {
        self.sight = Sight::Masked;
        self
    }

    /// The same as one that sees everything as it is.
    ///
    /// # Errors
    /// It may not: that is the operator's.
    pub fn raw(mut self) -> Result<Self, Error> {
        if !self.may(Scope::Admin) {
            return Err(Error::denied(format!(
                "to see outputs as they are needs the scope {:?}, which {} has not",
                Scope::Admin.as_str(),
                self.principal
            ))
            .hint("leave out raw, or ask the operator"));
        }
        self.sight = Sight::Raw;
        Ok(self)
    }

    /// Whether it sees everything as it is.
    #[must_use]
    pub fn sees_raw(&self) -> bool {
        self.sight == Sight::Raw && self.may(Scope::Admin)
    }

    /// The same as one that may have the server keep house.
    #[must_use]
    pub fn keeping_house(mut self) -> Self {
        self.keeps_house = true;
        self
    }

    /// Whether it may do what needs this.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) && self.role.scopes().contains(&scope)
    }
}

/// How long a caller waits for a person's word on what it asks for. Commands wait in their cells
/// and are handed back as queued, whatever is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patience {
    /// Until there is one, or the deadline is over.
    #[default]
    UntilAnswered,
    /// Not at all: it is told which call is held, and asks again.
    None,
}

/// From where a caller asks. It is never read from anything that came from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum At {
    /// It runs `hotcell` on this machine, with the state directory as its own.
    Here,
    /// It is a server that looks after itself: nobody asked for what it does.
    Inside,
    /// It is served.
    #[default]
    Served,
}

/// How a caller sees what has the form of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// As a marker.
    #[default]
    Masked,
    /// As it is; for the operator alone.
    Raw,
}
