//! Who is calling.

use hotcell_model::{Caller, Error};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::answer::Refusal;
use super::settings::Principal;

/// Who may call, in the order in which they were configured.
#[derive(Debug)]
pub(super) struct Access(Vec<Principal>);

/// Somebody who was let in, by place in the configuration.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) place: usize,
    pub(super) caller: Caller,
}

/// Nobody was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No token came.
    WithoutToken,
    /// A token came that is nobody's.
    WrongToken,
}

impl Access {
    pub(super) fn new(principals: Vec<Principal>) -> Self {
        Self(principals)
    }

    /// The callers by place.
    pub(super) fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.0.iter().map(|principal| &principal.caller)
    }

    /// Whoever the headers of a request prove to be calling.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Admitted, Unknown> {
        let given = headers.get(AUTHORIZATION).and_then(bearer);
        let known = |principal: &Principal| match (&principal.token, given) {
            (None, _) => true,
            (Some(token), Some(given)) => token.is(given),
            (Some(_), None) => false,
        };
        match self.0.iter().position(known) {
            Some(place) => Ok(Admitted { place, caller: self.0[place].caller.clone() }),
            None if given.is_some() => Err(Unknown::WrongToken),
            None => Err(Unknown::WithoutToken),
        }
    }
}

impl Unknown {
    /// What such a caller is told.
    pub(super) fn refusal(self) -> Refusal {
        let error = match self {
            Self::WithoutToken => Error::denied("the request has no bearer token")
                .hint("send the server's token in the header `Authorization: Bearer TOKEN`"),
            Self::WrongToken => Error::denied("the bearer token is not one of this server's"),
        };
        Refusal::new(StatusCode::UNAUTHORIZED, error)
    }

    /// Says in the head of an answer how to prove who one is.
    pub(super) fn challenge(self, headers: &mut HeaderMap) {
        let challenge = match self {
            Self::WithoutToken => r#"Bearer realm="hotcell""#,
            Self::WrongToken => r#"Bearer realm="hotcell", error="invalid_token""#,
        };
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}
