//! Pictures that code left behind, read from its cell for whoever is shown its end.

use hotcell_model::{Artifact, CellRef, CodeImage, Exec, FileCall, FileContent, FileRead, Result};
use tokio::time::timeout;

use crate::files::call_once;
use crate::links::ANSWER_WITHIN;
use crate::masked_files::is_text;
use crate::site::Site;

/// The most pictures of one run; more are files alone.
const MOST_IMAGES: usize = 4;
/// The largest of them.
const MOST_BYTES: u64 = 1 << 20;

impl Site {
    /// The pictures among the artifacts of code that has ended. Which there are is the code's own
    /// word, so each is read as any file of the cell is and has to begin as its type does. A cell
    /// that is asleep is not woken for it.
    pub(crate) async fn images_of(&self, exec: &Exec, artifacts: &[Artifact]) -> Vec<CodeImage> {
        let results = format!("/workspace/.results/{}/", exec.id);
        let pictures = artifacts.iter().filter(|it| {
            kind_named(&it.mime).is_some()
                && it.path.starts_with(&results)
                && it.bytes <= MOST_BYTES
        });
        let mut images = Vec::new();
        for picture in pictures.take(MOST_IMAGES) {
            match timeout(ANSWER_WITHIN, self.image(exec, picture)).await {
                Ok(Ok(image)) => images.extend(image),
                // The file is still there to be read.
                Ok(Err(error)) => {
                    tracing::debug!(exec = %exec.id, %error, "a picture is not shown");
                }
                Err(_) => break,
            }
        }
        images
    }

    async fn image(&self, exec: &Exec, picture: &Artifact) -> Result<Option<CodeImage>> {
        let cell = CellRef::Id(exec.cell.clone());
        self.awake(&cell).await?;
        // One byte more than is shown tells that there is more.
        let limit = Some(MOST_BYTES + 1);
        let read = FileRead { path: picture.path.clone(), limit, ..FileRead::default() };
        let done = call_once(self, &FileCall::new(cell, read.into())).await?;
        let about: FileContent = done.result.try_into()?;
        let content = done.content;
        let is_whole = !about.truncated && content.len() as u64 <= MOST_BYTES;
        let kind = kind_named(&picture.mime).filter(|kind| is_whole && kind.begins(&content));
        // What is text is no picture, and may hold what is masked in texts.
        Ok(kind.filter(|_| !is_text(&content)).map(|kind| CodeImage {
            path: picture.path.clone(),
            mime: kind.mime,
            content,
        }))
    }
}

/// A kind of pictures that clients show.
struct Kind {
    mime: &'static str,
    begins: fn(&[u8]) -> bool,
}

impl Kind {
    fn begins(&self, content: &[u8]) -> bool {
        (self.begins)(content)
    }
}

const KINDS: &[Kind] = &[
    Kind { mime: "image/png", begins: |bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n") },
    Kind { mime: "image/jpeg", begins: |bytes| bytes.starts_with(b"\xff\xd8\xff") },
    Kind {
        mime: "image/gif",
        begins: |bytes| bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
    },
    Kind {
        mime: "image/webp",
        begins: |bytes| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
    },
];

fn kind_named(mime: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.mime == mime)
}
