#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "fuse-client/fuse_api.h"

namespace forebay {

struct FuseLibrarySessionEnds {
  void operator()(struct fuse_session* session) const { fuse_session_destroy(session); }
};

/// libfuse's own; its end closes /dev/fuse.
using FuseLibrarySession = std::unique_ptr<struct fuse_session, FuseLibrarySessionEnds>;

/// `options` as after -o. What libfuse says goes to our log. kInternal with libfuse's reason.
Result<FuseLibrarySession> NewFuseLibrarySession(std::string options, const fuse_lowlevel_ops& ops,
                                                 void* userdata);

/// The last thing that libfuse said on this thread since it made a session there; it has no other
/// way to tell why it failed.
const std::string& LastFuseMessage();

}  // namespace forebay
