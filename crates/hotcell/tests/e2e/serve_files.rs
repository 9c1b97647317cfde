//! The files of cells for agents and scripts: tools, resources and the JSON API.

use serde_json::{Value, json};

use crate::world::{
    Connection, Era, HttpServer, McpClient, Sent, World, cpu_ticks, descendants, eventually,
    peak_kib,
};

in_worlds! {
    [root, rootless]
    agents_work_with_files,
    a_batch_is_done_or_undone,
    files_are_put_fetched_and_deleted,
    a_large_file_goes_through_in_pieces,
    a_client_that_vanishes_leaves_nothing,
}

in_worlds! {
    [root, rootless]
    archives_go_out_and_in,
}

in_worlds! {
    [root]
    a_large_archive_is_a_link,
    text_is_found,
    a_search_that_is_cancelled_ends,
    files_are_resources,
    parts_and_conditions_are_understood,
    odd_paths_are_paths,
    long_text_is_read_in_parts,
    uploads_have_a_bound,
    files_are_listed_in_pages,
    errors_about_files_help,
}

const BINARY: &[u8] = &[0, 159, 146, 150, 255, 10, 0];

/// The error of a tool call.
#[track_caller]
fn refused(client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let id = client.ask_tool(tool, arguments);
    let answer = client.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["_meta"]["hotcell/error"].clone()
}

fn agents_work_with_files(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let asked = json!({ "path": "src/a.txt", "content": "one\ntwo\nthree\n", "mode": "750" });
    let written = client.call("fs_write", asked);
    assert_eq!((&written["path"], &written["size"]), (&json!("/workspace/src/a.txt"), &json!(14)));
    assert_eq!(written["created"], true);

    let read = client.call("fs_read", json!({ "path": "src/a.txt" }));
    assert_eq!(read["content"], "one\ntwo\nthree\n");
    assert_eq!((&read["etag"], &read["encoding"]), (&written["etag"], &json!("utf8")));
    let lines = client.call("fs_read", json!({ "path": "src/a.txt", "lines": "2" }));
    assert_eq!((&lines["content"], &lines["first_line"]), (&json!("two\n"), &json!(2)));

    let edits = json!([{ "old": "two", "new": "2" }]);
    let dry = json!({ "path": "src/a.txt", "edits": edits, "dry_run": true });
    let shown = client.call("fs_edit", dry);
    assert!(shown["diff"].as_str().unwrap().contains("-two\n+2\n"), "{shown}");
    let real = json!({ "path": "src/a.txt", "edits": edits, "if_match": written["etag"] });
    let edited = client.call("fs_edit", real.clone());
    assert_eq!(edited["replaced"], 1);
    let error = refused(&mut client, "fs_edit", real);
    assert_eq!(error["code"], "conflict");
    let once = json!({ "path": "src/a.txt", "content": "", "if_none_match": "*" });
    assert_eq!(refused(&mut client, "fs_write", once)["code"], "conflict");

    // What commands see is what tools see.
    let ran = client.call("exec_run", json!({ "command": "cat src/a.txt; stat -c %a src/a.txt" }));
    assert_eq!(ran["stdout"], "one\n2\nthree\n750\n");

    client
        .call("exec_run", json!({ "command": "printf '\\0\\377' > src/b.bin; ln -s a.txt src/l" }));
    let binary = client.call("fs_read", json!({ "path": "/workspace/src/b.bin" }));
    assert_eq!((&binary["content"], &binary["encoding"]), (&json!("AP8="), &json!("base64")));
    let back = json!({ "path": "c.bin", "content": binary["content"], "encoding": "base64" });
    client.call("fs_write", back);
    let same = client.call("exec_run", json!({ "command": "cmp c.bin src/b.bin && echo same" }));
    assert_eq!(same["stdout"], "same\n");

    let listed = client.call("fs_list", json!({ "recursive": true }));
    let paths: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|one| one["path"].clone()).collect();
    assert_eq!(paths, ["c.bin", "src", "src/a.txt", "src/b.bin", "src/l"]);
    let link = client.call("fs_stat", json!({ "path": "src/l" }));
    assert_eq!((&link["kind"], &link["target"]), (&json!("symlink"), &json!("a.txt")));

    assert_eq!(refused(&mut client, "fs_delete", json!({ "path": "src" }))["code"], "conflict");
    let deleted = client.call("fs_delete", json!({ "path": "src", "recursive": true }));
    assert_eq!((&deleted["status"], &deleted["removed"]), (&json!("deleted"), &json!(4)));
    assert_eq!(
        refused(&mut client, "fs_read", json!({ "path": "src/a.txt" }))["code"],
        "not_found"
    );
}

