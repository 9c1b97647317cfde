//! Tokens of callers over HTTP, which the operator makes and ends.

use std::sync::Arc;

use hotcell_model::{
    AccessToken, AccessTokens, Error, Result, TokenCreate, TokenCreated, TokenRevoke, TokenStore,
    TokensList,
};

use crate::fault;
use crate::site::Site;

/// Makes a token.
pub(crate) async fn token_create(site: &Site, request: TokenCreate) -> Result<TokenCreated> {
    with_tokens(site, move |store| store.create(&request)).await
}

/// Lists tokens.
pub(crate) async fn tokens_list(site: &Site, _: TokensList) -> Result<AccessTokens> {
    let tokens = with_tokens(site, |store| store.list()).await?;
    Ok(AccessTokens { tokens })
}

/// Ends a token.
pub(crate) async fn token_revoke(site: &Site, request: TokenRevoke) -> Result<AccessToken> {
    with_tokens(site, move |store| store.revoke(&request.token)).await
}

async fn with_tokens<T: Send + 'static>(
    site: &Site,
    work: impl FnOnce(&dyn TokenStore) -> Result<T> + Send + 'static,
) -> Result<T> {
    let store = site.tokens.as_ref().map(Arc::clone).ok_or_else(|| {
        Error::unsupported("there is no place for tokens here")
            .hint("use tokens with the hotcell command and its server")
    })?;
    fault::blocking(move || work(&*store)).await
}
