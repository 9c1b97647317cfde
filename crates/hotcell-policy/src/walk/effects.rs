//! What well-known commands do to files and where they connect to.

use super::by_option::values_of;
use super::field::{Field, GAP};
use super::interpreters::is_python;
use super::options::{Spec, permuted};
use super::paths::{may_be_git_directory, resolved, touched};
use super::redirects::is_sink;
use super::scripts::SedCall;
use super::state::State;
use super::zip::Zip;
use crate::finding::{Finding, Touch, Value};

/// Options of commands that copy, move and link files.
const COPYING: Spec = Spec {
    short: "abcCdDfFg:Hilm:LnNo:pPrRsS:t:TuvxZ",
    long: "archive attributes-only backup? compare context? copy-contents debug dereference directory exchange force group= interactive keep-directory-symlink link logical mode= no-clobber no-copy no-dereference no-preserve= no-target-directory one-file-system owner= parents physical preserve? preserve-context preserve-timestamps recursive reflink? relative remove-destination sparse= strip strip-program= strip-trailing-slashes suffix= symbolic symbolic-link target-directory= update? verbose help version",
};
const SORT: Spec = Spec {
    short: "bdfgiMhnRrVcCmsuzk:S:t:T:o:",
    long: "batch-size= buffer-size= check? compress-program= debug dictionary-order field-separator= files0-from= general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks ignore-nonprinting key= merge month-sort numeric-sort output= parallel= random-sort random-source= reverse sort= stable temporary-directory= unique version-sort zero-terminated help version",
};
const UNIQ: Spec = Spec {
    short: "cdDf:is:uzw:0123456789",
    long: "all-repeated? check-chars= count group? ignore-case repeated skip-chars= skip-fields= unique zero-terminated help version",
};
/// Commands that an option makes write files or run programs. What may be an option of theirs may do so.
const DECIDED_BY_OPTIONS: &[&str] = &[
    "sort", "gsort", "shuf", "tree", "less", "xmllint", "tar", "bsdtar", "gtar", "zip", "unzip",
    "zstd", "split", "csplit", "find", "gfind", "git", "rg", "sed", "gsed", "yq", "xxd",
];

/// Notes what a command removes, writes and reaches.
pub(super) fn effects(finding: &mut Finding, args: &[Field], state: &State) {
    let Some(name) = finding.name.clone() else {
        return;
    };
    let mut effects = Effects { finding, args, state };
    effects.files(&name);
    effects.network(&name);
    // An unquoted value may also become several words, of which one is an option.
    let hidden = |arg: &Field| arg.text.starts_with(GAP) || arg.splits && arg.text.contains(GAP);
    if DECIDED_BY_OPTIONS.contains(&name.as_str())
        && args.iter().take_while(|arg| !arg.is("--")).any(hidden)
    {
        finding.touch(Value::unknown(), Touch::Write);
    }
}

pub(super) struct Effects<'a> {
    pub(super) finding: &'a mut Finding,
    pub(super) args: &'a [Field],
    state: &'a State,
}

/// Whether an option is set, alone or in a cluster.
pub(super) fn has_flag(args: &[Field], short: &str, long: &str) -> bool {
    args.iter().take_while(|arg| !arg.is("--")).any(|arg| {
        let text = arg.text.as_str();
        match text.strip_prefix("--") {
            Some(given) if !long.is_empty() => {
                let given = given.split('=').next().unwrap_or_default();
                !given.is_empty() && long.starts_with(given)
            }
            Some(_) => false,
            None => text
                .strip_prefix('-')
                .is_some_and(|given| given.contains(|letter| short.contains(letter))),
        }
    })
}

/// Arguments that are no options; `values` are options whose next argument is none either.
pub(super) fn operands<'f>(args: &'f [Field], values: &[&str]) -> Vec<&'f Field> {
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg.is("--") {
            found.extend(args);
            break;
        }
        if values.contains(&arg.text.as_str()) {
            args.next();
        } else if !arg.text.starts_with('-') || arg.text == "-" {
            found.push(arg);
        }
    }
    found
}

