#include "common/model/shard.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <limits>

#include "common/base/units.h"

namespace forebay {
namespace {

constexpr std::string_view kSeed = "seed=";
constexpr std::string_view kEpoch = "epoch=";

std::unexpected<Error> Wrong(std::string_view text, std::string_view why) {
  return Fail(Code::kInvalid,
              fmt::format("\"{}\" is no shard: {}; write I/N[,seed=S[,epoch=E]], as in 0/4 or "
                          "0/4,seed=7,epoch=2",
                          text, why));
}

Status ParsePart(std::string_view text, std::string_view part, Shard& shard, bool& has_epoch) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  const bool is_seed = part.starts_with(kSeed);
  if (!is_seed && !part.starts_with(kEpoch)) {
    return Wrong(text, fmt::format("what \"{}\" means is not known", part));
  }
  if (is_seed ? shard.seed.has_value() : has_epoch) {
    return Wrong(text, fmt::format("it has two {}s", is_seed ? "seed" : "epoch"));
  }
  const Result<std::uint64_t> number =
      ParseUint(part.substr(is_seed ? kSeed.size() : kEpoch.size()), 0, kAny);
  if (!number) return Wrong(text, number.error().message);
  if (is_seed) {
    shard.seed = *number;
  } else {
    shard.epoch = *number;
    has_epoch = true;
  }
  return {};
}

}  // namespace

Result<Shard> Shard::Parse(std::string_view text) {
  std::string_view rest = text;
  const auto next = [&rest](char end) {
    const std::size_t at = rest.find(end);
    const std::string_view part = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
    return part;
  };
  std::string_view fraction = next(',');
  const std::size_t slash = fraction.find('/');
  if (slash == std::string_view::npos) return Wrong(text, "it has no /");
  const Result<std::uint64_t> count = ParseUint(fraction.substr(slash + 1), 1, kMaxCount);
  if (!count) return Wrong(text, count.error().message);
  const Result<std::uint64_t> index =
      ParseUint(fraction.substr(0, slash), 0, std::numeric_limits<std::uint32_t>::max());
  if (!index) return Wrong(text, index.error().message);
  if (*index >= *count) {
    return Wrong(text, fmt::format("the {} shards are numbered from 0 to {}", *count, *count - 1));
  }
  if (text.ends_with(',')) return Wrong(text, "it ends with a comma");
  Shard shard;
  shard.index = static_cast<std::uint32_t>(*index);
  shard.count = static_cast<std::uint32_t>(*count);
  bool has_epoch = false;
  while (!rest.empty()) {
    const Status taken = ParsePart(text, next(','), shard, has_epoch);
    if (!taken) return Fail(taken.error());
  }
  if (has_epoch && !shard.seed) return Wrong(text, "an epoch means nothing without a seed");
  return shard;
}

std::string Shard::ToString() const {
  std::string text = fmt::format("{}/{}", index, count);
  if (seed) text += fmt::format(",{}{}", kSeed, *seed);
  if (epoch != 0) text += fmt::format(",{}{}", kEpoch, epoch);
  return text;
}

std::uint64_t Shard::PlaceOf(std::string_view path) const {
  if (!seed) return XXH3_64bits(path.data(), path.size());
  const std::uint64_t words[2] = {*seed, epoch};
  return XXH3_64bits_withSeed(path.data(), path.size(), XXH3_64bits(words, sizeof words));
}

bool Shard::HasName(std::string_view path) const {
  const auto place = static_cast<unsigned __int128>(PlaceOf(WithoutEnding(path)));
  return static_cast<std::uint64_t>((place * count) >> 64) == index;
}

std::string_view WithoutEnding(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t first = path.find_first_not_of('.', begin);
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || first == std::string_view::npos || dot < first) return path;
  return path.substr(0, dot);
}

std::uint64_t Shard::Cut(std::uint64_t total, std::uint64_t of) const {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) * of / count);
}

}  // namespace forebay
