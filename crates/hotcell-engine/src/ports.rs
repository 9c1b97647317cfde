//! Connects to a service in a cell.

use hotcell_link::{DataSender, EventReceiver, LinkError, PortConnection, PortEvent};
use hotcell_model::{Error, PortDial, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::links::{ANSWER_WITHIN, stuck};
use crate::site::Site;

/// A supervisor can end between being found and being asked.
const ATTEMPTS: u32 = 3;
const READ_BYTES: usize = 64 * 1024;

/// Connects to a service.
pub(crate) async fn port_dial(site: &Site, request: PortDial) -> Result<PortStream> {
    let PortDial { cell, port } = request;
    let mut lost = LinkError::Lost;
    for _ in 0..ATTEMPTS {
        let ready = site.ready(&cell).await?;
        match timeout(ANSWER_WITHIN, ready.link.dial(port)).await {
            Ok(Ok(connection)) => return Ok(PortStream(connection)),
            Ok(Err(LinkError::Lost)) => lost = LinkError::Lost,
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(stuck(&ready.id)),
        }
    }
    Err(lost.into())
}

/// A connection to a service in a cell. Dropped, it is closed.
#[derive(Debug)]
pub struct PortStream(PortConnection);

impl PortStream {
    /// Carries bytes between a stream and the service until both ways are at their end. Where one
    /// side says that it sends no more, the other is told so; the way back goes on.
    ///
    /// # Errors
    /// The connection to the service broke, or the stream did.
    pub async fn carry(self, stream: impl AsyncRead + AsyncWrite) -> Result<()> {
        let PortConnection { sender, mut receiver } = self.0;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let to_service = pass_in(&mut reader, &sender);
        let from_service = pass_out(&mut receiver, &mut writer);
        tokio::pin!(to_service, from_service);
        tokio::select! {
            biased;
            over = &mut from_service => over,
            passed = &mut to_service => {
                passed?;
                from_service.await
            }
        }
    }
}

async fn pass_in(reader: &mut (impl AsyncRead + Unpin), sender: &DataSender) -> Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match reader.read(&mut buffer).await.map_err(|error| gone(&error))? {
            0 => return Ok(sender.finish().await?),
            length => sender.send(&buffer[..length]).await?,
        }
    }
}

async fn pass_out(
    receiver: &mut EventReceiver<PortEvent>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<()> {
    loop {
        match receiver.next().await? {
            PortEvent::Data(bytes) => {
                writer.write_all(&bytes).await.map_err(|error| gone(&error))?;
                writer.flush().await.map_err(|error| gone(&error))?;
            }
            PortEvent::End => writer.shutdown().await.map_err(|error| gone(&error))?,
            PortEvent::Closed => return Ok(()),
            PortEvent::Failed(error) => return Err(error),
        }
    }
}

fn gone(error: &std::io::Error) -> Error {
    Error::cancelled(format!("whoever used the connection is gone: {error}"))
}
