#pragma once

#include <boost/json/object.hpp>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"

namespace forebay {

/// One line of the mount table (proc(5), mountinfo).
struct MountLine {
  std::string device;
  std::string root;  ///< What of the file system is mounted: "/", or a folder of a bind mount.
  std::string place;
  std::string type;

  bool is_forebay() const { return type == "fuse.forebay"; }
};

/// As far as it can be read, in its order.
std::vector<MountLine> ReadMountTable(const std::string& path);

/// The mount that `path` lies in: the longest place, of several at one place the topmost.
const MountLine* MountOf(const std::vector<MountLine>& mounts, std::string_view path);

/// `path` relative to `folder`, or nothing when it lies elsewhere.
std::optional<std::string> PathBelow(std::string_view path, std::string_view folder);

/// What `.forebay/config` of the mount at `place` says, which names a link, or at
/// the top of a set's mount the set. Exit 1 when it
/// cannot be read.
std::expected<boost::json::object, Failure> ConfigOfMount(const std::string& place);

/// A text of it; "" when there is none.
std::string TextIn(const boost::json::object& config, std::string_view name);

}  // namespace forebay
