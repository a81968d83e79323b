// Works on a store until it is killed, or its power goes: four threads, each with a link of its
// own, admit, read, evict and pin; the store evicts what has no room. A fifth writes parts of the
// files back, as a kernel does at times of its own choice.
//   disk_load DIRECTORY MEGABYTES FACTS SEED FIRST-BLOCK BLOCKS PAUSE-US
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/fault/disk_facts.h"

namespace forebay {
namespace {

class FactsFile {
 public:
  explicit FactsFile(const char* path)
      : fd_(::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) {}
  ~FactsFile() { ::close(fd_); }
  FactsFile(const FactsFile&) = delete;
  FactsFile& operator=(const FactsFile&) = delete;

  void Say(char what, std::uint64_t number) { Say(std::string(1, what), std::to_string(number)); }
  void Say(const std::string& what, const std::string& text) {
    const std::string line = what + " " + text + "\n";
    if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(2);
  }

 private:
  const int fd_;
};

struct Arguments {
  std::string directory;
  std::uint64_t megabytes;
  unsigned seed;
  std::uint64_t first;
  std::uint64_t blocks;
  std::chrono::microseconds pause;
};

class Load {
 public:
  Load(Arguments arguments, const char* facts)
      : arguments_(std::move(arguments)), facts_(facts), store_(Options()) {}

  int Run() {
    if (!store_.open()) {
      facts_.Say("!", store_.error().message);
      return 3;
    }
    std::atomic<bool> ended{false};
    {
      std::vector<std::jthread> threads;
      threads.reserve(kLinks);
      std::jthread kernel([this, &ended] { WriteBack(ended); });
      for (std::uint64_t link = 0; link < kLinks; ++link) {
        threads.emplace_back([this, link] { WorkOn(link); });
      }
      threads.clear();
      ended = true;
    }
    const Status closed = store_->Close();
    if (!closed) facts_.Say("!", closed.error().message);
    return closed ? 0 : 5;
  }

 private:
  BlockStoreOptions Options() {
    BlockStoreOptions options = CrashOptions(arguments_.directory, arguments_.megabytes);
    options.on_loss = [this](const BlockId& block, BlockLoss) {
      facts_.Say('-', block.version.high);
    };
    return options;
  }

  /// The number of the link's newest segment.
  std::string Newest(std::uint64_t link) const {
    std::string newest;
    std::error_code error;
    for (std::filesystem::directory_iterator
             file(arguments_.directory + "/segments/" + LinkOf(link).ToString(), error),
         end;
         !error && file != end; file.increment(error)) {
      newest = std::max(newest, file->path().filename().string());
    }
    return newest;
  }

  void WorkOn(std::uint64_t link) {
    std::mt19937_64 random(arguments_.seed * kLinks + link);
    std::string newest = Newest(link);
    bool first = true;
    const std::uint64_t begin = arguments_.first / kLinks * kLinks + link;
    for (std::uint64_t n = begin; n < begin + arguments_.blocks * kLinks; n += kLinks) {
      const Status admitted = store_.Admit(LinkOf(n), SampleBlock(n));
      if (!admitted && admitted.error().code != Code::kOverloaded) {
        facts_.Say("!", admitted.error().message);
        std::_Exit(4);
      }
      // Another segment: the one before, of this run, was made durable when it was full.
      if (const std::string now = Newest(link); admitted && now != newest) {
        if (!std::exchange(first, false)) facts_.Say('=', n);
        newest = now;
      }
      if (admitted) facts_.Say('+', n);
      const std::uint64_t old = n - std::min(n - link, random() % 400 * kLinks);
      if (random() % 2 == 0) CheckRead(old);
      if (random() % 6 == 0) Evict(old, random() % 3 + 1);
      if (random() % 40 == 0) Pin(n);
      std::this_thread::sleep_for(arguments_.pause);
    }
  }

  void CheckRead(std::uint64_t number) {
    const BlockId block = SampleBlock(number);
    const Result<Cells> cells = store_.Read(block, {0, block.length});
    if (!cells) return;
    const auto right = BytesOf(block);
    if (cells->bytes.bytes.size() != right->size() ||
        std::memcmp(cells->bytes.bytes.data(), right->data(), right->size()) != 0) {
      facts_.Say("!", "wrong bytes of " + block.ToString());
      std::_Exit(6);
    }
  }

  void Evict(std::uint64_t number, std::uint64_t count) {
    std::vector<BlockId> blocks;
    for (std::uint64_t i = 0; i < count && number >= i * kLinks; ++i) {
      facts_.Say('-', number - i * kLinks);
      blocks.push_back(SampleBlock(number - i * kLinks));
    }
    if (const auto evicted = store_.Evict(std::move(blocks)); !evicted) {
      facts_.Say("!", evicted.error().message);
      std::_Exit(7);
    }
  }

  void Pin(std::uint64_t number) {
    std::vector<BlockId> pinned;
    for (const std::uint64_t one : PinsAt(number)) pinned.push_back(SampleBlock(one));
    if (const Status taken = store_.TakePins(LinkOf(number), number + 1, pinned); !taken) {
      facts_.Say("!", taken.error().message);
      std::_Exit(8);
    }
    facts_.Say('p', number);
  }

  /// Some pages of some file, in no order: only what was synced may be counted on.
  void WriteBack(const std::atomic<bool>& ended) {
    std::mt19937_64 random(arguments_.seed + 99);
    while (!ended) {
      std::vector<std::string> files;
      std::error_code error;
      for (std::filesystem::recursive_directory_iterator file(arguments_.directory, error), end;
           !error && file != end; file.increment(error)) {
        if (file->is_regular_file(error)) files.push_back(file->path());
      }
      if (!files.empty()) WriteBackOf(files[random() % files.size()], random());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  static void WriteBackOf(const std::string& path, std::uint64_t random) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const off64_t size = std::max<off64_t>(::lseek(fd, 0, SEEK_END), 1);
    const off64_t from = static_cast<off64_t>(random % static_cast<std::uint64_t>(size));
    ::sync_file_range(fd, from, static_cast<off64_t>(random >> 44), SYNC_FILE_RANGE_WRITE);
    ::close(fd);
  }

  const Arguments arguments_;
  FactsFile facts_;
  TestStore store_;
};

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  if (argc != 8) return 1;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it has no end of its own
  forebay::Load load({.directory = argv[1],
                      .megabytes = std::stoull(argv[2]),
                      .seed = static_cast<unsigned>(std::stoul(argv[4])),
                      .first = std::stoull(argv[5]),
                      .blocks = std::stoull(argv[6]),
                      .pause = std::chrono::microseconds(std::stoull(argv[7]))},
                     argv[3]);
  return load.Run();
}
