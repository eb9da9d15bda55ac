package bundle

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// win7Readme is what a bundle for Windows tells its user, in a form that every editor of
// Windows 7 shows: plain ASCII with the line ends of Windows.
const win7Readme = "README-WIN7.txt"

// Win7Driver is the oldest NVIDIA driver for Windows that serves every CUDA 11 runtime:
// NVIDIA's CUDA Toolkit Release Notes, table "CUDA Toolkit and Minimum Required Driver
// Version for CUDA Minor Version Compatibility".
const Win7Driver = "452.39"

// win7Columns is the width of the page: cmd's window has 80.
const win7Columns = 76

// win7Text is a page of plain text under construction.
type win7Text struct{ strings.Builder }

func (t *win7Text) head(title string) {
	fmt.Fprintf(t, "\n%s\n%s\n", title, strings.Repeat("-", len(title)))
}

// say adds a paragraph, with its lines broken between words.
func (t *win7Text) say(format string, args ...any) {
	t.WriteString(wrap(fmt.Sprintf(format, args...), "", win7Columns) + "\n")
}

// step adds a point of a list.
func (t *win7Text) step(mark, format string, args ...any) {
	indent := strings.Repeat(" ", len(mark)+1)
	t.WriteString(mark + " " + strings.TrimPrefix(wrap(fmt.Sprintf(format, args...), indent, win7Columns), indent) + "\n")
}

// code adds a line that is to be typed.
func (t *win7Text) code(line string) { t.WriteString("\n    " + line + "\n\n") }

