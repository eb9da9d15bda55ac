package patch

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParseErrors(t *testing.T) {
	body := "@@ -1 +1 @@\n-a\n+b\n"
	file := func(path string) string {
		return "diff --git a/" + path + " b/" + path + "\n--- a/" + path + "\n+++ b/" + path + "\n" + body
	}
	tests := map[string]struct {
		in   string
		want string // the end of the message
		line int
	}{
		"nothing":        {"", "there is no diff", 1},
		"only a mail":    {"From: a@b\nSubject: s\n\ntext\n", "there is no diff", 1},
		"dot dot":        {file("../x"), `refused: path "../x" has a component of dots`, 1},
		"dot dot inside": {file("a/../../x"), `refused: path "a/../../x" has a component of dots`, 1},
		"absolute":       {file("/etc/passwd"), `refused: path "/etc/passwd" is absolute`, 1},
		"absolute in rename": {
			"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to /etc/y\n",
			`refused: path "/etc/y" is absolute`, 1,
		},
		"rename from git": {
			"diff --git a/x b/y\nsimilarity index 100%\nrename from .git/config\nrename to y\n",
			`refused: path ".git/config" leads into .git`, 1,
		},
		"git folder":      {file(".GiT/hooks/x"), `refused: path ".GiT/hooks/x" leads into .git`, 1},
		"empty component": {file("a//b"), `refused: path "a//b" has an empty component`, 1},
		"zero byte": {
			"diff --git \"a/x\\000\" \"b/x\\000\"\n--- \"a/x\\000\"\n+++ \"b/x\\000\"\n" + body,
			"refused: path \"x\\x00\" holds a zero byte", 1,
		},
		"no folder to strip": {"--- x\n+++ x\n" + body, `"x" has no folder to strip (a/ and b/)`, 1},
		"submodule": {
			"diff --git a/m b/m\nindex 111..222 160000\n--- a/m\n+++ b/m\n" + body,
			"m: refused: changes a submodule", 1,
		},
		"strange mode":   {"diff --git a/m b/m\nnew file mode 040000\n", "m: file mode 040000 is none of git's", 1},
		"mode not octal": {"diff --git a/m b/m\nold mode 1a\n", `file mode "1a" is not octal`, 2},
		"type change": {
			"diff --git a/m b/m\nold mode 100644\nnew mode 120000\n",
			"m: turns mode 100644 into 120000 in place; git writes that as a deletion and a creation", 1,
		},
		"one name": {
			"diff --git a/m b/m\nindex 111..222 100644\n--- a/m\n" + body,
			"file header has one of its two names: its --- or +++ line is missing", 1,
		},
		"header cut": {
			"diff --git a/m b/n\nrename from m\nrename to n",
			"truncated at line 3: the last line has no newline", 3,
		},
		"rename lines lost": {tinyDiff + "diff --git a/m b/n\n", "file header without the lines that say what is done", 7},
		"no change":         {"diff --git a/m b/m\nindex 111..222 100644\n", "m: file header without a change", 1},
		"two names":         {"diff --git a/m b/m\n--- a/m\n+++ b/n\n" + body, `file header names both "m" and "n"`, 1},
		"null both":         {"--- /dev/null\n+++ /dev/null\n" + body, "both sides of the file header are missing files", 1},
		"null without mode": {
			"diff --git a/m b/m\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+a\n",
			`old side of the file header is "/dev/null", which does not go with its mode line`, 1,
		},
		"bad quoting": {
			"diff --git a/m b/m\n--- \"a/m\\q\"\n+++ b/m\n" + body, "quoted name holds an unknown escape",
			2,
		},
		"creates from lines": {
			"diff --git a/m b/m\nnew file mode 100644\n--- /dev/null\n+++ b/m\n" + body,
			"m: creates a file from old lines", 1,
		},
		"deletes and keeps": {
			"diff --git a/m b/m\ndeleted file mode 100644\n--- a/m\n+++ /dev/null\n" + body,
			"m: deletes a file and keeps lines of it", 1,
		},
		"binary, no data": {
			"diff --git a/m b/m\nindex 111..222 100644\nBinary files a/m and b/m differ\n",
			"m: binary change without its data: make the patch with git format-patch or git diff --binary", 1,
		},
		"binary, short ids": {"diff --git a/m b/m\nindex 1111111..2222222 100644\nGIT binary patch\nliteral " +
			"0\nHcmV?d00001\n\n", "m: binary change without full blob ids in its index line: make the patch with " +
			"--full-index or --binary", 1},
		"binary, cut": {"diff --git a/m b/m\nindex " + id40 + ".." + id40 +
			" 100644\nGIT binary patch\nliteral 0\nHcmV?d00001\n", "truncated at line 5: binary data does not end", 5},
		"binary, size bomb": {"diff --git a/m b/m\nindex " + id40 + ".." + id40 + " 100644\nGIT binary patch\nliteral " +
			"99999999999\nHcmV?d00001\n\n", "m: refused: binary change of 95367 MiB, more than 256", 1},
		"too few lines": {
			"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n@@ -9 +9 @@\n-a\n+b\n",
			"hunk lacks 1 old and 1 new line: line 7 is “@@ -9 +9 @@”", 3,
		},
		"too many lines": {
			"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n d\n",
			"hunk header promises 2 old and 2 new lines, but more follow at line 7", 3,
		},
		"one side too many": {
			"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n-b\n+c\n",
			"hunk header promises 1 old and 1 new lines, but line 5 is one more", 3,
		},
		"absurd counts": {
			"--- a/f\n+++ b/f\n@@ -1,2000000000 +1,2000000000 @@\n-b\n+c\n",
			"hunk promises 4000000000 lines, more than the file could hold", 3,
		},
		"huge numbers": {
			"--- a/f\n+++ b/f\n@@ -1,99999999999999999999 +1 @@\n-b\n+c\n",
			`"99999999999999999999" is no line number`, 3,
		},
		"changes nothing": {"--- a/f\n+++ b/f\n@@ -1 +1 @@\n b\n", "hunk changes nothing", 3},
		"stray hunk":      {tinyDiff + "\nwords\n@@ -5 +5 @@\n-a\n+b\n", "hunk without a file header", 9},
		"line after no eol": {
			"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n c\n",
			"f: a line follows one that has no newline", 3,
		},
		"multipart": {
			"From: a@b\nSubject: s\nContent-Type: multipart/mixed; boundary=x\n\n" + tinyDiff,
			"mail of several parts: save the patch alone", 1,
		},
		"unknown encoding": {
			"From: a@b\nSubject: s\nContent-Transfer-Encoding: uu\n\n" + tinyDiff,
			`mail of transfer encoding "uu": save the patch alone`, 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("fix", "x.patch", []byte(tt.in))
			var pe *ParseError
			if !errors.As(err, &pe) {
				t.Fatalf("got %v", err)
			}
			if pe.Msg != tt.want || pe.Line != tt.line || pe.Fix != "fix" || pe.Name != "x.patch" {
				t.Errorf("got line %d: %s\nwant line %d: %s", pe.Line, pe.Msg, tt.line, tt.want)
			}
		})
	}
}

