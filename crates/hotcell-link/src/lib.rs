//! The link between an engine process and a cell's supervisor: one byte stream, many channels.
//!
//! Both ends live here. [`Link`] is the engine's, asynchronous; [`Peer`] is the supervisor's and
//! the keeper's, without a runtime. A stream opens with a [`Hello`] from each side; after that
//! every frame belongs to a channel that the engine's end numbered. Frames of a kind that a peer
//! does not know are skipped, and fields it does not know are ignored, so that a cell outlives an
//! upgrade of the engine and the other way round.

mod carrier;
mod client;
mod conversation;
mod files;
mod following;
mod frame;
mod hello;
mod inflow;
mod message;
mod peer;
mod plan;
mod ports;
mod waiters;

#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod hello_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod message_tests;
#[cfg(test)]
mod other_end;
#[cfg(test)]
mod ports_tests;

pub use client::{Link, LinkError};
pub use conversation::{Conversation, DataSender, EventReceiver};
pub use files::{FileConversation, FileEvent};
pub use following::{FollowEvent, Following};
pub use frame::{
    Frame, FrameError, FrameKind, FrameView, MAX_FRAME_BYTES, decode, encode, frame_start, view,
};
pub use hello::{
    APPROVALS, CODE, FILES, Hello, HelloError, PORTS, SCRIPTS, SECRETS, SESSIONS, SUPPORTED,
    Versions,
};
pub use message::{
    Ask, DATA_BYTES, DataHead, DiskState, FileAsk, GivenSecret, InputState, ProgramState,
    RecordHead, Started, Stillness, Tell, UPLOAD_WINDOW, data_cost, record_cost,
};
pub use peer::{Peer, PeerError};
pub use plan::{
    BIRTH_SOCKET, CELL_VARIABLE, CONTAINER_BIRTHPLACE, CONTAINER_PLACE, CONTAINER_PROGRAM,
    CONTAINER_PROGRAMS, ContainerOrder, ExecIds, HostRoot, KillMeans, OWN_DIRECTORIES, Plan,
    PlanFds, Root,
};
pub use ports::{PortConnection, PortEvent};
