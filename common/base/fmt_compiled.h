#pragma once

#include <fmt/format.h>

// fmt 9 compiles its formatting code into every source that logs, 3 to 5 s of processor time each.
// This declaration leaves it to fmt_compiled.cc (the library's own copy has another name where GCC
// compiled it and Clang asks for it); from fmt 10 on fmt's headers do the same. The build includes
// this header before every source (cmake/ForebayPrecompiled.cmake): nothing needs to name it.
#if FMT_VERSION < 100000 && !defined(FMT_HEADER_ONLY)
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to(
    buffer<char>& out, basic_string_view<char> format,
    basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)> arguments, locale_ref locale);
}  // namespace detail
FMT_END_NAMESPACE
#endif
