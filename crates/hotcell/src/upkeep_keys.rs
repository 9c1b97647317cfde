//! The keys of the configuration that are about keeping house.

use crate::config_keys::{Key, bound, count, list};
use crate::values;

/// For how long things are kept that are over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UpkeepConfig {
    /// Output of ended execs in a cell, in MiB.
    pub(crate) log_mb: u64,
    /// Seconds that files of a persistent cell outlive it; until they are removed when left out.
    pub(crate) volume_keep_s: Option<u64>,
    /// Seconds after which unused images go; never when left out.
    pub(crate) image_keep_s: Option<u64>,
    /// What is to stay free on the disk, in MiB.
    pub(crate) disk_reserve_mb: u64,
}

pub(crate) const LOG_MB: Key = Key {
    name: "log_mb",
    variable: "HOTCELL_LOG_MB",
    default: "1024",
    about: "MiB of output of ended execs that a cell keeps; the oldest goes first",
    set: |config, text| {
        config.upkeep.log_mb = count(text, 1 << 20)?.into();
        Ok(())
    },
    get: |config| config.upkeep.log_mb.into(),
};

pub(crate) const VOLUME_KEEP: Key = Key {
    name: "volume_keep_s",
    variable: "HOTCELL_VOLUME_KEEP_S",
    default: "604800",
    about: "seconds that the files of a persistent cell outlive it; 0 until they are removed by hand",
    set: |config, text| {
        config.upkeep.volume_keep_s = Some(values::duration(text)?.as_secs()).filter(|it| *it > 0);
        Ok(())
    },
    get: |config| config.upkeep.volume_keep_s.unwrap_or_default().into(),
};

pub(crate) const IMAGE_KEEP: Key = Key {
    name: "images.keep_s",
    variable: "HOTCELL_IMAGES_KEEP_S",
    default: "2592000",
    about: "seconds after their last use at which images are forgotten that no cell began with; 0 for \
            never",
    set: |config, text| {
        config.upkeep.image_keep_s = Some(values::duration(text)?.as_secs()).filter(|it| *it > 0);
        Ok(())
    },
    get: |config| config.upkeep.image_keep_s.unwrap_or_default().into(),
};

pub(crate) const DISK_RESERVE: Key = Key {
    name: "disk_reserve_mb",
    variable: "HOTCELL_DISK_RESERVE_MB",
    default: "512",
    about: "MiB that are to stay free on the disk of the state directory, of a small one a twentieth: \
            below it records go sooner, below half of it no cell is made; 0 for none",
    set: |config, text| {
        config.upkeep.disk_reserve_mb = bound(text)?.unwrap_or_default();
        Ok(())
    },
    get: |config| config.upkeep.disk_reserve_mb.into(),
};

pub(crate) const POOL_SIZE: Key = Key {
    name: "pool.size",
    variable: "HOTCELL_POOL_SIZE",
    default: "0",
    about: "cells of each image that a server makes ahead of need, so that a spawn takes none of the \
            time; 0 for none",
    set: |config, text| {
        let size = bound(text)?.unwrap_or_default();
        config.pool.size = u32::try_from(size)
            .ok()
            .filter(|size| *size <= 256)
            .ok_or_else(|| "it is at most 256".to_owned())?;
        Ok(())
    },
    get: |config| config.pool.size.into(),
};

pub(crate) const POOL_IMAGES: Key = Key {
    name: "pool.images",
    variable: "HOTCELL_POOL_IMAGES",
    default: "",
    about: "images of which cells are made ahead of need, with commas between; the driver's usual one \
            unless given",
    set: |config, text| {
        config.pool.images = list(text);
        Ok(())
    },
    get: |config| config.pool.images.join(",").into(),
};

pub(crate) const POOL_TTL: Key = Key {
    name: "pool.ttl_s",
    variable: "HOTCELL_POOL_TTL_S",
    default: "3600",
    about: "seconds after which a cell that was made ahead of need and that nobody wanted is made anew",
    set: |config, text| {
        config.pool.ttl_s = values::whole_seconds(text)?;
        Ok(())
    },
    get: |config| config.pool.ttl_s.into(),
};
