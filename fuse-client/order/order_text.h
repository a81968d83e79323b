#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What a program says to a mount's local socket (docs/HINTS.md): a line of JSON, then the order.
struct OrderText {
  std::string job;         ///< "" = none was named: that of the program that says it.
  std::string link;        ///< Of the mount that is meant.
  std::string mountpoint;  ///< What absolute paths of the order begin with; "" = none are there.
  std::string_view lines;  ///< Of the text that was parsed.
};

/// kInvalid: what is wrong with the first line.
Result<OrderText> ParseOrderText(std::string_view text);

/// The files that the lines name, by nodeid: paths from the root of the mount, which is `root` of
/// `snapshot`, or below `mountpoint`; or, when every line is a number, places in
/// `.forebay/manifest`, of which the first is 0. Empty lines say nothing. All or nothing: kInvalid,
/// kNotFound name the first line that means no file, and how many there are.
Result<std::vector<std::uint64_t>> FilesOfOrder(const OrderText& order, const Snapshot& snapshot,
                                                const SnapshotRow& root);

}  // namespace forebay
