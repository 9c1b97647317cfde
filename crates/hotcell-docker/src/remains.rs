//! What an engine has of this state directory, found by labels.

use std::collections::{BTreeSet, HashMap};

use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use hotcell_model::{CellId, Result};

use crate::docker_host::DockerHost;
use crate::labels;

/// Every cell of which the engine has a container or a volume.
pub(crate) async fn cells_at(host: &DockerHost, state: &str) -> Result<BTreeSet<CellId>> {
    let ours = HashMap::from([("label".to_owned(), vec![format!("{}={state}", labels::STATE)])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    let containers = host.docker.list_containers(Some(options)).await;
    let containers = containers.map_err(|error| host.failed("list its containers", &error))?;
    let options = ListVolumesOptionsBuilder::default().filters(&ours).build();
    let volumes = host.docker.list_volumes(Some(options)).await;
    let volumes = volumes.map_err(|error| host.failed("list its volumes", &error))?;
    let of_containers = containers.into_iter().filter_map(|container| container.labels);
    let of_volumes = volumes.volumes.into_iter().flatten().map(|volume| volume.labels);
    Ok(of_containers.chain(of_volumes).filter_map(|labels| cell_of(&labels, state)).collect())
}

/// Which cell something belongs to. An engine that filters less than it was asked to shows nothing of
/// others.
fn cell_of(labels: &HashMap<String, String>, state: &str) -> Option<CellId> {
    let is_ours = labels.get(labels::STATE).is_some_and(|found| found == state);
    labels.get(labels::CELL).filter(|_| is_ours)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_state_directory_made_is_not_ours() {
        let cell: CellId = "c_0123456789".parse().expect("an id");
        let labels = labels::of_cell(&cell, "ours");
        assert_eq!(cell_of(&labels, "ours"), Some(cell));
        assert_eq!(cell_of(&labels, "theirs"), None);
        assert_eq!(cell_of(&HashMap::new(), "ours"), None);
    }
}
