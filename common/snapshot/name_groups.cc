#include "common/snapshot/name_groups.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace forebay {
namespace {

constexpr std::size_t kLongForm = 15;  // a half of the control byte that says "see the next byte"

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  const std::size_t limit = std::min(a.size(), b.size());
  std::size_t n = 0;
  while (n < limit && a[n] == b[n]) ++n;
  return n;
}

std::size_t CommonSuffix(std::string_view a, std::string_view b) {
  const std::size_t limit = std::min(a.size(), b.size());
  std::size_t n = 0;
  while (n < limit && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

void AppendByte(std::string& out, std::size_t value) { out.push_back(static_cast<char>(value)); }

bool TakeByte(std::string_view& rest, std::size_t& value) {
  if (rest.empty()) return false;
  value = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  return true;
}

bool TakeBytes(std::string_view& rest, std::size_t count, std::string_view& bytes) {
  if (rest.size() < count) return false;
  bytes = rest.substr(0, count);
  rest.remove_prefix(count);
  return true;
}

struct GroupHead {
  std::string_view first;
  std::string_view suffix;
  std::size_t base = 0;
  std::string_view stem() const { return first.substr(0, first.size() - suffix.size()); }
};

bool TakeHead(std::string_view& rest, GroupHead& head) {
  std::size_t first_bytes = 0;
  std::size_t suffix_bytes = 0;
  if (!TakeByte(rest, first_bytes) || !TakeByte(rest, suffix_bytes) || !TakeByte(rest, head.base) ||
      !TakeBytes(rest, first_bytes, head.first) || suffix_bytes > first_bytes) {
    return false;
  }
  head.suffix = head.first.substr(first_bytes - suffix_bytes);
  return true;
}

struct RowCode {
  std::size_t shared = 0;
  std::string_view middle;
};

// `stem_bytes` is the length of the stem before, `suffix_bytes` the group's.
bool TakeRow(std::string_view& rest, std::size_t base, std::size_t stem_bytes,
             std::size_t suffix_bytes, RowCode& row) {
  std::size_t control = 0;
  if (!TakeByte(rest, control)) return false;
  std::size_t extra = control >> 4;
  std::size_t middle_bytes = control & kLongForm;
  if (extra == kLongForm && !TakeByte(rest, extra)) return false;
  if (middle_bytes == kLongForm && !TakeByte(rest, middle_bytes)) return false;
  row.shared = base + extra;
  return row.shared <= stem_bytes && row.shared + middle_bytes + suffix_bytes <= kMaxNameBytes &&
         TakeBytes(rest, middle_bytes, row.middle);
}

}  // namespace

void AppendNameGroup(std::span<const std::string_view> names, std::string& out) {
  const std::string_view first = names.front();
  std::size_t suffix = names.size() == 1 ? 0 : first.size();
  for (const std::string_view name : names.subspan(1)) {
    suffix = std::min(suffix, CommonSuffix(first, name));
  }
  const auto stem = [&](std::size_t i) { return names[i].substr(0, names[i].size() - suffix); };
  std::size_t base = names.size() == 1 ? 0 : kMaxNameBytes;
  for (std::size_t i = 1; i < names.size(); ++i) {
    base = std::min(base, CommonPrefix(stem(i - 1), stem(i)));
  }
  AppendByte(out, first.size());
  AppendByte(out, suffix);
  AppendByte(out, base);
  out.append(first);
  for (std::size_t i = 1; i < names.size(); ++i) {
    const std::size_t shared = CommonPrefix(stem(i - 1), stem(i));
    const std::string_view middle = stem(i).substr(shared);
    const std::size_t extra = shared - base;
    AppendByte(out, std::min(extra, kLongForm) << 4 | std::min(middle.size(), kLongForm));
    if (extra >= kLongForm) AppendByte(out, extra);
    if (middle.size() >= kLongForm) AppendByte(out, middle.size());
    out.append(middle);
  }
}

bool NameDecoder::Start(std::string_view names, std::size_t offset) {
  if (offset >= names.size()) return false;
  rest_ = names.substr(offset);
  GroupHead head;
  if (!TakeHead(rest_, head)) return false;
  std::memcpy(buffer_.data(), head.first.data(), head.first.size());
  suffix_ = head.suffix;
  base_ = head.base;
  stem_bytes_ = head.stem().size();
  name_bytes_ = head.first.size();
  return true;
}

bool NameDecoder::Next() {
  RowCode row;
  if (!TakeRow(rest_, base_, stem_bytes_, suffix_.size(), row)) return false;
  std::memcpy(buffer_.data() + row.shared, row.middle.data(), row.middle.size());
  stem_bytes_ = row.shared + row.middle.size();
  std::memcpy(buffer_.data() + stem_bytes_, suffix_.data(), suffix_.size());
  name_bytes_ = stem_bytes_ + suffix_.size();
  return true;
}

bool GroupNameEquals(std::string_view names, std::size_t offset, std::uint32_t index,
                     std::string_view name) {
  if (offset >= names.size()) return false;
  std::string_view rest = names.substr(offset);
  GroupHead head;
  if (!TakeHead(rest, head) || !name.ends_with(head.suffix)) return false;
  const std::string_view wanted = name.substr(0, name.size() - head.suffix.size());
  // `same` bytes of the current stem and of `wanted` are equal, and no more. A row that shares more
  // than that with the stem before it differs from `wanted` at the same place.
  std::size_t stem_bytes = head.stem().size();
  std::size_t same = CommonPrefix(head.stem(), wanted);
  for (std::uint32_t i = 0; i < index; ++i) {
    RowCode row;
    if (!TakeRow(rest, head.base, stem_bytes, head.suffix.size(), row)) return false;
    stem_bytes = row.shared + row.middle.size();
    if (row.shared <= same) {
      same = row.shared + CommonPrefix(row.middle, wanted.substr(row.shared));
    }
  }
  return same == stem_bytes && same == wanted.size();
}

}  // namespace forebay
