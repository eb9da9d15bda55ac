package patch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzHeader reads anything as an mbox. Nothing of the file gets lost between its
// mails, each mail's header is of the form that the rest of llpatch relies on,
// and a subject that was cleaned is clean.
func FuzzHeader(f *testing.F) {
	patches, err := filepath.Glob("testdata/triples/*.patch")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range patches {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 4000)])
	}
	f.Add([]byte("From " + id40 + " Mon Sep 17 00:00:00 2001\r\nFrom: =?utf-8?q?=C3=A4?= <a@b>\r\nSubject: [PATCH 1/2] " +
		"=?utf-8?B?eA==?=\r\n y\r\n\r\nb\r\n---\r\n" + tinyDiff))
	f.Add([]byte("From " + id40 + " x\nFrom: a@b (Ada)\nSubject: Re: [x] y\n\nFrom: b@c\nSubject: in\n fold\n\n>From " +
		id40 + " x\n\n\nFixes: 1\nSigned-off-by: a\n---\n" + tinyDiff))
	f.Add([]byte("Description: x\n y\n .\n z\nBug: 1\nForwarded: no\n---\n" + tinyDiff))
	f.Add([]byte("From: a@b\nContent-Transfer-Encoding: base64\nContent-Type: text/plain; " +
		"charset=iso-8859-1\n\neA==\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		messages := splitMbox(data)
		kept := 0
		for _, m := range messages {
			kept += len(m.data)
			if !bytes.Contains(data, m.data) {
				t.Errorf("a mail that is not in the file: %q", m.data)
			}
			if m.commit != "" && len(m.commit) != 40 || m.line < 1 {
				t.Errorf("commit %q, line %d", m.commit, m.line)
			}
			h, rest, skipped, err := readHeader(m)
			if err != nil {
				continue
			}
			if skipped < 0 || skipped > bytes.Count(m.data, []byte("\n"))+1 || len(rest) > len(m.data) && skipped == 0 {
				t.Errorf("%d lines skipped, %d bytes left of %d", skipped, len(rest), len(m.data))
			}
			for _, s := range []string{h.Subject, h.Author, h.Email} {
				if strings.Contains(s, "\n") {
					t.Errorf("%q has several lines", s)
				}
			}
			if again := cleanSubject(h.Subject); cleanSubject(again) != again {
				t.Errorf("subject %q is cleaned to %q and then to %q", h.Subject, again, cleanSubject(again))
			}
			if slices.ContainsFunc(h.Trailers, func(tr Trailer) bool { return tr.Key == "" }) {
				t.Errorf("a trailer without a key: %+v", h.Trailers)
			}
			if strings.HasSuffix(h.Body, "\n") {
				t.Errorf("body %q ends in a newline", h.Body)
			}
		}
		if len(messages) == 0 || kept > len(data) {
			t.Errorf("%d mails with %d bytes of %d", len(messages), kept, len(data))
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("took %s", d)
		}
	})
}
