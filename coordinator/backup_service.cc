#include "coordinator/backup_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/wall_clock.h"
#include "common/wire/messages.h"
#include "coordinator/state_backup.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// Fits into a data frame.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
/// So many are being fetched at once, each for so long after its last piece.
constexpr std::size_t kMostAtOnce = 4;
constexpr std::chrono::seconds kForgetAfter{60};

}  // namespace

std::vector<MethodEntry> BackupService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back({Method::kBackup, [this](RpcCall call) { return Backup(std::move(call)); }});
  methods.push_back({Method::kRestore, [this](RpcCall call) { return Restore(std::move(call)); }});
  return methods;
}

Task<Result<std::uint64_t>> BackupService::Take() {
  const TimePoint now = Clock::now();
  std::erase_if(taken_, [now](const auto& row) { return now - row.second.asked > kForgetAfter; });
  if (taken_.size() >= kMostAtOnce) {
    co_return Fail(Code::kOverloaded, "other backups are being taken: ask again in a minute");
  }
  auto make = [this]() -> Result<std::shared_ptr<const Buffer>> {
    Result<std::string> bytes = MakeBackup(parts_.store, parts_.fence, UnixSeconds());
    if (!bytes) return Fail(bytes.error());
    auto buffer = std::make_shared<Buffer>(bytes->size());
    std::memcpy(buffer->data(), bytes->data(), bytes->size());
    return buffer;
  };
  Result<std::shared_ptr<const Buffer>> made = co_await parts_.offload.Run(std::move(make));
  if (!made) co_return Fail(made.error());
  const std::uint64_t number = next_++;
  taken_.emplace(number, Taken{.bytes = std::move(*made), .asked = now});
  co_return number;
}

Task<Result<RpcReply>> BackupService::Backup(RpcCall call) {
  proto::BackupRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  std::uint64_t number = request.number();
  if (number == 0) {
    Result<std::uint64_t> taken = co_await Take();
    if (!taken) co_return Fail(taken.error());
    number = *taken;
  }
  const auto found = taken_.find(number);
  if (found == taken_.end()) {
    co_return Fail(Code::kNotFound, "this backup is not kept any more: take another one");
  }
  found->second.asked = Clock::now();
  const Slice whole = Slice::Of(found->second.bytes);
  const std::size_t total = whole.bytes.size();
  const std::size_t offset = std::min<std::size_t>(request.offset(), total);
  const Slice piece = whole.Sub(offset, std::min(kPieceBytes, total - offset));
  if (offset + piece.bytes.size() == total) taken_.erase(found);
  proto::BackupReply reply;
  reply.set_number(number);
  reply.set_total(total);
  co_return ReplyWith(reply, piece);
}

Task<Result<RpcReply>> BackupService::Restore(RpcCall call) {
  proto::RestoreRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  auto restore = [this, upload = request.upload()]() -> Result<RestoredBackup> {
    Result<NameUploads::File> file = parts_.uploads.Complete(upload);
    if (!file) return Fail(file.error());
    const std::string path = parts_.uploads.PathOf(file->name);
    Result<std::string> bytes = ReadWholeFile(path);
    // It holds secrets.
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    parts_.uploads.EndUpload(upload);
    if (!bytes) return Fail(bytes.error());
    return RestoreBackup(parts_.store, *bytes, parts_.certificates, UnixSeconds());
  };
  Result<RestoredBackup> restored = co_await parts_.offload.Run(std::move(restore));
  if (!restored) {
    const Code code = restored.error().code;
    // This coordinator's claim may be over; the next one finds what there is.
    if (code != Code::kInvalid && code != Code::kNotFound) parts_.restored();
    co_return Fail(restored.error());
  }
  spdlog::warn(
      "the state is restored from a backup ({} links) that was taken {} s ago: what has changed "
      "since then is lost; the fencing epoch is {} now, and this coordinator begins again",
      restored->links, UnixSeconds() - restored->taken_unix_s, restored->fence);
  parts_.restored();
  proto::RestoreReply reply;
  reply.set_cluster(BytesOf(restored->cluster));
  reply.set_taken_unix_s(restored->taken_unix_s);
  reply.set_links(restored->links);
  reply.set_fence(restored->fence);
  co_return ReplyWith(reply);
}

}  // namespace forebay
