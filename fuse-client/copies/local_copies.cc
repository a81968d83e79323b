#include "fuse-client/copies/local_copies.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

namespace forebay {

Result<std::unique_ptr<LocalCopies>> LocalCopies::Open(Options options) {
  Result<std::unique_ptr<CopyStore>> store = CopyStore::Open(std::move(options.store));
  if (!store) return Fail(store.error());
  return std::unique_ptr<LocalCopies>(new LocalCopies(std::move(*store), options.scrub));
}

std::unique_ptr<LocalCopies> LocalCopies::OpenFor(const MountConfig& config) {
  if (config.local_copy.folder.empty()) return nullptr;
  Options options;
  options.store.folder = config.local_copy.folder;
  options.store.limit = config.local_copy.bytes;
  options.store.boot = CopyStore::ThisBoot();
  options.scrub.bytes_per_second = config.local_copy_scrub_rate;
  Result<std::unique_ptr<LocalCopies>> copies = Open(std::move(options));
  if (copies) return std::move(*copies);
  spdlog::warn("files are read without local copies: {}", copies.error().message);
  return nullptr;
}

LocalCopies::~LocalCopies() { EndCopying(); }

void LocalCopies::StartScrubbing() {
  std::call_once(scrubs_, [this] { scrubber_.emplace(*store_, scrub_); });
}

void LocalCopies::StartCopying(std::unique_ptr<ClientPool> pool) {
  pool_ = std::move(pool);
  thread_.Start();
  started_ = true;
}

void LocalCopies::CloseConnections() {
  if (!started_) return;
  std::promise<void> closed;
  asio::post(context(), [&] {
    pool_->Close();
    closed.set_value();
  });
  closed.get_future().get();
}

}  // namespace forebay
