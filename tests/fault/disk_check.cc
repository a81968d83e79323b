// Recovers a store after a crash and compares all that it serves with what it must be.
//   disk_check DIRECTORY MEGABYTES FACTS CERTAIN KNOWN
// CERTAIN: so many bytes of FACTS were there when the crash came; KNOWN: so many when everything
// that had begun before it had ended. Says what it found as one object of JSON, closes the store,
// and leaves a FACTS that speaks of what is there now.
#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cachenode/store/segment_format.h"
#include "tests/fault/disk_facts.h"

namespace forebay {
namespace {

/// Blocks that are fetched again, as a node would fetch what a crash took.
constexpr std::size_t kRepairs = 40;

/// Numbers behind the last known one that are looked at: a load begins up to AHEAD (disk_fault.py)
/// behind it, and what it admitted last may not have been stated.
constexpr std::uint64_t kScanned = 256;

struct Found {
  std::set<std::uint64_t> served;
  std::uint64_t wrong = 0;
  std::uint64_t missing_durable = 0;  ///< A broken promise …
  std::uint64_t example = 0;          ///< … and a block that it was given for.
  std::uint64_t lost = 0;             ///< Admitted, not known to be durable nor leaving, and gone.
  std::uint64_t unreported = 0;       ///< Served, though nobody has said that it was admitted.
  std::uint64_t unserved = 0;         ///< In the index, and not served.
  std::uint64_t unknown = 0;          ///< In the index, though nobody can have admitted it.
  std::uint64_t pinned = 0;
  std::uint64_t unpinned = 0;  ///< That the durable pins name.
  std::uint64_t lost_pins = 0;
  std::uint64_t unrepaired = 0;
};

class Check {
 public:
  Check(TestStore& store, const Facts& certain, const Facts& known)
      : store_(store), certain_(certain), known_(known) {}

  Found Run(bool rebuilt) {
    ReadAll();
    for (const std::uint64_t number : certain_.durable) {
      const bool may_leave = known_.leaving.contains(number) || found_.served.contains(number);
      if (may_leave) continue;
      ++found_.missing_durable;
      found_.example = number;
    }
    for (const std::uint64_t number : certain_.admitted) {
      if (!known_.leaving.contains(number) && !found_.served.contains(number)) ++found_.lost;
    }
    for (std::uint64_t link = 0; link < kLinks; ++link) ComparePins(link, rebuilt);
    Repair();
    return std::move(found_);
  }

 private:
  /// Every number that may have been used, and those that may have been under way.
  void ReadAll() {
    const std::uint64_t held = store_->BlockCount();
    std::uint64_t end = kScanned;
    if (!known_.admitted.empty()) end += *known_.admitted.rbegin();
    std::uint64_t seen = 0;
    for (std::uint64_t number = 0; number < end; ++number) {
      const BlockId block = SampleBlock(number);
      if (!store_->Contains(block)) continue;
      ++seen;
      if (!Serves(block)) continue;
      found_.served.insert(number);
      if (!known_.admitted.contains(number)) ++found_.unreported;
    }
    found_.unserved = held - found_.served.size();
    found_.unknown = held - seen;
  }

  bool Serves(const BlockId& block) {
    const Result<Cells> cells = store_.Read(block, {0, block.length});
    if (!cells) return false;
    const auto right = BytesOf(block);
    const ByteView bytes = cells->bytes.bytes;
    if (bytes.size() == right->size() &&
        std::memcmp(bytes.data(), right->data(), bytes.size()) == 0) {
      return true;
    }
    std::fprintf(stderr, "wrong bytes of %s\n", block.ToString().c_str());
    ++found_.wrong;
    return false;
  }

  void ComparePins(std::uint64_t link, bool rebuilt) {
    const auto versions = store_->PinsVersions();
    const auto version = versions.find(LinkOf(link));
    const auto durable = certain_.pins.find(link);
    const std::uint64_t least = durable == certain_.pins.end() ? 0 : *durable->second.rbegin() + 1;
    if (version == versions.end()) {
      // The coordinator is asked anew for the pins of an index that was made anew.
      if (least > 0 && !rebuilt) ++found_.lost_pins;
      return;
    }
    if (version->second < least) ++found_.lost_pins;
    std::vector<BlockId> there;
    for (const std::uint64_t number : PinsAt(version->second - 1)) {
      if (found_.served.contains(number)) there.push_back(SampleBlock(number));
    }
    const auto evicted = store_.Evict(there, {.dry_run = true});
    found_.pinned += evicted ? evicted->pinned_blocks : 0;
    found_.unpinned += there.size() - (evicted ? evicted->pinned_blocks : 0);
  }

