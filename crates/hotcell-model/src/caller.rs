//! Who is asking.

use serde::{Deserialize, Serialize};

/// The party on whose behalf a request is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// A stable name of the party, such as `local:1000`.
    pub principal: String,
}

impl Caller {
    /// The person or program that runs `hotcell` on this machine under `uid`.
    #[must_use]
    pub fn local(uid: u32) -> Self {
        Self { principal: format!("local:{uid}") }
    }
}
