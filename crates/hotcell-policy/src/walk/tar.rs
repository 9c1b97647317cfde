//! What tar writes, and where its archive is.

use super::effects::Effects;
use super::field::Field;
use super::options::{Options, Spec, permuted};
use crate::finding::{Touch, Value};

const TAR: Spec = Spec {
    short: "AcdrtuxaBGhiJjklmnOoPpRSsUvWwZzf:b:C:F:g:H:I:K:L:MN:T:V:X:",
    long: "absolute-names add-file= after-date= append atime-preserve? auto-compress backup? blocking-factor= bzip2 catenate checkpoint? checkpoint-action= compare compress concatenate create delete dereference diff directory= exclude= exclude-from= exclude-vcs exclude-vcs-ignores exclude-ignore= extract file= files-from= force-local format= full-time get group= group-map= gzip hard-dereference ignore-failed-read incremental index-file= info-script= keep-newer-files keep-old-files label= level= list listed-incremental= lzip lzma lzop mode= mtime= multi-volume new-volume-script= newer= newer-mtime= no-recursion no-same-owner no-same-permissions no-wildcards null numeric-owner occurrence? one-file-system one-top-level? overwrite owner= owner-map= pax-option= preserve-permissions quiet recursion recursive-unlink remove-files rmt-command= rsh-command= same-owner same-permissions show-defaults skip-old-files sort= sparse starting-file= strip-components= suffix= tape-length= test-label to-command= to-stdout totals? touch transform= uncompress unlink-first update use-compress-program= verbatim-files-from verbose verify volno-file= warning= wildcards xattrs xform= xz zstd help version",
};

/// The arguments with old options (`tar cfz ARCHIVE`) written as the others are.
pub(super) fn modern(args: &[Field]) -> Vec<Field> {
    let Some((first, mut rest)) = args.split_first() else {
        return Vec::new();
    };
    let Some(letters) = first.find().filter(|text| !text.starts_with('-')) else {
        return args.to_vec();
    };
    let mut written = Vec::new();
    for letter in letters.chars() {
        written.push(Field::known(&format!("-{letter}")));
        if TAR.short.contains(&format!("{letter}:"))
            && let Some((value, after)) = rest.split_first()
        {
            written.push(value.clone());
            rest = after;
        }
    }
    written.extend_from_slice(rest);
    written
}

/// Whether a file says what is packed: lines of it may be options.
pub(super) fn reads_options(args: &[Field]) -> bool {
    let args = modern(args);
    let (given, _) = permuted(TAR, &args);
    given.has(&["T", "files-from"]) && !given.has(&["verbatim-files-from", "null"])
}

fn archive(given: &Options<'_>) -> Option<Field> {
    given.find(&["f", "file"]).cloned()
}

/// Whether the archive is on another machine: `HOST:FILE`.
pub(super) fn is_remote(args: &[Field]) -> bool {
    let args = modern(args);
    let (given, _) = permuted(TAR, &args);
    let elsewhere = |file: Field| {
        let host = file.text.split_once(':').map(|(host, _)| host.to_owned());
        host.is_some_and(|host| !host.contains('/'))
    };
    !given.has(&["force-local"]) && archive(&given).is_some_and(elsewhere)
}

impl Effects<'_> {
    pub(super) fn tar(&mut self) {
        let args = modern(self.args);
        let (given, _) = permuted(TAR, &args);
        if given.has(&["x", "extract", "get"]) && !given.has(&["O", "to-stdout"]) {
            let into = given.find(&["C", "directory"]).cloned();
            self.touch(&into.unwrap_or_else(|| Field::known(".")), Touch::Overwrite);
            if let Some(directory) = given.find(&["one-top-level"]) {
                self.touch(directory, Touch::Overwrite);
            }
            // The archive says where.
            if given.has(&["P", "absolute-names"]) {
                self.finding.touch(Value::unknown(), Touch::Overwrite);
            }
        }
        let changes =
            ["c", "create", "r", "append", "u", "update", "A", "catenate", "concatenate", "delete"];
        if given.has(&changes)
            && let Some(archive) = archive(&given)
            && !archive.is("-")
        {
            self.touch(&archive, Touch::Overwrite);
        }
        for file in given.all(&["g", "listed-incremental", "index-file", "volno-file"]) {
            self.touch(file, Touch::Overwrite);
        }
        self.finding.destructive |= given.has(&["remove-files", "delete", "recursive-unlink"]);
    }
}
