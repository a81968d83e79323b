#include "common/snapshot/listing_runs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <queue>
#include <system_error>
#include <utility>

#include "common/model/key_rules.h"

namespace forebay {
namespace {

/// Written before the extras of an entry.
using ExtrasSize = std::uint64_t;

constexpr std::size_t kBufferBytes = 1 << 20;
/// Of a file that is read in order, so many bytes stay in memory behind the reader, about.
constexpr std::size_t kRelaxEntries = 1 << 18;

Error DiskError(const char* what, const std::string& path) {
  return Error{Code::kInternal, std::string("cannot ") + what + " a part of the listing beside " +
                                    path + ": " + std::generic_category().message(errno)};
}

/// A file without a name, written from front to back and then mapped.
class HiddenFile {
 public:
  HiddenFile() = default;
  ~HiddenFile() {
    if (map_ != nullptr) ::munmap(map_, size_);
    if (fd_ >= 0) ::close(fd_);
  }
  HiddenFile(const HiddenFile&) = delete;
  HiddenFile& operator=(const HiddenFile&) = delete;

  Status Create(const std::string& beside) {
    path_ = beside;
    std::string name = beside + ".XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0 || ::unlink(name.c_str()) != 0) return Fail(DiskError("make", path_));
    return {};
  }

  std::uint64_t size() const { return size_; }

  Status Append(const void* bytes, std::size_t count) {
    buffer_.append(static_cast<const char*>(bytes), count);
    size_ += count;
    return buffer_.size() < kBufferBytes ? Status() : Flush();
  }

  /// Nothing is appended any more.
  Status Map() {
    Status flushed = Flush();
    if (!flushed) return flushed;
    buffer_ = std::string();
    if (size_ == 0) return {};
    void* const map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    if (map == MAP_FAILED) return Fail(DiskError("map", path_));
    map_ = map;
    ::close(std::exchange(fd_, -1));
    return {};
  }

  const void* data() const { return map_; }
  void Relax() const {
    if (map_ != nullptr) ::madvise(map_, size_, MADV_DONTNEED);
  }

 private:
  Status Flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Fail(DiskError("write", path_));
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    buffer_.clear();
    return {};
  }

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::string buffer_;
  void* map_ = nullptr;
};

}  // namespace

/// Entries in their order, in two files.
class ListingRuns::Run {
 public:
  Status Create(const std::string& beside) {
    Status made = entries_.Create(beside);
    return made ? texts_.Create(beside) : made;
  }

  /// `entry`'s texts begin at `texts` + its place.
  Status Append(ListedEntry entry, const char* texts) {
    const char* const text = texts + entry.text_begin;
    const std::string_view extras = ExtrasAt(entry, texts);
    entry.text_begin = texts_.size();
    std::size_t bytes = std::size_t{entry.path_bytes} + entry.opaque_bytes;
    if (entry.has_extras()) bytes += sizeof(ExtrasSize) + extras.size();
    Status written = texts_.Append(text, bytes);
    if (written) written = entries_.Append(&entry, sizeof entry);
    return written;
  }
  void SetLastPath(std::string_view path) { last_path_ = path; }
  const std::string& last_path() const { return last_path_; }

  Status Map() {
    Status mapped = entries_.Map();
    return mapped ? texts_.Map() : mapped;
  }
  std::span<const ListedEntry> entries() const {
    return {static_cast<const ListedEntry*>(entries_.data()),
            entries_.size() / sizeof(ListedEntry)};
  }
  const char* texts() const { return static_cast<const char*>(texts_.data()); }
  void Relax() const {
    entries_.Relax();
    texts_.Relax();
  }

 private:
  HiddenFile entries_;
  HiddenFile texts_;
  std::string last_path_;
};

/// Where a merge is in one of its runs.
class ListingRuns::Cursor {
 public:
  Cursor(const Run& run, std::size_t number)
      : texts_(run.texts()), left_(run.entries()), number_(number) {}

  bool done() const { return left_.empty(); }
  const ListedEntry& entry() const { return left_.front(); }
  const char* texts() const { return texts_; }
  std::string_view path() const { return {texts_ + entry().text_begin, entry().path_bytes}; }
  void Advance() { left_ = left_.subspan(1); }

  /// Of equal paths, that of the earlier run was added first.
  bool Before(const Cursor& other) const {
    const int compared = ComparePaths(path(), other.path());
    return compared != 0 ? compared < 0 : number_ < other.number_;
  }

 private:
  const char* texts_;
  std::span<const ListedEntry> left_;
  std::size_t number_;
};

ListingRuns::ListingRuns(std::string path, std::size_t memory_bytes)
    : path_(std::move(path)), memory_bytes_(memory_bytes) {}

