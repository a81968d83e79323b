#include <unistd.h>
#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/snapshot/delta.h"
#include "common/snapshot/delta_format.h"
#include "common/snapshot/snapshot_builder.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

/// Two generations, the same in every run, and a place for what comes of an input.
class TwoGenerations {
 public:
  explicit TwoGenerations(bool has_lines) : has_lines_(has_lines) {
    const std::string md5 = "d41d8cd98f00b204e9800998ecf8427e";
    const std::string multipart = md5 + "-2";
    std::vector<ListedKey> before = {{.key = "a/b/c", .size = 9, .etag = md5},
                                     {.key = "a/b/d", .size = 8, .etag = "opaque"},
                                     {.key = "a//x", .size = 1, .etag = md5},
                                     {.key = "e/", .etag = md5, .mtime_unix_s = 5},
                                     {.key = "f/g", .size = 1, .etag = md5}};
    std::vector<ListedKey> after = {{.key = "a/b", .size = 7, .etag = multipart},
                                    {.key = "a/c/d", .size = 8, .etag = "other"},
                                    {.key = "b//x", .size = 1, .etag = md5},
                                    {.key = "e/", .etag = md5, .mtime_unix_s = 6},
                                    {.key = "f/g", .size = 1, .etag = md5}};
    const std::vector<AttributeLine> first = {{.place = 1, .json = "{}"},
                                              {.place = 5, .json = "{5}"}};
    const std::vector<AttributeLine> second = {{.place = 2, .json = "{2}"}};
    const std::vector<AttributeLine> third = {{.place = 1, .json = "{1}"},
                                              {.place = 3, .json = "{3}"}};
    if (has_lines_) {
      before[0].lines = first;
      before[4].lines = second;
      after[1].lines = third;
      after[4].lines = second;
    }
    ends_.link = Uuid::Parse("10000000-0000-4000-8000-000000000002");
    ends_.before = 3;
    ends_.after = 4;
    before_ = Build(before, ends_.before, nullptr, ends_.before_digest);
    after_ = Build(after, ends_.after, before_, ends_.after_digest);
  }

  std::string Delta() const {
    Require(WriteDelta(*before_, *after_, ends_, 1 << 20, dir_ / "delta").has_value());
    std::ifstream file(dir_ / "delta", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void Apply(std::string_view delta) const {
    const auto made = WriteFromDelta(before_, delta, ends_, dir_ / "made");
    Require(made ? made->digest == ends_.after_digest : made.error().code == Code::kCorrupt);
    Require(made || ::access((dir_ / "made").c_str(), F_OK) != 0);
    ::unlink((dir_ / "made").c_str());
  }

  /// Makes right what a damaged difference has wrong first, so that its entries are reached.
  void Mend(std::string& bytes) const {
    DeltaHeader header;
    if (bytes.size() < sizeof header) return;
    const std::size_t body = bytes.size() - sizeof header;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.magic = kDeltaMagic;
    header.format = has_lines_ ? kDeltaFormatWithLines : kDeltaFormat;
    header.header_bytes = sizeof header;
    header.file_bytes = bytes.size();
    header.link = ends_.link.bytes;
    header.before = ends_.before;
    header.after = ends_.after;
    header.before_digest = {ends_.before_digest.high, ends_.before_digest.low};
    header.after_digest = {ends_.after_digest.high, ends_.after_digest.low};
    if (header.entries_bytes > body) header.entries_bytes = body;
    header.hidden_bytes = body - header.entries_bytes;
    header.body_checksum = XXH3_64bits(bytes.data() + sizeof header, body);
    header.checksum = XXH3_64bits(&header, offsetof(DeltaHeader, checksum));
    std::memcpy(bytes.data(), &header, sizeof header);
  }

 private:
  std::shared_ptr<const Snapshot> Build(const std::vector<ListedKey>& keys,
                                        std::uint64_t generation,
                                        std::shared_ptr<const Snapshot> previous,
                                        SnapshotDigest& digest) const {
    SnapshotOptions options;
    options.id = {.link = ends_.link, .generation = generation};
    options.domain = Uuid::Parse("d0000000-1111-4222-8333-444444444444");
    options.endpoint = "http://s3";
    options.bucket = "bucket";
    options.block_bytes = 4 << 20;
    options.previous = std::move(previous);
    const std::string path = dir_ / std::to_string(generation);
    SnapshotBuilder builder(std::move(options), path);
    for (const ListedKey& key : keys) Require(builder.Add(key).has_value());
    const auto finished = builder.Finish();
    Require(finished.has_value());
    digest = finished->digest;
    auto snapshot = Snapshot::Open(path);
    Require(snapshot.has_value());
    return *snapshot;
  }

  const bool has_lines_;
  fakes::TempDir dir_;
  DeltaEnds ends_;
  std::shared_ptr<const Snapshot> before_;
  std::shared_ptr<const Snapshot> after_;
};

constexpr unsigned kMended = 1;
constexpr unsigned kWithLines = 2;

const TwoGenerations& Generations(bool has_lines) {
  static const TwoGenerations without(false);
  static const TwoGenerations with(true);
  return has_lines ? with : without;
}

}  // namespace

void RunDeltaInput(std::string_view input) {
  if (input.empty()) return;
  const auto how = static_cast<unsigned char>(input.front());
  const TwoGenerations& generations = Generations((how & kWithLines) != 0);
  std::string bytes(input.substr(1));
  if ((how & kMended) != 0) generations.Mend(bytes);
  generations.Apply(bytes);
}

Seeds DeltaSeeds() {
  const std::string delta = Generations(false).Delta();
  const std::string lines = Generations(true).Delta();
  return {{"sound", "\1" + delta},
          {"sound-as-it-is", std::string(1, '\0') + delta},
          {"lines", "\3" + lines},
          {"lines-as-they-are", "\2" + lines}};
}

}  // namespace forebay