func wrap(text, indent string, columns int) string {
	var lines []string
	line := indent
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == indent:
			line += word
		case len(line)+1+len(word) > columns:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

// win7Page is README-WIN7.txt, from the recipe and from what was found in the files.
func (i Info) win7Page() []byte {
	var t win7Text
	title := fmt.Sprintf("%s %s for 64-bit %s, patched by llpatch", i.Upstream, i.Tag, binary.SystemName(i.Windows))
	fmt.Fprintf(&t, "%s\n%s\n\n", title, strings.Repeat("=", len(title)))
	if i.DropIn != "" {
		t.say("This is %s alone. Put it into the folder of the package that it is for, which has the same tag: its "+
			"programs load it when they start. Their --version stays as it is.", i.DropIn)
	} else {
		t.say("%s. llama-server.exe --version prints %d (%s). PATCHES\\README.md names every change to upstream's source.",
			strings.Join(i.exes(), ", "), i.Build, i.Version)
	}
	t.WriteString("\n")
	t.say("Its checks ran through wine, which only stands for Windows: on Windows 7 itself%s it was not tried when "+
		"this was packed. That every function that it calls is there was looked up in tables.", withCard(i))
	i.win7Start(&t)
	i.win7Needs(&t)
	i.win7VxKex(&t)
	i.win7NVIDIA(&t)
	i.win7Web(&t)
	i.win7Trouble(&t)
	i.win7Scanner(&t)
	t.head("Is it what was packed?")
	t.say("Of the zip, in a command prompt, against SHA256SUMS where you got the zip from:")
	t.code("certutil -hashfile NAME-OF-THE.zip SHA256")
	t.say("certutil of Windows 7 writes spaces between the bytes. check-win7.cmd compares every file of the zip with " +
		"the SHA256SUMS in it.")
	for n, note := range i.Notes {
		if n == 0 {
			t.head("Notes")
		}
		t.say("%s", note)
	}
	return crlf([]byte(asciiText(t.String())))
}

// withCard says that no card was there, of a build that uses one.
func withCard(i Info) string {
	if i.usesNVIDIA() {
		return ", VxKex NEXT and a card"
	}
	return ""
}

var nvidiaRE = regexp.MustCompile(`(?i)^(cudart|cublas(lt)?)64_[0-9]+\.dll$`)

// nvidiaDLLs are those of NVIDIA's that a bundle needs or carries, in order; cuBLAS
// loads cublasLt by itself, so no import names that.
func nvidiaDLLs(needs, carry []string) []string {
	var all []string
	for _, dll := range slices.Concat(needs, carry) {
		if nvidiaRE.MatchString(dll) {
			all = append(all, dll)
		}
		if version, ok := strings.CutPrefix(dll, "cublas64_"); ok {
			all = append(all, "cublasLt64_"+version)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (i Info) usesNVIDIA() bool { return i.CUDA != nil || len(i.NVIDIA) > 0 }

// exes are the programs.
func (i Info) exes() []string {
	var names []string
	for _, f := range i.Files {
		if path.Ext(f.Name) == ".exe" {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (i Info) win7Start(t *win7Text) {
	t.head("Start")
	n := 0
	step := func(format string, args ...any) { n++; t.step(fmt.Sprintf("%d.", n), format, args...) }
	if i.DropIn != "" {
		step("Unpack llpatch's own package win7-cpu of the same tag, which needs nothing that Windows 7 lacks, and put %s "+
			"beside its programs.", i.DropIn)
		step("Or upstream's own package of that tag (bin-win-cpu-x64). Its programs, made by Microsoft's compiler, need " +
			"more: the Universal C Runtime (KB2999226), the Visual C++ 2015-2022 runtime (of Visual Studio 2022 17.14 at the " +
			"latest), and VxKex NEXT for each program, for functions of Windows 8.")
	} else {
		step("Unpack the whole zip into one folder, such as C:\\llama.")
		step("Double-click check-win7.cmd: it says what is here, and in its last sentence what to do.")
		step("Drop a model (a .gguf file) onto start-server.cmd. When it says that it listens, %s answers. More options "+
			"stand at the top of start-server.cmd.", i.address())
	}
}

func (i Info) win7Needs(t *win7Text) {
	t.head("What Windows needs")
	if i.Windows == spec.Win7 {
		t.say("64-bit Windows 7 with Service Pack 1. Nothing else: no update, no VxKex, no Visual C++ runtime. It takes "+
			"functions from %s.", strings.Join(i.Needs, ", "))
		return
	}
	t.step("-", "64-bit Windows 7 with Service Pack 1 (KB976932)")
	t.step("-", "the updates KB2533623 and KB2670838, or later ones that hold them, which VxKex NEXT asks for: Windows "+
		"Update, or by these numbers https://www.catalog.update.microsoft.com")
	t.step("-", "VxKex NEXT, below")
	t.step("-", "NVIDIA's driver and DLLs, below")
}

func (i Info) win7VxKex(t *win7Text) {
	if i.Windows != spec.Win7VxKex {
		return
	}
	t.head("VxKex NEXT")
	t.say("It gives Windows 7 functions of later Windows, here to NVIDIA's DLLs. Its releases are at " +
		"https://github.com/YuZhouRen86/VxKex-NEXT/releases")
	t.say("Meant is VxKex NEXT 1.2.1, of July 2026, whose functions the tables have. Its maker has paused it until " +
		"August 2027, so take that one. The older VxKex (i486/VxKex), from which NEXT was made, goes on by itself: what " +
		"it has was not looked up, and nothing here was tried with it.")
	t.step("1.", "Run KexSetup.exe (or KexSetup.exe /SILENTUNATTEND).")
	t.step("2.", "Right-click llama-server.exe, Properties, tab VxKex, \"Enable VxKex NEXT for this program\". Or in a "+
		"command prompt, with the full path:")
	t.code(`"C:\Program Files\VxKex\KexCfg.exe" /EXE:"C:\llama\llama-server.exe" /ENABLE:TRUE`)
	t.step("3.", "The same for every other program here that you use. It counts for that path: after moving the "+
		"folder, do it again.")
	t.say("Do not write registry keys for it yourself: KexCfg.exe knows which.")
	if i.DropIn == "" {
		t.say("llama-server.exe without a model (no -m) is a router, which starts llama-server.exe once more for each " +
			"model. Under VxKex NEXT a program that starts another has failed with \"Insufficient system resources\" " +
			"(ollama; VxKex-NEXT issue 92). Through wine the router works; under VxKex it was not tried: start one " +
			"llama-server.exe for one model, with -m, as start-server.cmd does.")
	}
}

func (i Info) win7NVIDIA(t *win7Text) {
	if !i.usesNVIDIA() {
		return
	}
	t.head("NVIDIA's driver and DLLs")
	t.say("The driver must be %s or newer, which serves every CUDA 11 runtime; 474.11 is a late one for Windows 7. It "+
		"brings nvcuda.dll.", Win7Driver)
	t.say("On Windows 7's drivers (branch R470) CUDA loads every module of ggml-cuda.dll when the program starts, also " +
		"what a model never uses: loading them when they are called needs a driver of branch R515. So the first start " +
		"takes longer, and some memory of the card is gone before the model is there.")
	if i.CUDA != nil {
		t.say("If its installer asks for SHA-2 support, install the updates KB4490628 and KB4474419 first.")
		t.say("Cards that it has code for:")
		for _, c := range i.CUDA.Cards {
			t.step("-", "%s", c)
		}
	}
	switch {
	case len(i.NVIDIA) == 0:
	case i.Runtime == spec.Full:
		t.say("NVIDIA's %s are inside. Their terms are in LICENSES.", strings.Join(i.NVIDIA, ", "))
	default:
		t.say("Put these of NVIDIA's beside llama-server.exe: %s. They are in the folder bin of NVIDIA's CUDA Toolkit "+
			"11.2 to 11.8 for Windows (developer.nvidia.com/cuda-toolkit-archive), and in its archives "+
			"cuda_cudart-windows-x86_64 and libcublas-windows-x86_64, which are plain zips: of CUDA 11.4.4 those are "+
			"cuda_cudart 11.4.148 and libcublas 11.6.5.2. Without them llama-server.exe starts and uses the processor alone.",
			strings.Join(i.NVIDIA, ", "))
	}
}

func (i Info) win7Web(t *win7Text) {
	if i.DropIn != "" {
		return
	}
	t.head("Web page and HTTPS")
	t.say("%s", i.page())
	if !i.WebUI {
		t.say("Point another program's page at http://127.0.0.1:8080/v1.")
	}
	if i.https() {
		t.say("HTTPS trusts the authorities in Windows' own list (certmgr.msc, Trusted Root Certification Authorities); " +
			"the variable SSL_CERT_FILE has no effect. Windows 7 may lack a newer one: if -hf fails, download the .gguf with " +
			"a browser that has its own list, or import the authority.")
		return
	}
	t.say("llama-server.exe cannot download models by name (-hf, -mu with https): download the .gguf with a browser, " +
		"here or on another machine, and give its file. And it serves plain HTTP: keep it on 127.0.0.1, or put a proxy " +
		"with a certificate before it.")
}

// address is where the server answers: its page, or without one its API.
func (i Info) address() string {
	if i.WebUI {
		return "http://127.0.0.1:8080/"
	}
	return "its API (http://127.0.0.1:8080/v1, it has no page)"
}

// win7Trouble is what to do about what llama-server prints; the words in quotes are those
// of upstream's common/arg.cpp, llama-model.cpp, server-http.cpp and ggml-cuda.cu.
func (i Info) win7Trouble(t *win7Text) {
	if i.DropIn != "" {
		return
	}
	t.head("If it does not work")
	t.say("Run check-win7.cmd again: it also starts the server once. To read what llama-server.exe prints, start it in " +
		"a command prompt.")
	if i.usesNVIDIA() {
		t.step("-", "\"no usable GPU found\": ggml-cuda.dll was not loaded, or sees no card. That is NVIDIA's driver or "+
			"DLLs, or VxKex NEXT, above.")
		t.step("-", "\"no kernel image is available\": this build has no code for the card.")
		t.step("-", "\"out of memory\", \"failed to allocate\": the model and its context are too large for the card. Put "+
			"fewer layers on it (start-server.cmd MODEL.gguf -ngl 20), take a smaller context (-c 4096), or a smaller file "+
			"of the model.")
		t.step("-", "The screen goes black for a moment, and the server ends: Windows resets a driver that does not "+
			"answer for 2 seconds. Give the card less at a time (-ub 128).")
	} else {
		t.step("-", "\"failed to allocate\": the model and its context are too large for the memory. Take a smaller "+
			"context (-c 4096), or a smaller file of the model.")
	}
	t.step("-", "\"invalid magic\", \"corrupted or incomplete\": the file is no model, or not all of it was downloaded.")
	t.step("-", "\"unknown model architecture\": the model is newer than %s %s.", i.Upstream, i.Tag)
	t.step("-", "\"couldn't bind\": another program has the port. In a command prompt: set LLAMA_ARG_PORT=8081, and "+
		"then start-server.cmd.")
	t.step("-", "A window of Windows about a missing entry point or DLL: another llama.cpp lies in this folder or in "+
		"the PATH. Unpack the zip into an empty folder.")
}

func (i Info) https() bool { return i.Options["LLAMA_OPENSSL"] == "ON" }

// page says what of llama-server is in.
func (i Info) page() string {
	page, https := "is not in, its API is", "is not in"
	if i.WebUI {
		page = "is in"
	}
	if i.https() {
		https = "is in"
	}
	return fmt.Sprintf("The web page of llama-server %s. HTTPS %s.", page, https)
}

// win7Scanner is about false alarms, which upstream's own packages have too.
func (i Info) win7Scanner(t *win7Text) {
	t.head("If a virus scanner takes a file away")
	t.say("Microsoft Defender and others guess, and have taken upstream's own Windows builds for malware (such as " +
		"Wacatac.B!ml: llama.cpp issues 27716, 28224, 28315). Do this:")
	t.step("1.", "Compare the hash of the zip, below. If it is another, delete the zip.")
	t.step("2.", "If it is the same, restore the file from the scanner's quarantine, and exclude this one folder from "+
		"scanning. Do not turn the scanner off.")
	t.step("3.", "Report the false alarm: https://www.microsoft.com/wdsi/filesubmission for Microsoft's, the maker's "+
		"page for another.")
	if i.Signer == "" {
		t.say("The programs have no signature.")
		return
	}
	t.say("The programs are signed by %s: Properties, tab Digital Signatures. Windows 7 knows such signatures "+
		"(SHA-256) since KB4474419.", i.Signer)
}

// asciiText writes what has no ASCII form as a question mark; the recipe's notes are the
// one place where it could come from.
func asciiText(text string) string {
	return strings.Map(func(r rune) rune {
		if r > '~' {
			return '?'
		}
		return r
	}, text)
}
