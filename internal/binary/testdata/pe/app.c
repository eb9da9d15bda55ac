// One import of every standing that a function can have on Windows 7.
#define IMPORT(type, name) __declspec(dllimport) type name(void)
IMPORT(int, greet);              // helper.dll
IMPORT(int, second);             // helper.dll, by ordinal
IMPORT(int, forwarded);          // helper.dll, on to kernel32
IMPORT(int, forwardedToNothing); // helper.dll, on to what Windows 7 does not have
IMPORT(int, round);              // helper.dll, on to itself
IMPORT(int, left);               // helper.dll had it once
IMPORT(int, Sleep);
IMPORT(int, AddDllDirectory);          // kernel32 with KB2533623
IMPORT(int, CreateFile2);              // Windows 8
IMPORT(int, CreateFileMappingFromApp); // Windows 8
IMPORT(int, MapViewOfFileFromApp);     // Windows 8
IMPORT(int, NoSuchFunction);
IMPORT(int, accept);         // ws2_32, by ordinal
IMPORT(int, CertOpenStore);  // crypt32, which the tables do not have
IMPORT(int, WaitOnAddress);  // an API set of Windows 8
IMPORT(int, HeapAlloc);      // an API set of Windows 7
IMPORT(int, puts);           // an API set of the Universal C Runtime
IMPORT(int, cuInit);         // the driver's
IMPORT(int, cudaMalloc);     // a DLL that is not there
int start(void)
{
	return greet() + second() + forwarded() + forwardedToNothing() + round() + left() + Sleep() + AddDllDirectory()
		+ CreateFile2() + CreateFileMappingFromApp() + MapViewOfFileFromApp() + NoSuchFunction() + accept() + CertOpenStore()
		+ WaitOnAddress() + HeapAlloc() + puts() + cuInit() + cudaMalloc();
}
