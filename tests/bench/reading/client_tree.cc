#include "tests/bench/reading/client_tree.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include "common/base/files.h"
#include "common/base/machine_id.h"
#include "fuse-client/block_client.h"
#include "fuse-client/control_call.h"
#include "fuse-client/file_reader.h"
#include "fuse-client/job_finder.h"
#include "fuse-client/link_sizes.h"

namespace forebay::bench {

namespace {

/// For the namespace and the ring; the mount's own default is the same order.
constexpr Duration kPatience = std::chrono::seconds(60);
constexpr Duration kCallTimeout = std::chrono::seconds(3);
/// For what is under way when a reader has all its files: blocks asked for ahead.
constexpr std::chrono::seconds kEnding{2};
/// As a mount's (--memory-limit), and what it keeps of that for places in nodes' files.
constexpr std::size_t kMemory = 512UL << 20;
constexpr std::size_t kPlaceMemory = kMemory / 8;

}  // namespace

class ClientTree::Reader final : public TreeReader {
 public:
  explicit Reader(ClientTree& tree)
      : tree_(tree),
        pool_(tree.NewPool(context_)),
        blocks_({context_, *pool_, tree.ring_, *tree.refresher_, tree.health_, tree.pace_, stats_,
                 tree.options_.local_reads == LocalReadsFrom::kFiles ? &tree.segments_ : nullptr},
                BlockClientOptions{.host_id = tree.host_id_, .pauses = {}}),
        jobs_(tree.jobs_, JobFrom::kMount),
        reader_({*tree.files_, blocks_, blocks_, tree.streams_, tree.errors_, stats_, jobs_,
                 tree.jobs_.answers(), tree.memory_, tree.orders_},
                {.link = tree.found_.snapshot->id().link,
                 .block_bytes = tree.found_.snapshot->block_bytes()}) {}

  ~Reader() override {
    blocks_.Stop();
    pool_->Close();
    const TimePoint until = Clock::now() + kEnding;
    while ((blocks_.in_flight() > 0 || reader_.asking() > 0) && Clock::now() < until) {
      context_.run_one_for(std::chrono::milliseconds(20));
    }
  }

  Failure ReadWhole(std::size_t path, const Take& take) override {
    return Read(tree_.list_.at(path), 0, tree_.list_.at(path).size, take);
  }
  Failure ReadPiece(const Piece& piece, const Take& take) override {
    return Read(tree_.list_.at(piece.path), piece.offset, piece.length, take);
  }

 private:
  Failure Read(const File& file, std::uint64_t offset, std::uint64_t length, const Take& take) {
    for (std::uint64_t done = 0; done < length;) {
      const std::size_t wanted = std::min<std::uint64_t>(kReadBytes, length - done);
      const Result<std::vector<Slice>> slices =
          Wait(reader_.Read(file.nodeid, offset + done, wanted, ::gettid()));
      if (!slices) return file.path + ": " + slices.error().message;
      std::uint64_t got = 0;
      for (const Slice& slice : *slices) {
        take(slice.bytes);
        got += slice.bytes.size();
      }
      if (got != wanted) return file.path + ": the file ends too early";
      done += got;
    }
    return {};
  }

  Result<std::vector<Slice>> Wait(Task<Result<std::vector<Slice>>> task) {
    std::optional<Result<std::vector<Slice>>> result;
    asio::co_spawn(context_, std::move(task),
                   [&](std::exception_ptr failed, Result<std::vector<Slice>> value) {
                     if (failed) std::rethrow_exception(failed);
                     result.emplace(std::move(value));
                   });
    while (!result) context_.run_one();
    return *std::move(result);
  }

