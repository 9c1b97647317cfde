//! The files of a cell: what is written is read, and nothing outside is reached.

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{FileConversation, FileEvent, LinkError};
use hotcell_model::{
    BatchOutcome, BatchPart, ErrorCode, Etag, EtagMatch, FileBatch, FileContent, FileDelete,
    FileEdit, FileEntry, FileKind, FileList, FileMove, FileOp, FileRead, FileResult, FileScope,
    FileStat, FileWrite, FileWritten, LineRange, Precondition, TextEdit,
};

use super::guest::{Guest, open_sh, program, sh};
use super::{DriverPlace, refusal};

/// Does something with files; what came of it, and its content.
async fn file(
    guest: &Guest,
    op: impl Into<FileOp>,
    content: &[u8],
) -> Result<(FileResult, Vec<u8>), LinkError> {
    let FileConversation { sender, mut receiver } =
        guest.link.file(op.into(), FileScope::Cell).await?;
    let send = async {
        sender.send(content).await?;
        sender.finish().await
    };
    let receive = async {
        let mut came = Vec::new();
        loop {
            match receiver.next().await? {
                FileEvent::Data(bytes) => came.extend_from_slice(&bytes),
                FileEvent::Done(result) => return Ok((*result, came)),
                FileEvent::Failed(error) => return Err(LinkError::Failed(error)),
            }
        }
    };
    let (_, received) = tokio::join!(send, receive);
    received
}

async fn write(guest: &Guest, path: &str, content: &[u8]) -> Result<FileWritten> {
    let op = FileWrite { path: path.to_owned(), create_parents: true, ..FileWrite::default() };
    match file(guest, op, content).await? {
        (FileResult::Written(written), _) => Ok(written),
        (other, _) => bail!("a write was answered by {other:?}"),
    }
}

async fn read(guest: &Guest, path: &str) -> Result<(FileContent, Vec<u8>), LinkError> {
    read_part(guest, FileRead { path: path.to_owned(), ..FileRead::default() }).await
}

async fn read_part(guest: &Guest, op: FileRead) -> Result<(FileContent, Vec<u8>), LinkError> {
    match file(guest, op, &[]).await? {
        (FileResult::Content(read), content) => Ok((read, content)),
        (_, _) => Err(LinkError::Confused),
    }
}

async fn stat(guest: &Guest, path: &str) -> Result<FileEntry, LinkError> {
    match file(guest, FileStat { path: path.to_owned() }, &[]).await? {
        (FileResult::Entry(entry), _) => Ok(entry),
        (_, _) => Err(LinkError::Confused),
    }
}

async fn list(guest: &Guest, op: FileList) -> Result<(Vec<FileEntry>, Option<String>)> {
    match file(guest, op, &[]).await? {
        (FileResult::Entries(page), _) => Ok((page.entries, page.next_cursor)),
        (other, _) => bail!("a list was answered by {other:?}"),
    }
}

fn listing(path: &str) -> FileList {
    FileList { path: path.to_owned(), limit: 1000, ..FileList::default() }
}

