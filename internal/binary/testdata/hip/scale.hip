__attribute__((global)) void scale(float *p) { p[__builtin_amdgcn_workitem_id_x()] *= 2; }
