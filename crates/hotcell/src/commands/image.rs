//! `hotcell image`: images that cells begin with.

use hotcell_model::{ImageImport, ImagePull, ImageRemove, ImagesList, Result};

use crate::errors::Failure;
use crate::image_args::ImageAction;
use crate::session::Session;
use crate::show::{Table, print, print_json};

/// Takes, lists or removes.
pub(super) async fn image(session: &Session, action: ImageAction) -> Result<u8, Failure> {
    match action {
        ImageAction::Pull { name, json } => {
            session.pull_bar().show();
            let pulled = session.ask(ImagePull { name, driver: None }).await;
            session.pull_bar().clear();
            let image = pulled?;
            if json {
                print_json(&image)?;
            } else {
                print(format!("{}\n", image.name))?;
            }
        }
        ImageAction::Import { path, name, json } => {
            let path = std::path::absolute(&path).unwrap_or(path);
            let image = session.ask(ImageImport { path, name, driver: None }).await?;
            if json {
                print_json(&image)?;
            } else {
                print(format!("{}\n", image.name))?;
            }
        }
        ImageAction::List { json } => {
            let listed = session.ask(ImagesList::default()).await?;
            if json {
                print_json(&listed)?;
                return Ok(0);
            }
            let mut table = Table::new(["NAME", "DIGEST", "PLATFORM", "LAYERS", "MB"]);
            for image in listed.images {
                table.row([
                    image.name.to_string(),
                    image.digest.hex().chars().take(12).collect(),
                    image.platform,
                    image.layers.to_string(),
                    image.bytes.div_ceil(1 << 20).to_string(),
                ]);
            }
            print(table.to_string())?;
        }
        ImageAction::Rm { name } => {
            session.ask(ImageRemove { name, driver: None }).await?;
        }
    }
    Ok(0)
}
