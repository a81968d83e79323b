#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define FOREBAY_LEAKS_ARE_LOOKED_FOR
#endif
#endif

namespace forebay {

/// What this thread allocates while one exists is no leak to a sanitizer: for what a library frees
/// at an end that we leave to other processes.
#ifdef FOREBAY_LEAKS_ARE_LOOKED_FOR
using NoLeak = __lsan::ScopedDisabler;
#else
struct NoLeak {};
#endif

}  // namespace forebay
