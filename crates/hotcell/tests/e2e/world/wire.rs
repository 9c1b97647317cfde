//! What is between this machine and one with a Docker engine: a port that leads to its socket, and that
//! may be cut, freeze, and be mended.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// How it is with the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// Connections break off and none are made.
    Cut,
    /// Nothing arrives any more, and nobody is told.
    Frozen,
}

/// A wire. Its threads end with the process of the test.
#[derive(Debug)]
pub(crate) struct Wire {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// Both ends of each connection, to be broken off.
    ends: Mutex<HashMap<u64, (TcpStream, UnixStream)>>,
}

impl Wire {
    pub(crate) fn to(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            socket: socket.to_owned(),
            state: Mutex::new(State::Whole),
            changed: Condvar::new(),
            ends: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                accepting.connect(number as u64, client);
            }
        });
        Self { port, shared }
    }

    /// The address of the engine behind it.
    pub(crate) fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) {
        self.shared.become_so(State::Cut);
        for (_, (client, engine)) in self.shared.ends.lock().unwrap().drain() {
            let _ = (client.shutdown(Shutdown::Both), engine.shutdown(Shutdown::Both));
        }
    }

    pub(crate) fn freeze(&self) {
        self.shared.become_so(State::Frozen);
    }

    /// Mends it. What was under way when it froze arrives late.
    pub(crate) fn mend(&self) {
        self.shared.become_so(State::Whole);
    }
}

impl Shared {
    fn become_so(&self, state: State) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap()
    }

    fn await_thaw(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| *state == State::Frozen).unwrap());
    }

    fn connect(self: &Arc<Self>, number: u64, client: TcpStream) {
        if self.state() == State::Cut {
            return;
        }
        let Ok(engine) = UnixStream::connect(&self.socket) else { return };
        let ends = (client.try_clone().unwrap(), engine.try_clone().unwrap());
        self.ends.lock().unwrap().insert(number, ends);
        let (to, from) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || {
            there.carry(client, &engine);
            let _ = engine.shutdown(Shutdown::Write);
        });
        std::thread::spawn(move || {
            back.carry(from, &to);
            let _ = to.shutdown(Shutdown::Both);
            back.ends.lock().unwrap().remove(&number);
        });
    }

    fn carry(&self, mut from: impl Read, mut to: impl Write) {
        let mut piece = [0; 65536];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            self.await_thaw();
            if to.write_all(&piece[..length]).is_err() {
                break;
            }
        }
    }
}
