//! Content of a registry, taken up where it broke off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hotcell_images::Descriptor;
use hotcell_model::{Digest, Error, ErrorCode, Result};
use http::header::CONTENT_RANGE;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use ring::digest::{Context, SHA256};
use tokio::time::{sleep, timeout};

use crate::layout::Layout;
use crate::session::Session;

/// Nothing comes for so long: the connection is given up.
const STALLED: Duration = Duration::from_secs(30);
/// How often content is taken up again of which nothing more comes, and the first pause before that.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);
const ANYTHING: &str = "*/*";

/// Fetches content into a layout; what has come before is kept. `come` counts what comes.
pub(crate) async fn fetch(
    session: &Session<'_>,
    layout: &Layout<'_>,
    what: &Descriptor,
    come: &AtomicU64,
) -> Result<()> {
    if fs::metadata(layout.blob(&what.digest)).is_ok_and(|found| found.len() == what.size) {
        come.fetch_add(what.size, Ordering::Relaxed);
        return Ok(());
    }
    let (mut tries, mut counted) = (0, 0);
    loop {
        let before = counted;
        match try_once(session, layout, what, come, &mut counted).await {
            Ok(()) => return Ok(()),
            Err(Broken::ForGood(error)) => return Err(error),
            Err(Broken::Off(error)) => {
                tracing::debug!(%error, digest = %what.digest, "a pull broke off");
                // As long as it gets on it is gone on with.
                tries = if counted > before { 1 } else { tries + 1 };
                if tries == TRIES {
                    return Err(error);
                }
                sleep(PAUSE * 2_u32.pow(tries - 1)).await;
            }
        }
    }
}

/// Why content did not come.
enum Broken {
    /// It may come at the next try.
    Off(Error),
    ForGood(Error),
}

/// Content as far as it is there.
struct Partial {
    file: File,
    context: Context,
    length: u64,
}

impl Partial {
    fn open(layout: &Layout<'_>, digest: &Digest) -> io::Result<Self> {
        let path = layout.partial(digest);
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut context = Context::new(&SHA256);
        let mut length = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    context.update(&buffer[..read]);
                    length += read as u64;
                }
            }
        }
        Ok(Self { file, context, length })
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.context = Context::new(&SHA256);
        self.length = 0;
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.context.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn digest(self) -> Digest {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.context.finish().as_ref());
        Digest::of_hash(&hash)
    }
}

/// Whether a part is the rest of content of which so much is there.
fn goes_on_from<T>(response: &Response<T>, length: u64) -> bool {
    let said = response.headers().get(CONTENT_RANGE).and_then(|it| it.to_str().ok());
    let begins = format!("bytes {length}-");
    said.is_none_or(|said| said.starts_with(&begins))
}

async fn try_once(
    session: &Session<'_>,
    layout: &Layout<'_>,
    what: &Descriptor,
    come: &AtomicU64,
    counted: &mut u64,
) -> Result<(), Broken> {
    let digest = &what.digest;
    let on_disk = |error: io::Error| Broken::ForGood(layout.failed(&error));
    let mut partial = Partial::open(layout, digest).map_err(on_disk)?;
    if partial.length > what.size {
        partial.begin_anew().map_err(on_disk)?;
    }
    let mut count = |length: u64| {
        come.fetch_add(length.saturating_sub(*counted), Ordering::Relaxed);
        *counted = length.max(*counted);
    };
    count(partial.length);
    let resumed = partial.length > 0;
    if partial.length < what.size {
        let path = format!("blobs/{digest}");
        let answer = session.get(&path, ANYTHING, partial.length).await;
        let answer = answer.map_err(|error| match error.code == ErrorCode::Unavailable {
            true => Broken::Off(error),
            false => Broken::ForGood(error),
        })?;
        match answer.response.status() == StatusCode::PARTIAL_CONTENT {
            true if goes_on_from(&answer.response, partial.length) => {}
            true => {
                partial.begin_anew().map_err(on_disk)?;
                return Err(Broken::Off(
                    session.failed("it sends another part than was asked for"),
                ));
            }
            // It sends all of it again.
            false => partial.begin_anew().map_err(on_disk)?,
        }
        let hotcell_egress::HostAnswer { response, .. } = answer;
        let mut body = response.into_body();
        loop {
            let frame = match timeout(STALLED, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    return Err(Broken::Off(session.failed(&error.to_string())));
                }
                Err(_) => return Err(Broken::Off(session.failed("nothing more comes"))),
            };
            let Ok(bytes) = frame.into_data() else { continue };
            if partial.length + bytes.len() as u64 > what.size {
                let _ = fs::remove_file(layout.partial(digest));
                let why = format!("{digest} is longer than the {} bytes that were said", what.size);
                return Err(Broken::ForGood(session.failed(&why)));
            }
            partial.add(&bytes).map_err(on_disk)?;
            count(partial.length);
        }
        if partial.length < what.size {
            return Err(Broken::Off(session.failed("it ended in the middle")));
        }
    }
    let found = partial.digest();
    if found != *digest {
        let _ = fs::remove_file(layout.partial(digest));
        let error = session.failed(&format!("what came as {digest} is {found}"));
        // It may be what was there before that is wrong.
        return Err(if resumed { Broken::Off(error) } else { Broken::ForGood(error) });
    }
    fs::rename(layout.partial(digest), layout.blob(digest)).map_err(on_disk)
}
