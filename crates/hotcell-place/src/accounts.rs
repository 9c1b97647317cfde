//! Who is who in a cell that begins with an image.

/// A file of an image that says who is who.
#[derive(Debug, Clone, Copy)]
pub struct Accounts {
    /// Where it lies, without the first slash.
    pub path: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Users,
    Groups,
}

/// Both of them.
pub const ACCOUNTS: [Accounts; 2] = [
    Accounts { path: "etc/passwd", kind: Kind::Users },
    Accounts { path: "etc/group", kind: Kind::Groups },
];

impl Accounts {
    /// What the image has, and who execs are if it does not say.
    #[must_use]
    pub fn with_cell(self, found: Option<String>, (uid, gid): (u32, u32)) -> String {
        let (usual, id, cell) = match self.kind {
            Kind::Users => (
                "root:x:0:0:root:/root:/bin/sh\n",
                uid,
                format!("cell:x:{uid}:{gid}:cell:/home/cell:/bin/sh\n"),
            ),
            Kind::Groups => ("root:x:0:\n", gid, format!("cell:x:{gid}:\n")),
        };
        let mut text = found.unwrap_or_else(|| usual.to_owned());
        let id = id.to_string();
        if !text.lines().any(|line| line.split(':').nth(2) == Some(&id)) {
            if !text.ends_with('\n') && !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&cell);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_an_image_does_not_know_is_added() {
        let [users, groups] = ACCOUNTS;
        let text = users.with_cell(Some("a:x:1:1::/:".to_owned()), (1000, 1000));
        assert_eq!(text, "a:x:1:1::/:\ncell:x:1000:1000:cell:/home/cell:/bin/sh\n");
        assert_eq!(groups.with_cell(Some(String::new()), (7, 8)), "cell:x:8:\n");
        assert!(users.with_cell(None, (5, 5)).starts_with("root:x:0:0:"));
    }

    #[test]
    fn whoever_it_knows_keeps_the_name() {
        let [users, groups] = ACCOUNTS;
        let text = "node:x:1000:1000::/home/node:/bin/sh\n";
        assert_eq!(users.with_cell(Some(text.to_owned()), (1000, 1000)), text);
        let text = "node:x:1000:\n";
        assert_eq!(groups.with_cell(Some(text.to_owned()), (1000, 1000)), text);
    }
}
