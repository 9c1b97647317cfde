//! What the configuration says of who may call over HTTP.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hotcell_auth::{Algorithm, OidcSettings, RoleRule, ScopeRule, TenantRule, check_url};
use hotcell_model::{Error, Role, Tenant};
use serde_json::Value;

use crate::config::Config;
use crate::config_keys::{Key, choice, joined, list, parsed};
use crate::values;

/// Whether callers have to prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Proof {
    /// Where there is something to prove it with.
    #[default]
    Auto,
    /// Whoever reaches the server may call.
    None,
    /// Always.
    Required,
}

impl Proof {
    fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Required => "required",
        }
    }
}

/// A user of this machine who may call over a socket: `UID`, `UID=ROLE` or `UID=ROLE@TENANT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketUser {
    pub(crate) uid: u32,
    pub(crate) role: Role,
    /// That of the server unless it is said.
    pub(crate) tenant: Option<Tenant>,
}

impl FromStr for SocketUser {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (uid, rest) = text.split_once('=').unwrap_or((text, "agent"));
        let (role, tenant) = match rest.split_once('@') {
            Some((role, tenant)) => (role, Some(tenant.trim().parse()?)),
            None => (rest, None),
        };
        let uid = uid.trim().parse().map_err(|_| {
            Error::invalid(format!("{uid:?} is not the number of a user; `id -u NAME` shows it"))
        })?;
        Ok(Self { uid, role: role.trim().parse()?, tenant })
    }
}

impl std::fmt::Display for SocketUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.uid, self.role.as_str())?;
        match &self.tenant {
            Some(tenant) => write!(f, "@{tenant}"),
            None => Ok(()),
        }
    }
}

/// What is said of who may call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AuthConfig {
    pub(crate) proof: Proof,
    pub(crate) socket_users: Vec<SocketUser>,
    pub(crate) oidc: OidcConfig,
}

/// What is said of an issuer; there is none when nobody names one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OidcConfig {
    issuer: String,
    audiences: Vec<String>,
    jwks_url: String,
    algorithms: Vec<Algorithm>,
    leeway_s: u64,
    keys_s: u64,
    principal_claim: String,
    tenant_claim: String,
    tenant: Option<Tenant>,
    role_claim: String,
    roles: Vec<RoleValue>,
    scopes: ScopeRule,
    scope_prefix: String,
    required_scopes: Vec<String>,
    resource: String,
    ca_file: PathBuf,
}

/// Which value of a claim means which role: `VALUE=ROLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RoleValue(String, Role);

impl FromStr for RoleValue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (value, role) = text.rsplit_once('=').unwrap_or((text, text));
        Ok(Self(value.trim().to_owned(), role.trim().parse()?))
    }
}

impl std::fmt::Display for RoleValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.0, self.1.as_str())
    }
}

