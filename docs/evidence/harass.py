#!/usr/bin/env python3
# The load of 2026-11-29-cpu-b8390-hostile-arenas.txt.
# One round of what internal/smoke's hostile check does to a server: LLPATCH_URL.
import json, os, random, socket, struct, sys, threading, urllib.request, urllib.error
url = os.environ["LLPATCH_URL"].rstrip("/")
host, port = url.split("//")[1].split(":")
port = int(port)
only = sys.argv[1] if len(sys.argv) > 1 else "all"
rnd = random.Random(os.getpid())
garbage = rnd.randbytes(1 << 20)
half = b"POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: appl"
body = b"POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{\"prompt\":\"a"
deep = b"POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n\r\n" + b"[" * 20000
def raw(data, reset):
    c = socket.create_connection((host, port), timeout=30)
    try: c.sendall(data)
    except OSError: pass
    if reset: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
def call(path, obj):
    r = urllib.request.Request(url + path, json.dumps(obj).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r, timeout=120) as f: return f.status, f.read()
    except urllib.error.HTTPError as e: return e.code, e.read()
kinds = {"none": b"", "garbage": garbage, "half": half, "body": body, "deep": deep, "crlf": b"\r\n\r\n", "byte": garbage[:1]}
for k, d in kinds.items():
    if only in ("all", "raw", k):
        for reset in (True, False): raw(d, reset)
if only in ("all", "bad"):
    for bad in ("text", {"prompt": 1.5, "n_predict": "x"}, {"prompt": [-1, 1 << 40], "n_predict": 1}):
        s, b = call("/completion", bad)
        assert s >= 400, (s, b)
if only in ("all", "stream"):
    c = socket.create_connection((host, port), timeout=60)
    b = json.dumps({"prompt": "The quick brown fox", "n_predict": 400, "stream": True, "ignore_eos": True}).encode()
    c.sendall(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(b) + b)
    c.recv(4096); c.close()
if only in ("all", "crowd"):
    bad = []
    def one():
        try:
            s, b = call("/tokenize", {"content": "a"})
            if s != 200: bad.append(s)
        except Exception as e: bad.append(e)
    t = [threading.Thread(target=one) for _ in range(200)]
    [x.start() for x in t]; [x.join() for x in t]
    assert not bad, bad[:3]
s, b = call("/completion", {"prompt": "The quick brown fox", "n_predict": 8, "temperature": 0, "seed": 1})
assert s == 200, (s, b)
