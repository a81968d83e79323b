#include "common/s3/credential_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/s3/auth/default_chain.h"
#include "tests/fakes/run_task.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using fakes::RunTask;
using testing::HasSubstr;
using namespace std::chrono_literals;
using SystemClock = std::chrono::system_clock;

constexpr const char* kProfileX =
    "[x]\naws_access_key_id = AKX\naws_secret_access_key = s3cret\naws_session_token = tok\n";

class CredentialCacheTest : public testing::Test {
 protected:
  CredentialCache MakeCache(Duration recheck) {
    return {
        DefaultCredentialChain(
            AwsEnvironment({{"AWS_SHARED_CREDENTIALS_FILE", files_.Write("credentials", kProfileX)},
                            {"AWS_CONFIG_FILE", files_.Path("config")},
                            {"AWS_EC2_METADATA_DISABLED", "true"}}),
            ""),
        recheck};
  }
  std::string Keys(const std::string& id) {
    return "[x]\naws_access_key_id = " + id + "\naws_secret_access_key = s\n";
  }
  TempFiles files_;
  const Deadline soon_ = Deadline::After(20s);
};

TEST_F(CredentialCacheTest, GivesTheSameKeysUntilTheyAreOld) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  const auto first = RunTask(cache.Get("x", soon_));
  ASSERT_TRUE(first) << first.error().message;
  files_.Write("credentials", Keys("AKNEW"));
  const auto second = RunTask(cache.Get("x", soon_));
  EXPECT_EQ(first, second);
}

TEST_F(CredentialCacheTest, PicksUpAChangedFileBehindTheCallersBack) {
  CredentialCache cache = MakeCache(0s);
  cache.Start();
  ASSERT_TRUE(RunTask(cache.Get("x", soon_)));
  files_.Write("credentials", Keys("AKNEW"));
  std::string key_id;
  while (key_id != "AKNEW" && !soon_.Expired()) key_id = (*RunTask(cache.Get("x", soon_)))->key_id;
  EXPECT_EQ(key_id, "AKNEW");
}

TEST_F(CredentialCacheTest, NewerLooksAgainAndSaysWhatItFinds) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  const auto used = *RunTask(cache.Get("x", soon_));
  EXPECT_TRUE((*RunTask(cache.Newer("x", used, soon_)))->SameKeys(*used));
  files_.Write("credentials", Keys("AKNEW"));
  EXPECT_EQ((*RunTask(cache.Newer("x", used, soon_)))->key_id, "AKNEW");
  EXPECT_EQ((*RunTask(cache.Get("x", soon_)))->key_id, "AKNEW");
  files_.Write("credentials", "[other]\n");
  const auto newest = *RunTask(cache.Get("x", soon_));
  EXPECT_EQ(RunTask(cache.Newer("x", newest, soon_)).error().code, Code::kDenied);
}

TEST_F(CredentialCacheTest, ReloadLooksAgainWhateverTheAge) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  ASSERT_TRUE(RunTask(cache.Get("x", soon_)));
  files_.Write("credentials", Keys("AKNEW"));
  cache.Reload();
  std::string key_id;
  while (key_id != "AKNEW" && !soon_.Expired()) key_id = (*RunTask(cache.Get("x", soon_)))->key_id;
  EXPECT_EQ(key_id, "AKNEW");
}

TEST_F(CredentialCacheTest, AFailedLookIsRepeatedByTheNextCall) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  EXPECT_EQ(RunTask(cache.Get("late", soon_)).error().code, Code::kDenied);
  files_.Write("credentials", "[late]\naws_access_key_id = A\naws_secret_access_key = s\n");
  EXPECT_TRUE(RunTask(cache.Get("late", soon_)));
}

TEST_F(CredentialCacheTest, AStoppedCacheAnswers) {
  CredentialCache cache = MakeCache(1h);
  cache.Start();
  cache.Stop();
  EXPECT_EQ(RunTask(cache.Get("x", soon_)).error().code, Code::kUnavailable);
}

// Somebody who hands out keys with a life of their own: "AK1", "AK2" …
struct Issuer {
  std::atomic<int> looks{0};
  std::atomic<bool> away{false};
  std::atomic<bool> broken{false};
  std::atomic<int> life_s{3600};
  std::atomic<int> version{0};  // of its files
};

class IssuedKeys final : public CredentialProvider {
 public:
  explicit IssuedKeys(Issuer& issuer) : issuer_(issuer) {}
  std::string_view name() const override { return "issuer"; }
  CredentialAnswer Load(const std::string& profile, std::stop_token stop) const override {
    const int look = ++issuer_.looks;
    if (profile == "slow") {
      while (!stop.stop_requested()) std::this_thread::yield();
    }
    if (issuer_.away) return Away("it is out to lunch");
    if (issuer_.broken) return Broken("it refuses its own source");
    const auto now = std::chrono::floor<std::chrono::seconds>(SystemClock::now());
    return S3Credentials{.key_id = "AK" + std::to_string(look),
                         .secret_key = Secret("s"),
                         .session_token = Secret("t"),
                         .provider = "the issuer",
                         .expires = now + std::chrono::seconds(issuer_.life_s.load()),
                         .local = false};
  }
  std::string Stamp() const override { return std::to_string(issuer_.version.load()); }

