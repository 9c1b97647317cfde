//! The keys of the configuration that are about drivers.

use hotcell_model::{ImageName, IsolationLevel, LAYER_NAMES};

use crate::config::Cgroups;
use crate::config_keys::{Key, choice, list};
use crate::engine_keys::EngineTable;
use crate::engine_keys::absolute;

/// What is said of the driver docker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DockerConfig {
    /// The engine; empty for the usual one.
    pub(crate) host: String,
    /// The directory of the certificates for it; empty for none.
    pub(crate) tls_dir: String,
    /// Engines by name, instead of the one above.
    pub(crate) engines: EngineTable,
    /// The image of cells that name none; empty for none.
    pub(crate) image: String,
    /// The runtime of containers; empty for the engine's.
    pub(crate) runtime: String,
    /// The network that an engine of another machine carries connections by; empty for the usual one.
    pub(crate) network: String,
    /// Layers that every cell must have.
    pub(crate) required: Vec<String>,
}

pub(crate) const DRIVER: Key = Key {
    name: "driver",
    variable: "HOTCELL_DRIVER",
    default: "native",
    about: "the driver of new cells: native, docker",
    set: |config, text| {
        config.driver = choice(text, &["native", "docker"].map(|name| (name, name.to_owned())))?;
        Ok(())
    },
    get: |config| config.driver.clone().into(),
};

pub(crate) const NATIVE_CGROUPS: Key = Key {
    name: "native.cgroups",
    variable: "HOTCELL_NATIVE_CGROUPS",
    default: "auto",
    about: "whether native cells are put into cgroups: auto, off",
    set: |config, text| {
        config.cgroups = choice(text, &[("auto", Cgroups::Auto), ("off", Cgroups::Off)])?;
        Ok(())
    },
    get: |config| match config.cgroups {
        Cgroups::Auto => "auto".into(),
        Cgroups::Off => "off".into(),
    },
};

pub(crate) const NATIVE_LEVEL: Key = Key {
    name: "native.level",
    variable: "HOTCELL_NATIVE_LEVEL",
    default: "limited",
    about: "the least isolation that native cells may have: process, limited, full",
    set: |config, text| {
        let levels = [IsolationLevel::Process, IsolationLevel::Limited, IsolationLevel::Full];
        config.required.level = choice(text, &levels.map(|level| (level.as_str(), level)))?;
        Ok(())
    },
    get: |config| config.required.level.as_str().into(),
};

pub(crate) const NATIVE_REQUIRE: Key = Key {
    name: "native.require",
    variable: "HOTCELL_NATIVE_REQUIRE",
    default: "",
    about: "layers without which no native cell is started, separated by commas, such as \
            memory_limit, landlock; `hotcell doctor` names all of them",
    set: |config, text| {
        config.required.layers = layers(text)?;
        Ok(())
    },
    get: |config| config.required.layers.join(",").into(),
};

pub(crate) const DOCKER_HOST: Key = Key {
    name: "docker.host",
    variable: "HOTCELL_DOCKER_HOST",
    default: "",
    about: "the Docker engine of the driver docker, such as unix:///run/user/1000/docker.sock, \
            tcp://HOST:2376 or ssh://USER@HOST; unless given that of DOCKER_HOST, or \
            unix:///var/run/docker.sock",
    set: |config, text| {
        config.docker.host = text.to_owned();
        Ok(())
    },
    get: |config| config.docker.host.clone().into(),
};

pub(crate) const DOCKER_TLS_DIR: Key = Key {
    name: "docker.tls_dir",
    variable: "HOTCELL_DOCKER_TLS_DIR",
    default: "",
    about: "the directory of ca.pem, cert.pem and key.pem for an engine that is reached over TLS; \
            unless given that of DOCKER_CERT_PATH, with DOCKER_TLS_VERIFY ~/.docker",
    set: |config, text| {
        if !text.is_empty() {
            absolute(text)?;
        }
        config.docker.tls_dir = text.to_owned();
        Ok(())
    },
    get: |config| config.docker.tls_dir.clone().into(),
};

pub(crate) const DOCKER_IMAGE: Key = Key {
    name: "docker.image",
    variable: "HOTCELL_DOCKER_IMAGE",
    default: "",
    about: "the image of cells of the driver docker that name none",
    set: |config, text| {
        if !text.is_empty() {
            text.parse::<ImageName>().map_err(|error| error.to_string())?;
        }
        config.docker.image = text.to_owned();
        Ok(())
    },
    get: |config| config.docker.image.clone().into(),
};

pub(crate) const DOCKER_RUNTIME: Key = Key {
    name: "docker.runtime",
    variable: "HOTCELL_DOCKER_RUNTIME",
    default: "",
    about: "the OCI runtime of containers, one that uses this kernel such as crun; the engine's default unless given",
    set: |config, text| {
        config.docker.runtime = text.to_owned();
        Ok(())
    },
    get: |config| config.docker.runtime.clone().into(),
};

pub(crate) const DOCKER_NETWORK: Key = Key {
    name: "docker.network",
    variable: "HOTCELL_DOCKER_NETWORK",
    default: "",
    about: "the network of a Docker engine on another machine by which connections of its cells are \
            carried; bridge unless given",
    set: |config, text| {
        config.docker.network = text.to_owned();
        Ok(())
    },
    get: |config| config.docker.network.clone().into(),
};

pub(crate) const DOCKER_REQUIRE: Key = Key {
    name: "docker.require",
    variable: "HOTCELL_DOCKER_REQUIRE",
    default: "",
    about: "layers without which no cell of the driver docker is started, separated by commas",
    set: |config, text| {
        config.docker.required = layers(text)?;
        Ok(())
    },
    get: |config| config.docker.required.join(",").into(),
};

fn layers(text: &str) -> Result<Vec<String>, String> {
    let layers = list(text);
    match layers.iter().find(|name| !LAYER_NAMES.contains(&name.as_str())) {
        None => Ok(layers),
        Some(name) => Err(format!("{name:?} is none of the layers {}", LAYER_NAMES.join(", "))),
    }
}