fn names(entries: &[FileEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

fn matching(etag: &Etag) -> Precondition {
    Precondition { if_match: Some(EtagMatch::Etag(etag.clone())), if_none_match: None }
}

fn absent() -> Precondition {
    Precondition { if_match: None, if_none_match: Some(EtagMatch::Any) }
}

pub(super) async fn what_is_written_is_read(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let written = write(&guest, "notes/a.txt", b"one\ntwo\nthree\n").await?;
    ensure!(written.path == "/workspace/notes/a.txt" && written.created && written.size == 14);
    let (content, bytes) = read(&guest, "/workspace/notes/a.txt").await?;
    ensure!(bytes == b"one\ntwo\nthree\n" && content.mime_type == "text/plain", "{content:?}");
    ensure!(content.etag == written.etag && !content.truncated);
    ensure!(
        guest
            .output_of("cat notes/a.txt; stat -c %a notes/a.txt; test -O notes/a.txt && echo own")
            .await?
            == "one\ntwo\nthree\n644\nown\n"
    );
    // More than any window, and no text.
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 4]).collect();
    write(&guest, "large", &large).await?;
    let (content, bytes) = read(&guest, "large").await?;
    ensure!(bytes == large && content.mime_type == "application/octet-stream");
    let part = FileRead {
        path: "large".into(),
        offset: Some(1_000_000),
        limit: Some(10),
        ..FileRead::default()
    };
    let (content, bytes) = read_part(&guest, part).await?;
    ensure!(bytes == large[1_000_000..1_000_010] && content.truncated, "{content:?}");
    let lines = Some(LineRange { first: 2, last: Some(3) });
    let part = FileRead { path: "notes/a.txt".into(), lines, ..FileRead::default() };
    let (content, bytes) = read_part(&guest, part).await?;
    ensure!(bytes == b"two\nthree\n" && !content.truncated, "{content:?}");
    ensure!((content.first_line, content.last_line, content.offset) == (Some(2), Some(3), 4));
    // Mode and links stay as they are.
    guest.output_of("chmod 750 notes/a.txt; ln -s notes/a.txt link").await?;
    let again = write(&guest, "link", b"new").await?;
    ensure!(!again.created && again.path == "/workspace/notes/a.txt", "{again:?}");
    let seen =
        guest.output_of("cat notes/a.txt; stat -c %a notes/a.txt; readlink link; ls -A").await?;
    ensure!(seen == "new750\nnotes/a.txt\nlarge\nlink\nnotes\n", "{seen}");
    Ok(())
}

pub(super) async fn one_etag_everywhere_that_any_change_changes(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let mut before = write(&guest, "f", b"0").await?.etag;
    ensure!(stat(&guest, "f").await?.etag.as_ref() == Some(&before), "stat has another etag");
    // A program that changes the file in place as fast as it can, one letter at a time.
    let spec = open_sh("while read n; do printf %s $n 1<>f; echo ok$n; done");
    let exec = spec.id.clone();
    let (_, mut following) = guest.link.start(spec).await?;
    for n in 1..100 {
        let letter = (n % 9 + 1).to_string();
        guest.input(&exec, &format!("{letter}\n")).await?;
        super::guest::read_until(&mut following, &format!("ok{letter}")).await?;
        let (content, bytes) = read(&guest, "f").await?;
        ensure!(bytes == letter.as_bytes(), "{n}: read {bytes:?}");
        ensure!(content.etag != before, "{n}: the content changed and the etag did not");
        let listed = list(&guest, listing("/workspace")).await?.0;
        ensure!(listed[0].etag.as_ref() == Some(&content.etag), "{n}: the list has another etag");
        before = content.etag;
    }
    // Two writes of ours at once.
    let one = write(&guest, "f", b"a").await?.etag;
    let two = write(&guest, "f", b"b").await?.etag;
    ensure!(one != two && read(&guest, "f").await?.0.etag == two);
    Ok(())
}

