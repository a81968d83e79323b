#include "tests/unit/cachenode/reader_rig.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/fakes/sample_link.h"

namespace forebay {

LinkSpec TestLink(std::uint64_t block_bytes) {
  LinkSpec link;
  link.id = Uuid::Random();
  link.name = "data";
  link.origin.bucket = "bucket";
  link.origin.prefix = "data/";
  link.origin.endpoint = "http://127.0.0.1:7480";
  link.domain = Uuid::Random();
  link.block_bytes = block_bytes;
  return link;
}

ObjectRef TestObject(std::string key, std::uint64_t size) {
  std::string etag = fakes::SampleLink::EtagOf(key);
  return ObjectRef{std::move(key), std::move(etag), size};
}

bool Eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (!condition()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

::testing::AssertionResult AreRight(const Result<Cells>& cells, const CheckedRead& read) {
  if (!cells) return ::testing::AssertionFailure() << cells.error().message;
  if (!cells->Verify()) return ::testing::AssertionFailure() << "checksums do not match";
  const BlockRequest& request = read.request;
  const BlockRange wanted = EnclosingCells(request.range, request.block.length);
  if (cells->begin != wanted.begin || cells->bytes.bytes.size() != wanted.size())
    return ::testing::AssertionFailure() << "these are not the cells that enclose the range";
  const auto truth = fakes::SampleLink::Bytes(request.object.key,
                                              request.block.offset + wanted.begin, wanted.size());
  if (std::memcmp(truth->data(), cells->bytes.bytes.data(), wanted.size()) != 0)
    return ::testing::AssertionFailure() << "wrong bytes";
  return ::testing::AssertionSuccess();
}

ReaderRig::ReaderRig(FillerOptions options, std::size_t threads, std::uint64_t block_bytes,
                     std::uint64_t reply_bytes)
    : link_(std::make_shared<const LinkSpec>(TestLink(block_bytes))),
      filler_(options, pool_, store_, peers_, origin_, counters_, history_),
      replies_(reply_bytes),
      reader_(store_, filler_, replies_, counters_, history_),
      pool_("rig", threads) {
  pool_.Start();
}

ReaderRig::~ReaderRig() {
  s3_.Interrupt();
  EXPECT_TRUE(filler_.Stop(Deadline::After(std::chrono::seconds(20))));
  EXPECT_TRUE(Eventually([this] { return filler_.memory_in_use() == 0; }))
      << "memory stays reserved";
  EXPECT_TRUE(Eventually([this] { return replies_.taken() == 0; })) << "replies keep their room";
  EXPECT_EQ(filler_.in_flight(), 0u);
  EXPECT_EQ(count().hits + count().misses, count().reads);
  pool_.Stop();
}

CheckedRead ReaderRig::ReadOf(const ObjectRef& object, std::uint64_t offset,
                              BlockRange range) const {
  CheckedRead read;
  read.link = link_;
  read.request.link = link_->id;
  read.request.object = object;
  const ObjectVersion version = VersionOf(*link_, object.key, object.etag, object.size);
  read.request.block = BlockAt(version, object.size, link_->block_bytes, offset);
  read.request.range = range;
  read.request.job = "job";
  return read;
}

ColdBlock ReaderRig::ColdOf(const CheckedRead& read) const {
  return ColdBlock{read.link, read.request.object, read.request.block};
}

void ReaderRig::Settle() {
  // A read goes on by one turn of its event loop at a time, and gets to its wait in fewer than
  // these.
  constexpr int kTurns = 20;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      std::promise<void> done;
      asio::post(pool_.At(i), [&] { done.set_value(); });
      done.get_future().wait();
    }
  }
}

std::future<Result<Cells>> ReaderRig::Start(CheckedRead read, Duration patience) {
  return asio::co_spawn(pool_.Next(), reader_.Read(std::move(read), Deadline::After(patience)),
                        asio::use_future);
}

}  // namespace forebay
