#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "cachenode/store/cache_directory.h"
#include "tests/bench/store/rig.h"
#include "tests/bench/store/sections.h"

namespace forebay::store_bench {
namespace {

namespace json = boost::json;

constexpr std::size_t kFills = 16;  ///< Admissions at once on each loop: a node has many fills.
constexpr std::uint64_t kFilesInFolder = 1000;
constexpr std::uint64_t kWriteBytes = 4ULL << 20;  ///< At once to the raw file.
constexpr std::uint64_t kWriteBack = 8ULL << 20;   ///< As the store: dirty pages leave early.

/// One way to keep objects. Each call is timed by the caller.
class Subject {
 public:
  explicit Subject(const char* name) : name_(name) {}
  virtual ~Subject() = default;

  const char* name() const { return name_; }
  /// In the kernel's hands; the folder is there and empty.
  virtual void Write() = 0;
  virtual void MakeDurable() = 0;
  /// Reads all objects in this order; with `compare`, their bytes are looked at.
  virtual void Read(const std::vector<std::uint64_t>& order, bool compare) = 0;

 private:
  const char* name_;
};

/// `threads` of them share the numbers below `count`.
void InThreads(unsigned threads, std::uint64_t count,
               const std::function<void(std::uint64_t)>& one) {
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> running;
  running.reserve(threads);
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (std::uint64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) one(i);
    });
  }
}

void CompareBytes(ByteView bytes, const Samples& samples, std::uint64_t number) {
  const Buffer& right = *samples.Bytes(number);
  if (bytes.size() != right.size() || std::memcmp(bytes.data(), right.data(), right.size()) != 0)
    Die("wrong bytes were read");
}

Task<void> AdmitOne(BlockStore& store, const Samples& samples, std::uint64_t number) {
  std::vector<std::uint64_t> checksums = samples.Checksums(number);
  Slice bytes = Slice::Of(samples.Bytes(number));
  const Status status = co_await store.Admit(BenchLink(), samples.Block(number), std::move(bytes),
                                             std::move(checksums), "", Room::kMayEvict);
  Must(status, "admitting a block");
}

Task<void> ReadOne(BlockStore& store, const Samples& samples, std::uint64_t number, bool compare) {
  const BlockId block = samples.Block(number);
  Result<Cells> cells = co_await store.Read(block, {0, block.length});
  if (!cells) Die("reading a block: " + cells.error().message);
  if (compare) CompareBytes(cells->bytes.bytes, samples, number);
}

class StoreSubject final : public Subject {
 public:
  StoreSubject(const RatesOptions& options, const Samples& samples, const std::string& folder)
      : Subject("store"), options_(options), samples_(samples), folder_(folder) {
    rig_ = std::make_unique<Rig>(StoreIn(folder_), options_.threads);
  }
  void Write() override {
    const auto one = [this](std::uint64_t i) { return AdmitOne(rig_->store(), samples_, i); };
    rig_->ForAll(options_.objects, kFills, one);
  }
  void MakeDurable() override {
    rig_->Close();
    rig_ = nullptr;
  }
  void Read(const std::vector<std::uint64_t>& order, bool compare) override {
    if (!rig_) rig_ = std::make_unique<Rig>(StoreIn(folder_), options_.threads);
    const auto one = [this, &order, compare](std::uint64_t i) {
      return ReadOne(rig_->store(), samples_, order[i], compare);
    };
    rig_->ForAll(order.size(), 1, one);
  }

 private:
  const RatesOptions& options_;
  const Samples& samples_;
  const std::string folder_;
  std::unique_ptr<Rig> rig_;
};

void WriteAll(int fd, ByteView bytes, std::uint64_t position) {
  const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(position));
  MustSystem(n == static_cast<ssize_t>(bytes.size()), "writing");
}

void ReadAll(int fd, ByteSpan bytes, std::uint64_t position) {
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(position));
  MustSystem(n == static_cast<ssize_t>(bytes.size()), "reading");
}