pub(super) async fn a_precondition_is_kept(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let op = |precondition| FileWrite { path: "f".into(), precondition, ..FileWrite::default() };
    let first = match file(&guest, op(absent()), b"1").await? {
        (FileResult::Written(written), _) => written.etag,
        (other, _) => bail!("{other:?}"),
    };
    ensure!(refusal(file(&guest, op(absent()), b"2").await)? == ErrorCode::Conflict);
    let second = match file(&guest, op(matching(&first)), b"2").await? {
        (FileResult::Written(written), _) => written.etag,
        (other, _) => bail!("{other:?}"),
    };
    match file(&guest, op(matching(&first)), b"3").await {
        Err(LinkError::Failed(error)) => {
            ensure!(error.code == ErrorCode::Conflict, "{error:?}");
            ensure!(error.message.contains(second.as_str()), "no present etag: {error:?}");
        }
        other => bail!("{other:?}"),
    }
    ensure!(read(&guest, "f").await?.1 == b"2");
    let delete = |precondition| FileDelete { path: "f".into(), recursive: false, precondition };
    ensure!(refusal(file(&guest, delete(matching(&first)), &[]).await)? == ErrorCode::Conflict);
    file(&guest, delete(matching(&second)), &[]).await?;
    ensure!(refusal(read(&guest, "f").await)? == ErrorCode::NotFound);
    // Of many that want to be the first, one is.
    let mut won = 0;
    let writes = (0..16).map(|_| file(&guest, op(absent()), b"mine"));
    for outcome in futures_join(writes).await {
        won += u32::from(outcome.is_ok());
    }
    ensure!(won == 1, "{won} writes were the first");
    ensure!(guest.output_of("ls -A").await? == "f\n", "something was left behind");
    Ok(())
}

