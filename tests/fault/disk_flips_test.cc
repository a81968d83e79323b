#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cachenode/store/segment_format.h"
#include "tests/fault/disk_facts.h"

// Bits flip on the disk. FOREBAY_BIT_FLIPS=N: so many in segments (10,000), and a 25th as many in
// the index, each in a directory of its own.
namespace forebay {
namespace {

std::uint64_t Wanted() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* wanted = std::getenv("FOREBAY_BIT_FLIPS");
  return wanted == nullptr ? 10'000 : std::stoull(wanted);
}

unsigned NewSeed() {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  return seed;
}

void FlipBit(const std::filesystem::path& path, std::uint64_t byte, unsigned bit) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  unsigned char was = 0;
  ASSERT_EQ(::pread(fd, &was, 1, static_cast<off_t>(byte)), 1);
  was = static_cast<unsigned char>(was ^ (1U << bit));
  ASSERT_EQ(::pwrite(fd, &was, 1, static_cast<off_t>(byte)), 1);
  ::close(fd);
}

/// What a bit belongs to.
enum class Part : std::uint8_t {
  kData,
  kCellChecksums,
  kLengths,  ///< Of the header, of the block, and the number of cells.
  kOtherHeader,
  kHeaderChecksum,
  kPadding,
  kCount,
};

/// A byte of this part in a record of `block`, from the record's first byte on.
std::uint64_t ByteOf(Part part, const BlockId& block, std::mt19937_64& random) {
  const std::uint64_t header = RecordHeaderBytes(block.length);
  switch (part) {
    case Part::kData:
      return header + random() % block.length;
    case Part::kCellChecksums:
      return 96 + random() % (header - 104);
    case Part::kLengths: {
      const std::uint64_t at = random() % 12;
      return at < 4 ? 12 + at : 72 + at - 4;
    }
    case Part::kOtherHeader: {
      const std::uint64_t at = random() % 84;
      return at < 12 ? at : at < 68 ? at + 4 : at + 12;
    }
    case Part::kHeaderChecksum:
      return header - 8 + random() % 8;
    case Part::kPadding:
    case Part::kCount:
      break;
  }
  const std::uint64_t used = header + block.length;
  const std::uint64_t padding = RecordDiskBytes(block.length) - used;
  return padding == 0 ? UINT64_MAX : used + random() % padding;
}

/// A store in use, and where each of its blocks lies.
class FlippingStore {
 public:
  FlippingStore() : store_(Options()) {
    for (std::uint64_t number = 0; number < kBlocks; ++number) Admit(number);
  }

  /// True: nothing that the store serves lies there.
  bool FlipAndRead(Part part, std::mt19937_64& random) {
    const std::uint64_t number = random() % kBlocks;
    const BlockId block = SampleBlock(number);
    const std::uint64_t byte = ByteOf(part, block, random);
    if (byte == UINT64_MAX) return true;
    const Place& place = places_.at(number);
    std::error_code error;
    if (place.position + byte >= std::filesystem::file_size(place.path, error)) return true;
    FlipBit(place.path, place.position + byte, static_cast<unsigned>(random() % 8));
    const std::uint64_t before = store_->counters().checksum_failures;
    if (part == Part::kPadding) {
      EXPECT_TRUE(store_.Serves(block));
      EXPECT_EQ(store_->counters().checksum_failures, before);
      return true;
    }
    // Now and then somebody else finds it.
    if (random() % 64 == 0) {
      EXPECT_FALSE(fakes::RunTask(store_->Verify(block)).has_value());
    } else {
      EXPECT_FALSE(store_.Serves(block)) << "byte " << byte << " of " << block.ToString();
    }
    EXPECT_EQ(store_->counters().checksum_failures, before + 1);
    EXPECT_FALSE(store_->Contains(block)) << "dropped";
    Admit(number);
    EXPECT_TRUE(store_.Serves(block)) << "repaired";
    return false;
  }

  BlockStore& store() { return *store_; }

 private:
  static constexpr std::uint64_t kBlocks = 60;
  struct Place {
    std::filesystem::path path;
    std::uint64_t position = 0;
  };

  BlockStoreOptions Options() {
    BlockStoreOptions options = OneDirectory(dir_ / "cache", 256ULL << 20, 4ULL << 20);
    return options;
  }