fn a_batch_is_done_or_undone(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    client.call("fs_write", json!({ "path": "keep", "content": "before" }));
    let operations = json!([
        { "op": "write", "path": "keep", "content": "after" },
        { "op": "mkdir", "path": "d/e" },
        { "op": "copy", "path": "keep", "to": "d/e/copy" },
        { "op": "read", "path": "d/e/copy" },
        { "op": "delete", "path": "absent" },
    ]);
    let undone = client.call("fs_batch", json!({ "operations": operations }));
    assert_eq!(undone["rolled_back"], true);
    assert_eq!(undone["results"][4]["error"]["code"], "not_found");
    assert_eq!(undone["results"][0]["status"], "not_done");
    let seen = client.call("exec_run", json!({ "command": "cat keep; ls -A" }));
    assert_eq!(seen["stdout"], "beforekeep\n");

    let done =
        client.call("fs_batch", json!({ "operations": &operations.as_array().unwrap()[..4] }));
    assert_eq!(done["rolled_back"], false);
    assert_eq!(done["results"][3]["result"]["content"], "after");
    let loose = json!({ "atomic": false, "operations": [
        { "op": "delete", "path": "absent" },
        { "op": "move", "path": "d/e/copy", "to": "moved" },
    ] });
    let done = client.call("fs_batch", loose);
    assert_eq!(done["results"][0]["status"], "failed");
    assert_eq!(done["results"][1]["result"]["path"], "/workspace/moved");
}

