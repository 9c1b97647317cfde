//! Who is calling.

use std::sync::{Arc, OnceLock};

use hotcell_auth::{Identity, NotAdmitted, Oidc};
use hotcell_model::{AccessToken, Caller, Request as Asked, Scope, Timestamp, TokenText};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::body_room::{BodyRoom, BodyRooms};
use super::challenge::Unknown;
use super::default_cell::with_own_cell;
use super::lease::{Lease, Leases, Term};
use super::settings::AccessSettings;

/// Who may call, by which proof.
#[derive(Debug)]
pub(super) struct Access {
    settings: AccessSettings,
    leases: Leases,
    rooms: BodyRooms,
}

/// The user of this machine at the other end of a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerUid(pub(super) u32);

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) caller: Caller,
    /// How long that holds.
    pub(super) lease: Lease,
    /// Whether the settings name the caller, or a token or an issuer does.
    pub(super) known_by: KnownBy,
    /// Room for the body of the request.
    pub(super) room: Arc<BodyRoom>,
    /// What the caller lacked for what it asked, as soon as that is known.
    lacking: Arc<OnceLock<Scope>>,
}

/// From where it is known who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// The settings, which name few.
    Settings,
    /// A token, of which there may be many.
    Token,
}

impl Admitted {
    /// Notes what the caller lacks for a request, if anything: the engine refuses it, and the head of
    /// the answer says with which scope it would not.
    pub(super) fn note(&self, asked: &Asked) {
        if let Some(scope) = asked.needs().filter(|scope| !self.caller.may(*scope)) {
            // The first counts.
            let _ = self.lacking.set(scope);
        }
    }

    /// What it lacked.
    pub(super) fn lacked(&self) -> Option<Scope> {
        self.lacking.get().copied()
    }
}

impl Access {
    pub(super) fn new(settings: AccessSettings) -> Self {
        Self { settings, leases: Leases::default(), rooms: BodyRooms::default() }
    }

    /// The issuer whose tokens are taken.
    pub(super) fn oidc(&self) -> Option<&Oidc> {
        self.settings.oidc.as_deref()
    }

    /// Whether a user of this machine may call over a socket.
    pub(super) fn knows(&self, peer: PeerUid) -> bool {
        self.peer(peer).is_some()
    }

    fn peer(&self, peer: PeerUid) -> Option<&Caller> {
        let found = self.settings.peers.iter().find(|one| one.uid == peer.0);
        found.map(|one| &one.caller)
    }

    /// Whoever the headers of a request, or the kernel, prove to be calling.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<PeerUid>,
    ) -> Result<Admitted, Unknown> {
        let mut proofs = headers.get_all(AUTHORIZATION).iter();
        let given = proofs.next().and_then(bearer);
        if proofs.next().is_some() {
            // What stands before the server may have looked at another one.
            return Err(Unknown::wrong("there are two of them"));
        }
        if let Some(admitted) = self.by_token(given).await? {
            return Ok(admitted);
        }
        let without = match peer {
            Some(peer) => self.peer(peer),
            None => self.settings.open.as_ref(),
        };
        match (without, given) {
            // Whoever brings a token means to be somebody, and is not taken for somebody else.
            (_, Some(_)) => Err(Unknown::wrong("it is not one of this server's")),
            (Some(caller), None) => {
                Ok(self.admitted(caller.clone(), Term::Lasting, KnownBy::Settings))
            }
            (None, None) => Err(Unknown::WithoutToken),
        }
    }

    /// Whoever bears a token; nobody where what was given can be none of those that are taken here.
    async fn by_token(&self, given: Option<&[u8]>) -> Result<Option<Admitted>, Unknown> {
        let Some(given) = given else { return Ok(None) };
        let named = self.settings.principals.iter().find(|one| one.token.is(given));
        if let Some(principal) = named {
            let caller = principal.caller.clone();
            return Ok(Some(self.admitted(caller, Term::Lasting, KnownBy::Settings)));
        }
        let Ok(text) = std::str::from_utf8(given) else { return Ok(None) };
        if let Some(tokens) = &self.settings.tokens
            && text.starts_with(TokenText::PREFIX)
        {
            return match tokens.recognise(text) {
                Ok(Some(token)) => Ok(Some(self.bearer_of(&token))),
                Ok(None) => Err(Unknown::wrong("no such token, or it is over")),
                Err(error) => Err(Unknown::Unavailable(error.to_string())),
            };
        }
        if let Some(oidc) = &self.settings.oidc
            && Oidc::looks_like(text)
        {
            return match oidc.recognise(text).await {
                Ok(identity) => Ok(Some(self.known_to_issuer(identity))),
                Err(NotAdmitted::Refused(why)) => Err(Unknown::WrongToken(why)),
                Err(NotAdmitted::LacksScope(scope)) => Err(Unknown::LacksScope(scope)),
                Err(NotAdmitted::Unavailable(why)) => Err(Unknown::Unavailable(why)),
            };
        }
        Ok(None)
    }

    fn bearer_of(&self, token: &AccessToken) -> Admitted {
        let caller = Caller {
            principal: token.principal(),
            tenant: token.tenant.clone(),
            role: token.role,
            scopes: token.scopes.clone(),
            ..self.settings.usual.clone()
        };
        self.admitted(caller, Term::Token(token.id.clone()), KnownBy::Token)
    }

    fn known_to_issuer(&self, identity: Identity) -> Admitted {
        let Identity { principal, tenant, role, scopes, expires_at } = identity;
        let caller = Caller { principal, tenant, role, scopes, ..self.settings.usual.clone() };
        self.admitted(caller, Term::Until(expires_at), KnownBy::Token)
    }

    fn admitted(&self, caller: Caller, term: Term, known_by: KnownBy) -> Admitted {
        let lease = self.leases.grant(term);
        let room = Arc::new(self.rooms.of(&caller.tenant));
        Admitted { caller: with_own_cell(caller), lease, known_by, room, lacking: Arc::default() }
    }

    /// Ends what is open for those whose token is revoked or over.
    pub(super) fn look(&self) {
        self.leases.look(self.settings.tokens.as_deref(), Timestamp::now());
    }

    /// Ends what is open for those who were let in by one token.
    pub(super) fn end(&self, term: &Term) {
        self.leases.end(term);
    }

    /// Whether a token that somebody was let in by still opens the door.
    pub(super) fn is_live(&self, term: &Term) -> bool {
        match term {
            Term::Lasting | Term::Until(_) => true,
            Term::Token(id) => super::lease::is_live(self.settings.tokens.as_deref(), id),
        }
    }

    /// Writes down which tokens were used, where that holds nobody up.
    pub(super) async fn note_uses(&self) {
        let Some(tokens) = self.settings.tokens.clone() else { return };
        let noted = tokio::task::spawn_blocking(move || tokens.note_uses()).await;
        if let Ok(Err(error)) = noted {
            tracing::debug!(%error, "uses of tokens are not noted");
        }
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}
