//! Images that cells begin with, which a driver keeps.

use hotcell_model::{
    Driver, Error, HOST_IMAGE, Image, ImageImport, ImageList, ImageName, ImagePull, ImageRemove,
    ImageRules, Images, ImagesList, Result,
};

use crate::site::Site;

/// Takes an image from a file of this machine.
pub(crate) async fn image_import(site: &Site, request: ImageImport) -> Result<Image> {
    if let Some(name) = &request.name {
        allowed(site, name)?;
    }
    images_of(&**site.named_or_default(request.driver.as_deref())?)?.import(&request).await
}

/// Takes an image from a registry.
pub(crate) async fn image_pull(site: &Site, request: ImagePull) -> Result<Image> {
    site.settings.images.check(&request.name)?;
    images_of(&**site.named_or_default(request.driver.as_deref())?)?.pull(&request).await
}

/// Lists images.
pub(crate) async fn images_list(site: &Site, request: ImagesList) -> Result<ImageList> {
    images_of(&**site.named_or_default(request.driver.as_deref())?)?.list().await
}

/// Forgets an image.
pub(crate) async fn image_remove(site: &Site, request: ImageRemove) -> Result<Image> {
    images_of(&**site.named_or_default(request.driver.as_deref())?)?.remove(&request.name).await
}

impl Site {
    /// Whether a cell may begin with this image.
    pub(crate) fn allowed_image(&self, image: &str) -> Result<()> {
        match image {
            HOST_IMAGE => Ok(()),
            image => self.settings.images.check(&image.parse()?),
        }
    }
}

/// Whether an image from a file may have this name. What it is pinned to is known once it is read.
fn allowed(site: &Site, name: &ImageName) -> Result<()> {
    ImageRules { pinned: false, ..site.settings.images.clone() }.check(name)
}

fn images_of(driver: &dyn Driver) -> Result<&dyn Images> {
    driver.images().ok_or_else(|| {
        Error::unsupported(format!("the driver {} keeps no images", driver.name()))
            .hint("it has those of its engine; name another driver with HOTCELL_DRIVER")
    })
}
