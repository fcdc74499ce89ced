#!/usr/bin/python3
"""An S3 server for tests, on loopback, that checks every signature by the specification and fails
on demand. Prints its port and serves until its standard input ends.

Keys are kept in memory. A key whose first part is a word of FAULTS misbehaves that way; a bucket
whose name is one of LISTS lists that way. GET /_count/KEY says how often a key was asked for."""
import hashlib
import hmac
import re
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

SECRETS = {"AKIDTEST": "test/secret+key=", "ASIAPOD": "pod/secret", "ASIAOLD": "old/secret"}
TOKENS = {"ASIAPOD": "pod+session/token==", "ASIAOLD": "old"}
BUCKETS = {"plain", "dotted.bucket", "endless", "circle", "broken", "denied", "skewed", "elsewhere",
           "flaky"}
LOCK = threading.Lock()
OBJECTS = {}
COUNTS = {}
UPLOADS = {}
STATE = {"old_tokens": 0}


def encode(text, safe):
    return quote(text, safe=safe + "-_.~")


def etag_of(data):
    return '"%s"' % hashlib.md5(data).hexdigest()


def content(key):
    """Objects that nobody stored: 300,000 bytes that depend on the key."""
    seed = hashlib.sha256(key.encode()).digest()
    return b"".join(hashlib.sha256(seed + struct.pack(">I", i)).digest() for i in range(9375))


