package patch

import (
	"strings"
	"testing"
)

// TestVariantHead checks what becomes of the header.
func TestVariantHead(t *testing.T) {
	const diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
	const mbox = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: A " +
		"<a@example.org>\nDate: Sat, 28 Nov 2026 12:00:00 +0000\nSubject: [PATCH 1/2] [cuda] x\n\nBody.\n\n"
	for name, tc := range map[string]struct{ in, want string }{
		"as git writes it": {mbox + "---\n f | 2 +-\n a/{b => c}/d | Bin 0 -> 9 bytes\n 2 files changed, 1 insertion(+), " +
			"1 deletion(-)\n create mode 100644 x\n\n" + diff + "-- \n2.39.5\n", mbox + "---\n\n"},
		"without stat": {mbox + diff, mbox},
		"a note below": {mbox + "---\nfor v2: more\n f | 2 +-\n 1 file changed\n\n" + diff, mbox + "---\n\nfor v2: more\n\n"},
		"bare":         {diff, ""},
		"DEP-3": {
			"Description: x\n y\nAuthor: A <a@example.org>\n---\n\n" + diff,
			"Description: x\n y\nAuthor: A <a@example.org>\n---\n\n",
		},
		"CR LF":        {strings.ReplaceAll(mbox+diff, "\n", "\r\n"), mbox},
		"cover letter": {strings.Replace(mbox, "1/2] [cuda] x", "0/1] cover", 1) + "nothing\n\n" + mbox + diff, mbox},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Head([]byte(tc.in))
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct{ in, want string }{
		"two patches": {mbox + diff + mbox + diff, "2 patches"},
		"encoded": {
			strings.Replace(mbox, "Subject", "Content-Transfer-Encoding: base64\nSubject", 1) + "ZGlm\n",
			"encoded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Head([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
