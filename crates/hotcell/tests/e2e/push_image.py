"""Pushes an image to a registry: push_image.py URL REPOSITORY TAG USER:PASSWORD LAYER... [--index]

Layers are files as they are to be stored; their kind is told by their first bytes. With --index the tag
is a list for several machines, of which only ours is an image that can be had. Prints the digest of what
the tag stands for.
"""
import base64, gzip, hashlib, json, platform, subprocess, sys, urllib.request

url, repository, tag, account, *layers = sys.argv[1:]
as_index = "--index" in layers
layers = [layer for layer in layers if layer != "--index"]
authorization = "Basic " + base64.b64encode(account.encode()).decode()


def ask(method, address, body=b"", kind="application/octet-stream"):
    request = urllib.request.Request(address, data=body, method=method)
    request.add_header("Authorization", authorization)
    request.add_header("Content-Type", kind)
    return urllib.request.urlopen(request)


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def push(content):
    place = ask("POST", f"{url}/v2/{repository}/blobs/uploads/").headers["Location"]
    joint = "&" if "?" in place else "?"
    ask("PUT", f"{place}{joint}digest={digest(content)}", content)
    return {"digest": digest(content), "size": len(content)}


def unpacked(content):
    if content[:2] == b"\x1f\x8b":
        return "tar+gzip", gzip.decompress(content)
    if content[:4] == b"\x28\xb5\x2f\xfd":
        return "tar+zstd", subprocess.run(["zstd", "-dc"], input=content, stdout=subprocess.PIPE, check=True).stdout
    return "tar", content


stored, inner = [], []
for layer in layers:
    with open(layer, "rb") as file:
        content = file.read()
    kind, plain = unpacked(content)
    inner.append(digest(plain))
    stored.append({**push(content), "mediaType": f"application/vnd.oci.image.layer.v1.{kind}"})
architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
config = {
    "architecture": architecture,
    "os": "linux",
    "config": {"Env": ["GREETING=of the image"]},
    "rootfs": {"type": "layers", "diff_ids": inner},
}
config = {**push(json.dumps(config).encode()), "mediaType": "application/vnd.oci.image.config.v1+json"}
kind = "application/vnd.oci.image.manifest.v1+json"
manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": stored}).encode()
ask("PUT", f"{url}/v2/{repository}/manifests/{digest(manifest) if as_index else tag}", manifest, kind)
if as_index:
    ours = {"digest": digest(manifest), "size": len(manifest), "mediaType": kind}
    foreign = {**ours, "platform": {"os": "plan9", "architecture": "mips"}}
    ours["platform"] = {"os": "linux", "architecture": architecture}
    kind = "application/vnd.oci.image.index.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [foreign, ours]}).encode()
    ask("PUT", f"{url}/v2/{repository}/manifests/{tag}", manifest, kind)
print(digest(manifest))