fn files_are_resources(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    client.call("fs_write", json!({ "path": "a b/text.json", "content": "{}" }));
    client.call("fs_write", json!({ "path": "x.bin", "content": "AP8=", "encoding": "base64" }));
    let listed = client.request("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "workspace:default", "{listed}");
    let templates = client.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
    assert!(templates.iter().any(|one| one["uriTemplate"] == "workspace:{cell}/{+path}"));
    let mut read = |uri: &str| client.request("resources/read", json!({ "uri": uri }));
    let text = read("workspace:default/a%20b/text.json");
    let contents = &text["result"]["contents"][0];
    assert_eq!(
        (&contents["text"], &contents["mimeType"]),
        (&json!("{}"), &json!("application/json"))
    );
    assert_eq!(read("workspace:default/x.bin")["result"]["contents"][0]["blob"], "AP8=");
    let directory = read("workspace:default");
    let directory = directory["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(directory.contains("/workspace/a b") && directory.contains("x.bin"), "{directory}");
    for absent in ["workspace:default/absent", "workspace:default/../etc/hosts", "workspace:nobody"]
    {
        let answer = read(absent);
        assert!(answer["error"]["message"].as_str().unwrap().contains(absent), "{answer}");
    }
    client.call("exec_run", json!({ "command": "ln -s /etc/hosts out; ln -s x.bin in" }));
    let mut read = |uri: &str| client.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read("workspace:default/in")["result"]["contents"][0]["blob"], "AP8=");
    assert!(read("workspace:default/out")["error"].is_object());
    let reference = json!({ "type": "ref/resource", "uri": "workspace:{cell}/{+path}" });
    let asked = json!({ "ref": reference, "argument": { "name": "cell", "value": "def" } });
    let completed = client.request("completion/complete", asked);
    assert_eq!(completed["result"]["completion"]["values"], json!(["default"]));
}

fn long_text_is_read_in_parts(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let line = "0123456789 €€€€€\n";
    let text = line.repeat(8000);
    client.call("fs_write", json!({ "path": "long", "content": text }));
    let (mut seen, mut offset, mut parts) = (String::new(), 0, 0);
    loop {
        let part = client.call("fs_read", json!({ "path": "long", "offset": offset }));
        let content = part["content"].as_str().unwrap();
        assert!(content.len() <= 48 * 1024);
        seen.push_str(content);
        parts += 1;
        assert_eq!(part["truncated"], part["next_offset"].is_u64());
        match part["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert!(seen == text && parts > 2, "{parts} parts");
    let all = client.call("fs_read", json!({ "path": "long", "limit": 1_000_000 }));
    assert!(all["content"] == text);
    let error = refused(&mut client, "fs_read", json!({ "path": "long", "limit": 1u64 << 40 }));
    assert_eq!(error["code"], "limit_exceeded");
}

fn files_are_put_fetched_and_deleted(world: &World) {
    let server = HttpServer::start(world);
    let path = "/v1/cells/default/files/a/b.bin";
    let put = server.ask(&Sent::put(path, BINARY)).is(201);
    let etag = put.header("etag").unwrap().to_owned();
    assert_eq!(put.json()["size"], BINARY.len());
    assert_eq!(format!("{:?}", put.json()["etag"].as_str().unwrap()), etag);

    let got = server.ask(&Sent::get(path)).is(200);
    assert_eq!((got.bytes.as_slice(), got.header("etag")), (BINARY, Some(etag.as_str())));
    assert_eq!(got.header("content-type"), Some("application/octet-stream"));
    let head = server.ask(&Sent::head(path)).is(200);
    assert_eq!((head.header("content-length"), head.bytes.len()), (Some("7"), 0));

    // A change goes only over what one has seen.
    let other = format!("\"{}\"", "0".repeat(32));
    server.ask(&Sent::put(path, "x").with("if-match", &other)).is(412);
    server.ask(&Sent::put(path, "x").with("if-none-match", "*")).is(412);
    server.ask(&Sent::delete(path).with("if-match", &other)).is(412);
    let put =
        server.ask(&Sent::put(&format!("{path}?mode=700"), "x").with("if-match", &etag)).is(200);
    assert_ne!(put.header("etag").unwrap(), etag);
    let seen = server.ask(&Sent::get("/v1/cells/default/stat?path=a/b.bin")).is(200).json();
    assert_eq!(
        (&seen["kind"], &seen["mode"], &seen["size"]),
        (&json!("file"), &json!("700"), &json!(1))
    );

    let edit = json!({ "path": "a/b.bin", "edits": [{ "old": "x", "new": "y" }] });
    let edited = server.ask(&Sent::post("/v1/cells/default/edit", &edit)).is(200).json();
    assert_eq!(edited["replaced"], 1);
    let batch = json!({ "operations": [{ "op": "read", "path": "a/b.bin" }] });
    let read = server.ask(&Sent::post("/v1/cells/default/batch", &batch)).is(200).json();
    assert_eq!(read["results"][0]["result"]["content"], "y");

    server.ask(&Sent::delete("/v1/cells/default/files/a")).is(409);
    let deleted = server.ask(&Sent::delete("/v1/cells/default/files/a?recursive=true")).is(200);
    assert_eq!(deleted.json()["removed"], 2);
    server.ask(&Sent::get(path)).is(404);
    assert_eq!(server.terminate().code(), 0);
}

fn parts_and_conditions_are_understood(world: &World) {
    let server = HttpServer::start(world);
    let path = "/v1/cells/default/files/digits.txt";
    let put = server.ask(&Sent::put(path, "0123456789")).is(201);
    let etag = put.header("etag").unwrap();
    let get = || Sent::get(path);
    for (range, status, body, told) in [
        ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
        ("bytes=8-", 206, "89", Some("bytes 8-9/10")),
        ("bytes=0-0,5-6", 200, "0123456789", None),
    ] {
        let got = server.ask(&get().with("range", range)).is(status);
        assert_eq!((got.body.as_str(), got.header("content-range")), (body, told), "{range}");
        assert_eq!(got.header("content-length"), Some(body.len().to_string().as_str()));
    }
    let beyond = server.ask(&get().with("range", "bytes=10-")).is(416);
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));
    assert_eq!(server.ask(&get().with("if-none-match", etag)).is(304).bytes.len(), 0);
    server.ask(&get().with("if-match", "\"other\"")).is(412);
    let resumed = get().with("range", "bytes=5-");
    assert_eq!(server.ask(&resumed.clone().with("if-range", etag)).is(206).body, "56789");
    assert_eq!(server.ask(&resumed.with("if-range", "\"other\"")).is(200).body, "0123456789");
    let empty = server.ask(&Sent::put("/v1/cells/default/files/empty", "")).is(201);
    assert_eq!(empty.json()["size"], 0);
    assert_eq!(server.ask(&Sent::get("/v1/cells/default/files/empty")).is(200).body, "");
    // Nobody knows beforehand how long these are.
    let endless = server.ask(&Sent::get("/v1/cells/default/files/%2Fproc%2Fversion")).is(200);
    assert!(endless.body.starts_with("Linux"), "{endless:?}");
    assert_eq!(endless.header("content-length"), None);
}

fn odd_paths_are_paths(world: &World) {
    let server = HttpServer::start(world);
    for (path, name) in [
        ("a%20b", "a b"),
        ("%C3%A9%F0%9F%A6%80", "é🦀"),
        ("x%3Fy%23z", "x?y#z"),
        ("%25", "%"),
        ("-n", "-n"),
        ("a%0Ab", "a\nb"),
        ("d/../flat", "flat"),
        ("%2Fworkspace%2Fabsolute", "absolute"),
        ("%2Ftmp%2Felsewhere", "/tmp/elsewhere"),
    ] {
        let url = format!("/v1/cells/default/files/{path}");
        let put = server.ask(&Sent::put(&url, name)).is(201).json();
        let expected =
            if name.starts_with('/') { name.into() } else { format!("/workspace/{name}") };
        assert_eq!(put["path"], expected);
        assert_eq!(server.ask(&Sent::get(&url)).is(200).body, name);
    }
    for (path, status) in [("%00", 400), ("%ff", 400), ("%2F", 409), (".", 409), ("absent", 404)] {
        server.ask(&Sent::get(&format!("/v1/cells/default/files/{path}"))).is(status);
    }
}

const PIECE: usize = 64 * 1024;
const PIECES: usize = 800;

/// A piece that no other one is like.
fn piece(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    (0..PIECE)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

fn a_large_file_goes_through_in_pieces(world: &World) {
    let server = HttpServer::start(world);
    let path = "/v1/cells/default/files/large.bin";
    server.ask(&Sent::put("/v1/cells/default/files/small", "x")).is(201);
    let before = peak_kib(server.live.pid());
    let mut upload = Connection::open(server.address);
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        PIECE * PIECES
    );
    assert!(upload.try_write(head.as_bytes()));
    for number in 0..PIECES {
        assert!(upload.try_write(&piece(number)), "piece {number}");
    }
    assert_eq!(upload.answer().unwrap().is(201).json()["size"], PIECE * PIECES);

    let mut download = server.send(&Sent::get(path));
    assert_eq!(download.head().unwrap().status, 200);
    let mut received = vec![0; PIECE];
    for number in 0..PIECES {
        let mut length = 0;
        while length < PIECE {
            let more = download.read_some(&mut received[length..]);
            assert!(more > 0, "it broke off in piece {number}");
            length += more;
        }
        assert!(received == piece(number), "piece {number} differs");
    }
    assert_eq!(download.read_some(&mut received), 0);
    let grown = peak_kib(server.live.pid()) - before;
    assert!(grown < 24 * 1024, "the server grew by {grown} KiB");
}

fn a_client_that_vanishes_leaves_nothing(world: &World) {
    let server = HttpServer::start(world);
    server.ask(&Sent::put("/v1/cells/default/files/d/kept", "kept")).is(201);
    for place in ["d/kept", "d/fresh", "made/fresh"] {
        let mut upload = Connection::open(server.address);
        let head = format!(
            "PUT /v1/cells/default/files/{place} HTTP/1.1\r\nhost: localhost\r\n\
             content-length: 100000000\r\n\r\n"
        );
        assert!(upload.try_write(head.as_bytes()));
        // More than any buffer on the way holds.
        for number in 0..400 {
            assert!(upload.try_write(&piece(number)), "piece {number}");
        }
        upload.close();
    }
    let look = json!({ "command": "cat d/kept; ls -AR . | grep -v :" });
    eventually("nothing is left of what was not finished", || {
        let ran = server.ask(&Sent::post("/v1/execs", &look)).is(201).json();
        let shown: String = ran["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["data"].as_str().unwrap())
            .collect();
        // A directory above it is made before the content comes, and stays.
        let names: Vec<&str> = shown.split_whitespace().filter(|name| *name != "made").collect();
        names == ["keptd", "kept"]
    });
    assert_eq!(server.ask(&Sent::get("/v1/cells/default/files/d/kept")).is(200).body, "kept");
}

fn uploads_have_a_bound(world: &World) {
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_MAX_UPLOAD_MB", "1")]);
    let path = "/v1/cells/default/files/large";
    let large = vec![b'x'; (1 << 20) + 1];
    let refused = server.ask(&Sent::put(path, large.clone())).is(413).json();
    assert_eq!(refused["code"], "limit_exceeded");
    assert!(refused["hint"].as_str().unwrap().contains("http.max_upload_mb"), "{refused}");
    // The same for one that does not say how long it is.
    let mut chunked = Connection::open(server.address);
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n{:x}\r\n",
        large.len()
    );
    chunked.write(head.as_bytes());
    chunked.write(&large);
    chunked.write(b"\r\n0\r\n\r\n");
    assert_eq!(chunked.answer().unwrap().status, 413);
    // Who asks first need not send it at all.
    let mut asking = Connection::open(server.address);
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99000000\r\n\
         expect: 100-continue\r\nconnection: close\r\n\r\n"
    );
    asking.write(head.as_bytes());
    assert_eq!(asking.head().unwrap().status, 413);
    server.ask(&Sent::get(path)).is(404);
    server.ask(&Sent::put(path, vec![b'x'; 1 << 20])).is(201);
}

