//! Which requests of a cell get which header, and what is masked in the answers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_masking::Masks;
use hotcell_model::{
    HeaderForm, HostName, LentSecret, Placeholder, Scheme, SecretForm, SecretGrant, SecretName,
};
use http::{HeaderName, HeaderValue};
use rustls::{ClientConfig, ServerConfig};

use crate::authority::{Authority, AuthorityFile};
use crate::connection::Target;
use crate::trust::Trust;

/// What a carrier needs to add headers to requests.
#[derive(Debug, Clone, Default)]
pub struct HeaderPlan {
    /// What the cell is granted.
    pub grants: Vec<SecretGrant>,
    /// Values that are known already.
    pub lent: Vec<LentSecret>,
    /// The authority of the cell.
    pub authority: Option<AuthorityFile>,
    /// Whom the host trusts.
    pub trust: Trust,
}

/// How the connections to a target are carried.
#[derive(Debug, Clone)]
pub(crate) enum Treatment {
    /// Byte by byte.
    AsItIs,
    /// Request by request, each with its headers.
    Lending(Arc<Lending>),
    /// Not at all: the value of this secret is not here.
    NotHeld(SecretName),
}

/// What is added to requests for one target.
pub(crate) struct Lending {
    pub(crate) scheme: Scheme,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Which secrets, for people.
    pub(crate) secrets: String,
    pub(crate) masks: Arc<Masks>,
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

type Place = (HostName, u16);

/// So many values of one secret are masked: the present one, and what it was before.
const VALUES_OF_ONE: usize = 3;

/// The values that a carrier knows.
#[derive(Debug, Default)]
struct Known {
    /// What was lent last; `None` before anything was.
    lent: Option<Vec<LentSecret>>,
    /// What is masked, the newest last: a value that was changed leaves what it was.
    values: Vec<LentSecret>,
    masks: Arc<Masks>,
}

impl Known {
    /// Takes a value; whether it was not there.
    fn take(&mut self, secret: &LentSecret) -> bool {
        let place = self.values.iter().position(|known| known == secret);
        if let Some(place) = place {
            self.values.remove(place);
        }
        self.values.push(secret.clone());
        let mut of_it = self.values.iter().enumerate().filter(|(_, it)| it.name == secret.name);
        let oldest = of_it.next().map(|(place, _)| place);
        if let Some(oldest) = oldest.filter(|_| of_it.count() >= VALUES_OF_ONE) {
            self.values.remove(oldest);
        }
        place.is_none()
    }
}

/// All that is lent to a cell.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    grants: Vec<(SecretName, HeaderForm)>,
    places: Mutex<HashMap<Place, Treatment>>,
    known: Mutex<Known>,
    authority: Option<AuthorityFile>,
    opened: OnceLock<Result<Authority, String>>,
    trust: Trust,
    client: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Lent {
    pub(crate) fn new(plan: HeaderPlan) -> Self {
        let headers = |grant: SecretGrant| match grant.form {
            SecretForm::Header(form) => Some((grant.name, form)),
            SecretForm::Env { .. } => None,
        };
        let lent = Self {
            grants: plan.grants.into_iter().filter_map(headers).collect(),
            authority: plan.authority,
            trust: plan.trust,
            ..Self::default()
        };
        lent.lend(&plan.lent);
        lent
    }

    /// Takes values in the place of those that were there.
    pub(crate) fn lend(&self, secrets: &[LentSecret]) {
        let is_granted = |secret: &&LentSecret| self.has_header(&secret.name);
        let secrets: Vec<LentSecret> = secrets.iter().filter(is_granted).cloned().collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // The same comes with every exec.
        if known.lent.as_ref() == Some(&secrets) {
            return;
        }
        let new = secrets.iter().filter(|secret| known.take(secret)).count();
        if new > 0 {
            known.masks = Arc::new(self.masks(&known.values));
        }
        let masks = &known.masks;
        let mut places: HashMap<Place, Treatment> = HashMap::new();
        for (name, form) in &self.grants {
            let value = secrets.iter().find(|secret| secret.name == *name);
            let header = value.and_then(|secret| header(name, form, &secret.value));
            for to in &form.destinations {
                let place = (to.name.clone(), to.port);
                let (mut headers, mut secrets) = (Vec::new(), name.to_string());
                let next = match (places.remove(&place), &header) {
                    (Some(Treatment::NotHeld(missing)), _) => Treatment::NotHeld(missing),
                    (_, None) => Treatment::NotHeld(name.clone()),
                    (before, Some(header)) => {
                        if let Some(Treatment::Lending(before)) = before {
                            headers.clone_from(&before.headers);
                            secrets = format!("{}, {name}", before.secrets);
                        }
                        headers.push(header.clone());
                        let (scheme, masks) = (to.scheme, Arc::clone(masks));
                        Treatment::Lending(Arc::new(Lending { scheme, headers, secrets, masks }))
                    }
                };
                places.insert(place, next);
            }
        }
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
        known.lent = Some(secrets);
    }

    fn has_header(&self, name: &SecretName) -> bool {
        self.grants.iter().any(|(granted, _)| granted == name)
    }

    /// What hides these values, in every form in which they go out.
    fn masks(&self, values: &[LentSecret]) -> Masks {
        let mut hidden: Vec<(&str, Cow<'_, [u8]>)> = Vec::new();
        for secret in values {
            hidden.push((secret.name.as_str(), Cow::Borrowed(secret.value.as_bytes())));
            for (_, form) in self.grants.iter().filter(|(name, _)| *name == secret.name) {
                // In base64 a part of each end would be left.
                if let Some((_, Placeholder::Basic(user), _)) = form.parts() {
                    let sent = credentials(user, &secret.value).into_bytes();
                    hidden.push((secret.name.as_str(), Cow::Owned(sent)));
                }
            }
        }
        let mut masks = Masks::of_same_length();
        masks.add_all(hidden.iter().map(|(name, value)| (*name, value.as_ref())));
        masks
    }

    /// How the connections to a target are carried now.
    pub(crate) fn treatment(&self, target: &Target) -> Treatment {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(&(target.name.clone(), target.port)).cloned().unwrap_or(Treatment::AsItIs)
    }

    /// How a host is stood for in the cell.
    pub(crate) fn stand_for(&self, host: &HostName) -> Result<Arc<ServerConfig>, String> {
        let opened = self.opened.get_or_init(|| match &self.authority {
            Some(file) => Authority::open(file),
            None => Err("the cell has no authority".to_owned()),
        });
        opened.as_ref().map_err(Clone::clone)?.stand_for(host)
    }

    /// How hosts are spoken to.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, String> {
        self.client.get_or_init(|| self.trust.client()).clone()
    }
}

/// User and password as basic authentication has them.
fn credentials(user: &str, password: &str) -> String {
    STANDARD.encode(format!("{user}:{password}"))
}

fn header(name: &SecretName, form: &HeaderForm, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let value = form.usable(name, value).ok()?;
    let (before, placeholder, after) = form.parts()?;
    let text = match placeholder {
        Placeholder::Value => format!("{before}{value}{after}"),
        Placeholder::Basic(user) => {
            format!("{before}{}{after}", credentials(user, value))
        }
    };
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(form.header.as_bytes()).ok()?, value))
}