def error_xml(code, message="told so by the test server", extra=""):
    return ('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message>%s'
            "</Error>" % (code, escape(message), extra)).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "faulty"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def refuse(self, status, code, **more):
        self.reply(status, error_xml(code, **more))

    def reset(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()
        self.close_connection = True

    # ---- the signature, from the request as it came ----

    def signature_fault(self, body):
        """None when the signature is right, else (code, why)."""
        given = self.headers.get("Authorization")
        if given is None:
            return None if self.bucket == "plain" and self.key.startswith("public/") else (
                "AccessDenied", "not signed")
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", given)
        if not found:
            return "AuthorizationHeaderMalformed", given
        key_id, day, region, names, signature = found.groups()
        if key_id not in SECRETS:
            return "InvalidAccessKeyId", key_id
        names = names.split(";")
        if names != sorted(names) or "host" not in names:
            return "SignatureDoesNotMatch", "signed headers out of order"
        for name in self.headers:
            if name.lower().startswith("x-amz-") and name.lower() not in names:
                return "SignatureDoesNotMatch", name + " is not signed"
        payload = self.headers.get("x-amz-content-sha256", "")
        if payload != hashlib.sha256(body).hexdigest():
            return "XAmzContentSHA256Mismatch", payload
        path, _, query = self.path.partition("?")
        pairs = sorted((encode(n, ""), encode(v, ""))
                       for n, v in parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join([
            self.command, encode(unquote(path, errors="surrogateescape").encode(
                "utf-8", "surrogateescape"), "/") if path else "/",
            "&".join("%s=%s" % pair for pair in pairs),
            "".join("%s:%s\n" % (n, " ".join(self.headers[n].split())) for n in names),
            ";".join(names), payload])
        scope = "%s/%s/s3/aws4_request" % (day, region)
        to_sign = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope,
                             hashlib.sha256(canonical.encode()).hexdigest()])
        secret = ("AWS4" + SECRETS[key_id]).encode()
        for part in (day, region, "s3", "aws4_request", to_sign):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        if secret.hex() != signature:
            return "SignatureDoesNotMatch", canonical
        if key_id in TOKENS:
            if self.headers.get("x-amz-security-token") != TOKENS[key_id]:
                return "InvalidToken", "no such session"
            if key_id == "ASIAOLD":
                return "ExpiredToken", "it has expired"
        return None

    # ---- requests ----

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        host = self.headers["Host"].split(":")[0]
        if path.startswith("/_count/"):
            with LOCK:
                return self.reply(200, str(COUNTS.get(unquote(path[8:]), 0)).encode())
        if self.command == "POST" and path == "/":
            return self.token_service(dict(parse_qsl(body.decode())))
        if host.endswith(".localhost"):
            self.bucket, self.key = host[:-len(".localhost")], unquote(path[1:])
        else:
            self.bucket, _, self.key = unquote(path[1:]).partition("/")
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        fault = self.signature_fault(body)
        if fault:
            return self.refuse(400 if fault[0] == "ExpiredToken" else 403, fault[0],
                               message=fault[1])
        if self.bucket not in BUCKETS:
            return self.refuse(404, "NoSuchBucket")
        with LOCK:
            COUNTS[self.key] = COUNTS.get(self.key, 0) + 1
            self.count = COUNTS[self.key]
        if not self.key:
            return self.list()
        return getattr(self, self.command.lower())(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def token_service(self, form):
        if form.get("WebIdentityToken") != "pod token/1+2=":
            return self.refuse(403, "InvalidIdentityToken", message=form.get("WebIdentityToken"))
        STATE["old_tokens"] += 1
        old = form["RoleArn"].endswith("/old-first") and STATE["old_tokens"] == 1
        key_id = "ASIAOLD" if old else "ASIAPOD"
        self.reply(200, (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId>"
            "<SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>"
            "<Expiration>2037-01-01T00:00:00Z</Expiration></Credentials>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            % (key_id, SECRETS[key_id], TOKENS[key_id])).encode())

    def list(self):
        if self.bucket == "denied":
            return self.refuse(403, "AccessDenied")
        if self.bucket == "skewed":
            return self.refuse(403, "RequestTimeTooSkewed")
        if self.bucket == "elsewhere":
            return self.refuse(400, "AuthorizationHeaderMalformed", extra="<Region>eu-x-1</Region>")
        if self.bucket == "broken":
            return self.reply(200, b"<html><body>hello</body></html>")
        if self.bucket == "flaky" and self.count % 3:
            return self.refuse(503, "SlowDown")
        after = self.query.get("continuation-token", "")
        if self.bucket in ("endless", "circle"):
            number = int(after or 0) + 1 if self.bucket == "endless" else 1
            entries, token = [("object-%d" % number, b"x")], str(number)
        else:
            prefix = self.query.get("prefix", "")
            with LOCK:
                names = sorted((k, v) for (b, k), v in OBJECTS.items()
                               if b == self.bucket and k.startswith(prefix) and k > after)
            entries = names[:1000]
            token = entries[-1][0] if len(names) > 1000 else ""
        rows = "".join("<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z"
                       "</LastModified><ETag>%s</ETag><Size>%d</Size><Owner><ID>x</ID></Owner>"
                       "</Contents>" % (escape(k).replace("\r", "&#13;").replace("\1", "&#x1;"),
                                        escape(etag_of(v), {'"': "&quot;"}), len(v))
                       for k, v in entries)
        more = ("<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>"
                % escape(token) if token else "<IsTruncated>false</IsTruncated>")
        self.reply(200, ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="'
                         'http://s3.amazonaws.com/doc/2006-03-01/"><Name>x</Name>%s%s<Prefix/>'
                         "</ListBucketResult>" % (rows, more)).encode())

    def data(self):
        with LOCK:
            data = OBJECTS.get((self.bucket, self.key))
        fault = self.key.split("/")[0]
        if data is None and (fault in FAULTS or fault == "public"):
            data = content(self.key)
        return data

    def head(self, _):
        data = self.data()
        if data is None:
            return self.refuse(404, "NoSuchKey")
        self.reply(200, b"", [("ETag", etag_of(data))], length=len(data))

    def get(self, _):
        data = self.data()
        if data is None:
            return self.refuse(404, "NoSuchKey")
        etag, status, headers = etag_of(data), 200, []
        if self.headers.get("If-Match", etag) not in (etag, "*"):
            return self.refuse(412, "PreconditionFailed")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = data
        if asked:
            first, last = int(asked[1]), min(int(asked[2]), len(data) - 1)
            if first > last:
                return self.refuse(416, "InvalidRange")
            part, status = data[first:last + 1], 206
            headers.append(("Content-Range", "bytes %d-%d/%d" % (first, last, len(data))))
        headers.append(("ETag", etag))
        fault = FAULTS.get(self.key.split("/")[0])
        if fault:
            return fault(self, data, part, status, headers)
        self.reply(status, part, headers)

    def put(self, body):
        upload = self.query.get("uploadId")
        with LOCK:
            if upload:
                if upload not in UPLOADS:
                    return self.refuse(404, "NoSuchUpload")
                if self.key.startswith("bad-part/") and self.query["partNumber"] == "2":
                    return self.refuse(403, "AccessDenied")
                UPLOADS[upload][int(self.query["partNumber"])] = body
            else:
                if self.key.startswith("503-once/") and self.count == 1:
                    return self.refuse(503, "SlowDown")
                OBJECTS[self.bucket, self.key] = body
        self.reply(200, b"", [("ETag", etag_of(body))])

    def post(self, body):
        with LOCK:
            if "uploads" in self.query:
                upload = "up/load+%d=" % len(UPLOADS)
                UPLOADS[upload] = {}
                return self.reply(200, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId>"
                                        "</InitiateMultipartUploadResult>" % upload).encode())
            parts = UPLOADS.pop(self.query["uploadId"])
            listed = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>&#34;(\w+)&#34;</ETag>",
                                body.decode())
            if [(int(n), '"%s"' % e) for n, e in listed] != [
                    (n, etag_of(parts[n])) for n in sorted(parts)]:
                return self.refuse(400, "InvalidPart")
            if self.key.startswith("bad-end/"):
                return self.reply(200, error_xml("InternalError"))
            OBJECTS[self.bucket, self.key] = b"".join(parts[n] for n in sorted(parts))
        self.reply(200, b'<?xml version="1.0"?><CompleteMultipartUploadResult><ETag>"x"</ETag>'
                   b"</CompleteMultipartUploadResult>")

    def delete(self, _):
        with LOCK:
            UPLOADS.pop(self.query.get("uploadId"), None)
            COUNTS["aborted"] = COUNTS.get("aborted", 0) + 1
        self.reply(204)


