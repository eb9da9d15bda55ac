// What hip/device.c, which knows HIP's headers, is told by hip/hip.c, which knows CUDA's:
// the two define the same names and cannot be read together.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define LDS (64 << 10) // of an RDNA workgroup: AMD's "RDNA 4 Instruction Set Architecture", "Local Data Share"

struct facts {
	size_t vram;
	int sms;
	bool managed, concurrent, vmm;
	const char *gfx;
};
int sim_hip_facts(struct facts *out, int device);                         // takes the lock; a code of HIP's
int sim_hip_pointer(const void *p, int *type, bool *managed, int *device); // the same
int sim_hip_refuse(const char *call);
