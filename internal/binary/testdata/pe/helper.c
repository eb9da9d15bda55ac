int greet(int x) { return x + 1; }
int second(int x) { return x + 2; }
int DllMain(void *module, unsigned long reason, void *reserved) { (void)module; (void)reason; (void)reserved; return 1; }
