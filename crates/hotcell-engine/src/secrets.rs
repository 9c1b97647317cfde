//! The operator's secrets, and what cells are granted of them.

use std::sync::Arc;

use hotcell_link::GivenSecret;
use hotcell_model::{
    CellId, Driver, Error, ErrorCode, LentSecret, Result, Secret, SecretForm, SecretGrant,
    SecretList, SecretName, SecretRemove, SecretSet, SecretStore, SecretsList, Tenant,
};

use crate::network::networks;
use crate::settings::LentSecrets;
use crate::site::Site;
use crate::{check, fault};

/// Keeps a secret.
pub(crate) async fn secret_set(site: &Site, tenant: &Tenant, request: SecretSet) -> Result<Secret> {
    let tenant = tenant.clone();
    site.with_secrets(move |store| store.set(&tenant, &request.name, &request.value)).await
}

/// Lists secrets.
pub(crate) async fn secrets_list(
    site: &Site,
    tenant: &Tenant,
    _: SecretsList,
) -> Result<SecretList> {
    let tenant = tenant.clone();
    let secrets = site.with_secrets(move |store| store.list(&tenant)).await?;
    Ok(SecretList { secrets })
}

/// Forgets a secret.
pub(crate) async fn secret_remove(
    site: &Site,
    tenant: &Tenant,
    request: SecretRemove,
) -> Result<Secret> {
    let tenant = tenant.clone();
    site.with_secrets(move |store| store.remove(&tenant, &request.name)).await
}

impl Site {
    pub(crate) async fn with_secrets<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SecretStore) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.secrets.as_ref().map(Arc::clone).ok_or_else(|| {
            Error::unsupported("there is no place for secrets here")
                .hint("use secrets with the hotcell command and its server")
        })?;
        fault::blocking(move || work(&*store)).await
    }

    /// What a new cell is granted, if the operator allows it and the secrets are there.
    pub(crate) async fn granted(
        &self,
        tenant: &Tenant,
        asked: &[SecretGrant],
        driver: &dyn Driver,
    ) -> Result<Vec<SecretGrant>> {
        let grants = self.as_lent(tenant, asked);
        self.check_secrets_allowed(tenant, &grants)?;
        check::secrets(&grants)?;
        for SecretGrant { name, form } in &grants {
            let (owner, asked) = (tenant.clone(), name.clone());
            let value = self.with_secrets(move |store| store.resolve(&owner, &asked)).await?;
            match form {
                SecretForm::Env { .. } => {}
                SecretForm::Header(form) => {
                    networks(driver)?;
                    form.usable(name, value.expose())?;
                }
            }
        }
        Ok(grants)
    }

    /// Where the operator lends secrets, a plain name stands for all that was lent under it.
    fn as_lent(&self, tenant: &Tenant, asked: &[SecretGrant]) -> Vec<SecretGrant> {
        let lent = match self.settings.secrets_of(tenant) {
            LentSecrets::Any => return asked.to_vec(),
            LentSecrets::Only(lent) => lent,
        };
        let mut grants: Vec<SecretGrant> = Vec::new();
        for grant in asked {
            let is_plain = *grant == SecretGrant::env(grant.name.clone());
            let meant: Vec<&SecretGrant> =
                lent.iter().filter(|it| is_plain && it.name == grant.name).collect();
            let meant = if meant.is_empty() { vec![grant] } else { meant };
            for grant in meant {
                if !grants.contains(grant) {
                    grants.push(grant.clone());
                }
            }
        }
        grants
    }

    pub(crate) fn check_secrets_allowed(
        &self,
        tenant: &Tenant,
        grants: &[SecretGrant],
    ) -> Result<()> {
        let lent = match self.settings.secrets_of(tenant) {
            LentSecrets::Any => return Ok(()),
            LentSecrets::Only(lent) => lent,
        };
        match grants.iter().find(|grant| !lent.iter().any(|it| it.covers(grant))) {
            None => Ok(()),
            Some(grant) => Err(not_allowed(lent, grant)),
        }
    }

    /// The secrets of a cell with their values, for an exec that is about to start. Those that are
    /// headers go to what carries its connections, and not into the cell.
    pub(crate) async fn given_secrets(&self, cell: &CellId) -> Result<Vec<GivenSecret>> {
        let grants = self.links.secrets_of(cell);
        if grants.is_empty() {
            return Ok(Vec::new());
        }
        let tenant = self
            .links
            .tenant_of(cell)
            .ok_or_else(|| Error::unavailable(format!("cell {cell} is gone")).hint("try again"))?;
        let resolved = self.with_secrets(move |store| {
            let mut given = Vec::new();
            let mut lent: Vec<LentSecret> = Vec::new();
            for SecretGrant { name, form } in grants {
                let value = store.resolve(&tenant, &name).map_err(|error| gone(&name, error))?;
                match form {
                    SecretForm::Env { variable } => {
                        let (name, value) = (name.to_string(), value.expose().to_owned());
                        given.push(GivenSecret { name, variable, value });
                    }
                    SecretForm::Header(form) => {
                        let value = form.usable(&name, value.expose())?.to_owned();
                        let secret = LentSecret { name, value };
                        if !lent.contains(&secret) {
                            lent.push(secret);
                        }
                    }
                }
            }
            Ok((given, lent))
        });
        let (given, lent) = resolved.await?;
        if !lent.is_empty() {
            let driver = self.links.driver_of(cell).unwrap_or_default();
            networks(&**self.driver(&driver)?)?.lend(cell, lent).await?;
        }
        Ok(given)
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

fn not_allowed(lent: &[SecretGrant], asked: &SecretGrant) -> Error {
    let refused = match lent.iter().any(|it| it.name == asked.name) {
        // By name it may.
        true => Error::denied(format!(
            "cells may not be granted the secret {} in this form here",
            asked.name
        )),
        false => Error::denied(format!("cells may not be granted the secret {} here", asked.name)),
    };
    let names: Vec<String> = lent.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [] => refused.hint("the operator allows secrets by name with the setting serve.secrets"),
        names => refused.hint(format!("the operator allows {}", names.join(", "))),
    }
}