  std::pair<std::filesystem::path, std::uint64_t> Tail(const Uuid& link) const {
    std::filesystem::path newest;
    std::error_code error;
    for (std::filesystem::directory_iterator
             file(dir_ / "cache/segments/" + link.ToString(), error),
         end;
         !error && file != end; file.increment(error)) {
      newest = std::max(newest, file->path());
    }
    const std::uint64_t size = newest.empty() ? 0 : std::filesystem::file_size(newest);
    return {newest, (size + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment};
  }

  void Admit(std::uint64_t number) {
    const auto [newest, tail] = Tail(LinkOf(number));
    ASSERT_TRUE(store_.Admit(LinkOf(number), SampleBlock(number)).has_value());
    const auto path = Tail(LinkOf(number)).first;
    places_[number] = {path, path == newest ? tail : 0};
  }

  fakes::TempDir dir_;
  TestStore store_;
  std::map<std::uint64_t, Place> places_;
};

TEST(DiskFlips, EachBitOfARecordIsNoticedOrHarmlessAndTheBlockIsRepaired) {
  std::mt19937_64 random(NewSeed());
  spdlog::set_level(spdlog::level::off);  // each flip is a warning
  FlippingStore flipping;
  std::map<Part, std::uint64_t> noticed;
  std::uint64_t harmless = 0;
  for (std::uint64_t i = 0; i < Wanted() && !::testing::Test::HasFailure(); ++i) {
    const Part part = random() % 3 == 0
                          ? Part::kData
                          : static_cast<Part>(random() % static_cast<std::uint64_t>(Part::kCount));
    if (flipping.FlipAndRead(part, random)) {
      ++harmless;
    } else {
      ++noticed[part];
    }
  }
  spdlog::set_level(spdlog::level::info);
  std::uint64_t all = 0;
  for (const auto& [part, count] : noticed) {
    all += count;
    std::printf("part %d: %llu flips noticed and repaired\n", static_cast<int>(part),
                static_cast<unsigned long long>(count));
  }
  std::printf("%llu harmless\n", static_cast<unsigned long long>(harmless));
  EXPECT_EQ(noticed.size(), static_cast<std::size_t>(Part::kPadding)) << "void";
  EXPECT_EQ(flipping.store().counters().checksum_failures, all);
  EXPECT_GT(harmless, 0U) << "void";
}

/// A directory of a store that was killed: rows in tables and in the log, holes, pins.
class DamagedDirectory : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBlocks = 40;
  static constexpr std::uint64_t kEvicted = 20;

