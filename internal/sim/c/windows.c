// What the simulation asks of Windows, 7 and later, and of wine. Text is UTF-8 here and
// UTF-16 there: the runtime's own functions know the system's code page alone.
#include "sim.h"
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <psapi.h>

extern IMAGE_DOS_HEADER __ImageBase; // this library

static CRITICAL_SECTION lock;

// When a program ends, Windows kills every other thread, maybe with the lock in its
// hands: a critical section lets the last one through then, other locks do not.
__attribute__((constructor)) static void make_lock(void)
{
	InitializeCriticalSection(&lock);
}

void os_lock(void)
{
	EnterCriticalSection(&lock);
}

void os_unlock(void)
{
	LeaveCriticalSection(&lock);
}

bool os_last_lock(void)
{
	return TryEnterCriticalSection(&lock);
}

int64_t os_time(void)
{
	LARGE_INTEGER now, second;
	QueryPerformanceFrequency(&second);
	QueryPerformanceCounter(&now);
	return now.QuadPart / second.QuadPart * 1000000 + now.QuadPart % second.QuadPart * 1000000 / second.QuadPart;
}

int os_id(void)
{
	return GetCurrentProcessId();
}

static char *narrow(const wchar_t *text)
{
	int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
	char *out = own_alloc(NULL, 0, n + 1);
	out[WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL)] = 0;
	return out;
}

const char *const *os_environment(void)
{
	wchar_t *block = GetEnvironmentStringsW();
	if (!block)
		return NULL;
	size_t n = 0, at = 0;
	for (const wchar_t *p = block; *p; p += wcslen(p) + 1)
		n++;
	const char **list = own_alloc(NULL, 0, (n + 1) * sizeof *list);
	for (const wchar_t *p = block; *p; p += wcslen(p) + 1)
		list[at++] = narrow(p);
	list[at] = NULL;
	FreeEnvironmentStringsW(block);
	return list;
}

// fail sets errno for what Windows said last.
static int fail(void)
{
	switch (GetLastError()) {
	case ERROR_SHARING_VIOLATION: case ERROR_LOCK_VIOLATION: errno = EWOULDBLOCK; break;
	case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: case ERROR_INVALID_NAME: errno = ENOENT; break;
	case ERROR_ACCESS_DENIED: errno = EACCES; break;
	case ERROR_NOT_ENOUGH_MEMORY: case ERROR_COMMITMENT_LIMIT: errno = ENOMEM; break;
	case ERROR_DISK_FULL: errno = ENOSPC; break;
	default: errno = EIO;
	}
	return -1;
}

int os_open(const char *path)
{
	int n = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
	wchar_t *wide = own_alloc(NULL, 0, (n + 1) * sizeof *wide);
	wide[MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, n)] = 0;
	// Others may read it, and none may write it.
	HANDLE file = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_ALWAYS,
				  FILE_ATTRIBUTE_NORMAL, NULL);
	own_free(wide, (n + 1) * sizeof *wide);
	return file == INVALID_HANDLE_VALUE ? fail() : _open_osfhandle((intptr_t)file, _O_RDWR | _O_BINARY | _O_NOINHERIT);
}

void *os_map(int file, size_t size)
{
	HANDLE map = CreateFileMappingW((HANDLE)_get_osfhandle(file), NULL, PAGE_READWRITE, 0, size, NULL);
	void *p = map ? MapViewOfFile(map, FILE_MAP_WRITE, 0, 0, size) : NULL;
	if (!p)
		fail();
	return p;
}

// To reserve all of them at once costs a byte a page under wine, and tables on Windows 7.
// So they are chosen where nothing of the process's lies, nor will: above what is handed
// out from below, and below the libraries. Windows 7 has 8 TiB, later ones have 128.
uintptr_t os_arena(size_t *size)
{
	SYSTEM_INFO info;
	GetSystemInfo(&info);
	uintptr_t most = (uintptr_t)info.lpMaximumApplicationAddress;
	uintptr_t from = most > (uintptr_t)96 << 40 ? (uintptr_t)16 << 40 : (uintptr_t)1 << 40;
	*size = most > (uintptr_t)96 << 40 ? (size_t)64 << 40 : (size_t)6 << 40;
	MEMORY_BASIC_INFORMATION at;
	if (VirtualQuery((void *)from, &at, sizeof at) && at.State == MEM_FREE && from + *size <= (uintptr_t)at.BaseAddress + at.RegionSize)
		return from;
	errno = ENOMEM;
	return 0;
}

bool os_commit(uintptr_t p, size_t n)
{
	if (VirtualAlloc((void *)p, n, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE))
		return true;
	fail();
	return false;
}

void os_release(uintptr_t p, size_t n)
{
	(void)n;
	VirtualFree((void *)p, 0, MEM_RELEASE);
}

bool os_clear(uintptr_t p, size_t n)
{
	return VirtualFree((void *)p, n, MEM_DECOMMIT) && VirtualAlloc((void *)p, n, MEM_COMMIT, PAGE_READWRITE);
}

int os_stack(void **frames, int n)
{
	return CaptureStackBackTrace(0, n, frames, NULL);
}

bool os_own(const void *p)
{
	const char *base = (const char *)&__ImageBase;
	const IMAGE_NT_HEADERS *head = (const IMAGE_NT_HEADERS *)(base + __ImageBase.e_lfanew);
	return (const char *)p >= base && (const char *)p < base + head->OptionalHeader.SizeOfImage;
}

uintptr_t os_stack_top(void)
{
	return (uintptr_t)((NT_TIB *)NtCurrentTeb())->StackBase;
}

// These two read the loader's list as a debugger would, without its lock.
void os_modules(void (*seen)(const char *path, uintptr_t from, uintptr_t to, uintptr_t base))
{
	HMODULE modules[1024];
	DWORD bytes = 0;
	HANDLE self = GetCurrentProcess();
	if (!K32EnumProcessModules(self, modules, sizeof modules, &bytes))
		return;
	for (DWORD i = 0; i < bytes / sizeof *modules && i < LEN(modules); i++) {
		wchar_t wide[4096];
		MODULEINFO info;
		DWORD n = K32GetModuleFileNameExW(self, modules[i], wide, LEN(wide) - 1);
		if (!n || !K32GetModuleInformation(self, modules[i], &info, sizeof info))
			continue;
		wide[n] = 0;
		char *path = narrow(wide);
		uintptr_t base = (uintptr_t)info.lpBaseOfDll;
		seen(path, base, base + info.SizeOfImage, base);
		own_free(path, strlen(path) + 1);
	}
}
