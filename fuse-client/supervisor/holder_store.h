#pragma once

#include <chrono>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/descriptor_store.h"
#include "fuse-client/supervisor/handover.h"

namespace forebay {

/// A supervisor's end of the line to a Holder, which keeps the descriptors of its mount as long as
/// it lives itself. The open line says that the mount is served.
class HolderStore final : public DescriptorStore {
 public:
  /// For a holder to listen: of two containers that start at once either may be the first.
  static constexpr Duration kListensWithin = std::chrono::seconds(5);

  /// For its answer while the mount is served: the supervisor does nothing else meanwhile, and asks
  /// no more until it comes.
  static constexpr Duration kAnswersWithin = std::chrono::milliseconds(500);

  /// `mount` is the mount point. kInvalid: nobody listens at `path`. kUnavailable: who listens does
  /// not answer. kDenied: another user listens, or the holder refuses, and says why.
  static Result<std::unique_ptr<HolderStore>> Open(const std::string& path,
                                                   const std::string& mount,
                                                   Duration patience = kListensWithin);

  std::map<std::string, OwnedFd> TakeBack() override;
  Status Put(const std::string& name, int fd) override;
  void Remove(const std::string& name) override;
  bool IsThere() override;
  int fd() const override { return channel_ && !silent_ ? channel_->fd() : -1; }
  Status FindAgain() override;
  void Leave() override;

 private:
  HolderStore(std::string path, std::string mount)
      : path_(std::move(path)), mount_(std::move(mount)) {}

  Status Find(Duration patience);
  std::unexpected<Error> Silent() const;
  bool HasSomethingToRead() const;

  const std::string path_;
  const std::string mount_;
  std::optional<HandoverChannel> channel_;  // nothing: the holder has gone
  bool silent_ = false;                     // it owes an answer that did not come in time
  std::map<std::string, OwnedFd> came_;     // until they are taken
};

}  // namespace forebay
