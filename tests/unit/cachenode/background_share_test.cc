#include "cachenode/background_share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace forebay {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSmall = 40'000;
constexpr Uuid kLink{{1}};

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

/// An S3 that answers each request after a time of its own, and so many a second at most; and what
/// a node asks of it: some readers, each with one request at a time, and as much behind them as the
/// share allows. Time is counted, not waited for.
class PlayedS3 {
 public:
  PlayedS3(std::size_t most, double most_per_s, std::function<Duration()> own)
      : share_(most), each_(Seconds(1 / most_per_s)), own_(std::move(own)) {}

  std::size_t readers = 0;
  bool background = false;
  Uuid link = kLink;

  /// What came of it.
  struct Seen {
    double answers_per_s = 0;
    double readers_wait_s = 0;  // on average
    double in_background = 0;   // under way, on average
    std::size_t limit_at_the_end = 0;
  };

  Seen Run(Duration length) {
    const TimePoint begin = now_;
    const TimePoint end = begin + length;
    std::size_t answers = 0;
    std::size_t read = 0;
    double waited = 0;
    double fill_seconds = 0;
    Ask();
    while (!under_way_.empty() && under_way_.top().ends <= end) {
      const Request done = under_way_.top();
      under_way_.pop();
      fill_seconds +=
          static_cast<double>(filling_) * std::chrono::duration<double>(done.ends - now_).count();
      now_ = done.ends;
      ++answers;
      if (done.reader) {
        --reading_;
        const Duration took = now_ - done.began;
        share_.NoteReader(link, kSmall, took, filling_, now_);
        ++read;
        waited += std::chrono::duration<double>(took).count();
      } else {
        --filling_;
      }
      Ask();
    }
    now_ = end;
    const double seconds = std::chrono::duration<double>(length).count();
    return {.answers_per_s = static_cast<double>(answers) / seconds,
            .readers_wait_s = read > 0 ? waited / static_cast<double>(read) : 0,
            .in_background = fill_seconds / seconds,
            .limit_at_the_end = share_.Limit(filling_, reading_, now_)};
  }

 private:
  struct Request {
    TimePoint began;
    TimePoint ends;
    bool reader = false;
    bool operator<(const Request& other) const { return ends > other.ends; }  // the first on top
  };

  void Begin(bool reader) {
    free_at_ = std::max(free_at_, now_) + each_;
    under_way_.push({now_, free_at_ + own_(), reader});
    ++(reader ? reading_ : filling_);
  }
  void Ask() {
    while (reading_ < readers) Begin(true);
    while (background && filling_ < share_.Limit(filling_, reading_, now_)) Begin(false);
  }

  BackgroundShare share_;
  const Duration each_;
  const std::function<Duration()> own_;
  TimePoint now_ = TimePoint() + 1h;
  TimePoint free_at_;
  std::priority_queue<Request> under_way_;
  std::size_t reading_ = 0;
  std::size_t filling_ = 0;
};

TEST(BackgroundShare, BesideAnS3AtItsLimitReadersKeepTheirPaceAndNothingIsLost) {
  PlayedS3 s3(240, 1750, [] { return 3ms; });
  s3.readers = 5;
  const double alone = s3.Run(2s).readers_wait_s;
  s3.background = true;
  const PlayedS3::Seen beside = s3.Run(20s);
  EXPECT_LE(beside.readers_wait_s, 3 * alone)
      << "with the whole share it would be 25 times as long";
  EXPECT_GE(beside.answers_per_s, 0.95 * 1750);
}

TEST(BackgroundShare, AnS3ThatIsFarAwayIsUsedWhole) {
  PlayedS3 s3(15, 1e6, [] { return 20ms; });
  s3.readers = 2;
  (void)s3.Run(1s);
  s3.background = true;
  EXPECT_GE(s3.Run(7s).in_background, 0.95 * 15) << "the slow start costs less than a twentieth";
}

TEST(BackgroundShare, AReaderThatComesToAPreloadIsNotBehindIt) {
  PlayedS3 s3(240, 1750, [] { return 3ms; });
  s3.background = true;
  EXPECT_GE(s3.Run(2s).in_background, 239) << "nobody waits";
  s3.readers = 1;
  (void)s3.Run(1s);
  EXPECT_LE(s3.Run(10s).readers_wait_s, 0.015) << "alone it is 3.6 ms, at first 140";
  s3.readers = 0;
  (void)s3.Run(3s);
  EXPECT_GE(s3.Run(2s).in_background, 239);
}

TEST(BackgroundShare, OneSlowAnswerInTenIsNoReason) {
  std::mt19937_64 random(20261124);
  std::lognormal_distribution<double> typical(std::log(0.03), 0.5);
  std::bernoulli_distribution slow(0.1);
  PlayedS3 s3(240, 1e6, [&] { return Seconds(typical(random) * (slow(random) ? 10 : 1)); });
  s3.readers = 4;
  (void)s3.Run(2s);
  s3.background = true;
  (void)s3.Run(5s);
  EXPECT_GE(s3.Run(120s).in_background, 0.9 * 240);
}

TEST(BackgroundShare, AnS3ThatBecomesSlowIsMeasuredAnew) {
  Duration own = 5ms;
  PlayedS3 s3(240, 1e6, [&] { return own; });
  s3.readers = 4;
  (void)s3.Run(1s);
  s3.background = true;
  (void)s3.Run(5s);
  own = 50ms;
  (void)s3.Run(2 * BackgroundShare::kStale);
  EXPECT_GE(s3.Run(10s).in_background, 0.95 * 240);
}

TEST(BackgroundShare, AnotherLinkIsElsewhere) {
  Duration own = 2ms;
  PlayedS3 s3(240, 1e6, [&] { return own; });
  s3.readers = 4;
  (void)s3.Run(1s);
  s3.background = true;
  (void)s3.Run(5s);
  s3.link = Uuid{{2}};
  own = 80ms;
  (void)s3.Run(3s);
  EXPECT_GE(s3.Run(10s).in_background, 0.95 * 240);
}

TEST(BackgroundShare, ItNeverStandsStill) {
  PlayedS3 s3(240, 100, [] { return 3ms; });
  s3.readers = 64;
  (void)s3.Run(2s);
  s3.background = true;
  const PlayedS3::Seen beside = s3.Run(20s);
  EXPECT_GE(beside.limit_at_the_end, 4U);
  EXPECT_GE(beside.in_background, 3.5);
}

TEST(BackgroundShare, ASmallShareIsNeverPassed) {
  BackgroundShare one(1);
  EXPECT_EQ(one.least(), 1U);
  TimePoint now = TimePoint() + 1h;
  for (int i = 0; i < 100; ++i) {
    now += 5ms;
    one.NoteReader(kLink, kSmall, 5ms, 1, now);
    EXPECT_EQ(one.Limit(1, 1, now), 1U);
  }
}

}  // namespace
}  // namespace forebay
