#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/limits.h"

// Names of rows, coded in groups of kNameGroupRows. All names of a group end with the same
// `suffix_bytes` bytes; without them they are stems. A group is
//
//     u8 first_bytes, u8 suffix_bytes, u8 base, first_bytes bytes: the whole first name
//
// and then for each further row
//
//     u8 control = (shared - base) << 4 | middle_bytes,
//     if the upper half is 15: u8 shared - base; if the lower half is 15: u8 middle_bytes,
//     middle_bytes bytes
//
// whose stem is the first `shared` bytes of the stem before it, then the middle.
namespace forebay {

/// Appends the group of `names` (1 to kNameGroupRows, each at most kMaxNameBytes) to `out`.
void AppendNameGroup(std::span<const std::string_view> names, std::string& out);

/// Reads the names of a group one after the other. Bytes that are no group end in false, never in
/// a read outside `names`.
class NameDecoder {
 public:
  /// Goes to the first name of the group at `offset` of the names section.
  bool Start(std::string_view names, std::size_t offset);
  /// Goes to the next name of the same group.
  bool Next();
  std::string_view name() const { return {buffer_.data(), name_bytes_}; }  ///< Until Next().

 private:
  std::string_view rest_;    // not yet read
  std::string_view suffix_;  // common to the group
  std::size_t base_ = 0;
  std::size_t stem_bytes_ = 0;
  std::size_t name_bytes_ = 0;
  std::array<char, kMaxNameBytes + 1> buffer_;
};

/// True when name `index` of the group at `offset` is `name`. Compares while it walks the group and
/// copies nothing: a lookup spends most of its time here.
bool GroupNameEquals(std::string_view names, std::size_t offset, std::uint32_t index,
                     std::string_view name);

}  // namespace forebay
