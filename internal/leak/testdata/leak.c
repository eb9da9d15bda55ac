/* A program that loses 4 KiB a step and keeps 1 KiB of each of the first 64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef PAUSE
#define PAUSE 0
#endif
static char *keep[64];
__attribute__((noinline)) static char *request(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 10;
  for (int i = 0; i < n; i++) {
    volatile char *lost = request(4096);
    (void)lost;
    if (i < 64) keep[i] = request(1024);
    free(request(100));
    usleep(PAUSE);
  }
  puts("done");
  return 0;
}
