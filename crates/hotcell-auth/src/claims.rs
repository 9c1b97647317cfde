//! What the claims of a token mean here, once it is known who made them.

use std::time::Duration;

use hotcell_model::{Role, Scope, Tenant, Timestamp};
use serde_json::Value;

use crate::jwt::{Claims, cut};
use crate::oidc::Identity;
use crate::settings::{OidcSettings, RoleRule, ScopeRule, TenantRule};

/// The longest name of a bearer.
const MOST_NAME_BYTES: usize = 255;
/// Claims in which scopes stand: as of RFC 8693 and 9068, and what others write.
const SCOPE_CLAIMS: [&str; 2] = ["scope", "scp"];

/// Who the bearer is at `now`, and what it may do.
pub(crate) fn judge(
    settings: &OidcSettings,
    claims: &Claims,
    now: Timestamp,
) -> Result<Identity, String> {
    let expires_at = check_times(claims, now, settings.leeway)?;
    match claims.get("iss") {
        Some(Value::String(issuer)) if *issuer == settings.issuer => {}
        Some(issuer) => return Err(format!("it was issued by {}", shown(issuer))),
        None => return Err("it does not say who issued it".to_owned()),
    }
    let audiences = words(claims.get("aud"), Split::Never);
    if !audiences.iter().any(|one| settings.audiences.iter().any(|own| own == one)) {
        return Err(format!("it is for {:?}", cut(&audiences.join(" "))));
    }
    let role = role(claims, &settings.role)?;
    Ok(Identity {
        principal: format!("oidc:{}", name(claims, &settings.principal_claim)?),
        tenant: tenant(claims, &settings.tenant)?,
        role,
        scopes: match settings.scopes {
            ScopeRule::Claimed => scopes(&written_scopes(claims), &settings.scope_prefix),
            ScopeRule::Role => role.scopes().to_vec(),
        },
        expires_at,
    })
}

/// A scope that every token must have and this one has not.
pub(crate) fn lacked_scope<'a>(settings: &'a OidcSettings, claims: &Claims) -> Option<&'a str> {
    let written = written_scopes(claims);
    let mut required = settings.required_scopes.iter().map(String::as_str);
    required.find(|scope| !written.contains(scope))
}

/// Checks from when to when it holds; the end, with leeway.
fn check_times(claims: &Claims, now: Timestamp, leeway: Duration) -> Result<Timestamp, String> {
    let leeway = leeway.as_secs();
    let end = seconds(claims, "exp")?.ok_or("it has no end")?.plus_seconds(leeway);
    if end <= now {
        return Err("it is over".to_owned());
    }
    let not_before = [("nbf", "it does not hold yet"), ("iat", "it was issued in the future")];
    for (claim, why) in not_before {
        if seconds(claims, claim)?.is_some_and(|at| at > now.plus_seconds(leeway)) {
            return Err(why.to_owned());
        }
    }
    Ok(end)
}

/// A time, which may have a fraction.
fn seconds(claims: &Claims, claim: &str) -> Result<Option<Timestamp>, String> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    let seconds = seconds.ok_or_else(|| format!("its {claim} is {}", shown(value)))?;
    // Rounded towards zero, and to the largest number for what no number holds.
    Ok(Some(Timestamp((seconds * 1000.0) as u64)))
}

fn name<'a>(claims: &'a Claims, claim: &str) -> Result<&'a str, String> {
    let name = claims.get(claim).and_then(Value::as_str);
    let name = name.ok_or_else(|| format!("it has no claim {claim:?} that names its bearer"))?;
    let is_plain = !name.is_empty()
        && name.len() <= MOST_NAME_BYTES
        && !name.chars().any(|c| c.is_control() || c.is_whitespace());
    is_plain.then_some(name).ok_or_else(|| format!("{:?} can be nobody's name", cut(name)))
}

fn tenant(claims: &Claims, rule: &TenantRule) -> Result<Tenant, String> {
    let claim = match rule {
        TenantRule::Fixed(tenant) => return Ok(tenant.clone()),
        TenantRule::Claim(claim) => claim,
    };
    // Whoever belongs to nobody is not put to somebody: that would be a door to their cells.
    let value = claims.get(claim).and_then(Value::as_str);
    let value = value.ok_or_else(|| format!("it has no claim {claim:?} that names a tenant"))?;
    value.parse().map_err(|_| format!("{:?} cannot be a tenant's name", cut(value)))
}

fn role(claims: &Claims, rule: &RoleRule) -> Result<Role, String> {
    let (claim, roles) = match rule {
        RoleRule::Fixed(role) => return Ok(*role),
        RoleRule::Claim { claim, roles } => (claim, roles),
    };
    let values = words(claims.get(claim), Split::Never);
    let fits = |(value, _): &&(String, Role)| value == "*" || values.contains(&value.as_str());
    let found = roles.iter().find(fits).map(|(_, role)| *role);
    found.ok_or_else(|| format!("its claim {claim:?} gives no role here"))
}

fn written_scopes(claims: &Claims) -> Vec<&str> {
    let written = SCOPE_CLAIMS.iter().flat_map(|claim| words(claims.get(*claim), Split::AtSpaces));
    written.collect()
}

fn scopes(written: &[&str], prefix: &str) -> Vec<Scope> {
    let mut scopes: Vec<Scope> =
        written.iter().filter_map(|word| word.strip_prefix(prefix)?.parse().ok()).collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

/// Whether one text may be several words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    Never,
    AtSpaces,
}

/// A text, or the texts of a list.
fn words(value: Option<&Value>, split: Split) -> Vec<&str> {
    let texts: Vec<&str> = match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Vec::new()
        }
    };
    match split {
        Split::Never => texts,
        Split::AtSpaces => texts.into_iter().flat_map(str::split_ascii_whitespace).collect(),
    }
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}