fn files_are_listed_in_pages(world: &World) {
    let server = HttpServer::start(world);
    let names: Vec<String> = (0..25).map(|number| format!("f{number:02}")).collect();
    let operations: Vec<Value> =
        names.iter().map(|name| json!({ "op": "write", "path": name, "content": name })).collect();
    let batch = json!({ "operations": operations });
    server.ask(&Sent::post("/v1/cells/default/batch", &batch)).is(200);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let query = format!("/v1/cells/default/files?limit=10{cursor}");
        let page = server.ask(&Sent::get(&query)).is(200).json();
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 10);
        seen.extend(entries.iter().map(|one| one["path"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let expected: Vec<String> = names.iter().map(|name| format!("/workspace/{name}")).collect();
    assert_eq!(seen, expected);
    let some = server.ask(&Sent::get("/v1/cells/default/files?glob=f1*&path=.")).is(200).json();
    assert_eq!(some["entries"].as_array().unwrap().len(), 10);
}

fn errors_about_files_help(world: &World) {
    let server = HttpServer::start(world);
    let files = |rest: &str| format!("/v1/cells/default/files{rest}");
    server.ask(&Sent::put(&files("/d/f"), "x")).is(201);
    for (request, status, said) in [
        (Sent::get(&files("/d")), 409, "directory"),
        (Sent::put(&files("/d"), "x"), 409, "directory"),
        (Sent::put(&files("/d/f/g"), "x"), 409, "directory"),
        (Sent::put(&files("/x/y?create_parents=false"), "x"), 404, "/workspace/x"),
        (Sent::put(&files("/x?mode=9"), "x"), 400, "9"),
        (Sent::put(&files("/x?colour=1"), "x"), 400, "colour"),
        (Sent::put(&files("/x"), "x").with("if-match", "nonsense"), 400, "nonsense"),
        (Sent::get(&files("/d/f?colour=1")), 400, "colour"),
        (Sent::get(&files("?limit=0")), 400, "0"),
        (Sent::get(&files("?path=absent")), 404, "absent"),
        (Sent::get("/v1/cells/nobody/files/x"), 404, "nobody"),
        (Sent::get("/v1/cells/default/archive?compression=lzma"), 400, "lzma"),
        (Sent::get("/v1/cells/default/archive?path=a&path=b"), 400, "path"),
        (Sent::post(&files("/d"), &json!({})), 405, "POST"),
    ] {
        let answer = server.ask(&request);
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said), "{request:?}: {answer:?}");
    }
}

