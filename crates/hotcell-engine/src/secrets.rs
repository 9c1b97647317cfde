//! The operator's secrets, and what cells are granted of them.

use std::sync::Arc;

use hotcell_link::GivenSecret;
use hotcell_model::{
    CellId, Error, ErrorCode, Result, Secret, SecretForm, SecretGrant, SecretList, SecretName,
    SecretRemove, SecretSet, SecretStore, SecretsList,
};

use crate::fault;
use crate::settings::AllowedSecrets;
use crate::site::Site;

/// Keeps a secret.
pub(crate) async fn secret_set(site: &Site, request: SecretSet) -> Result<Secret> {
    site.with_secrets(move |store| store.set(&request.name, &request.value)).await
}

/// Lists secrets.
pub(crate) async fn secrets_list(site: &Site, _: SecretsList) -> Result<SecretList> {
    let secrets = site.with_secrets(|store| store.list()).await?;
    Ok(SecretList { secrets })
}

/// Forgets a secret.
pub(crate) async fn secret_remove(site: &Site, request: SecretRemove) -> Result<Secret> {
    site.with_secrets(move |store| store.remove(&request.name)).await
}

impl Site {
    async fn with_secrets<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SecretStore) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.secrets.as_ref().map(Arc::clone).ok_or_else(|| {
            Error::unsupported("there is no place for secrets here")
                .hint("use secrets with the hotcell command and its server")
        })?;
        fault::blocking(move || work(&*store)).await
    }

    /// Refuses secrets that the operator does not allow, and those that there are not.
    pub(crate) async fn check_grants(&self, grants: &[SecretGrant]) -> Result<()> {
        self.check_secrets_allowed(grants)?;
        for grant in grants {
            let name = grant.name.clone();
            self.with_secrets(move |store| store.resolve(&name)).await?;
        }
        Ok(())
    }

    pub(crate) fn check_secrets_allowed(&self, grants: &[SecretGrant]) -> Result<()> {
        let allowed = match &self.settings.secrets {
            AllowedSecrets::Any => return Ok(()),
            AllowedSecrets::Only(allowed) => allowed,
        };
        match grants.iter().find(|grant| !allowed.contains(&grant.name)) {
            None => Ok(()),
            Some(grant) => Err(not_allowed(allowed, &grant.name)),
        }
    }

    /// The secrets of a cell with their values, for an exec that is about to start.
    pub(crate) async fn given_secrets(&self, cell: &CellId) -> Result<Vec<GivenSecret>> {
        let grants = self.links.secrets_of(cell);
        if grants.is_empty() {
            return Ok(Vec::new());
        }
        self.with_secrets(move |store| {
            let mut given = Vec::with_capacity(grants.len());
            for SecretGrant { name, form } in grants {
                let value = store.resolve(&name).map_err(|error| gone(&name, error))?;
                let value = value.expose().to_owned();
                match form {
                    SecretForm::Env { variable } => {
                        given.push(GivenSecret { name: name.to_string(), variable, value });
                    }
                    SecretForm::Header { .. } => {
                        return Err(Error::unsupported(format!(
                            "secret {name} is granted as a header, which this version cannot do"
                        )));
                    }
                }
            }
            Ok(given)
        })
        .await
    }
}

/// What is missing is the secret, not what was to be run.
fn gone(name: &SecretName, error: Error) -> Error {
    if error.code != ErrorCode::NotFound {
        return error;
    }
    Error::unavailable(format!("the cell is granted the secret {name}, and {error}"))
        .hint(format!("set it again with `hotcell secret set {name}`, or make a cell without it"))
}

fn not_allowed(allowed: &[SecretName], asked: &SecretName) -> Error {
    let refused = Error::denied(format!("cells may not be granted the secret {asked} here"));
    let names: Vec<&str> = allowed.iter().map(SecretName::as_str).collect();
    match names.as_slice() {
        [] => refused.hint("the operator allows secrets by name with the setting serve.secrets"),
        names => refused.hint(format!("the operator allows {}", names.join(", "))),
    }
}
