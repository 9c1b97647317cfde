//! Whether an existing cell is as the command line asks.

use hotcell_model::{Cell, CellId, CellState, ErrorCode, Limits, Network, Timestamp};

use super::place::check_as_asked;
use crate::args::Shape;

fn cell() -> Cell {
    Cell {
        id: CellId::from_random(1),
        tenant: hotcell_model::Tenant::default(),
        alias: Some("work".parse().unwrap()),
        state: CellState::Ready,
        driver: "native".to_owned(),
        image: "host".to_owned(),
        persistent: true,
        created_at: Timestamp(0),
        expires_at: None,
        limits: Limits {
            memory_mb: 4096,
            cpus: None,
            pids: 1024,
            disk_mb: 10_240,
            disk_files: 1000,
        },
        network: Network::None,
        workspace: None,
        checkpoint_before: None,
        on: std::collections::BTreeMap::new(),
        secrets: Vec::new(),
        isolation: None,
    }
}

fn shape() -> Shape {
    Shape {
        on: Vec::new(),
        allow: Vec::new(),
        image: None,
        driver: None,
        net: None,
        memory: None,
        cpus: None,
        pids: None,
        disk: None,
        disk_files: None,
        workspace: None,
        secret: Vec::new(),
    }
}

#[test]
fn what_was_not_asked_for_does_not_matter() {
    check_as_asked(&cell(), &shape()).unwrap();
    let same = Shape { memory: Some(4096), image: Some("host".to_owned()), ..shape() };
    check_as_asked(&cell(), &same).unwrap();
}

#[test]
fn what_differs_is_named() {
    let asked = [
        (Shape { memory: Some(512), ..shape() }, "--memory 4096 MiB, not 512 MiB"),
        (Shape { cpus: Some(1.5), ..shape() }, "--cpus no limit, not 1.5"),
        (Shape { pids: Some(9), ..shape() }, "--pids 1024, not 9"),
        (Shape { disk: Some(1), ..shape() }, "--disk 10240 MiB, not 1 MiB"),
        (Shape { image: Some("debian".to_owned()), ..shape() }, "--image host, not debian"),
    ];
    for (shape, difference) in asked {
        let error = check_as_asked(&cell(), &shape).unwrap_err();
        assert_eq!(error.code, ErrorCode::Conflict);
        assert!(error.message.contains(difference), "{error}");
        assert!(error.message.contains("the cell work exists"), "{error}");
    }
}
