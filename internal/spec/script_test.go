package spec_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/spec"
)

// A script has the text of those that it reads in their places, as Linux has line ends.
func TestScript(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"main.sh":   "#!/bin/sh\r\nfirst\r\n. ./part.sh # put here\r\nlast\r\n",
		"part.sh":   "#!/bin/sh\n# what it is\nsecond\n\n",
		"plain.sh":  "#!/bin/sh\n\t. ./part.sh\n. ./$name.sh\n. ./part.shx\n",
		"two.sh":    ". ./part.sh  \n. ./plain.sh \t # aligned\n. ./part.sh\t#\n",
		"win.cmd":   "rem\r\n. ./part.sh\r\n",
		"lost.sh":   ". ./none.sh\n",
		"deeper.sh": ". ./main.sh\n",
		"itself.sh": ". ./itself.sh\n",
	} {
		files["recipes/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	repo := &spec.Repo{FS: files}
	for name, c := range map[string]struct{ want, fault string }{
		"main.sh":   {want: "#!/bin/sh\nfirst\n# what it is\nsecond\nlast\n"},
		"part.sh":   {want: "#!/bin/sh\n# what it is\nsecond\n\n"},
		"plain.sh":  {want: "#!/bin/sh\n\t. ./part.sh\n. ./$name.sh\n. ./part.shx\n"},
		"two.sh":    {want: "# what it is\nsecond\n\t. ./part.sh\n. ./$name.sh\n. ./part.shx\n# what it is\nsecond\n"},
		"win.cmd":   {want: "rem\n. ./part.sh\n"},
		"lost.sh":   {fault: "recipes/lost.sh reads recipes/none.sh: file does not exist"},
		"deeper.sh": {fault: "recipes/deeper.sh reads recipes/main.sh, which reads a third one"},
		"itself.sh": {fault: "recipes/itself.sh reads recipes/itself.sh, which reads a third one"},
		"none.sh":   {fault: "recipes/none.sh: file does not exist"},
	} {
		text, err := repo.Script(name)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
			continue
		}
		if err != nil || string(text) != c.want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
