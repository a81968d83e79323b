// Reads a whole file as loaders with io_uring(7) do: many reads under way at once, in random order,
// and writes it to standard output. By the system calls themselves, since not every machine has
// liburing.
//
//   uring_reader FILE [direct]
//
// Exit code 77, with a line on standard error: this kernel has no io_uring, or forbids it.

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string_view>

namespace {

constexpr unsigned kDepth = 32;
constexpr std::size_t kPiece = 256UL * 1024;
constexpr std::size_t kAlignment = 4096;  // of O_DIRECT
constexpr int kNoIoUring = 77;

[[noreturn]] void Fail(const char* what, int number, int code = 1) {
  std::fprintf(stderr, "uring_reader: %s: %s\n", what, strerrordesc_np(number));
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

/// A part of the file that is still to be read.
struct Piece {
  std::uint64_t offset;
  std::size_t size;
};

/// The two rings that are shared with the kernel, io_uring(7).
class Ring {
 public:
  Ring() {
    io_uring_params params{};
    fd_ = static_cast<int>(::syscall(__NR_io_uring_setup, kDepth, &params));
    if (fd_ < 0) Fail("io_uring_setup", errno, kNoIoUring);
    submissions_ =
        Map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    completions_ =
        Map(params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries_ = reinterpret_cast<io_uring_sqe*>(
        Map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    params_ = params;
  }

  void Read(int file, std::byte* to, std::uint64_t piece, std::uint64_t offset, std::size_t size) {
    unsigned& tail = At(submissions_, params_.sq_off.tail);
    const unsigned slot = tail & At(submissions_, params_.sq_off.ring_mask);
    io_uring_sqe& entry = entries_[slot];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = file;
    entry.addr = reinterpret_cast<std::uint64_t>(to);
    entry.len = static_cast<std::uint32_t>(size);
    entry.off = offset;
    entry.user_data = piece;
    (&At(submissions_, params_.sq_off.array))[slot] = slot;
    std::atomic_ref<unsigned>(tail).store(tail + 1, std::memory_order_release);
    ++queued_;
  }

  /// Waits for one at least, and calls `done` with the number and the result of each that is there.
  template <typename Done>
  void Wait(const Done& done) {
    const long taken =
        ::syscall(__NR_io_uring_enter, fd_, queued_, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    if (taken < 0 && errno != EINTR) Fail("io_uring_enter", errno);
    if (taken > 0) queued_ -= static_cast<unsigned>(taken);
    std::atomic_ref<unsigned> head(At(completions_, params_.cq_off.head));
    const std::atomic_ref<unsigned> tail(At(completions_, params_.cq_off.tail));
    const auto* entries = reinterpret_cast<io_uring_cqe*>(completions_ + params_.cq_off.cqes);
    const unsigned mask = At(completions_, params_.cq_off.ring_mask);
    while (head.load(std::memory_order_relaxed) != tail.load(std::memory_order_acquire)) {
      const io_uring_cqe entry = entries[head.load(std::memory_order_relaxed) & mask];
      head.fetch_add(1, std::memory_order_release);
      done(entry.user_data, entry.res);
    }
  }

 private:
  std::byte* Map(std::size_t size, std::uint64_t what) const {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                fd_, static_cast<off_t>(what));
    if (memory == MAP_FAILED) Fail("mmap of a ring", errno);
    return static_cast<std::byte*>(memory);
  }
  static unsigned& At(std::byte* ring, unsigned offset) {
    return *reinterpret_cast<unsigned*>(ring + offset);
  }

  int fd_ = -1;
  io_uring_params params_{};
  std::byte* submissions_ = nullptr;
  std::byte* completions_ = nullptr;
  io_uring_sqe* entries_ = nullptr;
  unsigned queued_ = 0;
};

std::deque<Piece> ShuffledPieces(std::uint64_t size) {
  std::deque<Piece> pieces;
  for (std::uint64_t at = 0; at < size; at += kPiece) pieces.push_back({at, kPiece});
  std::ranges::shuffle(pieces, std::minstd_rand(1));
  return pieces;
}

void ReadAll(int file, std::byte* bytes, std::uint64_t size) {
  Ring ring;
  std::deque<Piece> waiting = ShuffledPieces(size);
  unsigned under_way = 0;
  while (!waiting.empty() || under_way > 0) {
    for (; !waiting.empty() && under_way < kDepth; ++under_way) {
      const Piece piece = waiting.front();
      waiting.pop_front();
      ring.Read(file, bytes + piece.offset, piece.offset, piece.offset, piece.size);
    }
    ring.Wait([&](std::uint64_t offset, int result) {
      --under_way;
      if (result < 0) Fail("a read", -result);
      const std::uint64_t wanted = std::min<std::uint64_t>(kPiece, size - offset);
      // Only the end of the file may cut a read short.
      if (static_cast<std::uint64_t>(result) != wanted) Fail("a read was short", ENODATA);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool direct = argc == 3 && std::string_view(argv[2]) == "direct";
  if (argc != 2 && !direct) {
    std::fputs("usage: uring_reader FILE [direct]\n", stderr);
    return 2;
  }
  const int file = ::open(argv[1], O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
  struct stat facts{};
  if (file < 0 || ::fstat(file, &facts) != 0) Fail(argv[1], errno);
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  // Whole pieces, so that reads of O_DIRECT end on its boundaries.
  const std::size_t room = (size / kPiece + 1) * kPiece;
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::unique_ptr<std::byte, Free> bytes(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  if (!bytes) Fail("memory", ENOMEM);
  ReadAll(file, bytes.get(), size);
  return std::fwrite(bytes.get(), 1, size, stdout) == size ? 0 : 1;
}
