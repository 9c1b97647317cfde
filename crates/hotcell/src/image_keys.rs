//! The keys of the configuration that are about images.

use std::path::PathBuf;

use hotcell_model::{Error, ImagePattern};

use crate::config_keys::{Key, choice, list};

pub(crate) const ALLOW: Key = Key {
    name: "images.allow",
    variable: "HOTCELL_IMAGES_ALLOW",
    default: "",
    about: "images that cells may begin with, with commas between, each as NAME, NAME:TAG, \
            REGISTRY/* or REGISTRY/OWNER/*; any unless given",
    set: |config, text| {
        let patterns = list(text).into_iter().map(|it| it.parse::<ImagePattern>());
        let patterns: Result<Vec<ImagePattern>, Error> = patterns.collect();
        let patterns = patterns.map_err(|error| error.to_string())?;
        if patterns.is_empty() && !text.is_empty() {
            return Err("it names no image".to_owned());
        }
        config.images.allow = patterns;
        Ok(())
    },
    get: |config| {
        let patterns: Vec<String> = config.images.allow.iter().map(ToString::to_string).collect();
        patterns.join(",").into()
    },
};

pub(crate) const REQUIRE_DIGEST: Key = Key {
    name: "images.require_digest",
    variable: "HOTCELL_IMAGES_REQUIRE_DIGEST",
    default: "false",
    about: "whether the name of an image must say its content, NAME@sha256:…: `true` or `false`",
    set: |config, text| {
        config.images.pinned = choice(text, &[("true", true), ("false", false)])?;
        Ok(())
    },
    get: |config| config.images.pinned.into(),
};

pub(crate) const SCAN: Key = Key {
    name: "images.scan",
    variable: "HOTCELL_IMAGES_SCAN",
    default: "",
    about: "a program that is asked about each image before it is taken or used, with its name, its \
            digest and where it lies; only an exit code of 0 lets it be used",
    set: |config, text| {
        config.image_scan = PathBuf::from(text);
        Ok(())
    },
    get: |config| config.image_scan.display().to_string().into(),
};
