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
  /// What is linked, as the user wrote it: a location, or the manifest.
  const std::string& source() const { return names_say_where() ? manifest_ : source_; }

 private:
  /// `link NAME --manifest s3://…`: no prefix is given.
  bool names_say_where() const { return !manifest_.empty() && !source_.starts_with("s3://"); }
  Status TakeRefresh(const std::string& text);
  Status TakeBlockSize(const std::string& text);

  std::string source_;
  std::string name_;
  std::vector<std::string> includes_;
  std::vector<std::string> excludes_;
  std::string manifest_;
  bool skip_bad_ = false;
  proto::LinkRequest options_;
  bool path_style_ = false;
  bool requester_pays_ = false;
  bool posix_metadata_ = false;
  bool no_background_fill_ = false;
  bool no_sign_ = false;
};

}  // namespace forebay