fn archives_go_out_and_in(world: &World) {
    let server = HttpServer::start(world);
    let operations = json!([
        { "op": "write", "path": "src/a", "content": "one" },
        { "op": "write", "path": "src/b.log", "content": "two" },
        { "op": "write", "path": "src/d/run", "content": "three", "mode": "755" },
    ]);
    let batch = json!({ "operations": operations });
    server.ask(&Sent::post("/v1/cells/default/batch", &batch)).is(200);
    let archive = "/v1/cells/default/archive";
    for (compression, magic) in
        [("none", &b"a"[..]), ("gzip", &[0x1f, 0x8b]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd])]
    {
        let query = format!("path=src&compression={compression}&exclude=*.log&exclude=absent");
        let got = server.ask(&Sent::get(&format!("{archive}?{query}"))).is(200);
        assert!(got.bytes.starts_with(magic), "{compression}: {:?}", &got.bytes[..8]);
        assert!(got.header("content-disposition").unwrap().contains("src.tar"));
        let to = format!("{archive}?path=to-{compression}");
        let packed = server.ask(&Sent::put(&to, got.bytes)).is(200).json();
        assert_eq!((&packed["files"], &packed["bytes"]), (&json!(2), &json!(8)));
        let query = format!("/v1/cells/default/stat?path=to-{compression}/d/run");
        assert_eq!(server.ask(&Sent::get(&query)).is(200).json()["mode"], "755");
    }
    server.ask(&Sent::get(&format!("{archive}?path=absent"))).is(404);
    let broken = server.ask(&Sent::put(&format!("{archive}?path=broken"), vec![7; 2000])).json();
    assert_eq!(broken["code"], "invalid", "{broken}");
}