class FilesSubject final : public Subject {
 public:
  FilesSubject(const RatesOptions& options, const Samples& samples, std::string folder)
      : Subject("files"), options_(options), samples_(samples), folder_(std::move(folder)) {}
  void Write() override {
    for (std::uint64_t i = 0; i < options_.objects; i += kFilesInFolder)
      std::filesystem::create_directory(FolderOf(i));
    InThreads(options_.threads, options_.objects, [this](std::uint64_t i) {
      const FileDescriptor fd(
          ::open(PathOf(i).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      MustSystem(static_cast<bool>(fd), "creating a file");
      WriteAll(fd.get(), samples_.Bytes(i)->view(), 0);
    });
  }
  void MakeDurable() override { SyncAll(folder_); }
  void Read(const std::vector<std::uint64_t>& order, bool compare) override {
    InThreads(options_.threads, order.size(), [&](std::uint64_t i) {
      const FileDescriptor fd(::open(PathOf(order[i]).c_str(), O_RDONLY | O_CLOEXEC));
      MustSystem(static_cast<bool>(fd), "opening a file");
      Buffer buffer(options_.length);
      ReadAll(fd.get(), buffer.span(), 0);
      if (compare) CompareBytes(buffer.view(), samples_, order[i]);
    });
  }

 private:
  std::string FolderOf(std::uint64_t i) const {
    return folder_ + "/" + std::to_string(i / kFilesInFolder);
  }
  std::string PathOf(std::uint64_t i) const { return FolderOf(i) + "/" + std::to_string(i); }

  const RatesOptions& options_;
  const Samples& samples_;
  const std::string folder_;
};

/// The same bytes one behind the other in one file, written as fast as the disk takes them.
class RawSubject final : public Subject {
 public:
  RawSubject(const RatesOptions& options, const Samples& samples, const std::string& folder)
      : Subject("raw"),
        options_(options),
        samples_(samples),
        fd_(::open((folder + "/raw").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    MustSystem(static_cast<bool>(fd_), "creating the raw file");
  }
  void Write() override {
    const std::uint64_t total = options_.objects * options_.length;
    Buffer buffer(kWriteBytes);
    std::uint64_t kicked = 0;
    std::uint64_t awaited = 0;
    for (std::uint64_t at = 0; at < total; at += kWriteBytes) {
      Fill(buffer, at);
      WriteAll(fd_.get(), buffer.view().first(std::min(kWriteBytes, total - at)), at);
      if (at + kWriteBytes < kicked + kWriteBack) continue;
      const std::uint64_t previous = std::exchange(awaited, kicked);
      const std::uint64_t begin = std::exchange(kicked, at + kWriteBytes);
      Kick(begin, kicked, SYNC_FILE_RANGE_WRITE);
      Kick(previous, begin,
           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
  }
  void MakeDurable() override { MustSystem(::fdatasync(fd_.get()) == 0, "syncing"); }
  void Read(const std::vector<std::uint64_t>& order, bool compare) override {
    InThreads(options_.threads, order.size(), [&](std::uint64_t i) {
      Buffer buffer(options_.length);
      ReadAll(fd_.get(), buffer.span(), order[i] * options_.length);
      if (compare) CompareBytes(buffer.view(), samples_, order[i]);
    });
  }

 private:
  /// The bytes from `at` on of all objects in a row.
  void Fill(Buffer& buffer, std::uint64_t at) const {
    for (std::uint64_t done = 0; done < buffer.size();) {
      const std::uint64_t inside = (at + done) % options_.length;
      const std::uint64_t bytes = std::min(options_.length - inside, buffer.size() - done);
      const Buffer& from = *samples_.Bytes((at + done) / options_.length);
      std::memcpy(buffer.data() + done, from.data() + inside, bytes);
      done += bytes;
    }
  }
  void Kick(std::uint64_t from, std::uint64_t to, unsigned flags) const {
    if (to <= from) return;
    MustSystem(::sync_file_range(fd_.get(), static_cast<off64_t>(from),
                                 static_cast<off64_t>(to - from), flags) == 0,
               "writing back");
  }

  const RatesOptions& options_;
  const Samples& samples_;
  const FileDescriptor fd_;
};

struct Timed {
  double seconds = 0;
  double cpu_seconds = 0;
};

Timed Time(const std::function<void()>& step) {
  const double cpu = CpuSeconds();
  const double begin = Seconds();
  step();
  return {Seconds() - begin, CpuSeconds() - cpu};
}

json::object Measure(Subject& subject, const RatesOptions& options, const std::string& folder,
                     unsigned round) {
  const std::vector<std::uint64_t> order = Shuffled(options.objects, round);
  SyncAll(options.folder);
  const Timed taken = Time([&] { subject.Write(); });
  const Timed durable = Time([&] { subject.MakeDurable(); });
  subject.Read(order, round == 0);  // whatever the kernel has dropped is there again
  const Timed warm = Time([&] { subject.Read(order, false); });
  DropPages(folder);
  const Timed cold = Time([&] { subject.Read(order, false); });
  return {{"subject", subject.name()},
          {"round", round},
          {"write_s", taken.seconds},
          {"durable_s", taken.seconds + durable.seconds},
          {"write_cpu_s", taken.cpu_seconds + durable.cpu_seconds},
          {"warm_s", warm.seconds},
          {"warm_cpu_s", warm.cpu_seconds},
          {"cold_s", cold.seconds},
          {"cold_cpu_s", cold.cpu_seconds}};
}

/// CPU seconds for the checksums of all objects, their bytes as fresh in the caches as after a
/// copy.
double ChecksumSeconds(const Samples& samples, std::uint64_t objects) {
  Buffer copy(samples.length());
  std::uint64_t sum = 0;
  const auto pass = [&](bool hash) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      std::memcpy(copy.data(), samples.Bytes(i)->data(), copy.size());
      sum += std::to_integer<std::uint64_t>(copy.view().back());
      for (std::size_t at = 0; hash && at < copy.size(); at += kCellBytes)
        sum += CellChecksum(copy.data() + at, std::min<std::size_t>(kCellBytes, copy.size() - at));
    }
  };
  const double copied = Time([&] { pass(false); }).cpu_seconds;
  const double hashed = Time([&] { pass(true); }).cpu_seconds;
  if (sum == 0) Die("checksums are not taken");
  return std::max(0.0, hashed - copied);
}

}  // namespace

json::value Rates(const RatesOptions& options) {
  const Samples samples(options.length);
  constexpr std::array kSubjects = {0, 1, 2};
  json::array runs;
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (unsigned turn = 0; turn < kSubjects.size(); ++turn) {
      const std::string folder = options.folder + "/subject";
      std::filesystem::create_directory(folder);
      std::unique_ptr<Subject> subject;
      const unsigned which = (round + turn) % kSubjects.size();
      if (which == 0) subject = std::make_unique<StoreSubject>(options, samples, folder);
      if (which == 1) subject = std::make_unique<FilesSubject>(options, samples, folder);
      if (which == 2) subject = std::make_unique<RawSubject>(options, samples, folder);
      runs.push_back(Measure(*subject, options, folder, round));
      subject = nullptr;
      Remove(folder);
    }
  }
  return json::object{{"length", options.length},
                      {"objects", options.objects},
                      {"threads", options.threads},
                      {"checksum_cpu_s", ChecksumSeconds(samples, options.objects)},
                      {"runs", std::move(runs)}};
}

json::value Checksums(std::uint32_t length, std::uint64_t objects) {
  const Samples samples(length);
  return json::object{{"bytes", length * objects}, {"cpu_s", ChecksumSeconds(samples, objects)}};
}

}  // namespace forebay::store_bench