def first(times):
    """Misbehaves the first few times."""
    def decorate(fault):
        def run(self, data, part, status, headers):
            if self.count <= times:
                return fault(self, data, part, status, headers)
            self.reply(status, part, headers)
        return run
    return decorate


def with_status(status, code):
    return lambda self, *_: self.refuse(status, code)


def stall(self, data, part, status, headers):
    self.reply(status, part[:1000], headers, length=len(part))
    time.sleep(4)
    self.close_connection = True


def hang(self, data, part, status, headers):
    self.reply(status, part[:1000], headers, length=len(part))
    time.sleep(60)
    self.close_connection = True


def truncate(self, data, part, status, headers):
    self.reply(status, part[:len(part) // 2 + 1], headers, length=len(part))
    self.connection.shutdown(socket.SHUT_RDWR)
    self.close_connection = True


def break_off(self, data, part, status, headers):
    self.reply(status, part[:1000], headers, length=len(part))
    self.reset()


def wrong_etag(self, data, part, status, headers):
    self.reply(status, part, [(n, '"other"' if n == "ETag" else v) for n, v in headers])


def short_length(self, data, part, status, headers):
    self.reply(status, part[:-100], headers)


def long_length(self, data, part, status, headers):
    self.reply(status, part + b"x" * 100, headers)


FAULTS = {
    "503-twice": first(2)(with_status(503, "SlowDown")),
    "500-always": with_status(500, "InternalError"),
    "429-once": first(1)(with_status(429, "TooManyRequests")),
    "403": with_status(403, "AccessDenied"),
    "404": with_status(404, "NoSuchKey"),
    "stall-once": first(1)(stall),
    "stall": stall,
    "hang": hang,
    "truncate": truncate,
    "truncate-twice": first(2)(truncate),
    "reset-once": first(1)(break_off),
    "reset": lambda self, *_: self.reset(),
    "wrong-etag": wrong_etag,
    "short": short_length,
    "long": long_length,
    "no-ranges": lambda self, data, part, status, headers: self.reply(
        200, data, [h for h in headers if h[0] == "ETag"]),
}

class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that went away is no news
            super().handle_error(*_)


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write("%d\n" % server.server_address[1])
    sys.stdout.flush()
    sys.stdin.read()
