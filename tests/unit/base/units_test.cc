#include "common/base/units.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <random>
#include <string>

namespace forebay {
namespace {

using std::chrono::milliseconds;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Units, SizesAreReadExactly) {
  EXPECT_EQ(ParseSize("0").value(), 0U);
  EXPECT_EQ(ParseSize("4096").value(), 4096U);
  EXPECT_EQ(ParseSize("512MiB").value(), 512ULL << 20);
  EXPECT_EQ(ParseSize("200GB").value(), 200'000'000'000U);
  EXPECT_EQ(ParseSize("1.5TiB").value(), 3ULL << 39);
  EXPECT_EQ(ParseSize("1.5 tib").value(), 3ULL << 39);
  EXPECT_EQ(ParseSize("0.3KiB").value(), 307U) << "a fraction of a byte is cut off";
  EXPECT_EQ(ParseSize("16383PiB").value(), 16383ULL << 50);
}

TEST(Units, SizesThatAreNoneAreRefusedWithTheirText) {
  for (const char* text : {"", "MiB", "12Q", "-1", "1..5GiB", "1.", ".5GiB", "1GiB x", "0x10",
                           "1e3", "5K", "123456789012345678901"}) {
    const Result<std::uint64_t> size = ParseSize(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Code::kInvalid);
    EXPECT_TRUE(size.error().message.starts_with("\"" + std::string(text) + "\" is not a size; "))
        << size.error().message;
  }
  EXPECT_EQ(ParseSize("1.5").error().message,
            "\"1.5\" is not a whole number of bytes; write a unit behind it, such as GiB");
  EXPECT_EQ(ParseSize("16384PiB").error().message, "\"16384PiB\" is larger than 16 EiB");
}

TEST(Units, RatesAreSizesForEachSecond) {
  EXPECT_EQ(ParseRate("100MB/s").value(), 100'000'000U);
  EXPECT_EQ(ParseRate("100MB").error().message,
            "\"100MB\" is not a rate; write a size for each second, such as 100MB/s");
  EXPECT_FALSE(ParseRate("/s"));
}

TEST(Units, DurationsNeedAUnit) {
  EXPECT_EQ(ParseDuration("500ms").value(), milliseconds(500));
  EXPECT_EQ(ParseDuration("30s").value(), milliseconds(30'000));
  EXPECT_EQ(ParseDuration("1.5h").value(), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("7d").value(), std::chrono::days(7));
  EXPECT_EQ(ParseDuration("0").value(), milliseconds(0));
  for (const char* text : {"30", "", "none", "s", "-1s", "1w"}) {
    const Result<milliseconds> duration = ParseDuration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_TRUE(duration.error().message.ends_with(
        "is not a duration; write a number and a unit, such as 500ms, 30s, 2h or 7d"));
  }
  EXPECT_EQ(ParseDuration("36500d").error().message, "\"36500d\" is longer than 100 years");
}

TEST(Units, NoneIsADurationWhereItIsAllowed) {
  EXPECT_EQ(ParseDurationOrNone("none").value(), kForever);
  EXPECT_EQ(ParseDurationOrNone("1s").value(), milliseconds(1000));
  EXPECT_TRUE(ParseDurationOrNone("never").error().message.ends_with(", or none"));
  EXPECT_EQ(FormatDuration(kForever), "none");
  // A deadline counts nanoseconds in 63 bits, from the machine's start on.
  const auto start = std::chrono::steady_clock::time_point(std::chrono::years(10));
  EXPECT_GT(start + std::chrono::nanoseconds(kForever), start);
}

TEST(Units, PercentagesAreRatios) {
  EXPECT_DOUBLE_EQ(ParsePercent("80%").value(), 0.8);
  EXPECT_DOUBLE_EQ(ParsePercent("0.5 %").value(), 0.005);
  EXPECT_DOUBLE_EQ(ParsePercent("100%").value(), 1.0);
  for (const char* text : {"80", "101%", "%", "x%", ""}) EXPECT_FALSE(ParsePercent(text)) << text;
}

TEST(Units, WholeNumbersStayWithinTheirRange) {
  EXPECT_EQ(ParseUint("7", 1, 64).value(), 7U);
  EXPECT_EQ(ParseUint("18446744073709551615", 0, kMax).value(), kMax);
  for (const char* text : {"0", "65", "", "1.5", "7x", " 7", "-1", "18446744073709551616"}) {
    EXPECT_EQ(ParseUint(text, 1, 64).error().message,
              "\"" + std::string(text) + "\" is not a whole number from 1 to 64");
  }
}

TEST(Units, WrittenValuesAreShort) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(512ULL << 20), "512MiB");
  EXPECT_EQ(FormatSize(200'000'000'000), "200GB");
  EXPECT_EQ(FormatSize(4097), "4097");
  EXPECT_EQ(FormatSize(1024), "1KiB");
  EXPECT_EQ(FormatSize(999), "999");
  EXPECT_EQ(FormatRate(100'000'000), "100MB/s");
  EXPECT_EQ(FormatDuration(milliseconds(0)), "0s");
  EXPECT_EQ(FormatDuration(milliseconds(1500)), "1500ms");
  EXPECT_EQ(FormatDuration(std::chrono::seconds(300)), "300s");
  EXPECT_EQ(FormatDuration(std::chrono::minutes(90)), "90m");
  EXPECT_EQ(FormatDuration(std::chrono::hours(2)), "2h");
  EXPECT_EQ(FormatDuration(std::chrono::hours(48)), "2d");
}

TEST(Units, WhatIsWrittenIsReadBackAsTheSame) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    // All magnitudes, and many trailing zeros in both bases.
    std::uint64_t bytes = random() >> (random() % 64);
    if (i % 3 == 1) bytes &= ~0ULL << (random() % 64);
    if (i % 3 == 2) bytes -= bytes % 1'000'000'000;
    ASSERT_EQ(ParseSize(FormatSize(bytes)).value(), bytes);
    ASSERT_EQ(ParseRate(FormatRate(bytes)).value(), bytes);
    const milliseconds duration(random() % static_cast<std::uint64_t>(kForever.count()));
    ASSERT_EQ(ParseDurationOrNone(FormatDuration(duration)).value(), duration);
  }
}

TEST(Units, BytesForPeopleHaveThreeDigits) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.00 KiB");
  EXPECT_EQ(HumanBytes(3ULL << 29), "1.50 GiB");
  EXPECT_EQ(HumanBytes(15ULL << 30), "15.0 GiB");
  EXPECT_EQ(HumanBytes(150ULL << 40), "150 TiB");
  EXPECT_EQ(HumanBytes((1ULL << 20) - 1), "1.00 MiB") << "not 1024 KiB";
  EXPECT_EQ(HumanBytes(10236), "10.0 KiB") << "not 10.00 KiB";
  EXPECT_EQ(HumanBytes(kMax), "16.0 EiB");
}

TEST(Units, CountsDurationsAndRatiosForPeople) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(kMax), "18,446,744,073,709,551,615");
  EXPECT_EQ(HumanDuration(milliseconds(850)), "850 ms");
  EXPECT_EQ(HumanDuration(milliseconds(12'345)), "12.3 s");
  EXPECT_EQ(HumanDuration(std::chrono::seconds(250)), "4 min 10 s");
  EXPECT_EQ(HumanDuration(std::chrono::minutes(192)), "3 h 12 min");
  EXPECT_EQ(HumanDuration(std::chrono::hours(122)), "5 d 2 h");
  EXPECT_EQ(HumanDuration(milliseconds(-5)), "0 ms");
  EXPECT_EQ(HumanDuration(kForever), "unlimited");
  EXPECT_EQ(HumanPercent(0.987), "98.7 %");
}

}  // namespace
}  // namespace forebay
