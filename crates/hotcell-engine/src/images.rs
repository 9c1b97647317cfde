//! Images that cells begin with, which a driver keeps.

use hotcell_model::{
    Driver, Error, Image, ImageImport, ImageList, ImagePull, ImageRemove, Images, ImagesList,
    Result,
};

use crate::site::Site;

/// Takes an image from a file of this machine.
pub(crate) async fn image_import(site: &Site, request: ImageImport) -> Result<Image> {
    images_of(&**site.named_or_default(request.driver.as_deref())?)?.import(&request).await
}

/// Takes an image from a registry.
pub(crate) async fn image_pull(site: &Site, request: ImagePull) -> Result<Image> {
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

fn images_of(driver: &dyn Driver) -> Result<&dyn Images> {
    driver
        .images()
        .ok_or_else(|| Error::unsupported(format!("the driver {} keeps no images", driver.name())))
}
