package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
)

// copied is one file or link, as both sides see it.
type copied struct {
	sum  string // SHA-256; empty for a link
	exec bool
	link string // where it leads; empty for a file
}

// listing reads what remoteSystem.list prints: after listWord "SUM *PATH" for a file, "x PATH" where its
// owner may execute it, "l PATH" and "to TARGET" for a link. It reports false for any
// other line, which comes of a name with odd letters.
func listing(out []byte) (map[string]copied, bool) {
	_, out, ok := bytes.Cut(out, []byte(listWord+"\n"))
	if !ok {
		return nil, false
	}
	files := map[string]copied{}
	link := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if to, ok := strings.CutPrefix(line, "to "); ok && link != "" && to != "" {
			files[link] = copied{link: to}
			link = ""
			continue
		}
		name, isExec := strings.CutPrefix(line, "x ")
		sum, file, isFile := strings.Cut(line, " *")
		switch was, there := files[name]; {
		case link != "":
			return nil, false
		case isExec && there:
			was.exec = true
			files[name] = was
		case strings.HasPrefix(line, "l ") && filepath.IsLocal(filepath.FromSlash(line[2:])):
			link = line[2:]
		case isFile && len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == "" &&
			filepath.IsLocal(filepath.FromSlash(file)):
			files[file] = copied{sum: sum}
		default:
			return nil, false
		}
	}
	return files, link == ""
}

// wanted lists the source below dir as src/..., and the script.
func wanted(ctx context.Context, dir, scriptName string, script []byte) (map[string]copied, error) {
	sum := sha256.Sum256(script)
	files := map[string]copied{scriptName: {sum: hex.EncodeToString(sum[:])}}
	err := walkSource(ctx, dir, func(p, rel string, d fs.DirEntry) error {
		name := "src/" + rel
		if strings.ContainsAny(name, "\\\n\r\x00|") {
			return fmt.Errorf("%q cannot be copied to another machine: its name holds letters that the programs there "+
				"would misread", rel)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			if strings.ContainsAny(to, "\n\r\x00") {
				return fmt.Errorf("%q cannot be copied to another machine: it leads to %q, whose letters the programs there "+
					"would misread", rel, to)
			}
			files[name] = copied{link: filepath.ToSlash(to)}
			return err
		}
		c := copied{exec: info.Mode()&0o100 != 0}
		c.sum, err = SumFile(p)
		files[name] = c
		return err
	})
	return files, err
}

// walkSource calls each for every file below a folder that a checkout wrote, with its path
// and its name below the folder, with slashes. What ties the folder to its checkout is
// no part of the source.
func walkSource(ctx context.Context, dir string, each func(file, name string, d fs.DirEntry) error) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || d.IsDir() || strings.HasPrefix(name, ".llpatch") {
			return err
		}
		return each(filepath.Join(dir, name), name, d)
	})
}

// differ lists what of want is not so in have, and what have has besides, both sorted.
// On Windows no file says that it may be executed.
func differ(want, have map[string]copied, windows bool) (send, remove []string) {
	for name, w := range want {
		h, there := have[name]
		if windows {
			w.exec = false
		}
		if !there || h != w {
			send = append(send, name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			remove = append(remove, name)
		}
	}
	slices.Sort(send)
	slices.Sort(remove)
	return send, remove
}

// pack writes an archive with the named files of want, which lie below dir but for the
// script, and with what is to be removed. It returns its SHA-256.
func pack(ctx context.Context, to, dir, scriptName string, script []byte, want map[string]copied, send,
	remove []string,
) (sum string, err error) {
	f, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(f, h))
	t := tar.NewWriter(z)
	data := func(name string, mode int64, text []byte) error {
		err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), Format: tar.FormatPAX})
		if err == nil {
			_, err = t.Write(text)
		}
		return err
	}
	if len(remove) > 0 {
		if err := data(removeFile, 0o644, []byte(strings.Join(remove, "\x00")+"\x00")); err != nil {
			return "", err
		}
	}
	for _, name := range send {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		w := want[name]
		switch {
		case name == scriptName:
			err = data(name, 0o644, script)
		case w.link != "":
			err = t.WriteHeader(&tar.Header{
				Name: name, Linkname: w.link, Typeflag: tar.TypeSymlink, Mode: 0o777,
				Format: tar.FormatPAX,
			})
		default:
			mode := int64(0o644)
			if w.exec {
				mode = 0o755
			}
			err = packFile(t, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, "src/"))), name, mode)
		}
		if err != nil {
			return "", err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func packFile(t *tar.Writer, file, name string, mode int64) error {
	f, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// unpack writes what an archive of remoteSystem.give holds below dir: exactly the files of
// want, with their content.
func unpack(ctx context.Context, archive, dir string, want map[string]copied) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	left := maps.Clone(want)
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name := path.Clean(h.Name)
		w, ok := left[name]
		if !ok {
			return fmt.Errorf("the archive holds %q, which was not asked for", h.Name)
		}
		delete(left, name)
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%q in the archive is no file, as the machine said it is", h.Name)
		}
		if err := unpackFile(t, to, w); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the archive lacks %s", strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	return nil
}

func unpackFile(from io.Reader, to string, w copied) error {
	mode := fs.FileMode(0o644)
	if w.exec {
		mode = 0o755
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); w.sum != "" && got != w.sum {
		return fmt.Errorf("%s arrived with SHA-256 %s, and has %s there", to, got, w.sum)
	}
	return nil
}
