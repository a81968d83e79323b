#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cachenode/service.h"
#include "common/model/system_link.h"
#include "common/wire/block_messages.h"
#include "common/wire/messages.h"
#include "tests/fakes/run_task.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using Grants = std::optional<std::vector<std::string>>;

/// A node that holds a block of each of three links and of the listing of each; the third is part
/// of the set "clip". All that a client is answered comes out of the cache.
class GrantsTest : public ReaderRig {
 protected:
  GrantsTest() {
    LinkSpec other = TestLink();
    other.name = "other";
    other.origin.prefix = "other/";
    LinkSpec part = TestLink();
    part.name = "clip.images";
    part.set = "clip";
    part.origin.prefix = "images/";
    links_ = {*link_, other, part};
    cluster_.SetLinks(links_, 1);
    Service::Parts parts{.self = "self",
                         .cluster = cluster_,
                         .reader = reader_,
                         .filler = filler_,
                         .batches = batches_,
                         .store = store_,
                         .history = history_,
                         .verify_pace = verify_pace_,
                         .copy_pace = copy_pace_,
                         .send_pace = send_pace_,
                         .hot_reads = hot_reads_,
                         .metrics = metrics_,
                         .refresh_links = [] {}};
    service_ = std::make_unique<Service>(std::move(parts));
    for (const LinkSpec& link : links_) {
      Keep(BlockOf(link));
      Keep(ListingOf(link));
    }
  }

  static BlockRequest RequestOf(const LinkSpec& link, ObjectRef object) {
    BlockRequest request;
    request.link = link.id;
    request.object = std::move(object);
    const ObjectVersion version =
        VersionOf(link, request.object.key, request.object.etag, request.object.size);
    request.block = BlockAt(version, request.object.size, link.block_bytes, 0);
    request.range = {0, request.block.length};
    return request;
  }
  static BlockRequest BlockOf(const LinkSpec& link) {
    return RequestOf(link, TestObject(link.origin.prefix + "a.jpg", 39'000));
  }
  static BlockRequest ListingOf(const LinkSpec& link) {
    const ObjectRef object{SnapshotKey({.generation = 1}), SnapshotEtag(1, 2), 70'000};
    return RequestOf(SystemLinkOf(link), object);
  }

  void Keep(const BlockRequest& request) {
    const auto bytes = std::make_shared<const Buffer>(request.block.length);
    std::vector<std::uint64_t> checksums;
    for (std::size_t at = 0; at < bytes->size(); at += kCellBytes) {
      checksums.push_back(
          CellChecksum(bytes->data() + at, std::min<std::size_t>(kCellBytes, bytes->size() - at)));
    }
    const Status kept = fakes::RunTask(store_.Admit(request.link, request.block, Slice::Of(bytes),
                                                    std::move(checksums), "", Room::kMayEvict));
    ASSERT_TRUE(kept.has_value()) << kept.error().message;
  }

  /// As a client whose certificate is good for these links; nothing = for all. Nothing: it was
  /// answered; else why not.
  std::optional<Error> Ask(Method method, const BlockRequest& request, const Grants& grants) {
    const proto::ReadBlockRequest read = ToProto(request);
    proto::CheckBlocksRequest check;
    check.set_link(read.link());
    check.set_key(read.key());
    check.set_etag(read.etag());
    check.set_object_size(read.object_size());
    *check.add_blocks() = read.block();
    RpcCall call;
    call.method = method;
    call.message =
        method == Method::kCheckBlocks ? check.SerializeAsString() : read.SerializeAsString();
    call.deadline = Deadline::After(std::chrono::seconds(20));
    call.peer.role = proto::ROLE_CLIENT;
    call.peer.id = "m1";
    call.peer.proved = true;
    call.peer.terms.links = grants;
    call.takes_files = method == Method::kOpenSegment;
    const std::vector<MethodEntry> methods = service_->Methods();
    const auto entry = std::ranges::find(methods, method, &MethodEntry::method);
    const Result<RpcReply> reply = fakes::RunTask(entry->handler(std::move(call)));
    if (reply) return std::nullopt;
    return reply.error();
  }

  ClusterView cluster_;
  BatchFiller batches_{store_, filler_};
  BytePace verify_pace_{0};
  BytePace copy_pace_{0};
  NetworkPace send_pace_{0, "max_bandwidth of this node"};
  HotReads hot_reads_;
  Metrics metrics_;
  std::vector<LinkSpec> links_;
  std::unique_ptr<Service> service_;
};

Grants Only(std::vector<std::string> links) { return Grants(std::move(links)); }

/// Whether a client with these grants may have the link, as an administrator would say.
bool IsGranted(const LinkSpec& link, const Grants& grants) {
  return !grants || std::ranges::count(*grants, link.name) > 0 ||
         (!link.set.empty() && std::ranges::count(*grants, link.set) > 0);
}

// Every request that a client may make of a node about a block, by every link and its listing, by
// every kind of grant.
TEST_F(GrantsTest, AClientReadsTheDataAndTheListingsOfItsLinksAndOfNoOthers) {
  const std::vector<Grants> all_grants = {std::nullopt,           Only({}),
                                          Only({"data"}),         Only({"other"}),
                                          Only({"clip"}),         Only({"clip.images"}),
                                          Only({"data", "clip"}), Only({"nothing"})};
  int denied = 0;
  for (const Grants& grants : all_grants) {
    for (const LinkSpec& link : links_) {
      for (const BlockRequest& request : {BlockOf(link), ListingOf(link)}) {
        for (const Method method : {Method::kReadBlock, Method::kPrefetchBlock,
                                    Method::kOpenSegment, Method::kCheckBlocks}) {
          const std::optional<Error> error = Ask(method, request, grants);
          const std::string which = "method " + std::to_string(static_cast<int>(method)) + " of " +
                                    request.object.key + " in " + link.name;
          if (!IsGranted(link, grants)) {
            ++denied;
            ASSERT_TRUE(error.has_value()) << which;
            EXPECT_EQ(error->code, Code::kDenied) << which;
            EXPECT_NE(error->message.find("'" + link.name + "'"), std::string::npos) << which;
          } else if (method == Method::kOpenSegment) {
            // This store has no files: who may have one is told so.
            ASSERT_TRUE(error.has_value()) << which;
            EXPECT_EQ(error->code, Code::kNotFound) << which;
          } else {
            EXPECT_FALSE(error.has_value()) << which << ": " << error->message;
          }
        }
      }
    }
  }
  // Of eight kinds of grants, those that do not cover: data 5, other 6, clip.images 4.
  EXPECT_EQ(denied, (5 + 6 + 4) * 2 * 4);
}

TEST_F(GrantsTest, AGrantedLinksNameDoesNotOpenTheListingOfAnother) {
  const Grants data = Only({"data"});
  const BlockRequest foreign = ListingOf(links_[1]);
  for (const Uuid& named : {links_[0].id, SystemLinkId(links_[0].id)}) {
    BlockRequest request = foreign;
    request.link = named;
    for (const Method method :
         {Method::kReadBlock, Method::kPrefetchBlock, Method::kOpenSegment, Method::kCheckBlocks}) {
      const std::optional<Error> error = Ask(method, request, data);
      ASSERT_TRUE(error.has_value()) << static_cast<int>(method);
      EXPECT_EQ(error->code, Code::kInvalid) << error->message;
    }
  }
}

}  // namespace
}  // namespace forebay
