//! What an image says of the environment.

use std::collections::BTreeMap;

/// Puts the variables of an image, as `NAME=value`, where a cell says nothing else. Who runs commands,
/// and where, an image cannot say.
pub fn add_image_env(env: &mut BTreeMap<String, String>, lines: &[String]) {
    for (name, value) in lines.iter().filter_map(|line| line.split_once('=')) {
        if is_for_execs(name) && !value.contains('\0') {
            env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
}

/// Puts what a cell has of its image already where it says nothing else.
pub fn keep_image_env(env: &mut BTreeMap<String, String>, known: &BTreeMap<String, String>) {
    for (name, value) in known {
        env.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

fn is_for_execs(name: &str) -> bool {
    let is_name = !name.is_empty() && !name.contains('\0');
    is_name && !matches!(name, "HOME" | "USER" | "LOGNAME" | "PWD" | "HOSTNAME" | "SHELL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_comes_before_its_image_and_neither_says_who_it_is() {
        let lines = ["A=image", "B=of the image", "HOME=/root", "=x", "none", "C=\0"];
        let mut env = BTreeMap::from([("A".to_owned(), "cell".to_owned())]);
        add_image_env(&mut env, &lines.map(str::to_owned));
        let expected = [("A", "cell"), ("B", "of the image")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(env, BTreeMap::from(expected));
    }
}
