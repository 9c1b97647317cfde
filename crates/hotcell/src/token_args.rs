//! The arguments of `hotcell token`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hotcell_model::{Role, Scope, Tenant, TokenName};

use crate::values;

/// Make, list and revoke tokens for callers over HTTP.
///
/// A token proves who calls `hotcell serve --http`, and says to which tenant they belong and what
/// they may do. Every server on the state directory knows of a change at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell token create --name ci --expires 90d
  hotcell token create --name watch --role auditor --json
  hotcell token create --tenant team-a --scope read
  hotcell token revoke ci")]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token and print it, once: only a digest of it is kept.
    Create(CreateToken),
    /// List tokens, without what opens the door.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a token: the next request with it is refused, and what it has open is cut.
    Revoke {
        /// Its id or its name.
        #[arg(value_name = "ID|NAME", value_parser = values::word::<TokenName>)]
        token: TokenName,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What is asked of a token.
#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// What to call it; its id when left out. Callers with a later token of the same name are taken
    /// for the same one.
    #[arg(long, value_parser = values::word::<TokenName>)]
    pub(crate) name: Option<TokenName>,
    /// To whom its bearer belongs: cells of others do not exist for it.
    #[arg(long, value_name = "NAME", default_value = Tenant::DEFAULT)]
    pub(crate) tenant: String,
    /// What its bearer is there for: agent, operator, auditor.
    #[arg(long, default_value = "agent", value_parser = values::word::<Role>)]
    pub(crate) role: Role,
    /// What its bearer may do, of what its role may: read, run, metrics, audit, admin. May be
    /// repeated; all of it when left out.
    #[arg(long, value_parser = values::word::<Scope>)]
    pub(crate) scope: Vec<Scope>,
    /// How long it lasts: 12h, 30d, or never.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = lasting)]
    pub(crate) expires: Lasting,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long something lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// So long.
    For(Duration),
    /// Until it is ended.
    Always,
}

fn lasting(text: &str) -> Result<Lasting, String> {
    match text {
        "never" => Ok(Lasting::Always),
        text => values::timeout(text).map(Lasting::For),
    }
}
