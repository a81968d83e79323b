#include "fuse-client/order/kept_orders.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "common/model/block_id.h"

namespace forebay {
namespace {

// Behind the order's own key, which ends with a slash.
constexpr std::string_view kPosition = "position";

std::string KeyOf(std::uint32_t connection, const std::string& job) {
  return ConnectionKey(connection) +
         fmt::format("{}{:016x}/", kOrderKeys, CellChecksum(job.data(), job.size()));
}

std::size_t BytesOf(const std::vector<std::uint64_t>& nodeids) {
  return nodeids.size() * sizeof(std::uint64_t);
}

/// The numbers as this machine has them: only a successor on it reads them.
OwnedFd FileOf(const std::vector<std::uint64_t>& nodeids) {
  OwnedFd file(::memfd_create("forebay-order", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(BytesOf(nodeids))) != 0) return {};
  void* const memory =
      ::mmap(nullptr, BytesOf(nodeids), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return {};
  std::memcpy(memory, nodeids.data(), BytesOf(nodeids));
  ::munmap(memory, BytesOf(nodeids));
  return file;
}

}  // namespace

void KeepOrder(const Keeper& keeper, std::uint32_t connection, const std::string& job,
               const std::vector<std::uint64_t>& nodeids) {
  DropOrder(keeper, connection, job);
  if (!keeper.supervised() || nodeids.empty()) return;
  const OwnedFd file = FileOf(nodeids);
  if (!file) {
    spdlog::warn("what job {} announces is lost when this process ends: {}", job,
                 std::generic_category().message(errno));
    return;
  }
  keeper.Keep(KeyOf(connection, job), job, file.get());
}

void KeepOrderPosition(const Keeper& keeper, std::uint32_t connection, const std::string& job,
                       std::size_t position) {
  keeper.Keep(KeyOf(connection, job).append(kPosition), std::to_string(position));
}

void DropOrder(const Keeper& keeper, std::uint32_t connection, const std::string& job) {
  keeper.Drop(KeyOf(connection, job));
}

void TakeKeptOrder(std::string_view name, const Kept& kept, std::vector<KeptOrder>& orders) {
  if (name.ends_with(kPosition)) {
    if (orders.empty()) return;
    std::from_chars(kept.value.data(), kept.value.data() + kept.value.size(),
                    orders.back().position);
    return;
  }
  KeptOrder order{.job = kept.value, .position = 0, .nodeids = {}};
  struct stat file{};
  if (::fstat(kept.fd.get(), &file) != 0 || file.st_size <= 0) return;
  order.nodeids.resize(static_cast<std::size_t>(file.st_size) / sizeof(std::uint64_t));
  void* const memory =
      ::mmap(nullptr, BytesOf(order.nodeids), PROT_READ, MAP_SHARED, kept.fd.get(), 0);
  if (memory == MAP_FAILED) {
    spdlog::warn("what job {} had announced is lost: {}", order.job,
                 std::generic_category().message(errno));
    return;
  }
  std::memcpy(order.nodeids.data(), memory, BytesOf(order.nodeids));
  ::munmap(memory, BytesOf(order.nodeids));
  orders.push_back(std::move(order));
}

}  // namespace forebay
