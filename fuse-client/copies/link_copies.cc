#include "fuse-client/copies/link_copies.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/object.hpp>
#include <future>
#include <sstream>
#include <utility>

namespace forebay {

namespace {

struct NamedCount {
  const char* name;
  std::atomic<std::uint64_t> CopyCounts::* count;
};
constexpr std::array<NamedCount, 6> kCounts = {{
    {"opens", &CopyCounts::opens},
    {"files_copied", &CopyCounts::files},
    {"bytes_copied", &CopyCounts::bytes},
    {"files_without_room", &CopyCounts::without_room},
    {"files_failed", &CopyCounts::failed},
    {"damaged", &CopyCounts::damaged},
}};

OpenedFiles::Kernel KernelOf(FuseSession& session) {
  return {.open_backing = [&session](int fd) { return session.OpenBacking(fd); },
          .close_backing = [&session](std::int32_t backing) { session.CloseBacking(backing); }};
}

}  // namespace

LinkCopies::LinkCopies(Parts parts, const std::vector<KeptOpen>& opened, std::string_view saved)
    : parts_(parts), opened_(KernelOf(parts.session), parts.keeper, parts.connection) {
  opened_.Restore(opened);
  std::istringstream numbers{std::string(saved)};
  for (const NamedCount& count : kCounts) {
    std::uint64_t number = 0;
    if (numbers >> number) (*counts_).*count.count = number;
  }
}

LinkCopies::~LinkCopies() {
  if (parts_.local != nullptr) parts_.local->store().Detach(this);
}

Status LinkCopies::TryKernel() {
  if (parts_.local == nullptr) return Fail(Code::kInternal, "their folder cannot be used");
  if (!parts_.session.Passthrough()) {
    return Fail(Code::kInternal, "this kernel has no FUSE passthrough (Linux 6.9 and later do)");
  }
  const OwnedFd file = parts_.local->store().Probe();
  const Result<std::int32_t> tried = parts_.session.OpenBacking(file.get());
  if (!tried) return Fail(tried.error());
  parts_.session.CloseBacking(*tried);
  return {};
}

void LinkCopies::Begin(BlockClient::Parts nodes, BlockClientOptions options) {
  const Status usable = TryKernel();
  if (!usable) {
    reason_ = usable.error().message;
    spdlog::warn("files are read without local copies: {}", reason_);
    return;
  }
  blocks_ = std::make_unique<BlockClient>(nodes, std::move(options));
  copier_ = std::make_unique<FileCopier>(
      FileCopier::Parts{.context = parts_.local->context(),
                        .store = parts_.local->store(),
                        .source = *blocks_,
                        .memory = parts_.memory,
                        .counts = counts_,
                        .link = parts_.link,
                        .block_bytes = parts_.block_bytes,
                        .demand = [this] { return parts_.stats.Sum().OpTotal(FuseOp::kRead); }});
  CopyStore::Listener listener;
  listener.is_shown = [this](std::uint64_t nodeid, const ObjectVersion& version) {
    return IsShown(nodeid, version);
  };
  listener.damaged = [this](std::uint64_t nodeid, const Error& error) {
    ++counts_->damaged;
    opened_.MarkDamaged(nodeid);
    parts_.errors.Add(parts_.files.PathOf(nodeid), error.Within("local copy"));
  };
  parts_.local->store().Attach(this, parts_.link, std::move(listener));
  parts_.local->StartScrubbing();
  active_.store(true, std::memory_order_release);
}

bool LinkCopies::IsShown(std::uint64_t nodeid, const ObjectVersion& version) const {
  const Result<FileSystem::Content> content = parts_.files.ContentOf(nodeid);
  return content && !content->bytes && content->version == version;
}

Result<LinkCopies::Opened> LinkCopies::Open(std::uint64_t nodeid, std::uint64_t request) {
  Result<FileSystem::Content> content = parts_.files.ContentOf(nodeid);
  // A control file, or one that nobody knows any more: its reads say so.
  if (!content || content->bytes) return Opened{};
  const bool active = active_.load(std::memory_order_acquire);
  const auto find = [&]() -> Result<OwnedFd> {
    if (!active) return Fail(Code::kNotFound, "no copies");
    Result<OwnedFd> copy = parts_.local->store().Find({parts_.link, content->version});
    if (!copy && copy.error().code == Code::kNotFound) {
      copier_->Want({nodeid, content->version, content->object});
    }
    return copy;
  };
  const Result<std::int32_t> backing = opened_.Open(nodeid, request, find);
  if (!backing) {
    parts_.errors.Add(parts_.files.PathOf(nodeid), backing.error());
    return Fail(backing.error());
  }
  if (*backing != 0) ++counts_->opens;
  return Opened{.handle = request, .backing = *backing};
}

void LinkCopies::Follow() {
  if (active_) parts_.local->store().RemoveUnshown(parts_.link);
}

void LinkCopies::BeginStop() {
  if (!active_ || stopping_.exchange(true)) return;
  copier_->Stop();
  asio::post(parts_.local->context(), [blocks = blocks_.get()] { blocks->Stop(); });
}

// Asked on the copier's thread: behind what BeginStop has posted there. A process that leaves its
// mount to a successor waits for no copy.
bool LinkCopies::Idle() const {
  if (!active_ || !stopping_) return true;
  std::promise<bool> idle;
  asio::post(parts_.local->context(),
             [&] { idle.set_value(copier_->in_flight() == 0 && blocks_->in_flight() == 0); });
  return idle.get_future().get();
}

boost::json::value LinkCopies::Config() const {
  const bool active = active_.load(std::memory_order_acquire);
  boost::json::object out;
  out["active"] = active;
  out["folder"] = parts_.local == nullptr ? boost::json::value()
                                          : boost::json::value(parts_.local->store().folder());
  return out;
}

boost::json::value LinkCopies::Stats() const {
  boost::json::object out;
  for (const NamedCount& count : kCounts) out[count.name] = ((*counts_).*count.count).load();
  out["open_now"] = opened_.by_passthrough();
  if (parts_.local != nullptr) {
    const CopyStore::Totals totals = parts_.local->store().totals();
    out["folder"] = {{"copies", totals.copies},
                     {"bytes", totals.bytes},
                     {"unverified", totals.unverified},
                     {"verified_bytes", totals.verified_bytes},
                     {"full", totals.full}};
  }
  return out;
}

std::string LinkCopies::Save() const {
  std::string out;
  for (const NamedCount& count : kCounts) {
    out += fmt::format("{} ", ((*counts_).*count.count).load());
  }
  return out;
}

}  // namespace forebay
