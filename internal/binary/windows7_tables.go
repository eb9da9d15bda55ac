package binary

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the tables
	"strings"
	"sync"
)

// docs/win7.md says where the tables come from, and what they do not tell.
var (
	//go:embed tables/exports.tsv.gz
	exportsTable []byte
	//go:embed tables/redirects.tsv.gz
	redirectsTable []byte
)

// windows7 is what Windows 7 SP1 x64 and VxKex NEXT export. DLLs are in lower case and
// without .dll, functions are names, and #N for an ordinal.
type windows7 struct {
	stock     map[string]map[string]string // by DLL and function: "", or the update that brings it
	vxkex     map[string]map[string]bool   // by VxKex's DLL and function
	names     map[string]string            // VxKex's DLLs as it writes them
	redirects map[string]string            // which of its DLLs, or of Windows 7's, serves an import
}

var loadWindows7 = sync.OnceValue(func() *windows7 {
	w := &windows7{
		stock: map[string]map[string]string{}, vxkex: map[string]map[string]bool{}, names: map[string]string{},
		redirects: map[string]string{},
	}
	rows(exportsTable, func(r []string) {
		dll, name, since, kex := r[0], r[1], r[2], r[3]
		if since != "-" {
			if w.stock[dll] == nil {
				w.stock[dll] = map[string]string{}
			}
			w.stock[dll][name] = strings.TrimPrefix(since, "y")
		}
		low := strings.ToLower(kex)
		if w.vxkex[low] == nil {
			w.vxkex[low] = map[string]bool{}
		}
		w.vxkex[low][name], w.names[low] = true, kex
	})
	for dll, names := range documented {
		w.stock[dll] = map[string]string{}
		for name := range set(names) {
			w.stock[dll][name] = ""
		}
	}
	rows(redirectsTable, func(r []string) { w.redirects[r[0]] = r[1] })
	return w
})

// rows reads a table that is part of the program: one that is broken is a bug, which
// the tests show.
func rows(table []byte, each func([]string)) {
	z, err := gzip.NewReader(bytes.NewReader(table))
	if err != nil {
		panic(err)
	}
	s := bufio.NewScanner(z)
	for s.Scan() {
		each(strings.Split(s.Text(), "\t"))
	}
	if s.Err() != nil {
		panic(s.Err())
	}
}

// documented are functions of DLLs that the tables do not have, whose page in Microsoft's
// reference (Win32 API, wincrypt.h) gives Windows XP as the first that has them. They are what
// cpp-httplib takes of crypt32 to read the system's certificates.
var documented = map[string]string{
	"crypt32": `CertCloseStore CertCreateCertificateContext CertEnumCertificatesInStore CertFreeCertificateChain
		CertFreeCertificateContext CertGetCertificateChain CertOpenSystemStoreW CertVerifyCertificateChainPolicy`,
}

// partly are the DLLs of which the table has some exports only: of them VxKex NEXT
// lists what its other DLLs do not have already; of crypt32 see documented.
var partly = map[string]bool{"crypt32": true, "kernelbase": true, "sechost": true, "ucrtbase": true}

// present are DLLs of Windows 7 that the table does not have, which Microsoft's
// reference or, for winbrand, VxKex NEXT gives as there: whether a function is in them
// cannot be told.
var present = set(`activeds authz avicap32 avrt cabinet clusapi comctl32 comdlg32 credui cryptbase cryptnet cryptsp cryptui
	d3d10 d3d10_1 d3d9 dbgeng dbghelp ddraw dhcpcsvc dinput8 dsound dwmapi dxva2 esent evr fltlib gdi32 gdiplus glu32 hid httpapi
	imagehlp imm32 iphlpapi ktmw32 loadperf lz32 mf mfreadwrite mpr mprapi msacm32 mscms mscoree msdelta msi msimg32 mswsock msvfw32
	netapi32 newdev normaliz ntdsapi odbc32 oleacc oleaut32 opengl32 pdh propsys psapi rasapi32 rpcrt4 rstrtmgr samcli schannel
	security sensapi setupapi sfc sspicli t2embed tapi32 traffic tdh urlmon usp10 uxtheme virtdisk wer wevtapi windowscodecs winbrand
	wininet winmm winscard winspool.drv wintrust winusb wlanapi wldap32 wsock32 xinput9_1_0 xmllite`)

// drivers are DLLs that a graphics driver brings.
var drivers = set("nvcuda nvml nvapi64 nvcuvid nvencodeapi64 nvoptix opencl vulkan-1 amdhip64 atiadlxx")

// known are DLLs that the loader takes from Windows even where a program has its own
// beside it: HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\KnownDLLs of
// Windows 7 x64, and what it has open before it looks there.
var known = set(`advapi32 clbcatq comdlg32 difxapi gdi32 iertutil imagehlp imm32 kernel32 kernelbase lpk msctf msvcrt normaliz nsi
	ntdll ole32 oleaut32 psapi rpcrt4 sechost setupapi shell32 shlwapi urlmon user32 usp10 wininet wldap32 ws2_32`)

// apiSets are the 35 API sets of Windows 7 and their hosts: Geoff Chappell, "Windows 7
// API Sets", the column "Default Host" for 6.1. They are told with their version, for
// a later one is another set.
var apiSets = func() map[string]string {
	m := map[string]string{}
	for host, names := range map[string]string{
		"kernel32": `core-console core-datetime core-delayload core-errorhandling core-file core-handle core-io core-localregistry
			core-processthreads core-synch core-ums core-util`,
		"kernelbase": `core-debug core-fibers core-heap core-interlocked core-libraryloader core-localization core-memory core-misc
			core-namedpipe core-processenvironment core-profile core-string core-sysinfo core-threadpool security-base`,
		"ntdll":   "core-rtlsupport core-xstate",
		"sechost": "security-lsalookup security-sddl service-core service-management service-winsvc",
	} {
		for _, n := range strings.Fields(names) {
			m["api-ms-win-"+n+"-l1-1-0"] = host
		}
	}
	m["api-ms-win-service-management-l2-1-0"] = "sechost"
	return m
}()

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

// dllName returns a DLL's name as the tables have it: in lower case, without .dll.
func dllName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".dll") }

// contract returns the name of an API set without its version, -lX-Y-Z, and of any
// other DLL the name. VxKex NEXT takes as many letters off.
func contract(dll string) string {
	const version = "-l1-1-0"
	if (strings.HasPrefix(dll, "api-") || strings.HasPrefix(dll, "ext-")) && len(dll) > len(version) {
		return dll[:len(dll)-len(version)]
	}
	return dll
}
