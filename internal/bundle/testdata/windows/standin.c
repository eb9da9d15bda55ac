// Stands for programs of Windows 7 and of NVIDIA's driver that wine lacks or has as an
// empty shell, by the name that it is called by: certutil, findstr and nvidia-smi; and for
// llama-server, which says how it was called.
#include <windows.h>
#include <wincrypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *whole(const wchar_t *name, size_t *size) {
	FILE *f = _wfopen(name, L"rb");
	if (!f) return NULL;
	fseek(f, 0, SEEK_END);
	*size = ftell(f);
	rewind(f);
	char *data = malloc(*size + 1);
	*size = fread(data, 1, *size, f);
	data[*size] = 0;
	fclose(f);
	return data;
}

// certutil -hashfile FILE SHA256, with a space between bytes as that of Windows 7.
static int certutil(wchar_t **argv) {
	HCRYPTPROV prov;
	HCRYPTHASH hash;
	size_t size;
	char *data = whole(argv[2], &size);
	BYTE sum[32];
	DWORD n = sizeof sum;
	if (data && !strcmp(data, "deaf")) return 1; // as where certutil is forbidden
	if (data && !strcmp(data, "busy")) { // as where a virus scanner has the file open
		printf("CertUtil: -hashfile command FAILED: 0x80070020 (WIN32: 32)\n");
		printf("CertUtil: The process cannot access \"the file\" & more (because it is being used by another process).\n");
		return 32;
	}
	if (!data) {
		printf("CertUtil: -hashfile command FAILED: 0x80070002 (WIN32: 2)\r\n");
		return 2;
	}
	if (!CryptAcquireContextW(&prov, NULL, NULL, PROV_RSA_AES, CRYPT_VERIFYCONTEXT) || !CryptCreateHash(prov, CALG_SHA_256, 0, 0, &hash) ||
	    !CryptHashData(hash, (BYTE *)data, size, 0) || !CryptGetHashParam(hash, HP_HASHVAL, sum, &n, 0))
		return 3;
	printf("SHA256 hash of file %ls:\n", argv[2]);
	for (DWORD i = 0; i < n; i++) printf(i ? " %02x" : "%02x", sum[i]);
	printf("\nCertUtil: -hashfile command completed successfully.\n");
	return 0;
}

// findstr /m /l /c:TEXT FILE
static int findstr(wchar_t **argv) {
	char text[100];
	size_t size;
	char *data = whole(argv[4], &size);
	size_t n = WideCharToMultiByte(CP_UTF8, 0, argv[3] + 3, -1, text, sizeof text, NULL, NULL) - 1;
	for (size_t i = 0; data && i + n <= size; i++)
		if (!memcmp(data + i, text, n)) return 0;
	return 1;
}

// nvidia-smi prints nvidia-smi.txt of the folder CHECK_ROOT.
static int nvidia(wchar_t **argv) {
	wchar_t name[MAX_PATH];
	size_t size;
	if (wcscmp(argv[1], L"--query-gpu=driver_version,memory.free,memory.total,name") || wcscmp(argv[2], L"--format=csv,noheader,nounits")) return 2;
	_snwprintf(name, MAX_PATH, L"%ls\\nvidia-smi.txt", _wgetenv(L"CHECK_ROOT"));
	char *data = whole(name, &size);
	if (!data) return 9;
	fputs(data, stdout);
	return 0;
}

// server prints its arguments in UTF-8 and what it was set to; with --list-devices what
// list-devices.txt of the folder CHECK_ROOT holds, or what a build without a card prints.
static int server(int argc, wchar_t **argv) {
	if (argc == 2 && !wcscmp(argv[1], L"--list-devices")) {
		wchar_t name[MAX_PATH];
		size_t size;
		_snwprintf(name, MAX_PATH, L"%ls\\list-devices.txt", _wgetenv(L"CHECK_ROOT"));
		char *data = whole(name, &size);
		fputs("load_backend: loaded CPU backend from C:\\a (1) & b\\ggml-cpu-x64.dll\n", stderr);
		fflush(stderr);
		fputs(data ? data : "Available devices:\n", stdout);
		return 0;
	}
	static const char *set[] = {"HOST", "PORT", "CTX_SIZE", "N_GPU_LAYERS"};
	char text[1000];
	for (int i = 1; i < argc; i++) {
		WideCharToMultiByte(CP_UTF8, 0, argv[i], -1, text, sizeof text, NULL, NULL);
		printf("[%s]\n", text);
	}
	for (int i = 0; i < 4; i++) {
		_snprintf(text, sizeof text, "LLAMA_ARG_%s", set[i]);
		if (getenv(text)) printf("%s=%s\n", text, getenv(text));
	}
	return argc > 3 && !wcscmp(argv[3], L"--fail") ? 7 : 0;
}

int main(void) {
	int argc;
	wchar_t **argv = CommandLineToArgvW(GetCommandLineW(), &argc), self[MAX_PATH];
	GetModuleFileNameW(NULL, self, MAX_PATH);
	wchar_t *name = wcsrchr(self, L'\\') + 1;
	if (!_wcsicmp(name, L"certutil.exe") && argc == 4) return certutil(argv);
	if (!_wcsicmp(name, L"findstr.exe") && argc == 5) return findstr(argv);
	if (!_wcsicmp(name, L"nvidia-smi.exe") && argc == 3) return nvidia(argv);
	return server(argc, argv);
}