ListingRuns::~ListingRuns() = default;

std::string_view ListingRuns::ExtrasAt(const ListedEntry& entry, const char* texts) {
  if (!entry.has_extras()) return {};
  const char* const at = texts + entry.text_begin + entry.path_bytes + entry.opaque_bytes;
  ExtrasSize bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  return {at + sizeof bytes, bytes};
}

Status ListingRuns::Add(ListedEntry entry, std::string_view path, std::string_view opaque_etag,
                        std::string_view extras) {
  entry.text_begin = memory_texts_.size();
  entry.path_bytes = static_cast<std::uint16_t>(path.size());
  entry.opaque_bytes = static_cast<std::uint8_t>(opaque_etag.size());
  memory_texts_.append(path).append(opaque_etag);
  if (!extras.empty()) {
    entry.flags |= ListedEntry::kExtras;
    const ExtrasSize bytes = extras.size();
    memory_texts_.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(extras);
  }
  memory_.push_back(entry);
  const std::size_t held = memory_.size() * sizeof(ListedEntry) + memory_texts_.size();
  // However much is held beside them, a file is not made for a few entries.
  const std::size_t least = memory_bytes_ / 8;
  const std::size_t allowed =
      held_beside_ < memory_bytes_ ? std::max(memory_bytes_ - held_beside_, least) : least;
  return held < allowed ? Status() : Spill();
}

void ListingRuns::SortMemory() {
  const char* const texts = memory_texts_.data();
  const auto path = [texts](const ListedEntry& entry) {
    return std::string_view(texts + entry.text_begin, entry.path_bytes);
  };
  const auto before = [&](const ListedEntry& a, const ListedEntry& b) {
    const int compared = ComparePaths(path(a), path(b));
    return compared != 0 ? compared < 0 : a.text_begin < b.text_begin;
  };
  // Listings come sorted in S3's order, which is nearly this one.
  if (!std::ranges::is_sorted(memory_, before)) std::ranges::sort(memory_, before);
}

/// What is in memory goes behind the last run where it fits there, else it is the next run: so a
/// listing that comes in order is one run, which need not be merged.
Status ListingRuns::Spill() {
  SortMemory();
  const auto path = [this](const ListedEntry& entry) {
    return std::string_view(memory_texts_).substr(entry.text_begin, entry.path_bytes);
  };
  const bool behind =
      !runs_.empty() && ComparePaths(runs_.back()->last_path(), path(memory_.front())) < 0;
  if (!behind) {
    auto run = std::make_unique<Run>();
    Status made = run->Create(path_);
    if (!made) return made;
    runs_.push_back(std::move(run));
  }
  for (const ListedEntry& entry : memory_) {
    Status appended = runs_.back()->Append(entry, memory_texts_.data());
    if (!appended) return appended;
  }
  runs_.back()->SetLastPath(path(memory_.back()));
  memory_.clear();
  memory_texts_.clear();
  return {};
}

Status ListingRuns::Sort() {
  if (runs_.empty()) {
    SortMemory();
    entries_ = memory_;
    texts_ = memory_texts_.data();
    return {};
  }
  Status done;
  if (!memory_.empty()) done = Spill();
  memory_ = {};
  memory_texts_ = {};
  for (const auto& run : runs_) {
    if (done) done = run->Map();
  }
  if (done && runs_.size() > 1) done = Merge();
  if (!done) return done;
  entries_ = runs_.front()->entries();
  texts_ = runs_.front()->texts();
  return {};
}

/// The runs hardly overlap: as long as one is before all others, each entry costs one comparison.
Status ListingRuns::Merge() {
  auto merged = std::make_unique<Run>();
  Status status = merged->Create(path_);
  const auto after = [](const Cursor& a, const Cursor& b) { return b.Before(a); };
  std::priority_queue<Cursor, std::vector<Cursor>, decltype(after)> waiting(after);
  for (std::size_t i = 0; i < runs_.size(); ++i) waiting.emplace(*runs_[i], i);
  std::size_t taken = 0;
  while (status && !waiting.empty()) {
    Cursor cursor = waiting.top();
    waiting.pop();
    while (status && !cursor.done() && (waiting.empty() || cursor.Before(waiting.top()))) {
      status = merged->Append(cursor.entry(), cursor.texts());
      cursor.Advance();
      if (++taken % kRelaxEntries == 0) Relax();
    }
    if (!cursor.done()) waiting.push(cursor);
  }
  if (status) status = merged->Map();
  if (!status) return status;
  runs_.clear();
  runs_.push_back(std::move(merged));
  return {};
}

void ListingRuns::Relax() const {
  for (const auto& run : runs_) run->Relax();
}

}  // namespace forebay