/// The value of an option, given as the next argument or attached.
pub(super) fn option(args: &[Field], names: &[&str]) -> Option<Field> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        for name in names {
            if arg.text == *name {
                return args.next().cloned();
            }
            let Some(attached) = arg.text.strip_prefix(name) else {
                continue;
            };
            let value =
                if name.starts_with("--") { attached.strip_prefix('=') } else { Some(attached) };
            if let Some(value) = value {
                return Some(Field { text: value.to_owned(), ..arg.clone() });
            }
        }
    }
    None
}

impl Effects<'_> {
    pub(super) fn touch(&mut self, field: &Field, how: Touch) {
        for touch in touched(field, how, self.state) {
            if !is_sink(&touch.path.text) {
                self.finding.touch(touch.path, touch.how);
            }
        }
    }

    fn touch_all(&mut self, fields: &[&Field], how: Touch) {
        for field in fields {
            self.touch(field, how);
        }
    }

    fn removes(&mut self, fields: &[&Field], how: Touch) {
        self.finding.destructive = true;
        self.touch_all(fields, how);
    }

    fn recursive(&self) -> bool {
        has_flag(self.args, "rR", "recursive")
    }

    fn files(&mut self, name: &str) {
        let args = self.args;
        match name {
            "rm" => {
                let how = if self.recursive() { Touch::Tree } else { Touch::Remove };
                self.removes(&operands(args, &[]), how);
            }
            "rmdir" | "unlink" | "shred" | "wipefs" | "blkdiscard" | "srm" => {
                self.removes(
                    &operands(args, &["-n", "-s", "--iterations", "--size", "-t", "-o"]),
                    Touch::Remove,
                );
            }
            "truncate" => {
                self.removes(&operands(args, &["-s", "--size", "-r", "--reference"]), Touch::Remove)
            }
            "dd" => self.dd(),
            "mv" | "cp" | "install" | "ln" | "gcp" | "gmv" => self.copies(name),
            "tee" => {
                let how =
                    if has_flag(args, "a", "append") { Touch::Write } else { Touch::Overwrite };
                self.touch_all(&operands(args, &["--output-error"]), how);
            }
            "sponge" => self.touch_all(&operands(args, &[]), Touch::Overwrite),
            "sed" | "gsed" => self.edits_in_place(),
            "perl" | "ruby" if has_flag(args, "i", "") => {
                let files = operands(args, &["-e", "-E"]);
                self.touch_all(&files, Touch::Overwrite);
                self.finding.overwrites = true;
            }
            "touch" | "mkdir" | "mkfifo" | "mknod" => {
                self.touch_all(
                    &operands(args, &["-m", "--mode", "-d", "-t", "-r", "--date", "--reference"]),
                    Touch::Write,
                );
            }
            "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => {
                let how = if self.recursive() { Touch::Tree } else { Touch::Write };
                let all = operands(args, &["-m", "-x", "--reference"]);
                let skip = usize::from(
                    name != "setfacl" && !args.iter().any(|arg| arg.text.starts_with("--ref")),
                );
                self.touch_all(all.get(skip..).unwrap_or_default(), how);
            }
            "find" | "gfind" => self.find(),
            "git" => self.git(),
            "rsync" => self.rsync(),
            "tar" | "bsdtar" | "gtar" => self.tar(),
            "unzip" | "cpio" | "7z" => self.unpacks(name),
            "fdisk" | "sfdisk" | "parted" | "gdisk" | "sgdisk" | "cfdisk" | "mkswap"
            | "cryptsetup" | "pvcreate" | "lvremove" | "vgremove" | "zpool" | "zfs" => {
                let harmless = args.iter().any(|arg| {
                    matches!(arg.find(), Some("-l" | "list" | "status" | "print" | "luksDump"))
                });
                if !harmless {
                    self.removes(&operands(args, &[]), Touch::Overwrite);
                }
            }
            "docker" | "podman" | "kubectl" | "dropdb" | "userdel" | "groupdel" | "apt-get"
            | "apt" | "dnf" | "yum" | "apk" | "pip" | "pip3" | "npm" | "brew" => {
                let removing = [
                    "rm",
                    "rmi",
                    "prune",
                    "delete",
                    "remove",
                    "purge",
                    "autoremove",
                    "del",
                    "uninstall",
                ];
                let asked =
                    args.iter().any(|arg| arg.find().is_some_and(|text| removing.contains(&text)));
                let volumes = args.iter().any(|arg| arg.is("down"))
                    && args.iter().any(|arg| arg.is("-v") || arg.is("--volumes"));
                self.finding.destructive |=
                    asked || volumes || matches!(name, "dropdb" | "userdel" | "groupdel");
            }
            _ if name.starts_with("mkfs") || name.starts_with("mke2fs") => {
                self.removes(&operands(args, &["-t", "-L", "-b", "-N"]), Touch::Overwrite);
            }
            _ => self.other_files(name),
        }
    }

    fn other_files(&mut self, name: &str) {
        let args = self.args;
        match name {
            "sort" | "gsort" => {
                let (given, _) = permuted(SORT, args);
                for file in given.all(&["o", "output"]) {
                    self.touch(file, Touch::Overwrite);
                }
            }
            "shuf" | "tree" | "less" | "xmllint" => {
                self.named_by(&["-o", "--output", "--log-file", "--LOG-FILE", "-O"]);
            }
            "uniq" => {
                if let Some(file) = permuted(UNIQ, args).1.get(1) {
                    self.touch(file, Touch::Overwrite);
                }
            }
            "xxd" => {
                let number =
                    |word: &&&Field| word.text.starts_with(|sign: char| sign.is_ascii_digit());
                let words = operands(args, &["-n", "-name", "-R"]);
                for file in words.iter().filter(|word| !number(word)).skip(1) {
                    self.touch(file, Touch::Overwrite);
                }
            }
            "split" => {
                let values = ["-l", "-b", "-n", "-C", "-a", "-t"];
                let prefix = operands(args, &values).get(1).map(|prefix| (*prefix).clone());
                self.touch(&prefix.unwrap_or_else(|| Field::known("xx")), Touch::Overwrite);
            }
            "csplit" => {
                self.touch(&Field::known("xx"), Touch::Overwrite);
                self.named_by(&["-f", "--prefix"]);
                // Without a number in them, names are whatever the format says.
                let formats = values_of(args, &["-b", "--suffix-format"]);
                if formats.iter().any(|format| format.text.contains(['.', GAP])) {
                    self.finding.touch(Value::unknown(), Touch::Overwrite);
                }
            }
            "time" => self.named_by(&["-o", "--output"]),
            "patch" => self.patch(),
            "cc" | "gcc" | "g++" | "c++" | "clang" | "clang++" | "ld" | "rustc" => {
                self.named_by(&["-o"]);
            }
            "yq" => {
                let files = operands(args, &[]);
                if has_flag(args, "i", "inplace") {
                    self.touch_all(files.get(1..).unwrap_or_default(), Touch::Overwrite);
                }
                // An expression says where.
                if has_flag(args, "s", "split-exp") {
                    self.finding.touch(Value::unknown(), Touch::Overwrite);
                }
            }
            "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "lzma" => {
                self.compresses(name);
            }
            "zip" => {
                self.finding.destructive |= has_flag(args, "md", "move");
                let zip = Zip::read(args);
                let named = ["O", "b", "lf"].into_iter().flat_map(|name| zip.all(name));
                for file in named.chain(&zip.archive) {
                    self.touch(file, Touch::Overwrite);
                }
            }
            "rimraf" | "trash" | "trash-put" | "del" | "tmpreaper" | "tmpwatch" => {
                self.removes(&operands(args, &[]), Touch::Tree);
            }
            "fallocate" => {
                let punches = has_flag(args, "pzc", "punch-hole")
                    || args.iter().any(|arg| {
                        arg.text.starts_with("--zero") || arg.text.starts_with("--collapse")
                    });
                if punches {
                    let values = ["-l", "-o", "--length", "--offset"];
                    self.removes(&operands(args, &values), Touch::Overwrite);
                }
            }
            "crontab" => self.finding.destructive |= has_flag(args, "r", ""),
            "terraform" | "tofu" | "pulumi" | "rclone" | "aws" | "gsutil" | "gcloud"
            | "vagrant" | "btrfs" | "cmake" => {
                let removing = [
                    "destroy",
                    "purge",
                    "delete",
                    "deletefile",
                    "rm",
                    "rb",
                    "remove",
                    "remove_directory",
                ];
                let asked =
                    args.iter().any(|arg| arg.find().is_some_and(|text| removing.contains(&text)));
                self.finding.destructive |= asked;
            }
            _ => self.fetched_files(name),
        }
    }

    fn fetched_files(&mut self, name: &str) {
        match name {
            "curl" => self.named_by(&["-o", "--output"]),
            "wget" => self.named_by(&[
                "-O",
                "--output-document",
                "-P",
                "--directory-prefix",
                "-o",
                "--output-file",
                "-a",
                "--append-output",
            ]),
            _ => {}
        }
    }

    /// `sed -i`: the files, and what they are kept as.
    fn edits_in_place(&mut self) {
        let sed = SedCall::read(self.args);
        let Some(suffix) = sed.in_place else { return };
        self.finding.overwrites = true;
        for file in &sed.files {
            self.touch(file, Touch::Overwrite);
            let (directory, name) = file.text.rsplit_once('/').unwrap_or((".", &file.text));
            let kept = match suffix.text.as_str() {
                "" => continue,
                text if text.contains('*') => text.replace('*', name),
                text => format!("{name}{text}"),
            };
            // A name with a slash in it is meant from where sed runs.
            let path = if kept.contains('/') { kept } else { format!("{directory}/{kept}") };
            self.touch(&Field { text: path, ..file.clone() }, Touch::Overwrite);
        }
    }

    /// Files that are packed or unpacked take another name.
    fn compresses(&mut self, name: &str) {
        let suffixes = values_of(self.args, &["-S", "--suffix"]);
        let plain: Vec<Field> =
            self.args.iter().filter(|arg| !arg.text.starts_with("-S")).cloned().collect();
        if !has_flag(&plain, "clt", "stdout") {
            for file in operands(self.args, &["-S", "--suffix", "-T"]) {
                self.touch(file, Touch::Overwrite);
                let given = suffixes.iter().filter_map(|end| file.text.strip_suffix(&end.text));
                let stem = file.text.rsplit_once('.').map(|(stem, _)| stem);
                for text in given.chain(stem).filter(|text| !text.is_empty()) {
                    self.touch(&Field { text: text.to_owned(), ..file.clone() }, Touch::Overwrite);
                }
            }
        }
        // The file says how it was called.
        let unpacks = name == "gunzip" || has_flag(&plain, "d", "decompress");
        if matches!(name, "gzip" | "gunzip") && unpacks && has_flag(&plain, "N", "name") {
            self.finding.touch(Value::unknown(), Touch::Overwrite);
        }
        // A file says which.
        let listed =
            |arg: &Field| ["--files", "--filelist"].iter().any(|l| arg.text.starts_with(l));
        if self.args.iter().any(listed) {
            self.finding.touch(Value::unknown(), Touch::Overwrite);
        }
        if name == "zstd" {
            self.named_by(&["-o", "--output-dir-flat", "--output-dir-mirror"]);
        }
    }

    fn dd(&mut self) {
        for arg in self.args {
            if let Some(path) = arg.text.strip_prefix("of=") {
                let field = Field { text: path.to_owned(), ..arg.clone() };
                self.finding.destructive = self.finding.destructive || !is_sink(path);
                self.touch(&field, Touch::Overwrite);
            }
        }
    }

    fn copies(&mut self, name: &str) {
        let args = self.args;
        let (given, mut all) = permuted(COPYING, args);
        let directory = given.find(&["t", "target-directory"]).cloned();
        // Of several options the last may count, and what is not known may be one.
        let forced = given.unsure || given.has(&["f", "force", "i", "interactive"]);
        let renewed = given.has(&["u", "update", "b", "backup"]);
        let keeps = match name {
            "ln" => !forced,
            "install" => false,
            _ => given.has(&["n", "no-clobber"]) && !forced && !renewed,
        };
        let how = if keeps { Touch::Write } else { Touch::Overwrite };
        let last = if directory.is_none() && all.len() > 1 { all.pop() } else { None };
        if name == "install" && given.has(&["d", "directory"]) {
            self.touch_all(&all, Touch::Write);
            self.touch_all(&last.into_iter().collect::<Vec<_>>(), Touch::Write);
            return;
        }
        let target = directory.as_ref().or(last);
        if name == "mv" || name == "gmv" {
            self.touch_all(&all, Touch::Remove);
        }
        if let Some(target) = target {
            self.touch(target, how);
            if let Some(suffix) = given.find(&["S", "suffix"]) {
                let text = format!("{}{}", target.text, suffix.text);
                self.touch(&Field { text, ..target.clone() }, how);
            }
            let linked = name == "ln" || has_flag(args, "sl", "symbolic-link");
            let within = self.recursive() || has_flag(args, "a", "archive") || linked;
            if within && all.iter().any(|source| self.is_kept_by_git(source)) {
                let text = format!("{}/.git", target.text);
                self.touch(&Field { text, ..target.clone() }, how);
            }
            // In a directory each keeps its name.
            for source in all.iter().take(64) {
                let file = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                if !file.is_empty() && target.text != "/dev/null" {
                    let path = Field {
                        text: format!("{}/{file}", target.text.trim_end_matches('/')),
                        glob: source.glob,
                        ..target.clone()
                    };
                    self.touch(&path, how);
                }
            }
        }
    }

    /// Whether a path leads into a directory that git keeps, by its text or by where it is meant from.
    fn is_kept_by_git(&self, path: &Field) -> bool {
        let kept = |text: &str| text.split('/').any(may_be_git_directory);
        kept(&path.text) || resolved(path, self.state).iter().any(|path| kept(&path.text))
    }

    fn find(&mut self) {
        let starts: Vec<&Field> = self
            .args
            .iter()
            .skip_while(|arg| matches!(arg.find(), Some("-H" | "-L" | "-P")))
            .take_while(|arg| !arg.text.starts_with(['-', '(', '!']))
            .collect();
        if self.args.iter().any(|arg| arg.is("-delete")) {
            let here = Field::known(".");
            let starts = if starts.is_empty() { vec![&here] } else { starts };
            self.removes(&starts, Touch::Tree);
            if self.args.iter().any(|arg| arg.is("-files0-from")) {
                self.finding.touch(Value::unknown(), Touch::Tree);
            }
        }
        for pair in self.args.windows(2) {
            if let [option, file] = pair
                && matches!(option.find(), Some("-fprint" | "-fprint0" | "-fprintf" | "-fls"))
            {
                self.touch(file, Touch::Overwrite);
            }
        }
    }

    fn rsync(&mut self) {
        let args = self.args;
        let all = operands(
            args,
            &[
                "-e",
                "--rsh",
                "--exclude",
                "--include",
                "--exclude-from",
                "--rsync-path",
                "-f",
                "--filter",
            ],
        );
        let deletes =
            args.iter().any(|arg| arg.text.starts_with("--del") || arg.is("--remove-source-files"));
        self.finding.destructive |= deletes;
        if let Some(target) = all.last().filter(|_| all.len() > 1)
            && !target.text.contains(':')
        {
            let target = (*target).clone();
            self.touch(&target, if deletes { Touch::Tree } else { Touch::Overwrite });
        }
    }

    fn unpacks(&mut self, name: &str) {
        let args = self.args;
        let first = args.first().map(|first| first.text.as_str()).unwrap_or_default();
        let extracts = match name {
            "unzip" => {
                !args.iter().any(|arg| matches!(arg.find(), Some("-l" | "-p" | "-t" | "-Z" | "-v")))
            }
            "7z" => matches!(first, "x" | "e"),
            _ => args.iter().any(|arg| arg.text.starts_with("-i") || arg.is("--extract")),
        };
        let options: &[&str] = match name {
            "unzip" => &["-d"],
            "7z" => &["-o"],
            _ => &["-D", "--directory"],
        };
        let into = values_of(args, options);
        if extracts && into.is_empty() {
            self.touch(&Field::known("."), Touch::Overwrite);
        }
        for directory in &into {
            self.touch(directory, Touch::Overwrite);
        }
        // The archive says where.
        if name == "unzip" && has_flag(args, ":", "") {
            self.finding.touch(Value::unknown(), Touch::Overwrite);
        }
        self.finding.destructive |= name == "7z" && args.iter().any(|arg| arg.is("-sdel"));
    }

    /// What the values of options name is written.
    pub(super) fn named_by(&mut self, options: &[&str]) {
        for file in values_of(self.args, options) {
            self.touch(&file, Touch::Overwrite);
        }
    }

    /// What a patch changes stands in it; an operand, or where it starts, says where.
    fn patch(&mut self) {
        let values =
            ["-p", "-i", "--input", "-d", "--directory", "-o", "--output", "-r", "-B", "-F"];
        let file = operands(self.args, &values).first().map(|file| (*file).clone());
        let into = file.or_else(|| option(self.args, &["-d", "--directory"]));
        self.touch(&into.unwrap_or_else(|| Field::known(".")), Touch::Overwrite);
        self.named_by(&["-o", "--output", "-r", "--reject-file"]);
    }

    fn network(&mut self, name: &str) {
        let args = self.args;
        let verb = |wanted: &[&str]| {
            let words = operands(args, &["-C", "-c", "--prefix", "--git-dir", "--work-tree"]);
            words
                .first()
                .and_then(|verb| verb.find().map(|verb| wanted.contains(&verb)))
                .unwrap_or(false)
        };
        let uses = match name {
            "curl" | "wget" | "aria2c" | "http" | "https" | "xh" | "httpie" | "lynx" | "w3m"
            | "links" | "axel" | "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ssh" | "scp"
            | "sftp" | "ftp" | "lftp" | "tftp" | "ping" | "ping6" | "dig" | "host" | "nslookup"
            | "traceroute" | "tracepath" | "nmap" | "mtr" | "whois" | "openssl-s_client"
            | "rclone" | "aws" | "gcloud" | "az" | "gh" | "glab" | "autossh" | "mosh" | "npx"
            | "uvx" | "bunx" | "pnpx" | "yt-dlp" | "rdate" | "ntpdate" | "sendmail" | "mail"
            | "swaks" => true,
            "rsync" => args.iter().any(|arg| arg.text.contains(':') || arg.find().is_none()),
            "tar" | "bsdtar" | "gtar" => super::tar::is_remote(args),
            "openssl" => verb(&["s_client"]),
            "git" => super::git_effects::uses_network(args),
            "pip" | "pip3" | "pipx" | "uv" | "conda" | "mamba" | "poetry" | "pdm" => {
                args.iter().any(|arg| {
                    arg.find().is_some_and(|text| {
                        [
                            "install", "download", "add", "sync", "update", "search", "run",
                            "lock", "tool", "create",
                        ]
                        .contains(&text)
                    })
                })
            }
            "npm" | "pnpm" | "yarn" | "bun" | "deno" => {
                name == "yarn" && args.is_empty()
                    || verb(&[
                        "install", "i", "ci", "add", "update", "upgrade", "publish", "exec", "dlx",
                        "x", "create", "init", "audit", "view", "search",
                    ])
            }
            "cargo" => verb(&["install", "fetch", "update", "publish", "search", "add", "login"]),
            "go" => verb(&["get", "install", "mod"]),
            "gem" | "bundle" | "composer" | "cpan" | "cpanm" => {
                args.iter().any(|arg| {
                    matches!(arg.find(), Some("install" | "update" | "require" | "fetch" | "push"))
                }) || name.starts_with("cpan")
            }
            "apt" | "apt-get" | "dnf" | "yum" | "apk" | "pacman" | "zypper" | "brew" | "snap"
            | "flatpak" => args.iter().any(|arg| {
                matches!(
                    arg.find(),
                    Some(
                        "install"
                            | "update"
                            | "upgrade"
                            | "add"
                            | "dist-upgrade"
                            | "full-upgrade"
                            | "-S"
                            | "-Sy"
                            | "-Syu"
                            | "source"
                            | "download"
                    )
                )
            }),
            "docker" | "podman" | "helm" | "skopeo" | "crane" => verb(&[
                "pull", "push", "login", "search", "copy", "build", "run", "repo", "install",
                "upgrade",
            ]),
            _ if is_python(name) => {
                let module =
                    args.iter().position(|arg| arg.is("-m")).and_then(|at| args.get(at + 1));
                module.and_then(Field::find).is_some_and(|module| {
                    matches!(module, "pip" | "http.server" | "smtplib" | "ftplib" | "telnetlib")
                })
            }
            _ => false,
        };
        if uses {
            self.finding.network = Some(hosts(name, args));
        }
    }
}

