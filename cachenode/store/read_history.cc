#include "cachenode/store/read_history.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "cachenode/store/block_hash.h"

namespace forebay {
namespace {

constexpr std::size_t kNowhere = SIZE_MAX;
constexpr std::size_t kFirstPlaces = 64;
constexpr double kMaxLoad = 0.8;
constexpr double kGrowth = 1.25;
/// A shard may always remember so many blocks.
constexpr std::size_t kMinPlaces = 1024;
/// Places that are looked at for one that may be forgotten.
constexpr std::size_t kForgetLooks = 64;
/// A job's slot is another's when it would have read this much of an epoch meanwhile.
constexpr double kGoneAfterEpochs = 1;

constexpr std::uint16_t kCachedBit = 0x8000;
constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t) + sizeof(std::uint16_t);

/// The width in which a slot has its byte.
std::size_t WidthFor(std::size_t slot) { return slot < 2 ? 2 : slot < 4 ? 4 : 8; }

/// Names a block within its shard; 0 is an empty place. Two blocks with one print are taken for
/// one: a wrong age, once in 4 billion / blocks of a shard.
std::uint32_t PrintOf(std::uint64_t hash) {
  const auto print = static_cast<std::uint32_t>(hash);
  return print == 0 ? 1 : print;
}

/// A lock that is only tried where nobody may wait.
template <typename Lock>
Lock LockUnless(bool hurried, typename Lock::mutex_type& mutex) {
  return hurried ? Lock(mutex, std::try_to_lock) : Lock(mutex);
}

}  // namespace

struct ReadHistory::DataSet {
  std::array<std::unique_ptr<ReadStream>, kMaxJobs> streams;
  std::array<std::string, kMaxJobs> jobs;

  /// The job's slot; else the last one if no slot can be given to it; else kNowhere.
  std::size_t SlotOf(std::string_view job, std::uint64_t now) const {
    for (std::size_t slot = 0; slot < kMaxJobs; ++slot) {
      if (streams.at(slot) && jobs.at(slot) == job) return slot;
    }
    return FreeSlot(now) == kNowhere ? kMaxJobs - 1 : kNowhere;
  }
  /// One that nobody has had, or whose job has gone.
  std::size_t FreeSlot(std::uint64_t now) const {
    std::size_t free = kNowhere;
    double longest = kGoneAfterEpochs;
    for (std::size_t slot = 0; slot < kMaxJobs; ++slot) {
      const auto& stream = streams.at(slot);
      if (!stream) return slot;
      if (!stream->IsIdle(now) || stream->Missed(now) < longest) continue;
      longest = stream->Missed(now);
      free = slot;
    }
    return free;
  }
};

/// Places in a row: print, tag, a stamp for each slot. A print lies at its home or behind it, with
/// no empty place between. Homes rise with prints.
struct alignas(64) ReadHistory::Shard {
  mutable std::mutex mutex;
  std::vector<std::uint8_t> bytes;
  std::size_t width = 2;
  std::size_t places = 0;
  std::size_t used = 0;
  std::size_t cached = 0;
  std::size_t cursor = 0;  // of LookAround

  std::size_t PlaceBytes() const { return kHeaderBytes + width; }
  std::uint8_t* At(std::size_t place) { return bytes.data() + place * PlaceBytes(); }
  const std::uint8_t* At(std::size_t place) const { return bytes.data() + place * PlaceBytes(); }
  std::uint32_t Print(std::size_t place) const {
    std::uint32_t print = 0;
    std::memcpy(&print, At(place), sizeof(print));
    return print;
  }
  std::uint16_t Word(std::size_t place) const {
    std::uint16_t word = 0;
    std::memcpy(&word, At(place) + sizeof(std::uint32_t), sizeof(word));
    return word;
  }
  void SetWord(std::size_t place, std::uint16_t word) {
    std::memcpy(At(place) + sizeof(std::uint32_t), &word, sizeof(word));
  }
  Tag TagAt(std::size_t place) const { return Word(place) & static_cast<Tag>(~kCachedBit); }
  bool IsCached(std::size_t place) const { return (Word(place) & kCachedBit) != 0; }
  ReadStamp* Stamps(std::size_t place) { return At(place) + kHeaderBytes; }
  const ReadStamp* Stamps(std::size_t place) const { return At(place) + kHeaderBytes; }

