//! The keys of the configuration that are about runs of code and their sessions.

use hotcell_engine::CodeSettings;
use hotcell_model::CodeTerms;

use crate::config_keys::{Key, bound, count, list};
use crate::values;

/// More modules than anybody imports.
const MOST_IMPORTS: usize = 200;
/// More than any client takes.
const MOST_TOKENS: u32 = 100_000;

pub(crate) const CALLS: Key = Key {
    name: "code.calls",
    variable: "HOTCELL_CODE_CALLS",
    default: "10000",
    about: "calls of tools that one run of code may make in all",
    set: |config, text| {
        config.code.calls = count(text, 1 << 30)?.into();
        Ok(())
    },
    get: |config| config.code.calls.into(),
};

pub(crate) const PARALLEL_CALLS: Key = Key {
    name: "code.parallel_calls",
    variable: "HOTCELL_CODE_PARALLEL_CALLS",
    default: "64",
    about: "calls of one run that are under way at once; more wait in the code",
    set: |config, text| {
        config.code.parallel_calls = usize::try_from(count(text, 4096)?).unwrap_or(usize::MAX);
        Ok(())
    },
    get: |config| config.code.parallel_calls.into(),
};

pub(crate) const CALL_MB: Key = Key {
    name: "code.call_mb",
    variable: "HOTCELL_CODE_CALL_MB",
    default: "16",
    about: "MiB of arguments that one call of a tool may have",
    set: |config, text| {
        config.code.call_bytes = usize::try_from(count(text, 1024)?).unwrap_or(usize::MAX) << 20;
        Ok(())
    },
    get: |config| (config.code.call_bytes >> 20).into(),
};

pub(crate) const TOKENS: Key = Key {
    name: "code.tokens",
    variable: "HOTCELL_CODE_TOKENS",
    default: "2000",
    about: "tokens that what is shown of a run may cost, from 256 on; more is cut",
    set: |config, text| {
        let tokens = usize::try_from(count(text, MOST_TOKENS)?).unwrap_or(usize::MAX);
        let least = CodeSettings::LEAST_TOKENS;
        if tokens < least {
            return Err(format!("it is less than {least}, which the words on a cut need"));
        }
        config.code.tokens = tokens;
        Ok(())
    },
    get: |config| config.code.tokens.into(),
};

pub(crate) const CPU_S: Key = Key {
    name: "code.cpu_s",
    variable: "HOTCELL_CODE_CPU_S",
    default: "0",
    about: "seconds of CPU time that all processes of one run may use together; 0 for any",
    set: |config, text| {
        let time = values::duration(text)?;
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        config.code.terms.cpu_ms = Some(time).filter(|time| *time > 0);
        Ok(())
    },
    get: |config| (config.code.terms.cpu_ms.unwrap_or_default() as f64 / 1000.0).into(),
};

pub(crate) const MEMORY_MB: Key = Key {
    name: "code.memory_mb",
    variable: "HOTCELL_CODE_MEMORY_MB",
    default: "0",
    about: "MiB of data that each process of a run may have in memory; 0 for what its cell has",
    set: |config, text| {
        config.code.terms.memory_mb = bound(text)?;
        Ok(())
    },
    get: |config| config.code.terms.memory_mb.unwrap_or_default().into(),
};

pub(crate) const IMPORTS: Key = Key {
    name: "code.imports",
    variable: "HOTCELL_CODE_IMPORTS",
    default: "",
    about: "modules of Python that are imported ahead of code, with commas between, or `none`; what \
            code usually needs unless given",
    set: |config, text| {
        let names = match text {
            "none" => Vec::new(),
            text => list(text),
        };
        if let Some(wrong) = names.iter().find(|name| !is_module(name)) {
            return Err(format!("{wrong:?} is no name of a module"));
        }
        if names.len() > MOST_IMPORTS {
            return Err(format!("it names more than {MOST_IMPORTS} modules"));
        }
        config.code.terms.imports = Some(names).filter(|names| text == "none" || !names.is_empty());
        Ok(())
    },
    get: |config| {
        let CodeTerms { imports, .. } = &config.code.terms;
        match imports.as_deref() {
            None => "".into(),
            Some([]) => "none".into(),
            Some(names) => names.join(",").into(),
        }
    },
};

pub(crate) const SESSION_TTL_S: Key = Key {
    name: "code.session_ttl_s",
    variable: "HOTCELL_CODE_SESSION_TTL_S",
    default: "1800",
    about: "seconds without a run after which a session of code ends; it also ends when its cell falls asleep",
    set: |config, text| {
        config.sessions.ttl_s = values::whole_seconds(text)?;
        Ok(())
    },
    get: |config| config.sessions.ttl_s.into(),
};

pub(crate) const MOST_SESSIONS: Key = Key {
    name: "code.most_sessions",
    variable: "HOTCELL_CODE_MOST_SESSIONS",
    default: "8",
    about: "sessions of code that a cell keeps; one more ends the one that was idle longest",
    set: |config, text| {
        config.sessions.most = count(text, 1024)?;
        Ok(())
    },
    get: |config| config.sessions.most.into(),
};

pub(crate) const SESSION_MEMORY_MB: Key = Key {
    name: "code.session_memory_mb",
    variable: "HOTCELL_CODE_SESSION_MEMORY_MB",
    default: "1024",
    about: "MiB that a session of code may hold between runs; with more it ends",
    set: |config, text| {
        config.sessions.memory_bytes = u64::from(count(text, 1 << 20)?) << 20;
        Ok(())
    },
    get: |config| (config.sessions.memory_bytes >> 20).into(),
};

fn is_module(name: &str) -> bool {
    let is_step = |step: &str| {
        let begins = step.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        begins && step.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    name.split('.').all(is_step)
}
