// A Windows program that keeps 1 MiB each 20 ms, for 3 s.
#include <stdlib.h>
#include <string.h>
#include <windows.h>

int main(void) {
  for (int i = 0; i < 150; i++) {
    memset(malloc(1 << 20), 1, 1 << 20);
    Sleep(20);
  }
  return 0;
}
