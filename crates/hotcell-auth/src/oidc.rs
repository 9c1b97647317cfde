//! Tokens that an issuer signed: from the text that a caller brings to who that is.

use hotcell_model::{Role, Scope, Tenant, Timestamp};

use crate::claims::{judge, lacked_scope};
use crate::issuer_keys::{IssuerKeys, NoKey};
use crate::jwt::{self, Unverified};
use crate::settings::OidcSettings;

/// Who an issuer says somebody is, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// On whose behalf they call.
    pub principal: String,
    /// To whom they belong.
    pub tenant: Tenant,
    /// What they are there for.
    pub role: Role,
    /// What they may do, as far as their role may.
    pub scopes: Vec<Scope>,
    /// When the proof is over.
    pub expires_at: Timestamp,
}

/// Why a token opens nothing. What it says is for the log, not for whoever brought the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It is wrong, over, or for somebody else.
    Refused(String),
    /// It is good, and lacks a scope that every token must have.
    LacksScope(String),
    /// Its issuer cannot be reached to find out.
    Unavailable(String),
}

/// An issuer whose tokens are taken.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    keys: IssuerKeys,
}

impl Oidc {
    /// Takes tokens of this issuer. It is not asked for anything yet.
    ///
    /// # Errors
    /// `invalid` for settings with which anybody's tokens would be taken, or none.
    pub fn new(settings: OidcSettings) -> hotcell_model::Result<Self> {
        settings.check()?;
        let keys = IssuerKeys::new(&settings);
        Ok(Self { settings, keys })
    }

    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Whether a text can be a token of an issuer at all.
    #[must_use]
    pub fn looks_like(text: &str) -> bool {
        jwt::looks_like(text)
    }

    /// Who the bearer of a token is.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn recognise(&self, text: &str) -> Result<Identity, NotAdmitted> {
        let token =
            Unverified::read(text, &self.settings.algorithms).map_err(NotAdmitted::Refused)?;
        let key = self.keys.find(token.algorithm, token.key_id.as_deref()).await;
        let key = key.map_err(|none| match none {
            NoKey::Unknown(why) => NotAdmitted::Refused(why),
            NoKey::Unreachable(why) => NotAdmitted::Unavailable(why),
        })?;
        let claims = token.verify(&key).map_err(NotAdmitted::Refused)?;
        let identity =
            judge(&self.settings, &claims, Timestamp::now()).map_err(NotAdmitted::Refused)?;
        match lacked_scope(&self.settings, &claims) {
            Some(scope) => Err(NotAdmitted::LacksScope(scope.to_owned())),
            None => Ok(identity),
        }
    }
}
