//! What is left of a process that ends badly.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// From now on this process leaves no image of its memory, and nobody but root looks into it. To be
/// called before it has a secret.
pub fn leave_no_image() {
    // Holds for programs that collect images too, which a limit of their size does not.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let limit = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit });
}
