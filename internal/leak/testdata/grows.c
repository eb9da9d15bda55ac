// A Windows program that keeps 256 KiB each 20 ms, for 12 s: wine takes half as long to
// start on a busy machine.
#include <stdlib.h>
#include <string.h>
#include <windows.h>

int main(void) {
  for (int i = 0; i < 600; i++) {
    memset(malloc(256 << 10), 1, 256 << 10);
    Sleep(20);
  }
  return 0;
}
