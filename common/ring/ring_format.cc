// The stored form of a ring table. Little-endian; a string is u16 length + bytes:
//
//   8 bytes   "FBRING" 0 0
//   u32       format, 1
//   u64       epoch
//   u32       nodes, then per node in ascending order of id:
//               string id, address, local_socket, host_id, zone; u64 capacity; u8 state
//   u8        1 = owners follow: kPartitions x kOwnersPerPartition u16 (0xFFFF = none)
//   u32       departures in ascending order, then each: string node id, u64 until_epoch,
//             i64 left_unix_s (each is remembered by one partition at least, most by many;
//             none = nobody remembers anything)
//             and where there are any, per partition: u8 count, count x u32 departure
//   u64       XXH3-64 of everything before it
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/ring/numbering.h"
#include "common/ring/placement.h"
#include "common/ring/ring.h"

namespace forebay {

static_assert(std::endian::native == std::endian::little, "what is stored is copied as it lies");

namespace {

constexpr std::string_view kMagic{"FBRING\0\0", 8};
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kMinNodeBytes = 5 * 2 + 8 + 1;
constexpr std::size_t kMinDepartureBytes = 2 + 8 + 8;

class Writer {
 public:
  template <typename T>
  void Number(T value) {
    All(std::span<const T>(&value, 1));
  }
  template <typename T>
  void All(std::span<const T> values) {
    static_assert(std::is_integral_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  // Ids, host names and socket paths are bounded far below 64 KiB where they come in.
  void String(std::string_view text) {
    text = text.substr(0, 0xFFFF);
    Number(static_cast<std::uint16_t>(text.size()));
    bytes_.append(text);
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Past the end everything reads as zero and ok() turns false, once and for ever.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value = 0;
    Fill(std::span<T>(&value, 1));
    return value;
  }
  // As they are, where there are not so many.
  template <typename T>
  void Fill(std::span<T> values) {
    static_assert(std::is_integral_v<T>);
    const std::string_view field = Take(values.size_bytes());
    if (!field.empty()) std::memcpy(values.data(), field.data(), field.size());
  }
  std::string String() { return std::string(Take(Number<std::uint16_t>())); }

  // A count of things of at least `min_bytes` each: what cannot be there is not allocated.
  std::uint32_t Count(std::size_t min_bytes) {
    const auto count = Number<std::uint32_t>();
    if (count > bytes_.size() / min_bytes) Break();
    return ok_ ? count : 0;
  }
  void Require(bool condition) {
    if (!condition) Break();
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view Take(std::size_t size) {
    if (size > bytes_.size()) Break();
    if (!ok_) return {};
    const std::string_view field = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return field;
  }
  void Break() {
    ok_ = false;
    bytes_ = {};
  }

  std::string_view bytes_;
  bool ok_ = true;
};

void WriteNode(Writer& out, const NodeInfo& node) {
  for (const auto* text :
       {&node.id, &node.address, &node.local_socket, &node.host_id, &node.zone}) {
    out.String(*text);
  }
  out.Number(node.capacity_bytes);
  out.Number(static_cast<std::uint8_t>(node.state));
}

std::vector<NodeInfo> ReadNodes(Reader& in) {
  std::vector<NodeInfo> nodes(in.Count(kMinNodeBytes));
  in.Require(nodes.size() <= kMaxRingNodes);
  for (std::size_t i = 0; in.ok() && i < nodes.size(); ++i) {
    NodeInfo& node = nodes[i];
    for (auto* text : {&node.id, &node.address, &node.local_socket, &node.host_id, &node.zone}) {
      *text = in.String();
    }
    node.capacity_bytes = in.Number<std::uint64_t>();
    const auto state = in.Number<std::uint8_t>();
    in.Require(state <= static_cast<std::uint8_t>(NodeState::kOut));
    node.state = static_cast<NodeState>(state);
    in.Require(i == 0 ? !node.id.empty() : nodes[i - 1].id < node.id);
  }
  return nodes;
}

// Owners come first, distinct and existing, then the padding; and each partition has one at least.
bool IsOwnerRow(std::span<const std::uint16_t> row, std::size_t nodes) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == kNoOwner) {
      return i > 0 && std::ranges::all_of(row.subspan(i), [](auto n) { return n == kNoOwner; });
    }
    const auto before = row.first(i);
    if (row[i] >= nodes || std::ranges::find(before, row[i]) != before.end()) return false;
  }
  return true;
}

auto Departed(const PreviousOwner& owner) {
  return std::tuple(std::string_view(owner.node_id), owner.until_epoch, owner.left_unix_s);
}

std::vector<std::uint16_t> ReadOwners(Reader& in, std::size_t nodes) {
  const auto present = in.Number<std::uint8_t>();
  in.Require(present <= 1);
  if (!in.ok() || present == 0) return {};
  std::vector<std::uint16_t> owners(std::size_t{kPartitions} * kOwnersPerPartition);
  in.Fill(std::span(owners));
  for (std::size_t p = 0; in.ok() && p < kPartitions; ++p) {
    const std::span row(owners);
    in.Require(IsOwnerRow(row.subspan(p * kOwnersPerPartition, kOwnersPerPartition), nodes));
  }
  return owners;
}

using History = std::vector<PreviousOwner>;

// The departures that `history` is made of, by their numbers, as they follow its partition.
std::string Numbers(const History& history, const std::vector<PreviousOwner>& departures) {
  Writer out;
  out.Number(static_cast<std::uint8_t>(history.size()));
  for (const PreviousOwner& owner : history) {
    const auto at = std::ranges::lower_bound(departures, Departed(owner), {}, Departed);
    out.Number(static_cast<std::uint32_t>(at - departures.begin()));
  }
  return std::move(out.bytes());
}

void WriteHistories(Writer& out, const std::vector<History>& histories,
                    const std::vector<std::uint32_t>& history_of) {
  std::vector<PreviousOwner> departures;
  for (const History& history : histories)
    departures.insert(departures.end(), history.begin(), history.end());
  std::ranges::sort(departures, {}, Departed);
  const auto [same, end] = std::ranges::unique(departures);
  departures.erase(same, end);
  out.Number(static_cast<std::uint32_t>(departures.size()));
  for (const PreviousOwner& departure : departures) {
    out.String(departure.node_id);
    out.Number(departure.until_epoch);
    out.Number(departure.left_unix_s);
  }
  std::vector<std::string> numbers;
  numbers.reserve(histories.size());
  for (const History& history : histories) numbers.push_back(Numbers(history, departures));
  for (const std::uint32_t history : history_of) out.bytes().append(numbers[history]);
}

struct Histories {
  std::vector<History> all;
  std::vector<std::uint32_t> of;  // per partition
};

Histories ReadHistories(Reader& in) {
  std::vector<PreviousOwner> departures(in.Count(kMinDepartureBytes));
  for (PreviousOwner& departure : departures) {
    departure.node_id = in.String();
    departure.until_epoch = in.Number<std::uint64_t>();
    departure.left_unix_s = in.Number<std::int64_t>();
    in.Require(!departure.node_id.empty());
  }
  const auto not_ascending = [](const auto& a, const auto& b) {
    return Departed(a) >= Departed(b);
  };
  in.Require(std::ranges::adjacent_find(departures, not_ascending) == departures.end());
  Histories read;
  if (!in.ok() || departures.empty()) return read;
  std::vector<bool> remembered(departures.size());
  // By the numbers of its departures and one, since 0 is none.
  static_assert(kPreviousOwners == 4);
  Numbering<2> numbering;
  read.of.resize(kPartitions);
  for (std::uint32_t& history_of : read.of) {
    const auto count = in.Number<std::uint8_t>();
    in.Require(count <= kPreviousOwners);
    if (!in.ok()) return {};
    std::array<std::uint32_t, kPreviousOwners> key{};
    const auto numbers = std::span(key).first(count);
    in.Fill(numbers);
    for (const std::uint32_t number : numbers) in.Require(number < departures.size());
    if (!in.ok()) return {};
    for (std::uint32_t& number : numbers) ++number;
    const auto [number, is_new] =
        numbering.Of(std::bit_cast<std::array<std::uint64_t, kPreviousOwners / 2>>(key));
    history_of = number;
    if (!is_new) continue;
    History& history = read.all.emplace_back();
    for (std::uint8_t i = 0; i < count; ++i) {
      const PreviousOwner& owner = departures[key[i] - 1];
      in.Require(std::ranges::find(history, owner.node_id, &PreviousOwner::node_id) ==
                 history.end());
      history.push_back(owner);
      remembered[key[i] - 1] = true;
    }
  }
  in.Require(std::ranges::find(remembered, false) == remembered.end());
  return read;
}

std::unexpected<Error> Unreadable(std::string_view why) {
  return Fail(Code::kCorrupt, std::string("the ring table is not readable: it ")
                                  .append(why)
                                  .append("; fetch it again from the coordinator"));
}

}  // namespace

std::string RingTable::Serialize() const {
  Writer out;
  // A count and a departure for each partition, and some for names.
  const Assigned& assigned = *assigned_;
  out.bytes().reserve(assigned.owners.size() * sizeof(std::uint16_t) +
                      assigned.history_of.size() * 5 + 4096);
  out.bytes().append(kMagic);
  out.Number(kFormat);
  out.Number(epoch_);
  out.Number(static_cast<std::uint32_t>(nodes_.size()));
  for (const NodeInfo& node : nodes_) WriteNode(out, node);
  out.Number(static_cast<std::uint8_t>(empty() ? 0 : 1));
  out.All(std::span(assigned.owners));
  WriteHistories(out, assigned.histories, assigned.history_of);
  out.Number(std::uint64_t{XXH3_64bits(out.bytes().data(), out.bytes().size())});
  return std::move(out.bytes());
}

Result<RingTable> RingTable::Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return Unreadable("does not begin with the magic bytes");
  constexpr std::size_t kChecksumBytes = 8;
  if (bytes.size() < kMagic.size() + sizeof(kFormat) + kChecksumBytes) {
    return Unreadable("is cut short");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  Reader in(body.substr(kMagic.size()));
  if (in.Number<std::uint32_t>() != kFormat) return Unreadable("has a format of another release");
  Reader checksum(bytes.substr(body.size()));
  if (checksum.Number<std::uint64_t>() != XXH3_64bits(body.data(), body.size())) {
    return Unreadable("does not match its checksum");
  }

  RingTable table;
  table.epoch_ = in.Number<std::uint64_t>();
  table.nodes_ = ReadNodes(in);
  auto assigned = std::make_shared<Assigned>();
  assigned->owners = ReadOwners(in, table.nodes_.size());
  Histories histories = ReadHistories(in);
  assigned->histories = std::move(histories.all);
  assigned->history_of = std::move(histories.of);
  table.assigned_ = std::move(assigned);
  if (!in.done()) return Unreadable("breaks the format's rules");
  return table;
}

}  // namespace forebay