  std::size_t Home(std::uint32_t print) const {
    return static_cast<std::size_t>((std::uint64_t{print} * places) >> 32);
  }
  std::size_t Next(std::size_t place) const { return place + 1 == places ? 0 : place + 1; }
  /// Where the print lies, or the empty place where it belongs.
  std::size_t Probe(std::uint32_t print) const {
    std::size_t at = Home(print);
    while (Print(at) != 0 && Print(at) != print) at = Next(at);
    return at;
  }
  std::size_t Find(std::uint32_t print) const {
    if (places == 0) return kNowhere;
    const std::size_t at = Probe(print);
    return Print(at) == 0 ? kNowhere : at;
  }

  void Rebuild(std::size_t new_places, std::size_t new_width) {
    Shard old;
    old.bytes.swap(bytes);
    old.width = std::exchange(width, new_width);
    old.places = std::exchange(places, new_places);
    bytes.assign(places * PlaceBytes(), 0);
    bytes.shrink_to_fit();
    cursor = 0;
    for (std::size_t from = 0; from < old.places; ++from) {
      if (old.Print(from) == 0) continue;
      const std::size_t to = Probe(old.Print(from));
      std::memcpy(At(to), old.At(from), old.PlaceBytes());
    }
  }

  void SetCachedAt(std::size_t place, bool is_cached) {
    if (IsCached(place) == is_cached) return;
    SetWord(place, static_cast<std::uint16_t>(Word(place) ^ kCachedBit));
    cached = is_cached ? cached + 1 : cached - 1;
  }

  void Erase(std::size_t hole) {
    if (IsCached(hole)) --cached;
    --used;
    for (std::size_t at = Next(hole); Print(at) != 0; at = Next(at)) {
      const std::size_t home = Home(Print(at));
      const std::size_t from_home = (at + places - home) % places;
      if (from_home < (at + places - hole) % places) continue;
      std::memcpy(At(hole), At(at), PlaceBytes());
      hole = at;
    }
    std::memset(At(hole), 0, PlaceBytes());
  }

  /// Places that this shard may have, for its cached blocks.
  std::size_t MostPlaces() const {
    return std::max(kMinPlaces, cached * kBytesPerCachedBlock / PlaceBytes());
  }
};

ReadHistory::ReadHistory() : shards_(std::make_unique<std::array<Shard, kShards>>()) {}
ReadHistory::~ReadHistory() = default;

ReadHistory::Shard& ReadHistory::ShardOf(std::uint64_t hash) const {
  return (*shards_)[hash >> 58];
}

ReadHistory::Noted ReadHistory::NoteRead(const Uuid& link, std::string_view job,
                                         const BlockId& block, bool cached) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  Tag tag = kMaxLinks;
  // Twice: a job's first read finds no seat.
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      const auto known = LockUnless<std::shared_lock<std::shared_mutex>>(cached, mutex_);
      if (!known.owns_lock()) return Noted::kNot;
      const auto found = tags_.find(link);
      if (found == tags_.end() && data_sets_.size() == kMaxLinks) return Noted::kNot;
      if (found != tags_.end()) {
        const auto lock = LockUnless<std::unique_lock<std::mutex>>(cached, shard.mutex);
        if (!lock.owns_lock()) return Noted::kNot;
        Read read{.tag = TagIn(shard, PrintOf(hash), found->second), .cached = cached};
        tag = read.tag;
        const DataSet& set = *data_sets_[tag];
        read.slot = set.SlotOf(job, clock_.load(std::memory_order_relaxed));
        if (read.slot != kNowhere) {
          read.stream = set.streams.at(read.slot).get();
          return NoteIn(shard, PrintOf(hash), read) ? Noted::kCounts : Noted::kSameRead;
        }
      }
    }
    AddSeat(link, tag, job);
  }
  return Noted::kNot;
}