  void Repair() {
    std::size_t repaired = 0;
    std::vector<BlockId> again;
    for (const std::uint64_t number : known_.admitted) {
      if (found_.served.contains(number)) continue;
      if (++repaired > kRepairs) break;
      const BlockId block = SampleBlock(number);
      if (!store_.Admit(LinkOf(number), block) || !Serves(block)) ++found_.unrepaired;
      again.push_back(block);
    }
    // Their places made room, maybe, and nothing after this is to count on them.
    if (!store_.Evict(again)) ++found_.unrepaired;
    std::erase_if(found_.served,
                  [this](std::uint64_t number) { return !store_->Contains(SampleBlock(number)); });
  }

  TestStore& store_;
  const Facts& certain_;
  const Facts& known_;
  Found found_;
};

std::uint64_t RecordBytes(const std::set<std::uint64_t>& numbers) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t number : numbers) bytes += RecordDiskBytes(SampleBlock(number).length);
  return bytes;
}

/// What is left is durable: the store has been closed.
void WriteFacts(const std::string& path, const std::set<std::uint64_t>& served,
                const std::unordered_map<Uuid, std::uint64_t>& pins) {
  std::ofstream file(path, std::ios::trunc);
  for (const std::uint64_t number : served) file << "+ " << number << "\n";
  for (std::uint64_t link = 0; link < kLinks; ++link) {
    const std::uint64_t last = served.empty() ? 0 : *served.rbegin();
    file << "= " << (last / kLinks + 1) * kLinks + link << "\n";
    const auto version = pins.find(LinkOf(link));
    if (version != pins.end()) file << "p " << version->second - 1 << "\n";
  }
}

int Run(const char* directory, std::uint64_t megabytes, const std::string& path,
        std::uint64_t certain_bytes, std::uint64_t known_bytes) {
  std::ostringstream log;
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const Facts certain = Facts::Read(path, certain_bytes);
  const Facts known = Facts::Read(path, known_bytes);
  BlockStoreOptions options = CrashOptions(directory, megabytes);
  TestStore store(options);
  if (!store.open()) {
    std::fprintf(stderr, "%s\n%s\n", store.error().message.c_str(), log.str().c_str());
    return 3;
  }
  const std::uint64_t used = store->Disks()[0].used_bytes;
  const std::uint64_t blocks = store->BlockCount();
  const bool rebuilt = log.str().contains("the index is rebuilt");
  Check check(store, certain, known);
  const Found found = check.Run(rebuilt);
  const auto pins = store->PinsVersions();
  const BlockStore::Counters& counters = store->counters();
  const std::uint64_t left = store->Disks()[0].used_bytes;
  const std::uint64_t mismatched = counters.checksum_failures;
  const std::uint64_t dropped = counters.dropped_at_recovery;
  if (const Status closed = store->Close(); !closed) {
    std::fprintf(stderr, "%s\n", closed.error().message.c_str());
    return 4;
  }
  WriteFacts(path, found.served, pins);
  fmt::print(
      R"({{"recovered": {}, "served": {}, "wrong": {}, "durable": {}, "missing_durable": {}, )"
      R"("lost": {}, "unreported": {}, "unserved": {}, "unknown": {}, "mismatched": {}, "dropped": {}, )"
      R"("rebuilt": {}, "pinned": {}, "unpinned": {}, "lost_pins": {}, "unrepaired": {}, )"
      R"("admitted": {}, "evictions": {}, "used_bytes": {}, "left_bytes": {}, )"
      R"("record_bytes": {}, "broken": "{}", "example": "{}"}})"
      "\n",
      blocks, found.served.size(), found.wrong, certain.durable.size(), found.missing_durable,
      found.lost, found.unreported, found.unserved, found.unknown, mismatched, dropped,
      rebuilt ? 1 : 0, found.pinned, found.unpinned, found.lost_pins, found.unrepaired,
      certain.admitted.size(), known.evictions, used, left, RecordBytes(found.served), known.broken,
      found.example);
  return 0;
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  if (argc != 6) return 1;
  return forebay::Run(argv[1], std::stoull(argv[2]), argv[3], std::stoull(argv[4]),
                      std::stoull(argv[5]));
}
