#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "common/base/result.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// The options of `link` that describe the link. What can be judged without S3 and without the
/// coordinator is judged here, so that it is exit 2.
class LinkWish {
 public:
  void Declare(Options& options);

  /// The request; the name is filled in, also when --as is not given. kInvalid.
  Result<proto::LinkRequest> Request() const;
  const std::string& source() const { return source_; }

 private:
  Status TakeRefresh(const std::string& text);
  Status TakeBlockSize(const std::string& text);

  std::string source_;
  std::string name_;
  std::vector<std::string> includes_;
  std::vector<std::string> excludes_;
  proto::LinkRequest options_;
  bool path_style_ = false;
  bool requester_pays_ = false;
  bool no_background_fill_ = false;
  bool no_sign_ = false;
};

}  // namespace forebay
