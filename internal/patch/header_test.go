package patch

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const tinyDiff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"

const id40 = "0123456789abcdef0123456789abcdef01234567"

func TestHeader(t *testing.T) {
	long := strings.Repeat("x", 70000)
	tests := map[string]struct {
		in   string
		want Header
	}{
		"format-patch": {
			in: "From " + id40 + " Mon Sep 17 00:00:00 2001\nFrom: Ada L <ada@example.org>\nDate: Fri, 2 Jan 2026 03:04:05 " +
				"+0100\nSubject: [PATCH 1/3] cuda: free it\n\nwhy\n---\n f | 2 +-\n 1 file changed\n\n" + tinyDiff +
				"-- \n2.39.5\n\n",
			want: Header{
				Commit: id40, Author: "Ada L", Email: "ada@example.org", Date: "Fri, 2 Jan 2026 03:04:05 +0100",
				Subject: "cuda: free it", Body: "why",
			},
		},
		"tags kept, PATCH and Re stripped": {
			in:   "From: a@b\nSubject: Re: [RFC PATCH v2 0/1][cuda] [x]y:  z\n\n---\n" + tinyDiff,
			want: Header{Author: "a@b", Email: "a@b", Subject: "[cuda] [x]y: z"},
		},
		"folded and encoded in pieces": {
			in: "From: =?UTF-8?q?J=C3=B6rg?= Maier <j@example.org>\nSubject: [PATCH] plain =?UTF-8?q?f=C3=BCr?=\n " +
				"=?utf-8?B?IEtyw6Rl?= and\n more\n\n---\n" + tinyDiff,
			want: Header{Author: "Jörg Maier", Email: "j@example.org", Subject: "plain für Kräe and more"},
		},
		"a character cut in two": {
			in:   "From: a@b\nSubject: =?utf-8?q?x=C3?= =?utf-8?q?=BCy?=\n\n---\n" + tinyDiff,
			want: Header{Author: "a@b", Email: "a@b", Subject: "xüy"},
		},
		"Latin-1": {
			in: "From: =?iso-8859-1?q?J=F6rg_M?= <j@example.org>\nSubject: =?ISO-8859-1*de?Q?=FC?=\nContent-Type: " +
				"text/plain; charset=ISO-8859-1\n\nSch\xf6n.\n---\n" + tinyDiff,
			want: Header{Author: "Jörg M", Email: "j@example.org", Subject: "ü", Body: "Schön."},
		},
		"unknown charset and bad words stay": {
			in:   "From: a@b\nSubject: =?klingon?q?x?= =?utf-8?q?=GG?= =?weird?=\n\n---\n" + tinyDiff,
			want: Header{Author: "a@b", Email: "a@b", Subject: "=?klingon?q?x?= =?utf-8?q?=GG?= =?weird?="},
		},
		"quotes outside and inside of words": {
			in:   "From: \"L, \\\"Ada\\\"\" <a@b>\nSubject: s\n\n---\n" + tinyDiff,
			want: Header{Author: `L, "Ada"`, Email: "a@b", Subject: "s"},
		},
		"address with a comment": {
			in:   "From: a@b (Ada L)\nSubject: s\n\n---\n" + tinyDiff,
			want: Header{Author: "Ada L", Email: "a@b", Subject: "s"},
		},
		"in-body From and Subject": {
			in: "From: list@example.org\nSubject: [PATCH] outer\nDate: today\n\nFrom: Ada <a@b>\nSubject: [PATCH] inner\n " +
				"folded\n\nbody\n---\n" + tinyDiff,
			want: Header{Author: "Ada", Email: "a@b", Date: "today", Subject: "inner folded", Body: "body"},
		},
		"blank lines, hunk headers, diff lines and long lines in the message": {
			in: "From: a@b\nSubject: s\n\none\n\n\n\n@@ -1 +1 @@\ndiff --git a/x b/x\n--- a quote\nFrom the report\n" + long +
				"\n---\n" + tinyDiff,
			want: Header{
				Author: "a@b", Email: "a@b", Subject: "s",
				Body: "one\n\n\n\n@@ -1 +1 @@\ndiff --git a/x b/x\n--- a quote\nFrom the report\n" + long,
			},
		},
		"escaped mbox line": {
			in:   "From " + id40 + " x\nFrom: a@b\nSubject: s\n\n>From " + id40 + " x\n>From a quote\n---\n" + tinyDiff,
			want: Header{Commit: id40, Author: "a@b", Email: "a@b", Subject: "s", Body: "From " + id40 + " x\n>From a quote"},
		},
		"CRLF mail": {
			in:   strings.ReplaceAll("From: a@b\nSubject: [PATCH] s\n t\n\nbody\n\n\nend\n---\n"+tinyDiff, "\n", "\r\n"),
			want: Header{Author: "a@b", Email: "a@b", Subject: "s t", Body: "body\n\n\nend"},
		},
		"trailers": {
			in: "From: a@b\nSubject: s\n\nNote: this is prose,\nand goes on.\n\nUpstream-Status: Backport " +
				"[https://example.org]\n\nBug: https://example.org/1\nSigned-off-by: Ada <a@b>\n cont\n---\n" + tinyDiff,
			want: Header{
				Author: "a@b", Email: "a@b", Subject: "s", Body: "Note: this is prose,\nand goes on.\n\nUpstream-Status: " +
					"Backport [https://example.org]\n\nBug: https://example.org/1\nSigned-off-by: Ada <a@b>\n cont",
				Trailers: []Trailer{
					{"Upstream-Status", "Backport [https://example.org]"},
					{"Bug", "https://example.org/1"},
					{"Signed-off-by", "Ada <a@b> cont"},
				},
			},
		},
		"DEP-3": {
			in: "Description: short\n long one\n .\n long two\nAuthor: Ada <a@b>\nOrigin: upstream, " +
				"https://example.org/c/1\nBug: https://example.org/1\nBug-Debian: https://bugs.debian.org/1\nForwarded: " +
				"not-needed\nApplied-Upstream: b9000\nLast-Update: 2026-01-02\n---\nThis patch header follows DEP-3\n" + tinyDiff,
			want: Header{
				Author: "Ada", Email: "a@b", Date: "2026-01-02", Subject: "short", Body: "long one\n\nlong two",
				Trailers: []Trailer{
					{"Origin", "upstream, https://example.org/c/1"},
					{"Bug", "https://example.org/1"},
					{"Bug-Debian", "https://bugs.debian.org/1"},
					{"Forwarded", "not-needed"},
					{"Applied-Upstream", "b9000"},
				},
			},
		},
		"DEP-3 with From and Subject, text below": {
			in: "From: Ada <a@b>\nSubject: short\n long\nForwarded: no\n\nMore text.\n\n" + tinyDiff,
			want: Header{
				Author: "Ada", Email: "a@b", Subject: "short", Body: "long\n\nMore text.",
				Trailers: []Trailer{{"Forwarded", "no"}},
			},
		},
		"bare diff": {in: tinyDiff, want: Header{}},
		"text without fields": {
			in:   "Some words: and more.\nNot a header.\n\nIndex: f\n====\n" + tinyDiff[strings.Index(tinyDiff, "---"):],
			want: Header{Body: "Some words: and more.\nNot a header."},
		},
		"quoted-printable": {
			in: "From: a@b\nSubject: s\nContent-Transfer-Encoding: quoted-printable\n\nSch=C3=B6n a=\nb\n---\n" +
				strings.ReplaceAll(tinyDiff, "@@ -1", "@@ =2D1"),
			want: Header{Author: "a@b", Email: "a@b", Subject: "s", Body: "Schön ab"},
		},
		"base64": {
			in: "From: a@b\nSubject: s\nContent-Transfer-Encoding: base64\n\n" +
				base64.StdEncoding.EncodeToString([]byte("body\n---\n"+tinyDiff)) + "\n",
			want: Header{Author: "a@b", Email: "a@b", Subject: "s", Body: "body"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ps, err := Parse("fix", "x.patch", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if len(ps) != 1 || len(ps[0].changes) != 1 || len(ps[0].changes[0].hunks) != 1 {
				t.Fatalf("%d patches, %+v", len(ps), ps)
			}
			if d := cmp.Diff(tt.want, ps[0].Header); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestMbox(t *testing.T) {
	mail := func(subject, rest string) string {
		return "From " + id40 + " Mon Sep 17 00:00:00 2001\nFrom: a@b\nSubject: " + subject + "\n\n" + rest
	}
	in := mail("[PATCH 0/2] all of it", "cover\n\n-- \n2.39.5\n\n") +
		mail("[PATCH 1/2] one", "From "+id40+" is a commit\n---\n"+tinyDiff+"-- \n2.39.5\n\n") +
		mail("[PATCH 2/2] two", "---\n"+strings.ReplaceAll(tinyDiff, "/f", "/g")+"-- \n2.39.5\n\n")
	ps, err := Parse("fix", "x.mbox", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) != 2 || ps[0].Header.Subject != "one" || ps[1].Header.Subject != "two" || ps[1].changes[0].new != "g" {
		t.Fatalf("%+v", ps)
	}
	if ps[0].Header.Body != "From "+id40+" is a commit" {
		t.Errorf("body %q", ps[0].Header.Body)
	}
	if want := strings.Count(in[:strings.LastIndex(in, "@@ -1")], "\n") + 1; ps[1].changes[0].hunks[0].line != want {
		t.Errorf("line %d, want %d", ps[1].changes[0].hunks[0].line, want)
	}
}

func TestHeaderTime(t *testing.T) {
	for date, want := range map[string]int64{
		"Fri, 2 Jan 2026 03:04:05 +0100": 1767319445,
		"2026-01-02":                     1767312000,
	} {
		got, err := Header{Date: date}.Time()
		if err != nil || got.Unix() != want {
			t.Errorf("%s: %v, %v", date, got.UTC().Format(time.RFC3339), err)
		}
	}
	if _, err := (Header{Date: "soon"}).Time(); err == nil {
		t.Error("soon is no date")
	}
}
