#include "common/base/fmt_compiled.h"

#if FMT_VERSION < 100000 && !defined(FMT_HEADER_ONLY)
FMT_BEGIN_NAMESPACE
namespace detail {
template void vformat_to(buffer<char>& out, basic_string_view<char> format,
                         basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)> arguments,
                         locale_ref locale);
}  // namespace detail
FMT_END_NAMESPACE
#endif