fn a_large_archive_is_a_link(world: &World) {
    let server = HttpServer::start(world);
    let make = json!({ "command": "head -c 100000 /dev/urandom > noise; echo hi > 'a b'" });
    server.ask(&Sent::tool("exec_run", make)).done();
    let small = server.ask(&Sent::tool("fs_export", json!({ "exclude": ["noise"] }))).tool_result();
    assert!(small["archive"].is_string() && small["url"].is_null(), "{small}");
    let asked = json!({ "max_bytes": 50_000, "exclude": ["a b"] });
    let large = server.ask(&Sent::tool("fs_export", asked.clone())).tool_result();
    let url = large["url"].as_str().unwrap();
    let path = url.strip_prefix("http://localhost").unwrap();
    let got = server.ask(&Sent::get(path)).is(200);
    assert!(got.bytes.len() > 100_000, "{}", got.bytes.len());
    drop(server);

    let mut client = McpClient::start(world, Era::Modern);
    client.call("exec_run", json!({ "command": "head -c 100000 /dev/urandom > noise" }));
    let error = refused(&mut client, "fs_export", asked);
    assert_eq!(error["code"], "limit_exceeded");
    assert!(error["hint"].as_str().unwrap().contains("hotcell cp"), "{error}");
}

fn a_search_that_is_cancelled_ends(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "busy", "persistent": true }));
    // A few GiB to look through, in little space.
    let make =
        "yes 'no hay without a needl' | head -c 64M > 0; for i in $(seq 60); do ln 0 $i; done";
    client.call("exec_run", json!({ "cell": "busy", "command": make }));
    let supervisor = world.supervisor("busy");
    let used = || descendants(supervisor).into_iter().map(cpu_ticks).sum::<i32>();
    for token in [json!({}), json!({ "progressToken": 1 })] {
        let before = used();
        let search = client.ask(
            "tools/call",
            json!({
                "name": "fs_search", "_meta": token,
                "arguments": { "cell": "busy", "pattern": "[a-z ]+needle$" },
            }),
        );
        eventually("it searches", || used() > before + 10);
        client.send(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": search },
        }));
        eventually("it ends", || {
            let before = used();
            std::thread::sleep(std::time::Duration::from_millis(300));
            used() <= before + 1
        });
    }
    client.leave().0.succeeded();
}

fn text_is_found(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let make = "mkdir d; printf 'one\\ntwo\\nthree\\n' > d/f; echo TWO > g; seq 100000 > many";
    client.call("exec_run", json!({ "command": make }));
    let asked =
        json!({ "pattern": "two", "ignore_case": true, "context_lines": 1, "glob": "**/{f,g}" });
    let id = client.ask_tool("fs_search", asked);
    let answer = client.answer(id);
    assert_eq!(
        answer["result"]["content"][0]["text"], "d/f\n1- one\n2: two\n3- three\ng\n1: TWO\n",
        "{answer}"
    );
    let many = client.ask_tool_silently("fs_search", json!({ "pattern": "1", "limit": 10_000 }));
    let progress = client.received().len();
    assert_eq!(client.answer(many)["result"]["structuredContent"]["truncated"], true);
    let since = client.received().split_off(progress);
    assert!(since.iter().all(|line| line["method"] != "notifications/progress"));
    let asked = json!({
        "name": "fs_search", "arguments": { "pattern": "two", "ignore_case": true },
        "_meta": { "progressToken": "early" },
    });
    let found = client.request("tools/call", asked);
    let matches = &found["result"]["structuredContent"]["matches"];
    assert_eq!(matches.as_array().unwrap().len(), 2, "{found}");
    assert_eq!(matches[0]["path"], "d/f", "{found}");
    let told = client.find("progress", |line| line["params"]["progressToken"] == "early");
    assert!(told["params"]["message"].as_str().unwrap().contains("/workspace/"), "{told}");
    let names = client.call("fs_search", json!({ "pattern": "^d/", "in": "names" }));
    assert_eq!(names["matches"][0]["path"], "d/f", "{names}");
    let wrong = refused(&mut client, "fs_search", json!({ "pattern": "(" }));
    assert_eq!(wrong["code"], "invalid");
}
