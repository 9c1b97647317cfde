//! What zip writes and runs: its options have one letter or two, stand in clusters, and take lists.

use super::field::Field;

/// Options of two letters that take no value.
const PAIRS: &[&str] = &[
    "db", "dc", "dd", "dg", "du", "dv", "DF", "FF", "FI", "FS", "fd", "fz", "h2", "ll", "la", "li",
    "mm", "MM", "nw", "RE", "sp", "sv", "sb", "sc", "sd", "sf", "so", "su", "sU", "ws",
];
/// Options that take a value, attached or in the next argument, under their short and long names.
const VALUES: &[(&str, &str)] = &[
    ("b", "temp-path"),
    ("ds", "dot-size"),
    ("lf", "logfile-path"),
    ("n", "suffixes"),
    ("O", "output-file"),
    ("P", "password"),
    ("s", "split-size"),
    ("t", "from-date"),
    ("tt", "before-date"),
    ("TT", "unzip-command"),
    ("UN", "unicode"),
    ("Z", "compression-method"),
];
/// Options that take all arguments up to the next option, or up to `@`.
const LISTS: &[(&str, &str)] = &[("i", "include"), ("x", "exclude")];

/// A command line of zip, taken apart.
#[derive(Debug, Default)]
pub(super) struct Zip {
    /// Short names of options, and the values given with them.
    given: Vec<(&'static str, Field)>,
    pub(super) archive: Option<Field>,
}

impl Zip {
    pub(super) fn read(args: &[Field]) -> Self {
        let mut zip = Self::default();
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let text = first.text.as_str();
            if text == "--" {
                zip.archive = zip.archive.or_else(|| after.first().cloned());
                break;
            }
            rest = match (text.strip_prefix("--"), text.strip_prefix('-')) {
                (Some(long), _) => zip.long(long, first, after),
                (None, Some(letters)) if !letters.is_empty() => zip.cluster(letters, first, after),
                (None, Some(_) | None) => {
                    zip.archive.get_or_insert_with(|| first.clone());
                    after
                }
            };
        }
        zip
    }

    /// The values of an option under its short name.
    pub(super) fn all(&self, short: &str) -> impl Iterator<Item = &Field> {
        self.given.iter().filter(move |(name, _)| *name == short).map(|(_, value)| value)
    }

    fn long<'f>(&mut self, long: &str, arg: &Field, after: &'f [Field]) -> &'f [Field] {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(Field { text: value.to_owned(), ..arg.clone() })),
            None => (long, None),
        };
        // Long names may be shortened.
        let named = |(_, full): &&(&str, &str)| !name.is_empty() && full.starts_with(name);
        if LISTS.iter().any(|list| named(&list)) {
            return past_list(after);
        }
        let Some((short, _)) = VALUES.iter().find(named) else {
            return after;
        };
        self.take(short, attached, after)
    }

    fn cluster<'f>(&mut self, letters: &str, arg: &Field, after: &'f [Field]) -> &'f [Field] {
        let mut letters = letters;
        while let Some(letter) = letters.chars().next() {
            let given = |name: &str| letters.starts_with(name);
            let longest =
                VALUES.iter().filter(|(short, _)| given(short)).max_by_key(|(s, _)| s.len());
            let pair = PAIRS.iter().any(|pair| given(pair));
            match longest {
                Some((short, _)) if short.len() == 2 || !pair => {
                    let value = &letters[short.len()..];
                    let attached = Field { text: value.to_owned(), ..arg.clone() };
                    return self.take(short, (!value.is_empty()).then_some(attached), after);
                }
                Some(_) | None => {}
            }
            if !pair && LISTS.iter().any(|(short, _)| given(short)) {
                return past_list(after);
            }
            letters = &letters[if pair { 2 } else { letter.len_utf8() }..];
        }
        after
    }

    fn take<'f>(
        &mut self,
        short: &'static str,
        attached: Option<Field>,
        after: &'f [Field],
    ) -> &'f [Field] {
        let (value, after) = match (attached, after.split_first()) {
            (Some(value), _) => (value, after),
            (None, Some((next, after))) => (next.clone(), after),
            (None, None) => return after,
        };
        let text = value.text.strip_prefix('=').unwrap_or(&value.text).to_owned();
        self.given.push((short, Field { text, ..value }));
        after
    }
}

fn past_list(args: &[Field]) -> &[Field] {
    let end = args.iter().position(|arg| arg.is("@") || arg.text.starts_with('-'));
    let rest = args.get(end.unwrap_or(args.len())..).unwrap_or_default();
    match rest.split_first() {
        Some((first, after)) if first.is("@") => after,
        Some(_) | None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Vec<(&'static str, String)>, Option<String>) {
        let args: Vec<Field> = line.split(' ').map(Field::known).collect();
        let zip = Zip::read(&args);
        let given = zip.given.into_iter().map(|(name, value)| (name, value.text)).collect();
        (given, zip.archive.map(|archive| archive.text))
    }

    #[test]
    fn options_are_read_as_zip_reads_them() {
        for (line, name, value) in [
            ("a f -T -TT=x", "TT", "x"),
            ("-TTx a f", "TT", "x"),
            ("-qTT x a f", "TT", "x"),
            ("-TqTT x a f", "TT", "x"),
            ("--unz x a f", "TT", "x"),
            ("--unzip-command=x a f", "TT", "x"),
            ("-rb=/d a f", "b", "/d"),
            ("-lilf l a f", "lf", "l"),
            ("-x p q @ -O o a f", "O", "o"),
        ] {
            let (given, archive) = read(line);
            assert_eq!(given, [(name, value.to_owned())], "{line}");
            assert_eq!(archive.as_deref(), Some("a"), "{line}");
        }
        assert_eq!(read("-ttq a"), (vec![("tt", "q".to_owned())], Some("a".to_owned())));
        assert_eq!(read("-r -9 a f -x p -q"), (Vec::new(), Some("a".to_owned())));
        assert_eq!(read("-sf -mm a f"), (Vec::new(), Some("a".to_owned())));
    }
}
