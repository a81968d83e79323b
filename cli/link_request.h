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
  /// What is linked, as the user wrote it: a location, or the manifest; "" = it is a set.
  std::string source() const;
  /// Several sources: the link is a set.
  bool is_set() const { return sources_.size() > 1; }

 private:
  /// `link NAME --manifest s3://…`: no prefix is given.
  bool names_say_where() const {
    return !is_set() && !manifest_.empty() && !sources_.front().starts_with("s3://");
  }
  void DeclareAccess(Options& options);
  Status TakeSource(proto::LinkRequest& request) const;
  Status TakeParts(proto::LinkRequest& request) const;
  Status TakeRefresh(const std::string& text);
  Status TakeBlockSize(const std::string& text);

  std::vector<std::string> sources_;
  std::string name_;
  std::vector<std::string> includes_;
  std::vector<std::string> excludes_;
  std::string manifest_;
  bool skip_bad_ = false;
  proto::LinkRequest options_;
  bool refresh_given_ = false;
  bool snapshot_ = false;
  bool path_style_ = false;
  bool requester_pays_ = false;
  bool posix_metadata_ = false;
  bool no_background_fill_ = false;
  bool no_sign_ = false;
};

}  // namespace forebay
