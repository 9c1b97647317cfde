//! Variables that decide what runs, and values that are run themselves.

use super::field::{Field, GAP};
use super::run::Call;
use super::state::State;
use super::{Input, Place, Reach, Walker};
use crate::finding::{Dynamic, Finding, Kind};
use crate::shell::Span;

/// Variables that change which program a name means, or what a program loads, reads first or starts.
const DECISIVE: &[&str] = &[
    "PATH",
    "ENV",
    "SHELLOPTS",
    "GLOBIGNORE",
    "CDPATH",
    "FPATH",
    "ZDOTDIR",
    "INPUTRC",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_ALLOW_PROTOCOL",
    "LESS",
    "LESSKEY",
    "LESSKEYIN",
    "VIMINIT",
    "EXINIT",
    "EMACSLOADPATH",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "GEM_PATH",
    "GEM_HOME",
    "BUNDLE_GEMFILE",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "TCLLIBPATH",
    "R_PROFILE",
    "R_PROFILE_USER",
    "R_HOME",
    "GCONV_PATH",
    "LOCPATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "RUSTFLAGS",
    "GOFLAGS",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "TAR_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "HGRCPATH",
    "WGETRC",
    "CURL_HOME",
    "SCREENRC",
    // Options after operands are operands then.
    "POSIXLY_CORRECT",
    // Names of files that nobody sees.
    "SIMPLE_BACKUP_SUFFIX",
];
/// Variables of which all that begin so are decisive.
const FAMILIES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_",
    "BASHOPTS",
    "GIT_CONFIG",
    "PYTHON",
    "LUA_",
    "CARGO_",
    "NPM_CONFIG_",
    "npm_config_",
];
/// Variables whose values are commands.
const COMMANDS: &[&str] = &[
    "PROMPT_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "PAGER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "SYSTEMD_EDITOR",
    "EDITOR",
    "VISUAL",
    "FCEDIT",
    "SUDO_EDITOR",
    "HGEDITOR",
    "SVN_EDITOR",
    "SVN_SSH",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "RSYNC_RSH",
    "CVS_RSH",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "SHELL",
];
/// Variables in whose values shells put what substitutions print.
const EXPANDED: &[&str] = &["PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV"];

/// Whether setting a variable makes it uncertain what is run.
pub(crate) fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name)
        || COMMANDS.contains(&name)
        || EXPANDED.contains(&name)
        || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether arithmetic in a text sets a variable that decides what runs.
pub(super) fn sets_decisive(text: &str) -> bool {
    let names = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let sets = text.contains('=') || text.contains("++") || text.contains("--");
    sets && names.into_iter().any(is_decisive)
}

/// Whether a text holds a subscript with a command in it: bash runs that wherever it takes the text for a
/// number or for the name of a variable.
pub(super) fn hides_command(text: &str) -> bool {
    text.split_once('[').is_some_and(|(_, rest)| {
        rest.contains("$(") || rest.contains('`') || rest.contains("@P}") || rest.contains("${ ")
    })
}

impl Walker {
    /// Finds what the value of a variable runs.
    pub(super) fn value_of(
        &mut self,
        name: &str,
        value: &str,
        span: Span,
        state: &State,
        reach: &Reach,
    ) {
        if hides_command(value) {
            self.subscript(value, span, state, reach);
        }
        let reach = reach.through(name).reading(Input::Unknown);
        let place = Place { span, state, reach: &reach };
        let call = Call { name, args: &[], span };
        if COMMANDS.contains(&name) {
            // A pipe before the command tells `less` how to read it.
            let line = value.trim_start_matches(['|', '-']);
            if !line.trim().is_empty() {
                self.shell_line(&Field::known(line), &call, place);
            }
        } else if EXPANDED.contains(&name) {
            self.expanded_text(value, span, state, &reach);
        } else if name.starts_with("BASH_FUNC_") {
            let mut within = state.elsewhere();
            self.inner_text(&format!("f {value}"), span, &mut within, &reach);
        } else if name.starts_with("GIT_CONFIG_VALUE_") || name.starts_with("BASH_ALIASES") {
            let line = value.strip_prefix('!').unwrap_or(value);
            self.shell_line(&Field::known(line), &call, place);
        }
    }

    /// Finds the commands in a subscript that stands in a value.
    pub(super) fn subscript(&mut self, text: &str, span: Span, state: &State, reach: &Reach) {
        let mut finding = Finding::new(Kind::Text, Dynamic::Code.describe().to_owned());
        finding.is_dynamic(Dynamic::Code);
        finding.as_root = reach.as_root;
        finding.via = reach.via.iter().map(|name| name.to_string()).collect();
        finding.span = Some(self.place(span));
        self.push(finding);
        self.expanded_text(text, span, state, reach);
    }

    /// Finds the commands in a text that a shell expands as if it stood in quotes.
    fn expanded_text(&mut self, text: &str, span: Span, state: &State, reach: &Reach) {
        if !text.contains(['$', '`', GAP]) {
            return;
        }
        let mut within = state.elsewhere();
        let quoted = format!(": \"{}\"", text.replace('"', "\\\""));
        let before = self.found.len();
        self.inner_text(&quoted, span, &mut within, reach);
        // The command that holds the text is none of anybody's.
        let at = before + self.found.get(before..).unwrap_or_default().len().saturating_sub(1);
        if self.found.get(at).is_some_and(|last| last.name.as_deref() == Some(":")) {
            self.found.remove(at);
        }
    }
}
