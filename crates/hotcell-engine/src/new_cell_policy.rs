//! What the policy says of a cell that a request is about to make, whichever request that is.

use std::collections::BTreeMap;

use hotcell_model::{
    Caller, CellRef, CellSpawn, CellSpec, Digest, Driver, ExecRun, FileCall, FileStream,
    HOST_IMAGE, ImageName, NetRule, Network, Request, Result, SecretGrant,
};
use hotcell_policy::{Act, Around, ImageNames, Policy, Verdict};

use crate::default_cell;
use crate::site::Site;

const DEFAULT_REGISTRY: &str = "docker.io/";
const DEFAULT_OWNER: &str = "library/";

/// A cell that is about to be made, as rules see it.
#[derive(Debug, Clone)]
pub(crate) struct NewCell {
    image: ImageNames,
    egress: Vec<String>,
    secrets: Vec<String>,
    env: BTreeMap<String, String>,
}

impl NewCell {
    /// What rules about cells decide.
    pub(crate) fn verdict(&self, policy: &Policy) -> Verdict {
        let variables: Vec<(&str, &str)> =
            self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let act = Act::Spawn { image: &self.image, egress: &self.egress, secrets: &self.secrets };
        policy.decide_in(&act, Around { variables: &variables, input: None })
    }
}

/// The cell that a request makes before anything else is done; `None` for one that makes none.
///
/// # Errors
/// The cell that it is made from, or the images of its driver, cannot be read.
pub(crate) async fn made_by(
    site: &Site,
    caller: &Caller,
    request: &Request,
) -> Result<Option<NewCell>> {
    if let Request::CellSpawn(spawn) = request {
        return of_spawn(site, spawn).await.map(Some);
    }
    if let Request::CellFork(fork) = request {
        let parent = site.get_cell(&fork.cell).await?;
        let network = site.network_in_force(&parent).await?;
        return of_spec(site, &CellSpec { network, ..parent.spec }).await.map(Some);
    }
    if let Request::VolumeRestore(restore) = request {
        let ended = site.get_cell_or_ended(&restore.cell).await?;
        let spec = site.with_network_in_force(&ended).await;
        return of_spec(site, &spec).await.map(Some);
    }
    if makes_default_cell(request) {
        return of_spawn(site, &default_cell::spawn_of(caller)).await.map(Some);
    }
    Ok(None)
}

/// Whether the caller's default cell is made for a request. A cell that is there stands in it by its
/// id at this point, and the default cell that is not by its name.
fn makes_default_cell(request: &Request) -> bool {
    matches!(
        request,
        Request::ExecRun(ExecRun { cell: CellRef::Alias(_), .. })
            | Request::FileCall(FileCall { cell: CellRef::Alias(_), .. })
            | Request::FileStream(FileStream { cell: CellRef::Alias(_), .. })
    )
}

pub(crate) async fn of_spawn(site: &Site, spawn: &CellSpawn) -> Result<NewCell> {
    let driver = site.named_or_default(spawn.driver.as_deref())?;
    let image = match spawn.image.as_str() {
        HOST_IMAGE => driver.usual_image().unwrap_or(HOST_IMAGE),
        named => named,
    };
    Ok(NewCell {
        image: names_of(&**driver, image).await?,
        egress: rules_of(&spawn.network),
        secrets: granted(&spawn.secrets),
        env: spawn.env.clone(),
    })
}

async fn of_spec(site: &Site, spec: &CellSpec) -> Result<NewCell> {
    Ok(NewCell {
        image: names_of(&**site.driver(&spec.driver)?, &spec.image).await?,
        egress: rules_of(&spec.network),
        secrets: granted(&spec.secrets),
        env: spec.env.clone(),
    })
}

fn rules_of(network: &Network) -> Vec<String> {
    match network {
        Network::None => Vec::new(),
        Network::Names(rules) => rules.allow.iter().map(NetRule::to_string).collect(),
    }
}

fn granted(secrets: &[SecretGrant]) -> Vec<String> {
    secrets.iter().map(|grant| grant.name.to_string()).collect()
}

/// Every name of an image: short and full ones, and those of the same content where the driver keeps
/// images itself.
async fn names_of(driver: &dyn Driver, image: &str) -> Result<ImageNames> {
    let mut names = ImageNames::from(image);
    let Ok(parsed) = image.parse::<ImageName>() else { return Ok(names) };
    if image == HOST_IMAGE {
        return Ok(names);
    }
    names.same = spellings(&parsed);
    names.related = without_version(&parsed);
    if let Some(images) = driver.images() {
        let kept = images.list().await?.images;
        let named = kept.iter().find(|it| it.name == parsed).map(|it| it.digest.clone());
        let content = parsed.digest().cloned().or(named);
        if let Some(content) = &content {
            names.related.extend(of_content(&parsed, content));
            for other in kept.iter().filter(|it| it.digest == *content) {
                names.related.extend(spellings(&other.name));
                names.related.extend(without_version(&other.name));
                names.related.extend(of_content(&other.name, content));
            }
        }
    }
    names.related.sort_unstable();
    names.related.dedup();
    Ok(names)
}

/// The ways to write one name.
pub(crate) fn spellings(name: &ImageName) -> Vec<String> {
    let path = format!("{}/{}", name.registry(), name.repository());
    let tag = name.tag().map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = name.digest().map(|digest| format!("@{digest}")).unwrap_or_default();
    let mut all = Vec::new();
    for path in short(&path) {
        all.push(format!("{path}{tag}{digest}"));
        if tag == ":latest" {
            all.push(format!("{path}{digest}"));
        }
    }
    all
}

/// The same without what is left out where a registry is named by habit.
fn short(path: &str) -> Vec<&str> {
    let without = path.strip_prefix(DEFAULT_REGISTRY);
    let name = without.and_then(|rest| rest.strip_prefix(DEFAULT_OWNER));
    std::iter::once(path).chain(without).chain(name).collect()
}

/// A name with content: the same with its tag alone, and with its content alone.
pub(crate) fn without_version(name: &ImageName) -> Vec<String> {
    let Some(digest) = name.digest() else { return Vec::new() };
    let path = format!("{}/{}", name.registry(), name.repository());
    let mut all = of_content(name, digest);
    for path in short(&path) {
        all.extend(name.tag().map(|tag| format!("{path}:{tag}")));
    }
    all
}

fn of_content(name: &ImageName, content: &Digest) -> Vec<String> {
    let path = format!("{}/{}", name.registry(), name.repository());
    short(&path).into_iter().map(|path| format!("{path}@{content}")).collect()
}