/// The hosts that arguments name, as far as they look like it.
fn hosts(name: &str, args: &[Field]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let values: &[&str] = match name {
        "curl" => &[
            "-o", "--output", "-H", "--header", "-d", "--data", "-X", "-u", "-A", "-e", "-F", "-w",
            "-b", "-c",
        ],
        "wget" => &["-O", "-o", "-P", "--header", "--post-data", "-U"],
        "ssh" | "scp" => &["-i", "-o", "-p", "-P", "-F", "-l", "-L", "-R", "-D"],
        _ => &[],
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if found.len() >= 64 {
            break;
        }
        if values.contains(&arg.text.as_str()) {
            args.next();
            continue;
        }
        if arg.splits && arg.is_blank() {
            found.push(Value::unknown());
            continue;
        }
        let text = arg.text.as_str();
        let host = match text.split_once("://") {
            Some((_, rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
            None if text.starts_with('-') => continue,
            None => match text.split_once(':') {
                Some((host, _))
                    if matches!(name, "scp" | "rsync" | "git" | "sftp") && !host.contains('/') =>
                {
                    host
                }
                _ if matches!(
                    name,
                    "ssh"
                        | "autossh"
                        | "mosh"
                        | "nc"
                        | "ncat"
                        | "netcat"
                        | "telnet"
                        | "ping"
                        | "ping6"
                        | "dig"
                        | "host"
                        | "nslookup"
                        | "curl"
                        | "wget"
                        | "ftp"
                        | "nmap"
                        | "whois"
                        | "traceroute"
                ) && text.contains(['.', GAP])
                    && !text.contains(' ') =>
                {
                    text.split(['/', ':']).next().unwrap_or_default()
                }
                _ if name == "ssh" => text,
                _ => continue,
            },
        };
        let host = host.rsplit('@').next().unwrap_or_default();
        let host = match host.rsplit_once(':') {
            Some((before, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => before,
            _ => host,
        };
        if !host.is_empty() {
            found.push(Field::known(host).value());
        }
        if matches!(name, "ssh" | "autossh" | "mosh") {
            // What follows is a command.
            break;
        }
    }
    found
}
