#include "fuse-client/fuse_offer.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuse-client/fuse_kernel.h"

namespace forebay {
namespace {

struct Feature {
  std::string_view name;
  std::uint64_t flag;
};
constexpr std::array<Feature, 10> kFeatures = {{
    {"async_read", FUSE_ASYNC_READ},
    {"parallel_dirops", FUSE_PARALLEL_DIROPS},
    {"readdirplus", FUSE_DO_READDIRPLUS},
    {"no_open", FUSE_NO_OPEN_SUPPORT},
    {"no_opendir", FUSE_NO_OPENDIR_SUPPORT},
    {"explicit_inval_data", FUSE_EXPLICIT_INVAL_DATA},
    {"max_pages", FUSE_MAX_PAGES},
    {"direct_io_allow_mmap", kFuseDirectIoAllowMmap},
    {"resend", kFuseHasResend},
    {"cache_dir", 0},  // no flag: the answer to OPENDIR has it
}};

/// Calls `call` with each name.
template <typename Call>
void EachLacking(const Call& call) {
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing in this program changes the environment
  if (::secure_getenv("FOREBAY_NO_RESEND") != nullptr) call(std::string_view("resend"));
  const char* const names = ::secure_getenv("FOREBAY_KERNEL_LACKS");
  // NOLINTEND(concurrency-mt-unsafe)
  std::string_view left = names == nullptr ? "" : names;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(','), left.size());
    if (end > 0) call(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

}  // namespace

std::uint64_t LackingFlags() {
  std::uint64_t flags = 0;
  EachLacking([&flags](std::string_view name) {
    const auto* const found = std::ranges::find(kFeatures, name, &Feature::name);
    if (found == kFeatures.end()) {
      spdlog::warn("FOREBAY_KERNEL_LACKS: \"{}\" is no feature of a kernel", name);
    } else {
      flags |= found->flag;
    }
  });
  return flags;
}

bool LacksFeature(std::string_view name) {
  bool lacks = false;
  EachLacking([&](std::string_view lacking) { lacks = lacks || lacking == name; });
  return lacks;
}

bool KnowsCachestat() {
  return ::syscall(kCachestat, -1, nullptr, nullptr, 0) != 0 && errno == EBADF;
}

void TakeOffOffer(std::span<std::byte> first_message, std::uint64_t flags) {
  if (flags == 0 || first_message.size() < sizeof(fuse_in_header)) return;
  const std::span<std::byte> offer = first_message.subspan(sizeof(fuse_in_header));
  fuse_init_in init{};
  const std::size_t size = std::min(sizeof init, offer.size());
  std::memcpy(&init, offer.data(), size);
  init.flags &= ~static_cast<std::uint32_t>(flags);
  init.flags2 &= ~static_cast<std::uint32_t>(flags >> 32);
  std::memcpy(offer.data(), &init, size);
}

}  // namespace forebay
