#pragma once

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/link.h"

namespace forebay {

/// Bounds the LISTs and HEADs of a client. A GET brings its own bound (GetRequest::before_retry).
/// Called from any executor.
class RequestGovernor {
 public:
  virtual ~RequestGovernor() = default;

  /// Waited for before each attempt. Its error ends the call.
  virtual Task<Status> Pass(LinkOrigin origin, Deadline deadline) = 0;
  /// S3 answered an attempt that had passed with "slow down".
  virtual void NoteThrottled(const LinkOrigin& origin) = 0;
};

}  // namespace forebay
