#include "common/base/version.h"

// The two definitions are given to this file alone, so that a new commit recompiles nothing else.
namespace forebay {

std::string_view Version() { return FOREBAY_VERSION; }

std::string_view Commit() { return FOREBAY_COMMIT; }

}  // namespace forebay