  ClientTree& tree_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::unique_ptr<ClientPool> pool_;
  WorkerStats stats_;
  BlockClient blocks_;
  JobFinder jobs_;
  FileReader reader_;
};

ClientTree::ClientTree(const ClientOptions& options)
    : options_(options),
      host_id_(options.local_reads == LocalReadsFrom::kNetwork ? "" : MachineId()),
      control_("read-ctl", 1),
      offload_(1, 16),
      memory_(kMemory),
      segments_(PassedSegments::UsualLimit(), kPlaceMemory),
      jobs_("read_blocks") {}

ClientTree::~ClientTree() {
  if (pool_) {
    std::promise<void> closed;
    asio::post(control_.At(0), [&] {
      pool_->Close();
      closed.set_value();
    });
    closed.get_future().get();
  }
  control_.Stop();
  offload_.Stop();
}

std::unique_ptr<ClientPool> ClientTree::NewPool(asio::io_context& context) {
  ClientPoolOptions options;
  options.credentials = credentials_;
  return std::make_unique<ClientPool>(
      context, std::move(options), [this] { return ring_.epoch(); },
      [this](std::uint64_t epoch) { refresher_->Notice(epoch); });
}

Status ClientTree::MakeCredentials() {
  Result<Secret> secret = LoadOrCreateSecret();
  if (!secret) return Fail(secret.error());
  Result<std::shared_ptr<Trust>> trust =
      Trust::Open(TrustFolder(options_.trust_dir), proto::ROLE_CLIENT);
  if (!trust) return Fail(trust.error());
  credentials_.trust = *trust;
  credentials_.role = proto::ROLE_CLIENT;
  credentials_.id = "read_blocks";
  credentials_.program = "read_blocks";
  credentials_.secret = std::move(*secret);
  return {};
}

Status ClientTree::Open(const std::vector<std::string>& paths) {
  const Status known = MakeCredentials();
  if (!known) return known;
  control_.Start();
  pool_ = NewPool(control_.At(0));
  refresher_ =
      std::make_unique<RingRefresher>(control_.At(0), *pool_, ring_, options_.coordinators);
  const Status obtained = Obtain();
  if (!obtained) return obtained;
  for (const std::string& path : paths) {
    Result<File> file = Find(path);
    if (!file) return Fail(file.error());
    list_.push_back(std::move(*file));
  }
  return {};
}

Status ClientTree::Obtain() {
  const Status folder = MakePrivateFolder(options_.state_dir);
  if (!folder) return folder;
  NamespaceOptions options;
  options.state_dir = options_.state_dir;
  options.coordinators = options_.coordinators;
  options.call_timeout = kCallTimeout;
  source_ = std::make_unique<NamespaceSource>(
      SnapshotFetcher::Parts{.pool = *pool_, .offload = offload_, .counts = counts_},
      std::move(options));
  Result<MountedNamespace> found =
      WaitFor(control_.At(0), never_.get_token(),
              source_->Obtain(options_.link, Deadline::After(kPatience)));
  if (!found) return Fail(found.error());
  found_ = std::move(*found);
  credentials_.cluster = found_.cluster;
  jobs_.SetLink(found_.snapshot->id().link,
                LinkFacts{.name = options_.link,
                          .generation = found_.snapshot->id().generation,
                          .blocks = SizesOf(*found_.snapshot).blocks,
                          .listing_digest = found_.link.generation().listing_digest()});
  Result<std::unique_ptr<FileSystem>> files = FileSystem::Make(found_.snapshot, {}, "", nullptr);
  if (!files) return Fail(files.error());
  files_ = std::move(*files);
  std::promise<Status> fetched;
  asio::co_spawn(control_.At(0), FetchRing(), [&](std::exception_ptr failed, Status status) {
    if (failed) std::rethrow_exception(failed);
    fetched.set_value(std::move(status));
  });
  return fetched.get_future().get();
}

Task<Status> ClientTree::FetchRing() {
  // The coordinator's first answer may have brought it.
  if (ring_.table()->nodes().empty()) {
    co_await refresher_->Refresh(Deadline::After(kPatience));
  }
  if (ring_.table()->nodes().empty()) {
    co_return Fail(Code::kUnavailable, "no coordinator knows a cache node");
  }
  co_return Status();
}

Result<ClientTree::File> ClientTree::Find(const std::string& path) {
  File file{.path = path, .nodeid = FileSystem::kRoot};
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const Result<FileSystem::Node> node =
        files_->Lookup(file.nodeid, std::string_view(path).substr(begin, end - begin));
    if (!node) return Fail(node.error().Within(path));
    file.nodeid = node->attributes.st_ino;
    file.size = static_cast<std::uint64_t>(node->attributes.st_size);
    begin = end + 1;
  }
  return file;
}

std::optional<std::uint64_t> ClientTree::SizeOf(const std::string& path) {
  const Result<File> file = Find(path);
  if (!file) return std::nullopt;
  return file->size;
}

std::unique_ptr<TreeReader> ClientTree::NewReader() { return std::make_unique<Reader>(*this); }

}  // namespace forebay::bench