/// Two links with one sharing domain share blocks; a block belongs to the one that first read it.
ReadHistory::Tag ReadHistory::TagIn(const Shard& shard, std::uint32_t print, Tag otherwise) const {
  const std::size_t at = shard.Find(print);
  return at == kNowhere ? otherwise : shard.TagAt(at);
}

bool ReadHistory::NoteIn(Shard& shard, std::uint32_t print, const Read& read) {
  if (read.slot >= shard.width) shard.Rebuild(shard.places, WidthFor(read.slot));
  std::size_t at = shard.Find(print);
  const bool known = at != kNowhere;
  if (known && read.stream->IsSameRead(shard.Stamps(at)[read.slot])) {
    shard.SetCachedAt(at, read.cached);
    return false;
  }
  if (!known) {
    if (MakePlace(shard)) size_.fetch_add(1, std::memory_order_relaxed);
    at = shard.Probe(print);
    std::memcpy(shard.At(at), &print, sizeof(print));
    shard.SetWord(at, read.tag);
    ++shard.used;
  }
  shard.SetCachedAt(at, read.cached);
  const std::uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  ReadStamp& stamp = shard.Stamps(at)[read.slot];
  const bool shared = IsShared(read.tag, read.slot, shard.Stamps(at), shard.width);
  stamp = read.stream->Note({stamp, shared}, known, now, size()).value_or(stamp);
  LookAround(shard, read);
  return true;
}

/// Room for one more. False: in the place of another.
bool ReadHistory::MakePlace(Shard& shard) {
  const auto fits = [&](std::size_t places) {
    return static_cast<double>(shard.used + 1) <= static_cast<double>(places) * kMaxLoad;
  };
  if (fits(shard.places)) return true;
  const std::size_t grown =
      std::max(kFirstPlaces, static_cast<std::size_t>(static_cast<double>(shard.places) * kGrowth));
  if (grown > shard.MostPlaces()) {
    for (std::size_t look = 0; look < kForgetLooks; ++look) {
      shard.cursor = shard.Next(shard.cursor);
      if (shard.Print(shard.cursor) == 0 || shard.IsCached(shard.cursor)) continue;
      ForgetAt(shard, shard.cursor);
      return false;
    }
  }
  shard.Rebuild(grown, shard.width);
  return true;
}

void ReadHistory::ForgetAt(Shard& shard, std::size_t at) {
  const DataSet& set = *data_sets_[shard.TagAt(at)];
  for (std::size_t slot = 0; slot < shard.width; ++slot) {
    if (set.streams.at(slot)) set.streams.at(slot)->Forget(shard.Stamps(at)[slot]);
  }
  shard.Erase(at);
}

void ReadHistory::LookAround(Shard& shard, const Read& read) {
  for (int looks = 0; looks < ReadStream::kLooksPerRead;) {
    shard.cursor = shard.Next(shard.cursor);
    const std::size_t at = shard.cursor;
    if (shard.Print(at) == 0) continue;
    ++looks;
    const DataSet& set = *data_sets_[shard.TagAt(at)];
    for (std::size_t slot = 0; slot < shard.width; ++slot) {
      ReadStamp& stamp = shard.Stamps(at)[slot];
      if (stamp != 0 && set.streams.at(slot)) stamp = set.streams.at(slot)->Aged(stamp);
    }
    if (shard.TagAt(at) != read.tag) continue;
    const bool shared = IsShared(read.tag, read.slot, shard.Stamps(at), shard.width);
    read.stream->Look({shard.Stamps(at)[read.slot], shared});
  }
}

