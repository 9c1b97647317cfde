//! What the operator says of the issuer whose tokens are taken.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_egress::is_loopback;
use hotcell_model::{Error, Result, Role, Scope, Tenant};
use http::Uri;

use crate::algorithm::Algorithm;

/// From where it is known to whom a bearer belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRule {
    /// All belong to this one.
    Fixed(Tenant),
    /// This claim says so; a token without it is refused.
    Claim(String),
}

/// From where it is known what a bearer is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleRule {
    /// All have this role.
    Fixed(Role),
    /// The values of a claim say so.
    Claim {
        /// Its name.
        claim: String,
        /// Which value means which role, the first that fits; `*` is any value, or none.
        roles: Vec<(String, Role)>,
    },
}

/// Which scopes a bearer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScopeRule {
    /// Those that its token names.
    #[default]
    Claimed,
    /// All of its role.
    Role,
}

/// An issuer, and how its tokens are understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Who signs, exactly as it calls itself.
    pub issuer: String,
    /// For whom a token must be: one of these.
    pub audiences: Vec<String>,
    /// Where its keys are; its own description says so when left out.
    pub jwks_url: Option<String>,
    /// How it may sign.
    pub algorithms: Vec<Algorithm>,
    /// By how much its clock may differ from ours.
    pub leeway: Duration,
    /// The claim that names the bearer.
    pub principal_claim: String,
    /// To whom the bearer belongs.
    pub tenant: TenantRule,
    /// What the bearer is there for.
    pub role: RoleRule,
    /// What the bearer may do.
    pub scopes: ScopeRule,
    /// What stands before the names of our scopes.
    pub scope_prefix: String,
    /// Scopes, as the issuer calls them, without which a token is refused.
    pub required_scopes: Vec<String>,
    /// How long its keys are believed without asking again.
    pub keys_kept: Duration,
    /// How clients call this server; what they reach it by when left out.
    pub resource: Option<String>,
    /// Certificates of authorities that are trusted besides those of the host.
    pub ca_file: Option<PathBuf>,
    /// Who is asked for addresses; those of the host when empty.
    pub nameservers: Vec<SocketAddr>,
}

impl OidcSettings {
    /// What a client asks the issuer for to be given these scopes of ours.
    #[must_use]
    pub fn names_of(&self, scopes: &[Scope]) -> Vec<String> {
        let own: &[Scope] = match self.scopes {
            ScopeRule::Claimed => scopes,
            ScopeRule::Role => &[],
        };
        let own = own.iter().map(|scope| format!("{}{}", self.scope_prefix, scope.as_str()));
        self.required_scopes.iter().cloned().chain(own).collect()
    }

    /// Checks what can be checked without asking the issuer.
    ///
    /// # Errors
    /// `invalid` with the key that is wrong.
    pub fn check(&self) -> Result<()> {
        check_url("auth.oidc.issuer", &self.issuer)?;
        if let Some(url) = &self.jwks_url {
            check_url("auth.oidc.jwks_url", url)?;
        }
        if self.issuer.contains(['?', '#']) {
            return Err(Error::invalid("auth.oidc.issuer has a query or a fragment")
                .hint("it is the `iss` of the issuer's tokens, letter by letter"));
        }
        if self.audiences.is_empty() {
            return Err(Error::invalid("auth.oidc.audience is empty").hint(
                "name the `aud` of tokens that are meant for this server: without it tokens for \
                 any other server of that issuer would be taken",
            ));
        }
        if self.algorithms.is_empty() {
            return Err(Error::invalid("auth.oidc.algorithms is empty"));
        }
        Ok(())
    }
}

/// Checks that an address can be asked without others listening in or answering in its place.
///
/// # Errors
/// `invalid` for what is no such address.
pub fn check_url(key: &str, text: &str) -> Result<()> {
    let wrong = |why: &str| {
        Err(Error::invalid(format!("{key} is {text:?}, which {why}"))
            .hint("write an https:// address; http:// is for this machine alone"))
    };
    let Ok(uri) = text.parse::<Uri>() else { return wrong("is no address") };
    let Some(authority) = uri.authority() else { return wrong("names no host") };
    if authority.as_str().contains('@') {
        return wrong("has a user in it");
    }
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(authority.host()) => Ok(()),
        Some("http") => wrong("is not https"),
        Some(_) | None => wrong("is not https"),
    }
}
