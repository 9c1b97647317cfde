//! Where a keeper can be asked for what only it can do: a line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::KeptPlace;

/// How long a keeper may take; one that takes longer is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Asks the keeper of a cell and waits for its answer.
///
/// # Errors
/// There is no keeper, which is `NotFound`, or it does not answer.
pub fn ask_keeper<Answer: DeserializeOwned>(
    place: KeptPlace<'_>,
    ask: &impl Serialize,
) -> io::Result<Answer> {
    let stream = place
        .connect_keeper()?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the cell has no keeper"))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    send(&stream, ask)?;
    receive(&stream)
}

/// Takes a question and answers it; what came of it for the keeper, if it was one.
pub fn answer_one<Ask: DeserializeOwned, Answer: Serialize, Outcome>(
    listener: &UnixListener,
    answer: impl FnOnce(Ask) -> (Answer, Outcome),
) -> Option<Outcome> {
    let (stream, _) = listener.accept().ok()?;
    let asked = stream.set_read_timeout(Some(ANSWER_WITHIN)).and_then(|()| receive(&stream));
    let (answer, outcome) = answer(asked.ok()?);
    // Whoever asked may be gone by the time it is answered.
    let _ = send(&stream, &answer);
    Some(outcome)
}

fn send<T: Serialize>(mut stream: &UnixStream, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