async fn futures_join<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (future, output) in &mut all {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => waits = true,
                }
            }
        }
        if waits { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

pub(super) async fn text_is_replaced_where_it_stands_once(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    write(&guest, "f", b"alpha\r\nbeta\r\nbeta\r\n").await?;
    let edit = |old: &str, new: &str, replace_all| FileEdit {
        path: "f".into(),
        edits: vec![TextEdit { old: old.into(), new: new.into(), replace_all }],
        ..FileEdit::default()
    };
    ensure!(refusal(file(&guest, edit("beta", "x", false), &[]).await)? == ErrorCode::Conflict);
    ensure!(refusal(file(&guest, edit("gamma", "x", false), &[]).await)? == ErrorCode::NotFound);
    let dry = FileEdit { dry_run: true, ..edit("alpha\nbeta", "one", false) };
    let (FileResult::Edited(edited), _) = file(&guest, dry, &[]).await? else { bail!("no edit") };
    ensure!(edited.diff.contains("-alpha") && edited.diff.contains("+one"), "{}", edited.diff);
    ensure!(read(&guest, "f").await?.1 == b"alpha\r\nbeta\r\nbeta\r\n", "a dry run changed it");
    file(&guest, edit("alpha\nbeta", "one\ntwo", false), &[]).await?;
    file(&guest, edit("beta", "three", true), &[]).await?;
    ensure!(read(&guest, "f").await?.1 == b"one\r\ntwo\r\nthree\r\n");
    Ok(())
}

pub(super) async fn directories_are_listed_page_by_page(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    guest.output_of("mkdir -p a/b c; touch a/1 a/b/2 a/b/3 c/4 z; ln -s a l; mkfifo p").await?;
    let all = FileList { recursive: true, ..listing("/workspace") };
    let (entries, _) = list(&guest, all.clone()).await?;
    let expected = ["a", "a/1", "a/b", "a/b/2", "a/b/3", "c", "c/4", "l", "p", "z"];
    let expected: Vec<String> = expected.iter().map(|name| format!("/workspace/{name}")).collect();
    ensure!(names(&entries) == expected, "{:?}", names(&entries));
    ensure!(entries[7].kind == FileKind::Symlink && entries[7].target.as_deref() == Some("a"));
    ensure!(entries[8].kind == FileKind::Other && entries[8].etag.is_none());
    let mut cursor = None;
    let mut paged = Vec::new();
    loop {
        let page = FileList { limit: 3, cursor: cursor.take(), ..all.clone() };
        let (entries, next) = list(&guest, page).await?;
        paged.extend(entries.into_iter().map(|entry| entry.path));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    ensure!(paged == expected, "{paged:?}");
    let glob = FileList { glob: Some("a/**/[23]".into()), ..all };
    let (entries, _) = list(&guest, glob).await?;
    ensure!(names(&entries) == ["/workspace/a/b/2", "/workspace/a/b/3"], "{:?}", names(&entries));
    Ok(())
}

pub(super) async fn nothing_outside_is_reached_and_nothing_hangs(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start(place).await?;
    guest
        .output_of(
            "mkfifo pipe; ln -s /etc/passwd out; ln -s ../../etc up; ln -s loop loop; ln -s /tmp tmp; \
             mkdir real; ln -s /workspace/real abs; ln -s /dev/zero zero; printf x > $(printf 'bad\\377')",
        )
        .await?;
    if guest.own_root {
        // Reading what the cell's user can read is allowed, by whatever way.
        ensure!(String::from_utf8_lossy(&read(&guest, "out").await?.1).contains("root:"));
    }
    let of_root = [
        ("zero", ErrorCode::Conflict),
        ("/dev/null", ErrorCode::Conflict),
        ("/proc/self/root/etc/passwd", ErrorCode::Denied),
        ("/proc/1/environ", ErrorCode::Denied),
    ];
    for (path, code) in of_root {
        // The host's root is not the cell's: nothing of it is there.
        let code = if guest.own_root { code } else { ErrorCode::NotFound };
        let found = refusal(read(&guest, path).await).with_context(|| format!("read {path:?}"))?;
        ensure!(found == code, "reading {path:?} gave {found:?}");
    }
    let cases = [
        ("pipe", ErrorCode::Conflict),
        ("loop", ErrorCode::Denied),
        ("/workspace", ErrorCode::Conflict),
        ("missing", ErrorCode::NotFound),
        ("", ErrorCode::Invalid),
        ("a\0b", ErrorCode::Invalid),
        (&"n".repeat(300), ErrorCode::Invalid),
        (&"n/".repeat(2100), ErrorCode::Invalid),
    ];
    for (path, code) in cases {
        let found = refusal(read(&guest, path).await).with_context(|| format!("read {path:?}"))?;
        ensure!(found == code, "reading {path:?} gave {found:?}");
    }
    let cases = [
        ("/etc/x", ErrorCode::Denied),
        ("/workspaceevil/x", ErrorCode::Denied),
        ("/workspace/../etc/x", ErrorCode::Denied),
        ("up/x", if guest.own_root { ErrorCode::Denied } else { ErrorCode::NotFound }),
        ("out", ErrorCode::Denied),
        ("/workspace", ErrorCode::Denied),
        ("pipe", ErrorCode::Conflict),
        ("real", ErrorCode::Conflict),
        ("/proc/self/cwd/x", ErrorCode::Denied),
    ];
    for (path, code) in cases {
        let op = FileWrite { path: path.into(), create_parents: true, ..FileWrite::default() };
        let found =
            refusal(file(&guest, op, b"x").await).with_context(|| format!("write {path:?}"))?;
        ensure!(found == code, "writing {path:?} gave {found:?}");
    }
    // Links that lead to where one may write are followed.
    write(&guest, "tmp/a", b"1").await?;
    write(&guest, "abs/b", b"2").await?;
    ensure!(guest.output_of("cat ${TMPDIR:-/tmp}/a real/b").await? == "12");
    let (entries, _) = list(&guest, listing("/workspace")).await?;
    ensure!(entries.iter().any(|entry| entry.path == "/workspace/bad\u{fffd}"), "{entries:?}");
    Ok(())
}

pub(super) async fn a_batch_is_done_whole_or_not_at_all(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    guest
        .output_of("mkdir -p d/e; echo 1 > d/e/one; echo 2 > two; echo 3 > three; chmod 600 two")
        .await?;
    let before = "find . | sort; cat d/e/one two three; stat -c %a two";
    let state = guest.output_of(before).await?;
    let part = |op: FileOp| BatchPart { op, content_bytes: 0 };
    let change = |last: FileOp| FileBatch {
        atomic: true,
        operations: vec![
            BatchPart {
                op: FileWrite { path: "two".into(), ..FileWrite::default() }.into(),
                content_bytes: 4,
            },
            BatchPart {
                op: FileWrite {
                    path: "n/e/w".into(),
                    create_parents: true,
                    ..FileWrite::default()
                }
                .into(),
                content_bytes: 3,
            },
            part(FileOp::Move(FileMove {
                from: "three".into(),
                to: "two".into(),
                overwrite: true,
                ..FileMove::default()
            })),
            part(FileOp::Copy(FileMove {
                from: "d".into(),
                to: "copy".into(),
                overwrite: false,
                ..FileMove::default()
            })),
            part(FileDelete { path: "d".into(), recursive: true, ..FileDelete::default() }.into()),
            part(last),
        ],
    };
    let fails = change(FileDelete { path: "missing".into(), ..FileDelete::default() }.into());
    let (FileResult::Batch(done), _) = file(&guest, fails, b"newwnew").await? else {
        bail!("no batch")
    };
    ensure!(done.rolled_back, "{done:?}");
    ensure!(matches!(done.outcomes[5], BatchOutcome::Failed(_)), "{done:?}");
    let after = guest.output_of(before).await?;
    ensure!(after == state, "was\n{state}is\n{after}");
    let works = change(FileRead { path: "copy/e/one".into(), ..FileRead::default() }.into());
    let (FileResult::Batch(done), content) = file(&guest, works, b"newwnew").await? else {
        bail!("no batch")
    };
    ensure!(!done.rolled_back && content == b"1\n", "{done:?} {content:?}");
    let after = guest.output_of("find . | sort; cat two n/e/w").await?;
    let expected = ".\n./copy\n./copy/e\n./copy/e/one\n./n\n./n/e\n./n/e/w\n./two\n3\nnew";
    ensure!(after == expected, "{after}");
    Ok(())
}

pub(super) async fn the_process_that_serves_files_may_be_killed(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    if !guest.own_root {
        // Programs find and reach no process but their own.
        return Ok(());
    }
    write(&guest, "f", b"1").await?;
    let killed = guest.run(sh("pkill -9 hotcell-files || killall -9 hotcell-files")).await?;
    let is_out_of_reach = killed.text(hotcell_model::Stream::Stderr).contains("not permitted");
    ensure!(is_out_of_reach || killed.end.exit_code == Some(0), "{killed:?}");
    let read_again = match read(&guest, "f").await {
        // It was asked before its end was noticed; the next one is another process.
        Err(LinkError::Failed(error)) if error.code == ErrorCode::Unavailable => {
            read(&guest, "f").await?
        }
        read => read?,
    };
    ensure!(read_again.1 == b"1");
    // Stopped, it is ended when it is silent for too long, and another takes its place.
    let stopped = guest.run(sh("pkill -STOP hotcell-files || killall -STOP hotcell-files")).await?;
    if !is_out_of_reach {
        ensure!(stopped.end.exit_code == Some(0), "{stopped:?}");
        ensure!(refusal(read(&guest, "f").await)? == ErrorCode::Unavailable);
    }
    ensure!(read(&guest, "f").await?.1 == b"1");
    // It is like any process of the cell but that nobody can look into it.
    let look = "for p in /proc/[0-9]*; do if grep -q hotcell-files $p/comm; then \
                grep -E '^(Uid|NoNewPrivs|CapEff):' $p/status; cat $p/environ >/dev/null || echo hidden; fi; done";
    let seen = guest.run(program(&["sh", "-c", look])).await?;
    let text = seen.text(hotcell_model::Stream::Stdout);
    ensure!(text.contains("Uid:\t1000\t1000\t1000\t1000"), "{text}");
    ensure!(
        text.contains("CapEff:\t0000000000000000") && text.contains("NoNewPrivs:\t1"),
        "{text}"
    );
    ensure!(text.contains("hidden"), "its memory can be read: {text}");
    Ok(())
}