 private:
  Issuer& issuer_;
};

class IssuedKeysTest : public testing::Test {
 protected:
  IssuedKeysTest() : cache_(Chain(issuer_), 0s) { cache_.Start(); }
  static CredentialChain Chain(Issuer& issuer) {
    CredentialChain::Providers providers;
    providers.push_back(std::make_unique<IssuedKeys>(issuer));
    return CredentialChain(std::move(providers));
  }
  std::string Get() {
    const auto found = RunTask(cache_.Get("", soon_));
    return found ? (*found)->key_id : found.error().message;
  }
  // Asks until `key_id` is in use.
  bool Becomes(const std::string& key_id) {
    while (Get() != key_id) {
      if (soon_.Expired()) return false;
    }
    return true;
  }

  Issuer issuer_;
  CredentialCache cache_;
  const Deadline soon_ = Deadline::After(20s);
};

TEST_F(IssuedKeysTest, LongKeysAreAskedForOnce) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Get(), "AK1");
  EXPECT_EQ(issuer_.looks, 1);
}

TEST_F(IssuedKeysTest, AChangedFileMakesThemAskAgain) {
  EXPECT_EQ(Get(), "AK1");
  issuer_.version = 1;
  EXPECT_TRUE(Becomes("AK2"));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Get(), "AK2");
  EXPECT_EQ(issuer_.looks, 2);
}

TEST_F(IssuedKeysTest, KeysAreRenewedBeforeTheyExpire) {
  issuer_.life_s = 4;  // renewed in the last of its four seconds
  EXPECT_EQ(Get(), "AK1");
  issuer_.life_s = 3600;
  const auto expiry = SystemClock::now() + 4s;
  EXPECT_TRUE(Becomes("AK2"));
  EXPECT_LT(SystemClock::now(), expiry) << "only after they had expired";
}

TEST_F(IssuedKeysTest, TheOldOnesAreUsedUntilTheyExpire) {
  issuer_.life_s = 2;
  EXPECT_EQ(Get(), "AK1");
  issuer_.away = true;
  std::string said;
  int used = 0;
  while (!soon_.Expired() && (said = Get()) == "AK1") used += issuer_.looks > 1 ? 1 : 0;
  EXPECT_GT(used, 0) << "they were dropped at the first failure";
  EXPECT_THAT(said, HasSubstr("key id AK1 from the issuer) have expired"));
  EXPECT_THAT(said, HasSubstr("out to lunch"));
  issuer_.away = false;
  issuer_.life_s = 3600;
  EXPECT_THAT(Get(), HasSubstr("AK"));
}

TEST_F(IssuedKeysTest, ExpiredKeysOfABrokenSourceMayStillBeReplaced) {
  issuer_.life_s = 1;
  EXPECT_EQ(Get(), "AK1");
  issuer_.broken = true;
  Result<CredentialCache::Ptr> found = RunTask(cache_.Get("", soon_));
  while (found && !soon_.Expired()) found = RunTask(cache_.Get("", soon_));
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, Code::kUnavailable) << found.error().message;
  EXPECT_THAT(found.error().message, HasSubstr("key id AK1 from the issuer) have expired"));
  EXPECT_THAT(found.error().message, HasSubstr("refuses its own source"));
  issuer_.broken = false;
  EXPECT_TRUE(RunTask(cache_.Get("", soon_)).has_value());
}

TEST_F(IssuedKeysTest, ASourceThatNeverGaveAnyAndIsBrokenIsDenied) {
  issuer_.broken = true;
  EXPECT_EQ(RunTask(cache_.Get("", soon_)).error().code, Code::kDenied);
}

TEST_F(IssuedKeysTest, SomebodyAwayIsUnavailableAndNotDenied) {
  issuer_.away = true;
  EXPECT_EQ(RunTask(cache_.Get("", soon_)).error().code, Code::kUnavailable);
}

TEST_F(IssuedKeysTest, RefusedKeysMakeOneNewLook) {
  const auto used = *RunTask(cache_.Get("", soon_));
  EXPECT_EQ((*RunTask(cache_.Newer("", used, soon_)))->key_id, "AK2");
  EXPECT_EQ((*RunTask(cache_.Newer("", used, soon_)))->key_id, "AK2") << "others have found some";
  EXPECT_EQ(issuer_.looks, 2);
}

TEST(IssuedKeys, AStormOfRefusalsAsksNobody) {
  Issuer issuer;
  CredentialChain::Providers providers;
  providers.push_back(std::make_unique<IssuedKeys>(issuer));
  CredentialCache cache(CredentialChain(std::move(providers)), 1h);
  cache.Start();
  const Deadline soon = Deadline::After(20s);
  const auto used = *RunTask(cache.Get("", soon));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE((*RunTask(cache.Newer("", used, soon)))->SameKeys(*used));
  }
  EXPECT_EQ(issuer.looks, 1);
}

TEST_F(IssuedKeysTest, ASlowProfileHoldsUpNoOther) {
  const auto slow = RunTask(cache_.Get("slow", Deadline::After(100ms)));
  EXPECT_EQ(slow.error().code, Code::kUnavailable);
  EXPECT_EQ(Get(), "AK2");
}

}  // namespace
}  // namespace forebay
