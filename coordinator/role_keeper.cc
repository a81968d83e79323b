#include "coordinator/role_keeper.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "common/base/metric_names.h"
#include "common/base/wall_clock.h"
#include "common/wire/rpc_metrics.h"

namespace forebay {
namespace {

/// /readyz is no older than this, and a stop waits no longer for the thread.
constexpr std::chrono::milliseconds kLook{250};
/// A port that our own last role has just left.
constexpr std::chrono::seconds kBindPatience{5};
/// Who starts this program asks it something next. An election takes as long as etcd's answer, or
/// as the lease of a leader that died.
constexpr std::chrono::seconds kSettlePatience{5};
constexpr std::chrono::milliseconds kSettleLook{20};
/// As of a coordinator that leads.
constexpr std::chrono::seconds kKeepTrustEvery{5};
/// How often a term is begun for which etcd has no answer, until another coordinator may try.
constexpr int kTermTries = 4;
constexpr const char* kClusterKey = "cluster/uuid";

void WarnOfEmbeddedState(const std::string& state_dir) {
  std::error_code error;
  if (!std::filesystem::exists(state_dir + "/db", error)) return;
  spdlog::warn("{}/db is the state of a coordinator that was alone: with --etcd it is not used",
               state_dir);
}

}  // namespace

Result<std::unique_ptr<RoleKeeper>> RoleKeeper::Start(Parts parts) {
  Result<StateDirectory> directory = StateDirectory::Open(parts.options.state_dir);
  if (!directory) return Fail(directory.error());
  WarnOfEmbeddedState(parts.options.state_dir);
  std::unique_ptr<RoleKeeper> keeper(new RoleKeeper(std::move(parts), std::move(*directory)));
  Status listening = keeper->BecomeStandby();
  if (!listening) return Fail(listening.error());
  keeper->election_.Start(keeper->parts_.options.advertise);
  keeper->thread_ = std::thread([self = keeper.get()] {
    pthread_setname_np(pthread_self(), "role");
    self->Run();
  });
  keeper->AwaitLeader();
  return keeper;
}

RoleKeeper::RoleKeeper(Parts parts, StateDirectory directory)
    : parts_(std::move(parts)),
      directory_(std::move(directory)),
      client_(parts_.etcd),
      store_(client_, std::nullopt),
      members_(store_, 0, parts_.options.trust),
      election_(client_) {}

RoleKeeper::~RoleKeeper() { Stop(); }

void RoleKeeper::AwaitLeader() {
  const auto known = [this] {
    const std::scoped_lock lock(mutex_);
    if (serving_) return true;
    const std::string leader = election_.Leader();
    if (leader.empty() || leader == parts_.options.advertise) return false;
    // Who starts this program may ask at once; the role's thread says it only when it looks again.
    parts_.services.health.SetNotReady(NotReadyText());
    return true;
  };
  const Deadline deadline = Deadline::After(kSettlePatience);
  while (!known() && !deadline.Expired() && !parts_.services.stopping.stop_requested())
    std::this_thread::sleep_for(kSettleLook);
}

StandbyOptions RoleKeeper::OptionsOfStandby() const {
  StandbyOptions options;
  options.listen = address_.empty() ? parts_.options.listen : address_;
  options.reach = parts_.options.reach;
  options.credentials = CoordinatorCredentials(parts_.options, cluster_);
  options.state_dir = parts_.options.state_dir;
  options.reply_bytes = parts_.options.reply_bytes;
  options.leader = [this] { return election_.Leader(); };
  options.trouble = [this] { return election_.Trouble(); };
  const Trust* trust = parts_.options.trust.get();
  if (trust != nullptr && trust->folder() != nullptr)
    options.report = [this] { return members_.Report(parts_.options.advertise); };
  return options;
}

Status RoleKeeper::BecomeStandby() {
  const Deadline deadline = Deadline::After(kBindPatience);
  for (;;) {
    Result<std::unique_ptr<Standby>> standby = Standby::Start(OptionsOfStandby());
    if (standby) {
      standby_ = std::move(*standby);
      break;
    }
    if (address_.empty() || deadline.Expired() || stopping_) return Fail(standby.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  address_ = standby_->address();
  if (parts_.options.advertise.empty()) parts_.options.advertise = address_;
  standby_metrics_ =
      parts_.services.metrics.AddCollector([trust = parts_.options.trust](MetricSamples& samples) {
        samples.Set(metric::kCoordinatorIsLeader, {}, 0);
        ReportTrust(trust.get(), samples);
      });
  parts_.services.watch_loops(standby_->Loops());
  return {};
}

std::string RoleKeeper::NotReadyText() const {
  const std::string leader = election_.Leader();
  if (!leader.empty()) return "standby, the leader is at " + leader;
  const std::string trouble = election_.Trouble();
  return trouble.empty() ? "standby, and nobody leads" : "standby, " + trouble;
}

/// A standby that was there before the first leader does not know the cluster: it accepts any, and
/// its own certificate's.
void RoleKeeper::LearnCluster() {
  if (!cluster_.IsZero()) return;
  Result<std::optional<std::string>> stored = store_.Get(kClusterKey);
  if (stored && stored->has_value()) cluster_ = Uuid::Parse(**stored);
}

/// A standby renews its own certificate, too, and knows who was revoked.
void RoleKeeper::KeepTrust() {
  if (!parts_.options.trust || Clock::now() < keep_trust_at_) return;
  keep_trust_at_ = Clock::now() + kKeepTrustEvery;
  const Status loaded = members_.Load(UnixSeconds());
  // Without etcd the revocations known so far stay; the certificate is renewed all the same.
  if (!loaded) members_.KeepOwn(UnixSeconds());
}

void RoleKeeper::Run() {
  while (!stopping_) {
    const std::int64_t term = election_.Term();
    if (term != 0) {
      ServeTerm(term);
    } else {
      StandBy();
    }
  }
}

void RoleKeeper::StandBy() {
  if (!standby_) {
    Status listening = BecomeStandby();
    if (!listening) {
      spdlog::critical("the coordinator cannot stand by: {}", listening.error().message);
      stopping_ = true;
      parts_.services.request_stop();
      return;
    }
  }
  if (!parts_.services.stopping.stop_requested()) {
    parts_.services.health.SetNotReady(NotReadyText());
  }
  KeepTrust();
  election_.WaitWhile(0, kLook);
}

/// What this coordinator knows may no longer be what etcd has.
void RoleKeeper::ReadAgain() {
  spdlog::warn("etcd did not say whether a change was made: the state is read again");
  again_ = true;
}

Status RoleKeeper::BeginTerm(std::int64_t term) {
  LearnCluster();
  parts_.services.watch_loops({});
  standby_metrics_ = {};
  standby_.reset();
  CoordinatorOptions options = parts_.options;
  options.listen = address_;
  options.leadership =
      Leadership{.store = std::make_shared<EtcdStateStore>(client_, election_.Guard(term),
                                                           [this] { ReadAgain(); }),
                 .holds = [this, term] { return !again_ && election_.Term() == term; },
                 .others = [this] { return election_.Others(); }};
  again_ = false;
  options.begin_again = [this] { again_ = true; };
  Result<std::unique_ptr<ServingCoordinator>> serving =
      ServingCoordinator::Start(std::move(options), parts_.s3, parts_.services.metrics);
  if (!serving) return Fail(serving.error());
  {
    const std::scoped_lock lock(mutex_);
    serving_ = std::move(*serving);
  }
  parts_.services.watch_loops(serving_->Loops());
  return {};
}

void RoleKeeper::ServeTerm(std::int64_t term) {
  const TimePoint elected = Clock::now();
  spdlog::info("this coordinator is elected: it takes over");
  Status begun = BeginTerm(term);
  if (begun) {
    unanswered_begins_ = 0;
    const std::chrono::duration<double> took = Clock::now() - elected;
    spdlog::info("this coordinator leads, {:.3f} s after its election", took.count());
    while (!stopping_ && !again_ && election_.Term() == term) {
      if (!parts_.services.stopping.stop_requested()) parts_.services.health.SetReady();
      election_.WaitWhile(term, kLook);
    }
    if (!stopping_ && !again_) spdlog::warn("this coordinator no longer leads: {}", NotReadyText());
  } else {
    spdlog::error("this coordinator cannot lead: {}", begun.error().message);
    // Another one would ask the same etcd. Who lost the lease stands again as soon as it answers.
    const bool waits =
        begun.error().code == Code::kUnavailable && ++unanswered_begins_ < kTermTries;
    if (!stopping_ && !waits && election_.Term() == term) election_.Resign();
  }
  parts_.services.watch_loops({});
  std::unique_ptr<ServingCoordinator> ended;
  {
    const std::scoped_lock lock(mutex_);
    ended = std::move(serving_);
  }
  ended.reset();
  // Until it is a standby again, and while Resign is being done.
  if (!begun) election_.WaitWhile(term, EtcdClient::kPatience);
}

void RoleKeeper::ReloadCredentials() {
  const std::scoped_lock lock(mutex_);
  if (serving_) serving_->ReloadCredentials();
}

void RoleKeeper::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  parts_.services.watch_loops({});
  standby_metrics_ = {};
  standby_.reset();
  election_.Stop();
}

}  // namespace forebay