impl OidcConfig {
    /// Whether an issuer is named.
    pub(crate) fn is_named(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// The issuer whose tokens are taken, if one is named.
    pub(crate) fn settings(&self, config: &Config) -> Option<OidcSettings> {
        if self.issuer.is_empty() {
            return None;
        }
        let given = |text: &String| Some(text).filter(|text| !text.is_empty()).cloned();
        Some(OidcSettings {
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone(),
            jwks_url: given(&self.jwks_url),
            algorithms: self.algorithms.clone(),
            leeway: Duration::from_secs(self.leeway_s),
            principal_claim: self.principal_claim.clone(),
            tenant: match &self.tenant {
                Some(tenant) => TenantRule::Fixed(tenant.clone()),
                None => TenantRule::Claim(self.tenant_claim.clone()),
            },
            role: match given(&self.role_claim) {
                None => RoleRule::Fixed(Role::Agent),
                Some(claim) => RoleRule::Claim {
                    claim,
                    roles: self.roles.iter().map(|it| (it.0.clone(), it.1)).collect(),
                },
            },
            scopes: self.scopes,
            scope_prefix: self.scope_prefix.clone(),
            required_scopes: self.required_scopes.clone(),
            keys_kept: Duration::from_secs(self.keys_s),
            resource: given(&self.resource),
            ca_file: Some(self.ca_file.clone()).filter(|file| !file.as_os_str().is_empty()),
            nameservers: config.egress.nameservers.clone(),
        })
    }
}

fn url(key: &str, text: &str) -> Result<String, String> {
    if !text.is_empty() {
        check_url(key, text).map_err(|error| error.message)?;
    }
    Ok(text.to_owned())
}

fn seconds(text: &str, most: u64) -> Result<u64, String> {
    let seconds = values::duration(text)?.as_secs();
    match seconds <= most {
        true => Ok(seconds),
        false => Err(format!("it is more than {most} seconds")),
    }
}

fn claim(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// The keys of the configuration for who may call.
pub(crate) const AUTH_KEYS: &[Key] = &[
    Key {
        name: "http.auth",
        variable: "HOTCELL_HTTP_AUTH",
        default: "auto",
        about: "whether callers over HTTP have to prove who they are: `required`, `none` (on this machine \
                alone), or `auto`: as soon as a token was made or an issuer or a token file is named",
        set: |config, text| {
            let all = [Proof::Auto, Proof::None, Proof::Required];
            let found = all.into_iter().find(|one| one.as_str() == text);
            config.auth.proof = found.ok_or("it is none of: auto, none, required")?;
            Ok(())
        },
        get: |config| config.auth.proof.as_str().into(),
    },
    Key {
        name: "http.socket_uids",
        variable: "HOTCELL_HTTP_SOCKET_UIDS",
        default: "",
        about: "users of this machine who may call at a unix socket besides its owner and root, with commas \
                between, each as UID, UID=ROLE or UID=ROLE@TENANT",
        set: |config, text| {
            config.auth.socket_users = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.auth.socket_users),
    },
    Key {
        name: "auth.oidc.issuer",
        variable: "HOTCELL_AUTH_OIDC_ISSUER",
        default: "",
        about: "the issuer whose tokens are taken, as its tokens call it in `iss`; https, or http on this \
                machine",
        set: |config, text| {
            config.auth.oidc.issuer = url("auth.oidc.issuer", text)?;
            Ok(())
        },
        get: |config| config.auth.oidc.issuer.clone().into(),
    },
    Key {
        name: "auth.oidc.audience",
        variable: "HOTCELL_AUTH_OIDC_AUDIENCE",
        default: "",
        about: "the `aud` of tokens that are for this server, with commas between; needed with an issuer",
        set: |config, text| {
            config.auth.oidc.audiences = list(text);
            Ok(())
        },
        get: |config| config.auth.oidc.audiences.join(",").into(),
    },
    Key {
        name: "auth.oidc.jwks_url",
        variable: "HOTCELL_AUTH_OIDC_JWKS_URL",
        default: "",
        about: "where the keys of the issuer are; its description says so unless given",
        set: |config, text| {
            config.auth.oidc.jwks_url = url("auth.oidc.jwks_url", text)?;
            Ok(())
        },
        get: |config| config.auth.oidc.jwks_url.clone().into(),
    },
    Key {
        name: "auth.oidc.algorithms",
        variable: "HOTCELL_AUTH_OIDC_ALGORITHMS",
        default: "RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,EdDSA",
        about: "how the issuer may sign, with commas between",
        set: |config, text| {
            config.auth.oidc.algorithms = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.auth.oidc.algorithms),
    },
    Key {
        name: "auth.oidc.principal_claim",
        variable: "HOTCELL_AUTH_OIDC_PRINCIPAL_CLAIM",
        default: "sub",
        about: "the claim that names the caller; it must never be given to another one",
        set: |config, text| {
            config.auth.oidc.principal_claim = claim(text)?;
            Ok(())
        },
        get: |config| config.auth.oidc.principal_claim.clone().into(),
    },
    Key {
        name: "auth.oidc.tenant_claim",
        variable: "HOTCELL_AUTH_OIDC_TENANT_CLAIM",
        default: "tenant",
        about: "the claim that names the caller's tenant; a token without it is refused",
        set: |config, text| {
            config.auth.oidc.tenant_claim = claim(text)?;
            Ok(())
        },
        get: |config| config.auth.oidc.tenant_claim.clone().into(),
    },
    Key {
        name: "auth.oidc.tenant",
        variable: "HOTCELL_AUTH_OIDC_TENANT",
        default: "",
        about: "the tenant of all callers of the issuer, whatever their tokens claim",
        set: |config, text| {
            config.auth.oidc.tenant = match text {
                "" => None,
                text => Some(values::word(text)?),
            };
            Ok(())
        },
        get: |config| {
            config.auth.oidc.tenant.as_ref().map(Tenant::as_str).unwrap_or_default().into()
        },
    },
    Key {
        name: "auth.oidc.role_claim",
        variable: "HOTCELL_AUTH_OIDC_ROLE_CLAIM",
        default: "",
        about: "the claim that says what the caller is there for, one value or several; all are agents \
                unless given",
        set: |config, text| {
            config.auth.oidc.role_claim = text.trim().to_owned();
            Ok(())
        },
        get: |config| config.auth.oidc.role_claim.clone().into(),
    },
    Key {
        name: "auth.oidc.roles",
        variable: "HOTCELL_AUTH_OIDC_ROLES",
        default: "operator,auditor,agent",
        about: "which value of that claim means which role, as VALUE=ROLE with commas between, the first that \
                fits; `*=ROLE` is for all others, who are refused without it",
        set: |config, text| {
            config.auth.oidc.roles = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.auth.oidc.roles),
    },
    Key {
        name: "auth.oidc.scopes",
        variable: "HOTCELL_AUTH_OIDC_SCOPES",
        default: "claimed",
        about: "what callers of the issuer may do: `claimed`, what the scopes of their tokens say, or \
                `role`, all that their role may",
        set: |config, text| {
            let rules = [("claimed", ScopeRule::Claimed), ("role", ScopeRule::Role)];
            config.auth.oidc.scopes = choice(text, &rules)?;
            Ok(())
        },
        get: |config| match config.auth.oidc.scopes {
            ScopeRule::Claimed => "claimed".into(),
            ScopeRule::Role => "role".into(),
        },
    },
    Key {
        name: "auth.oidc.required_scopes",
        variable: "HOTCELL_AUTH_OIDC_REQUIRED_SCOPES",
        default: "",
        about: "scopes, as the issuer calls them, without which a token is refused, with commas between",
        set: |config, text| {
            config.auth.oidc.required_scopes = list(text);
            Ok(())
        },
        get: |config| config.auth.oidc.required_scopes.join(",").into(),
    },
    Key {
        name: "auth.oidc.scope_prefix",
        variable: "HOTCELL_AUTH_OIDC_SCOPE_PREFIX",
        default: "hotcell:",
        about: "what stands before read, run, metrics, audit and admin in the scopes of the issuer",
        set: |config, text| {
            let plain = |b: u8| b.is_ascii_graphic() && !b"\"\\,".contains(&b);
            if !text.bytes().all(plain) {
                return Err("it has characters that no scope has".to_owned());
            }
            config.auth.oidc.scope_prefix = text.to_owned();
            Ok(())
        },
        get: |config| config.auth.oidc.scope_prefix.clone().into(),
    },
    Key {
        name: "auth.oidc.leeway_s",
        variable: "HOTCELL_AUTH_OIDC_LEEWAY_S",
        default: "30",
        about: "seconds by which the issuer's clock may differ, at most 300",
        set: |config, text| {
            config.auth.oidc.leeway_s = seconds(text, 300)?;
            Ok(())
        },
        get: |config| config.auth.oidc.leeway_s.into(),
    },
    Key {
        name: "auth.oidc.keys_s",
        variable: "HOTCELL_AUTH_OIDC_KEYS_S",
        default: "300",
        about: "seconds after which the issuer is asked for its keys again: one that it took back is used no \
                longer than that",
        set: |config, text| {
            config.auth.oidc.keys_s = seconds(text, 86_400)?;
            Ok(())
        },
        get: |config| config.auth.oidc.keys_s.into(),
    },
    Key {
        name: "auth.oidc.resource",
        variable: "HOTCELL_AUTH_OIDC_RESOURCE",
        default: "",
        about: "how clients call this server, such as https://cells.example.org/mcp; the name that they used \
                unless given",
        set: |config, text| {
            config.auth.oidc.resource = url("auth.oidc.resource", text)?;
            Ok(())
        },
        get: |config| config.auth.oidc.resource.clone().into(),
    },
    Key {
        name: "auth.oidc.ca_file",
        variable: "HOTCELL_AUTH_OIDC_CA_FILE",
        default: "",
        about: "a file of certificates of authorities, in PEM, that the issuer may have its certificate from \
                besides those of the host",
        set: |config, text| {
            config.auth.oidc.ca_file = PathBuf::from(text);
            Ok(())
        },
        get: |config| Value::from(config.auth.oidc.ca_file.display().to_string()),
    },
];
