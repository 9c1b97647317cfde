//! Images are found in whatever they are kept in, and are what they are said to be.

use std::fs;
use std::io::Write;

use hotcell_model::ErrorCode;
use serde_json::json;
use tempfile::TempDir;

use super::*;

fn layer(name: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(2);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, &b"x\n"[..]).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn config(layers: &[Vec<u8>], architecture: &str) -> Vec<u8> {
    let ids: Vec<Digest> = layers.iter().map(|layer| digest_of(layer)).collect();
    let config = json!({
        "architecture": architecture, "os": "linux",
        "config": { "Env": ["PATH=/bin"], "WorkingDir": null },
        "rootfs": { "type": "layers", "diff_ids": ids },
    });
    config.to_string().into_bytes()
}

/// A layout in the making.
struct Layout {
    home: TempDir,
}

impl Layout {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("blobs/sha256")).unwrap();
        fs::write(home.path().join(LAYOUT), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { home }
    }

    fn blob(&self, kind: &str, bytes: &[u8]) -> serde_json::Value {
        let digest = digest_of(bytes);
        fs::write(self.home.path().join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        json!({ "mediaType": kind, "digest": digest, "size": bytes.len() })
    }

    fn image(&self, layers: &[Vec<u8>], architecture: &str, kind: &str) -> serde_json::Value {
        let config = config(layers, architecture);
        let config = self.blob("application/vnd.oci.image.config.v1+json", &config);
        let layers: Vec<_> = layers.iter().map(|layer| self.blob(kind, &gzip(layer))).collect();
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
        let bytes = manifest.to_string().into_bytes();
        let mut found = self.blob("application/vnd.oci.image.manifest.v1+json", &bytes);
        found["platform"] = json!({ "architecture": architecture, "os": "linux" });
        found
    }

    fn index(&self, manifests: &serde_json::Value) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.home.path().join(INDEX), index.to_string()).unwrap();
    }

    fn find(&self) -> Result<OpenedImage> {
        ImageSource::open(self.home.path(), self.home.path())?.image(&amd64())
    }

    /// The same as one file.
    fn packed(&self, pack: fn(&[u8]) -> Vec<u8>) -> TempDir {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all(".", self.home.path()).unwrap();
        let file = tempfile::tempdir().unwrap();
        fs::write(file.path().join("image"), pack(&builder.into_inner().unwrap())).unwrap();
        file
    }
}

const GZIPPED: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn amd64() -> Platform {
    Platform { architecture: "amd64".to_owned(), os: "linux".to_owned(), variant: None }
}

/// The names that the layers of an image have in them.
fn names(image: &OpenedImage) -> Vec<String> {
    let mut found = Vec::new();
    for layer in &image.layers {
        let (plain, _) = unpacked(layer.place.open().unwrap()).unwrap();
        for entry in tar::Archive::new(plain).entries().unwrap() {
            found.push(entry.unwrap().path().unwrap().display().to_string());
        }
    }
    found
}

fn found_in(file: &TempDir) -> Result<OpenedImage> {
    ImageSource::open(&file.path().join("image"), file.path())?.image(&amd64())
}

#[test]
fn a_layout_is_read_as_a_directory_and_as_an_archive() {
    let layout = Layout::new();
    let mut image = layout.image(&[layer("one"), layer("two")], "amd64", GZIPPED);
    image["annotations"] = json!({ REF_NAME: "example.org/some/image:1" });
    layout.index(&json!([image]));
    let found = layout.find().unwrap();
    assert_eq!(found.name.as_ref().unwrap().to_string(), "example.org/some/image:1");
    assert_eq!(found.config.as_ref().unwrap().config.env, ["PATH=/bin"]);
    assert_eq!(names(&found), ["one", "two"]);
    let unpacked = found.layers[0].unpacked.as_ref().unwrap();
    assert_eq!(*unpacked, digest_of(&layer("one")));
    for pack in [<[u8]>::to_vec, gzip, zstd] {
        let file = layout.packed(pack);
        let found = found_in(&file).unwrap();
        assert_eq!(names(&found), ["one", "two"]);
        drop(found);
        assert_eq!(fs::read_dir(file.path()).unwrap().count(), 1, "something is left behind");
    }
}