// TestNames reads every way in which git and diff write a name.
func TestNames(t *testing.T) {
	body := "@@ -1 +1 @@\n-a\n+b\n"
	tests := map[string]struct{ in, want string }{
		"space":            {"diff --git a/a b/c d b/a b/c d\n--- a/a b/c d\t\n+++ b/a b/c d\t\n" + body, "a b/c d"},
		"space, mode only": {"diff --git a/a b/c d b/a b/c d\nold mode 100644\nnew mode 100755\n", "a b/c d"},
		"octal": {"diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n" +
			body, "ä"},
		"utf-8 as it is":     {"diff --git a/ä b/ä\n--- a/ä\n+++ b/ä\n" + body, "ä"},
		"quote":              {"diff --git \"a/x\\\"y\" \"b/x\\\"y\"\nold mode 100644\nnew mode 100755\n", `x"y`},
		"trailing backslash": {"diff --git \"a/x\\\\\" \"b/x\\\\\"\n--- \"a/x\\\\\"\n+++ \"b/x\\\\\"\n" + body, `x\`},
		"backslash, mode":    {"diff --git \"a/x\\\\\" \"b/x\\\\\"\nold mode 100644\nnew mode 100755\n", `x\`},
		"one side quoted":    {"diff --git a/x \"b/x\"\nold mode 100644\nnew mode 100755\n", "x"},
		"escapes": {"diff --git \"a/\\a\\b\\t\\n\\v\\f\\r\" \"b/\\a\\b\\t\\n\\v\\f\\r\"\nold mode 100644\nnew " +
			"mode 100755\n", "\a\b\t\n\v\f\r"},
		"date": {"--- a/x y\t2026-01-02 03:04:05.000000000 +0100\n+++ b/x y\t2026-01-02 " +
			"03:04:06.000000000 +0100\n" + body, "x y"},
		"backup name":       {"--- a/x.orig\n+++ b/x\n" + body, "x"},
		"backup name first": {"--- a/x\n+++ b/x~\n" + body, "x"},
		"CR":                {"--- a/x\r\n+++ b/x\r\n" + body, "x"},
		"svn":               {"Index: x\n===================\n--- a/x\t(revision 1)\n+++ b/x\t(working copy)\n" + body, "x"},
		"mnemonic":          {"diff --git i/x w/x\n--- i/x\n+++ w/x\n" + body, "x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ps, err := Parse("fix", "x.patch", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if c := ps[0].changes[0]; len(ps[0].changes) != 1 || c.kind != modify || c.new != tt.want || c.old != tt.want {
				t.Errorf("got %q -> %q", c.old, c.new)
			}
		})
	}
}

// TestEpoch: a file that GNU diff dates to 1970 is missing on that side.
func TestEpoch(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		want changeKind
	}{
		"created": {"--- a/x\t1970-01-01 00:00:00.000000000 +0000\n+++ b/x\t2026-01-02 03:04:06.0 +0100\n@@ " +
			"-0,0 +1 @@\n+a\n", create},
		"created, west": {"--- a/x\t1969-12-31 19:00:00.000000000 -0500\n+++ b/x\t2026-01-02 03:04:06.0 +0100\n@@ " +
			"-0,0 +1 @@\n+a\n", create},
		"deleted": {"--- a/x\t2026-01-02 03:04:06.0 +0100\n+++ b/x\t1970-01-01 01:00:00.0 +0100\n@@ -1 " +
			"+0,0 @@\n-a\n", remove},
		"1970 but not epoch": {"--- a/x\t1970-01-01 00:00:00.0 -0100\n+++ b/x\t2026-01-02 03:04:06.0 +0100\n@@ -1 +1 " +
			"@@\n-b\n+a\n", modify},
	} {
		ps, err := Parse("fix", "x.patch", []byte(tt.in))
		if err != nil || ps[0].changes[0].kind != tt.want {
			t.Errorf("%s: %+v, %v", name, ps, err)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for _, p := range []string{
		"", ".", "..", "../x", "x/..", "x/../y", "./x", "/x", `\x`, `\\host\x`, "C:x", "c:/x", `x\..\y`, `..\x`, "x/", "x//y",
		"x\x00", ".git", ".GIT/x", "x/.git/y", ".git ", ".git.", ".git::$INDEX_ALLOCATION", "git~1/x", "GIT~12", `x\.git\y`,
		".g\u200cit/config", ". ./x", "x/ .. /y", ".git\ufeff", strings.Repeat("n", 256), "x/" + strings.Repeat("ä", 128) +
			"/y", strings.Repeat("n/", 1536) + "n",
	} {
		if checkPath(p) == nil {
			t.Errorf("%q is let through", p)
		}
	}
	for _, p := range []string{
		"x", "x/y", ".gitignore", ".github/x", "x.git", "git", "git~x", "a b", `back\slash`, `x\`, "..x", "x..", "...x", "ä",
		"xx:y/z", "new\nline", " lead ", strings.Repeat("n", 255), strings.Repeat("n/", 1535) + "nn",
	} {
		if err := checkPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestCheckLink(t *testing.T) {
	for _, l := range [][2]string{
		{"x", "../y"},
		{"a/x", "../../y"},
		{"x", "/etc"},
		{"x", ""},
		{"x", `..\y`},
		{"x", "a/../b"},
		{"x", "C:y"},
		{"x", ".git/config"},
		{"x", "y\x00"},
		{"x", ".."},
		{"a/b/x", "../../../y"},
		{"x", "C:"},
		{"x", `\y`},
		{"a/x", "b/.."},
		{"a/b/x", "../c/.."},
		{"x", "a/.git/b"},
		{"a/x", "../.GIT"},
	} {
		if checkLink(l[0], l[1]) == nil {
			t.Errorf("%q -> %q is let through", l[0], l[1])
		}
	}
	for _, l := range [][2]string{
		{"x", "y"},
		{"a/x", "../y"},
		{"a/b/x", "../../y/z"},
		{"a/x", "./y"},
		{"a/x", ".."},
		{"a/x", "./../y"},
		{"a/x", ".//../y"},
		{"x", "..y"},
		{"x", "y/...z"},
	} {
		if err := checkLink(l[0], l[1]); err != nil {
			t.Errorf("%q -> %q: %v", l[0], l[1], err)
		}
	}
}

// TestLargePatch reads patches near and over the limit in bounded memory.
func TestLargePatch(t *testing.T) {
	if _, err := Parse("fix", "x.patch", make([]byte, MaxSize+1)); err == nil ||
		!strings.Contains(err.Error(), "larger than 100 MiB") {
		t.Errorf("got %v", err)
	}
	line := "+" + strings.Repeat("x", 99) + "\n"
	const n = 200_000 // 20 MB
	in := []byte("--- /dev/null\n+++ b/f\n@@ -0,0 +1,200000 @@\n" + strings.Repeat(line, n))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ps, err := Parse("fix", "x.patch", in)
	runtime.ReadMemStats(&after)
	if err != nil || ps[0].changes[0].hunks[0].newLines != n {
		t.Fatal(err)
	}
	// All that is ever allocated, freed or not; with the race detector more.
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(10*len(in)) {
		t.Errorf("%d MB for a patch of %d MB", used>>20, len(in)>>20)
	}
}

func TestParseFile(t *testing.T) {
	fsys := fstest.MapFS{"patches/a/x.patch": {Data: []byte(tinyDiff)}}
	ps, err := ParseFile(fsys, "patches/a/x.patch", "a", "x.patch")
	if err != nil || ps[0].Fix != "a" || ps[0].Name != "x.patch" || len(ps[0].SHA256) != 64 {
		t.Errorf("%+v, %v", ps, err)
	}
	if _, err := ParseFile(fsys, "patches/a/y.patch", "a", "y.patch"); err == nil {
		t.Error("a missing file is read")
	}
}
