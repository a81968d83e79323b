#pragma once

#include <cstddef>
#include <cstdint>

// What defaults are made of.
namespace forebay {

/// The most event loops that a program gets by itself or may be given: more than one for each core
/// of a large machine only costs memory.
inline constexpr std::size_t kMaxThreads = 64;
/// The largest cpu_limit.
inline constexpr std::size_t kMaxCpuLimit = 4096;

/// The CPUs that this process may run on, at most kMaxThreads.
std::size_t UsableCpus();

/// Has the kernel run this process, all its threads, on the last `most` of the CPUs that the
/// calling one may run on; on all of them when they are no more. False: the kernel refuses.
bool KeepToCpus(std::size_t most);

/// The memory of this machine, or of the control group that confines this process, in bytes.
std::uint64_t UsableMemory();

}  // namespace forebay