#[test]
fn of_several_machines_the_own_one_is_taken() {
    let layout = Layout::new();
    let attestation = json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": digest_of(b"nowhere"), "size": 7,
        "platform": { "architecture": "unknown", "os": "unknown" },
    });
    let arm = layout.image(&[layer("arm")], "arm64", GZIPPED);
    let amd = layout.image(&[layer("amd")], "amd64", GZIPPED);
    layout.index(&json!([attestation, arm, amd]));
    assert_eq!(names(&layout.find().unwrap()), ["amd"]);
    // Through one more list.
    let list = json!({ "manifests": [arm, amd] }).to_string();
    let inner = layout.blob("application/vnd.oci.image.index.v1+json", list.as_bytes());
    layout.index(&json!([inner]));
    assert_eq!(names(&layout.find().unwrap()), ["amd"]);
    layout.index(&json!([attestation, arm]));
    let error = layout.find().unwrap_err();
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.hint.as_ref().unwrap().ends_with("it is there for linux/arm64"), "{error:?}");
}

#[test]
fn of_several_images_none_is_taken_by_chance() {
    let layout = Layout::new();
    let one = layout.image(&[layer("one")], "amd64", GZIPPED);
    let other = layout.image(&[layer("other")], "amd64", GZIPPED);
    layout.index(&json!([one, other]));
    let error = layout.find().unwrap_err();
    assert!(error.to_string().contains("there are 2 images for linux/amd64"), "{error}");
    // The same one under two names is one.
    layout.index(&json!([one, one]));
    assert_eq!(names(&layout.find().unwrap()), ["one"]);
}

#[test]
fn what_docker_saves_is_read() {
    let layers = [layer("one"), layer("two")];
    let config = config(&layers, "amd64");
    let name = format!("{}.json", digest_of(&config).hex());
    let saved = json!([{
        "Config": name, "RepoTags": ["some/image:2"], "Layers": ["a/layer.tar", "b/layer.tar"],
    }]);
    let pack = |config: &[u8]| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut put = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, bytes).unwrap();
        };
        put("a/layer.tar", &layers[0]);
        put("c/layer.tar", &layers[1]);
        put(&name, config);
        put(SAVED, saved.to_string().as_bytes());
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "b/layer.tar", "../c/layer.tar").unwrap();
        let file = tempfile::tempdir().unwrap();
        fs::write(file.path().join("image"), builder.into_inner().unwrap()).unwrap();
        file
    };
    let file = pack(&config);
    let found = found_in(&file).unwrap();
    assert_eq!(found.name.as_ref().unwrap().to_string(), "docker.io/some/image:2");
    assert_eq!(names(&found), ["one", "two"]);
    assert_eq!(found.digest.unwrap(), digest_of(&config));
    let mut changed = config.clone();
    changed.push(b' ');
    let error = found_in(&pack(&changed)).unwrap_err();
    assert!(error.to_string().contains("not what it is called by"), "{error}");
}

#[test]
fn anything_else_is_the_files_of_a_root() {
    let file = tempfile::tempdir().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["etc/passwd", "manifest.json"] {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        builder.append_data(&mut header, name, &b""[..]).unwrap();
    }
    fs::write(file.path().join("image"), gzip(&builder.into_inner().unwrap())).unwrap();
    let found = found_in(&file).unwrap();
    assert!(found.config.is_none());
    assert_eq!(names(&found), ["etc/passwd", "manifest.json"]);
}

#[test]
fn changed_content_and_foreign_layers_are_refused() {
    let layout = Layout::new();
    let image = layout.image(&[layer("one")], "amd64", GZIPPED);
    layout.index(&json!([image]));
    let path =
        layout.home.path().join("blobs/sha256").join(&image["digest"].as_str().unwrap()[7..]);
    let bytes = fs::read_to_string(&path).unwrap();
    fs::write(&path, bytes.replace("\"schemaVersion\":2", "\"schemaVersion\":3")).unwrap();
    let error = layout.find().unwrap_err();
    assert!(error.to_string().contains("is said to be"), "{error}");
    let foreign = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";
    layout.index(&json!([layout.image(&[layer("one")], "amd64", foreign)]));
    let error = layout.find().unwrap_err();
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.to_string().contains("only its owner"), "{error}");
}

#[test]
fn what_is_no_image_is_told() {
    let home = tempfile::tempdir().unwrap();
    let open = |name: &str| ImageSource::open(&home.path().join(name), home.path()).map(drop);
    assert_eq!(open("missing").unwrap_err().code, ErrorCode::NotFound);
    assert!(open("").unwrap_err().to_string().contains("a directory without index.json"));
    fs::write(home.path().join("text"), "no archive at all, though it is a file\n".repeat(99))
        .unwrap();
    assert_eq!(open("text").unwrap_err().code, ErrorCode::Invalid);
}