  DamagedDirectory() {
    {
      TestStore store(Options(whole_ / "cache"));
      for (std::uint64_t number = 0; number < kBlocks / 2; ++number) Admit(store, number);
      EXPECT_TRUE(store->Close(Patience()).has_value()) << "these rows go to a table";
    }
    TestStore store(Options(whole_ / "cache"));
    for (std::uint64_t number = kBlocks / 2; number < kBlocks; ++number) Admit(store, number);
    for (std::uint64_t number = 100; number < 100 + kEvicted; ++number) Admit(store, number);
    std::vector<BlockId> evicted;
    for (std::uint64_t number = 100; number < 100 + kEvicted; ++number)
      evicted.push_back(Small(number));
    EXPECT_TRUE(store.Evict(evicted).has_value());
    EXPECT_TRUE(store.TakePins(LinkOf(0), 1, {Small(0)}).has_value());
    before_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~DamagedDirectory() override { spdlog::set_default_logger(before_); }

  static BlockStoreOptions Options(const std::string& path) {
    return OneDirectory(path, 256ULL << 20, 100'000);
  }
  /// A directory of these is copied in a moment.
  static BlockId Small(std::uint64_t number) {
    return BlockNumber(number, 1'000 + static_cast<std::uint32_t>(number) * 120);
  }
  static void Admit(TestStore& store, std::uint64_t number) {
    EXPECT_TRUE(store.Admit(LinkOf(number), Small(number)).has_value());
  }

  /// Damages a copy and lets a store recover it; every block is there or is not, none is wrong, and
  /// all are there after they were fetched again. Answers how many were not.
  std::uint64_t DamageAndRecover(const std::function<void(const std::string&)>& damage) {
    const fakes::TempDir dir;
    const std::string copy = dir / "cache";
    std::filesystem::copy(whole_ / "cache", copy, std::filesystem::copy_options::recursive);
    damage(copy);
    log_.str("");
    TestStore store(Options(copy));
    EXPECT_TRUE(store.open()) << (store.open() ? "" : store.error().message);
    if (!store.open()) return 0;
    if (log_.str().contains("the index is rebuilt")) ++rebuilt_;
    std::vector<std::uint64_t> missing;
    for (std::uint64_t number = 0; number < 100 + kEvicted; ++number) {
      if (!store.Serves(Small(number))) missing.push_back(number);
    }
    for (const std::uint64_t number : missing) Admit(store, number);
    for (std::uint64_t number = 0; number < 100 + kEvicted; ++number)
      EXPECT_TRUE(store.Serves(Small(number))) << number;
    EXPECT_TRUE(store->Close(Patience()).has_value());
    return static_cast<std::uint64_t>(
        std::ranges::count_if(missing, [](std::uint64_t number) { return number < kBlocks; }));
  }

  fakes::TempDir whole_;
  std::uint64_t rebuilt_ = 0;

 private:
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(DamagedDirectory, FlippedBitOfTheIndexNeverLeadsToAWrongByte) {
  std::mt19937_64 random(NewSeed());
  std::uint64_t lost = 0;
  const std::uint64_t wanted = Wanted() / 25;
  for (std::uint64_t i = 0; i < wanted && !HasFailure(); ++i) {
    std::string flipped;
    lost += DamageAndRecover([&](const std::string& copy) {
      std::vector<std::filesystem::path> files;
      for (const auto& file : std::filesystem::directory_iterator(copy + "/index")) {
        if (file.file_size() > 0) files.push_back(file.path());
      }
      std::ranges::sort(files);
      const auto& file = files.at(random() % files.size());
      const std::uint64_t byte = random() % std::filesystem::file_size(file);
      flipped = file.filename().string() + " byte " + std::to_string(byte);
      FlipBit(file, byte, static_cast<unsigned>(random() % 8));
    });
    EXPECT_FALSE(HasFailure()) << flipped;
  }
  std::printf("%llu flips in the index: %llu rebuilt, %llu rows lost\n",
              static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(rebuilt_),
              static_cast<unsigned long long>(lost));
  EXPECT_GT(rebuilt_, 0U) << "void: no flip hit anything that RocksDB reads";
}

/// A segment, and something else that can be there instead of its bytes.
struct Damage {
  const char* name;
  void (*make)(const std::vector<std::filesystem::path>& segments, std::mt19937_64& random);
};

std::string BytesOfFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Overwrite(const std::filesystem::path& path, std::uint64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file << bytes;
}

std::uint64_t SomePage(const std::filesystem::path& path, std::mt19937_64& random) {
  const std::uint64_t size = std::filesystem::file_size(path);
  return random() % (size / kRecordAlignment + 1) * kRecordAlignment;
}

const std::filesystem::path& Some(const std::vector<std::filesystem::path>& segments,
                                  std::mt19937_64& random) {
  return segments.at(random() % segments.size());
}

constexpr Damage kDamages[] = {
    {"an extent of zeros",
     [](const auto& segments, auto& random) {
       const auto& path = Some(segments, random);
       Overwrite(path, SomePage(path, random), std::string(random() % 30'000, '\0'));
     }},
    {"allocated and never written: the right size, all zeros",
     [](const auto& segments, auto& random) {
       const auto& path = Some(segments, random);
       const auto size = std::filesystem::file_size(path);
       std::filesystem::resize_file(path, 0);
       std::filesystem::resize_file(path, size);
     }},
    {"renamed and never written: the right name, empty",
     [](const auto& segments, auto& random) {
       std::filesystem::resize_file(Some(segments, random), 0);
     }},
    {"cut short",
     [](const auto& segments, auto& random) {
       const auto& path = Some(segments, random);
       std::filesystem::resize_file(path, random() % std::filesystem::file_size(path));
     }},
    {"lost",
     [](const auto& segments, auto& random) { std::filesystem::remove(Some(segments, random)); }},
    {"a page of another place of the same segment",
     [](const auto& segments, auto& random) {
       const auto& path = Some(segments, random);
       const std::string bytes = BytesOfFile(path);
       const std::uint64_t from = SomePage(path, random);
       Overwrite(path, SomePage(path, random), bytes.substr(from, kRecordAlignment));
     }},
    {"records of another segment",
     [](const auto& segments, auto& random) {
       const std::string bytes = BytesOfFile(Some(segments, random));
       const auto& path = Some(segments, random);
       const std::uint64_t at = SomePage(path, random);
       Overwrite(path, at, bytes.substr(std::min<std::uint64_t>(at, bytes.size()), 40'000));
     }},
    {"two segments under each other's name",
     [](const auto& segments, auto& random) {
       const auto& one = Some(segments, random);
       const auto& other = Some(segments, random);
       const std::filesystem::path aside = one.string() + ".aside";
       std::filesystem::rename(one, aside);
       if (other != one) std::filesystem::rename(other, one);
       std::filesystem::rename(aside, other);
     }},
    {"noise",
     [](const auto& segments, auto& random) {
       const auto& path = Some(segments, random);
       std::string noise(10'000, '\0');
       for (char& byte : noise) byte = static_cast<char>(random());
       Overwrite(path, SomePage(path, random) + kRecordAlignment, noise);
     }},
};

TEST_F(DamagedDirectory, WhateverASegmentHoldsInsteadNoByteIsWrong) {
  std::mt19937_64 random(NewSeed());
  const std::uint64_t rounds = std::max<std::uint64_t>(Wanted() / 1'000, 2);
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    std::uint64_t lost = 0;
    // A place where nothing lies is tried again.
    const auto done = [&](std::uint64_t round) {
      return round >= rounds && (lost > 0 || round >= 20 * rounds);
    };
    for (std::uint64_t round = 0; !done(round) && !HasFailure(); ++round) {
      lost += DamageAndRecover([&](const std::string& copy) {
        damage.make(SegmentsBelow(copy), random);
        // Every other time the headers are all that recovery has.
        if (round % 2 == 1) std::filesystem::remove_all(copy + "/index");
      });
    }
    std::printf("%s: %llu rounds, %llu blocks lost and fetched again\n", damage.name,
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(lost));
    EXPECT_GT(lost, 0U) << "void";
  }
  EXPECT_GT(rebuilt_, 0U) << "void";
}

}  // namespace
}  // namespace forebay
