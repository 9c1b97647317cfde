//! What this machine can enforce, for people.

use hotcell_model::Diagnosis;

use crate::driver::Native;

pub(crate) fn diagnose(native: &Native) -> Diagnosis {
    let _ = native;
    Diagnosis { driver: "native".to_owned(), checks: Vec::new(), isolation: None }
}

pub(crate) fn user_namespace_remedy() -> String {
    "see `hotcell doctor`".to_owned()
}