/// Of a block that the job in `slot` has never read: another that still reads has.
bool ReadHistory::IsShared(Tag tag, std::size_t slot, const ReadStamp* stamps,
                           std::size_t width) const {
  if (stamps[slot] != 0) return false;
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  for (std::size_t other = 0; other < width; ++other) {
    const ReadStream* stream = data_sets_[tag]->streams.at(other).get();
    if (stamps[other] != 0 && stream != nullptr && stream->Reads(stamps[other], now)) return true;
  }
  return false;
}

void ReadHistory::AddSeat(const Uuid& link, Tag tag, std::string_view job) {
  const std::unique_lock lock(mutex_);
  if (!tags_.contains(link)) {
    if (data_sets_.size() == kMaxLinks) return;
    tags_.emplace(link, static_cast<Tag>(data_sets_.size()));
    data_sets_.push_back(std::make_unique<DataSet>());
  }
  if (tag == kMaxLinks) tag = tags_.at(link);
  DataSet& set = *data_sets_[tag];
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  if (set.SlotOf(job, now) != kNowhere) return;
  const std::size_t slot = set.FreeSlot(now);
  if (set.streams.at(slot)) Clear(tag, slot);
  set.streams.at(slot) = std::make_unique<ReadStream>();
  set.jobs.at(slot) = job;
}

/// A job's stamps, before its slot is another's. Milliseconds for a million blocks, once for a job
/// after the first eight of its link.
void ReadHistory::Clear(Tag tag, std::size_t slot) {
  for (Shard& shard : *shards_) {
    const std::scoped_lock lock(shard.mutex);
    if (slot >= shard.width) continue;
    for (std::size_t at = 0; at < shard.places; ++at) {
      if (shard.Print(at) != 0 && shard.TagAt(at) == tag) shard.Stamps(at)[slot] = 0;
    }
  }
}

void ReadHistory::SetCached(const BlockId& block, bool cached) {
  const std::uint64_t hash = MixedHash(block);
  Shard& shard = ShardOf(hash);
  const std::scoped_lock lock(shard.mutex);
  const std::size_t at = shard.Find(PrintOf(hash));
  if (at != kNowhere) shard.SetCachedAt(at, cached);
}

ReadHistory::Value ReadHistory::ValueOf(const Uuid& link, const BlockId& block) const {
  const std::uint64_t hash = MixedHash(block);
  const std::shared_lock known(mutex_);
  const auto found = tags_.find(link);
  Tag tag = found == tags_.end() ? kMaxLinks : found->second;
  std::array<ReadStamp, kMaxJobs> stamps{};
  {
    const Shard& shard = ShardOf(hash);
    const std::scoped_lock lock(shard.mutex);
    const std::size_t at = shard.Find(PrintOf(hash));
    if (at != kNowhere) {
      tag = shard.TagAt(at);
      std::copy_n(shard.Stamps(at), shard.width, stamps.begin());
    }
  }
  Value value;
  if (tag == kMaxLinks) return value;
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  for (std::size_t slot = 0; slot < kMaxJobs; ++slot) {
    const ReadStream* stream = data_sets_[tag]->streams.at(slot).get();
    if (stream == nullptr) continue;
    value.has_jobs = true;
    value.readers += stream->IsIdle(now) ? 0 : 1;
    const bool shared = IsShared(tag, slot, stamps.data(), stamps.size());
    value.worth += stream->Worth({stamps.at(slot), shared}, now);
    value.mean += stream->MeanWorth(now);
    value.just_read = value.just_read || stream->IsRecent(stamps.at(slot));
  }
  return value;
}

std::size_t ReadHistory::MemoryBytes() const {
  std::size_t bytes = sizeof(*shards_);
  for (const Shard& shard : *shards_) {
    const std::scoped_lock lock(shard.mutex);
    bytes += shard.bytes.capacity();
  }
  const std::shared_lock lock(mutex_);
  for (const auto& set : data_sets_) {
    bytes += sizeof(DataSet);
    for (const auto& stream : set->streams) bytes += stream ? sizeof(ReadStream) : 0;
  }
  return bytes;
}

}  // namespace forebay
