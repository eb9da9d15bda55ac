// Package binary reads from a built file what it really holds and what it needs:
// machine, libraries, symbol versions, search paths, NVIDIA and AMD device code,
// and of Windows files each imported function and whether Windows 7 has it.
//
// # How to read it
//
// Inspect opens a file and Read tells its format: ELF, PE, Mach-O, WebAssembly, a fatbin or an offload
// bundle. Both return a File, whose fields CUDA, HIP and PE are nil where there is
// nothing of that kind. The verdicts come from Files: Verify inspects a bundle, holds it
// against a recipe's [verify] and joins a Rejected for each fault; Judge and GPUs say
// which GPUs run the device code, JudgeWindows7 whether Windows 7 loads it. Compare,
// which explains why two builds differ, reads the bytes themselves. Read in this order:
//
//   - ELF: binary.go (File, Inspect, Read), kind.go (program or library, cut short or
//     not), versions.go (symbol versions needed and defined; ReadLibrary).
//   - Libraries: libraries.go (where this machine's loader finds one), closure.go (Roots,
//     Unreachable: whether a bundle's files find each other), uses.go (what a file computes
//     with, by what it needs and exports), backends.go (ggml's backends, and which of them it loads).
//   - Other systems: macho.go, wasm.go.
//   - NVIDIA: cuda.go (CUDA, Code) collects what fatbin.go (the container) and cubin.go
//     (one entry, unpacked) read. arch.go (sm_86), cards.go (the table of GPUs) and driver.go
//     (the oldest driver) are what verdict.go (Judge returns a Verdict) looks up.
//     device.go has ReadDevice, for build.Join.
//   - AMD: hip.go (HIP, CodeObject), hip_bundle.go (clang's offload bundles),
//     hip_object.go (one code object), gfx.go (the table of GPUs; GPUs, ServesGFX).
//   - Windows: pe.go (PE, ImportedDLL), pe_image.go (reading at addresses, in bounds),
//     pe_names.go (section names), pe_tables.go (imports and exports), pe_cuda.go (device
//     code in a DLL), pe_gather.go (GatherPE: programs and the DLLs beside them),
//     signature.go (ReadSignature, Authenticode). windows7.go (JudgeWindows7 returns a
//     Windows7) looks imports up in windows7_tables.go.
//   - A recipe's [verify]: verify.go (Verify, Rejected), verify_cuda.go, verify_hip.go,
//     verify_pe.go (Lacking).
//   - Two builds: compare.go (Compare returns a Comparison), compare_sections.go (pairs of
//     sections), compare_cause.go (the known causes of a difference).
package binary
