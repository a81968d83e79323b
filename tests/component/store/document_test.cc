#include <sys/stat.h>
#include <xxhash.h>

#include <fstream>

#include "tests/component/store/store_fixture.h"

// Writes a cache directory as docs/STORE_FORMAT.md says, with nothing of ours that encodes one.
namespace forebay {
namespace {

constexpr const char* kCluster = "c0000000-0000-4000-8000-000000000001";
constexpr const char* kDirectory = "d0000000-1111-4222-8333-444444444444";

class Bytes {
 public:
  Bytes& Number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Bytes& Text(std::string_view text) {
    text_.append(text);
    return *this;
  }
  Bytes& Uuid16(const char* uuid) {
    const Uuid parsed = Uuid::Parse(uuid);
    for (const std::uint8_t byte : parsed.bytes) text_.push_back(static_cast<char>(byte));
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Record(const BlockId& block, const std::string& link, std::uint64_t segment,
                   std::uint64_t position) {
  const auto data = BytesOf(block);
  const std::uint64_t cells = (block.length + 65535) / 65536;
  Bytes header;
  header.Text({"FBREC\r\n\x1A", 8}).Number(1, 4).Number(104 + 8 * cells, 4);
  header.Uuid16(kCluster).Uuid16(link.c_str());
  header.Number(block.version.high, 8).Number(block.version.low, 8);
  header.Number(block.offset, 8).Number(block.length, 4).Number(cells, 4);
  header.Number(segment, 8).Number(position, 8);
  for (std::uint64_t cell = 0; cell < cells; ++cell) {
    const std::size_t size = std::min<std::size_t>(65536, block.length - cell * 65536);
    header.Number(XXH3_64bits(data->data() + cell * 65536, size), 8);
  }
  const Uuid directory = Uuid::Parse(kDirectory);
  const std::uint64_t seed = XXH3_64bits(directory.bytes.data(), 16);
  header.Number(XXH3_64bits_withSeed(header.text().data(), header.text().size(), seed), 8);
  std::string record = header.text();
  record.append(reinterpret_cast<const char*>(data->data()), data->size());
  record.resize((record.size() + 4095) / 4096 * 4096);
  return record;
}

TEST(StoreFormatDocument, DirectoryWrittenByTheDocumentIsRecoveredAndRead) {
  fakes::TempDir dir;
  const std::string cache = dir / "cache";
  const std::string link = LinkNumber(3).ToString();
  std::filesystem::create_directories(cache + "/segments/" + link);
  std::ofstream(cache + "/FOREBAY") << "forebay cache directory\nformat 1\ncluster " << kCluster
                                    << "\ndirectory " << kDirectory << "\n";
  const std::vector<BlockId> blocks = {BlockNumber(1, 1), BlockNumber(2, 65536),
                                       BlockNumber(3, 4 << 20), BlockNumber(4, 39'000)};
  std::string segment;
  for (const BlockId& block : blocks) {
    if (block == blocks[2]) segment.resize(segment.size() + 8192);  // a hole where one was punched
    segment += Record(block, link, 17, segment.size());
  }
  std::ofstream(cache + "/segments/" + link + "/0000000017.seg", std::ios::binary) << segment;

  TestStore store(OneDirectory(cache));
  ASSERT_TRUE(store.open()) << store.error().message;
  EXPECT_EQ(store->BlockCount(), blocks.size());
  for (const BlockId& block : blocks) EXPECT_TRUE(store.Serves(block)) << block.ToString();
  ASSERT_TRUE(store.Admit(LinkNumber(3), BlockNumber(9, 10)).has_value());
  EXPECT_TRUE(std::filesystem::exists(cache + "/segments/" + link + "/0000000018.seg"));
}

TEST(StoreFormatDocument, RecordOfAnUnknownFormatIsPassedOver) {
  fakes::TempDir dir;
  const std::string cache = dir / "cache";
  const std::string link = LinkNumber(3).ToString();
  std::filesystem::create_directories(cache + "/segments/" + link);
  std::ofstream(cache + "/FOREBAY") << "forebay cache directory\nformat 1\ncluster " << kCluster
                                    << "\ndirectory " << kDirectory << "\n";
  std::string segment = Record(BlockNumber(1, 1), link, 17, 0);
  segment[8] = 2;
  segment += Record(BlockNumber(2, 1), link, 17, segment.size());
  std::ofstream(cache + "/segments/" + link + "/0000000017.seg", std::ios::binary) << segment;
  TestStore store(OneDirectory(cache));
  ASSERT_TRUE(store.open()) << store.error().message;
  EXPECT_FALSE(store->Contains(BlockNumber(1, 1)));
  EXPECT_TRUE(store.Serves(BlockNumber(2, 1)));
}

}  // namespace
}  // namespace forebay
