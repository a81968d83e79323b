#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "cachenode/peer_source.h"
#include "common/model/limits.h"
#include "common/wire/client_pool.h"
#include "common/wire/connection.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;

/// What is left for the GET and for a machine that is busy.
constexpr milliseconds kReserve{400};

/// Until a call to a peer that says nothing ends, when its connection took `connecting`.
Duration LongestCall(Duration connecting, Duration silence) {
  const TimePoint began{};
  const TimePoint now = began + connecting;
  return SilentFrom(began, now, silence) + silence + Connection::kTick - began;
}

// Each in the place where it is the worst one: docs/adr/0019.
TEST(Patience, TheWaitsForOneStoppedNodeAddUpToLessThanThePromise) {
  const PeerSourceOptions node;
  EXPECT_LE(LongestCall({}, kPeerPatience) + node.doubt + kReserve, kSilence)
      << "the next owner then asks S3";
  EXPECT_LE(LongestCall({}, node.silence) + kReserve, kSilence)
      << "a node that asks for its reader";
  EXPECT_LE(node.restart + kReserve, kSilence) << "a process that is restarted";
  for (Duration took{}; took <= ConnectPart(kPeerPatience); took += milliseconds(10)) {
    EXPECT_LT(LongestCall(took, kPeerPatience) + node.doubt, kSilence)
        << "a slow connection, and a stop just after it";
  }
}

TEST(Patience, APeerThatHasJustConnectedHasTimeToSayThatItWorks) {
  for (Duration took{}; took <= ConnectPart(kPeerPatience); took += milliseconds(10)) {
    const Duration left = LongestCall(took, kPeerPatience) - Connection::kTick - took;
    EXPECT_GE(left, kPendingAfter + 2 * Connection::kTick);
  }
}

TEST(Patience, OnePendingMayBeLost) { EXPECT_GE(kPeerPatience, 2 * kPendingEvery); }

}  // namespace
}  // namespace forebay
