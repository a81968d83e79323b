#include "coordinator/election.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace forebay {
namespace {

/// After Resign: others have tried by then.
constexpr std::chrono::seconds kStandAside{10};
/// After a failure, which came at once where nobody listens.
constexpr std::chrono::milliseconds kPause{200};

}  // namespace

Election::~Election() { Stop(); }

void Election::Start(std::string address) {
  address_ = std::move(address);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "election");
    Run();
  });
}

void Election::Stop() {
  stopping_ = true;
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::int64_t Election::Term() const {
  const std::scoped_lock lock(mutex_);
  return Clock::now() < leads_until_ ? term_ : 0;
}

EtcdCondition Election::Guard(std::int64_t term) const {
  return EtcdCondition{.key = LeaderKey(), .value = std::nullopt, .created = term};
}

void Election::WaitWhile(std::int64_t term, Duration patience) const {
  std::unique_lock lock(mutex_);
  const TimePoint until = Clock::now() + patience;
  const auto now = [this] { return Clock::now() < leads_until_ ? term_ : 0; };
  while (now() == term && Clock::now() < until) {
    // A lease ends without anybody who would notify.
    const TimePoint end = term != 0 ? std::min(until, leads_until_) : until;
    changed_.wait_until(lock, end);
  }
}

void Election::Resign() { resign_ = true; }

std::string Election::Leader() const {
  const std::scoped_lock lock(mutex_);
  return LostTouch() ? "" : leader_;
}

std::string Election::Trouble() const {
  const std::scoped_lock lock(mutex_);
  if (!trouble_.empty() || !LostTouch()) return trouble_;
  return "etcd has not answered for as long as this coordinator may lead without it";
}

bool Election::LostTouch() const {
  return !leader_.empty() && leader_ == address_ && Clock::now() >= leads_until_;
}

Result<std::vector<std::string>> Election::Others() {
  const std::string below = client_.prefix() + "coordinators/";
  Result<std::vector<EtcdPair>> rows = client_.Scan(below, true);
  if (!rows) return Fail(rows.error());
  std::vector<std::string> others;
  for (const EtcdPair& row : *rows) {
    std::string address = row.key.substr(below.size());
    if (address != address_) others.push_back(std::move(address));
  }
  return others;
}

void Election::SetTerm(std::int64_t term) {
  {
    const std::scoped_lock lock(mutex_);
    term_ = term;
  }
  changed_.notify_all();
}

void Election::Note(const Status& status) {
  const std::scoped_lock lock(mutex_);
  const std::string trouble = status ? "" : status.error().message;
  if (!status && trouble_.empty()) spdlog::warn("no word of who leads: {}", trouble);
  if (status && !trouble_.empty()) spdlog::info("etcd answers");
  trouble_ = trouble;
  if (!status) leader_.clear();
}

/// The lease, which is a new one where the old one has ended.
Status Election::Renew() {
  const TimePoint asked = Clock::now();
  if (lease_ != 0) {
    Result<bool> kept = client_.KeepLease(lease_);
    if (!kept) return Fail(kept.error());
    if (*kept) {
      const std::scoped_lock lock(mutex_);
      leads_until_ = asked + kLease;
      return {};
    }
    lease_ = 0;
    SetTerm(0);
  }
  Result<std::int64_t> granted = client_.GrantLease(kLease);
  if (!granted) return Fail(granted.error());
  EtcdTransaction present;
  present.changes.push_back(
      {.key = client_.prefix() + "coordinators/" + address_, .value = "", .lease = *granted});
  Result<EtcdClient::Outcome> made = client_.Commit(present);
  if (!made) return Fail(made.error());
  lease_ = *granted;
  const std::scoped_lock lock(mutex_);
  leads_until_ = asked + kLease;
  return {};
}

/// Takes the lead where nobody has it, and learns who has.
Status Election::Campaign() {
  EtcdTransaction stand;
  stand.conditions.push_back({.key = LeaderKey(), .value = std::nullopt, .created = 0});
  if (Clock::now() >= stand_after_) {
    stand.changes.push_back({.key = LeaderKey(), .value = address_, .lease = lease_});
  }
  stand.read_otherwise = LeaderKey();
  Result<EtcdClient::Outcome> outcome = client_.Commit(stand);
  if (!outcome) return Fail(outcome.error());
  revision_ = outcome->revision;
  // A request that was repeated finds what its first try has made.
  const bool repeated = outcome->found && outcome->found->lease == lease_;
  const bool elected = repeated || (outcome->done && !stand.changes.empty());
  std::string leader = elected ? address_ : "";
  if (outcome->found) leader = outcome->found->value;
  {
    const std::scoped_lock lock(mutex_);
    if (leader_ != leader && !leader.empty() && !elected) {
      spdlog::info("the coordinator at {} leads", leader);
    }
    leader_ = leader;
  }
  if (elected) SetTerm(repeated ? outcome->found->create_revision : outcome->revision);
  return {};
}

void Election::Run() {
  while (!stopping_) {
    if (resign_.exchange(false)) {
      SetTerm(0);
      const Status ended = client_.EndLease(std::exchange(lease_, 0));
      (void)ended;  // it ends by itself
      stand_after_ = Clock::now() + kStandAside;
    }
    Status status = Renew();
    if (status && !Leads()) status = Campaign();
    Note(status);
    if (status && !Leads()) {
      const Status waited = client_.WaitForChange(LeaderKey(), revision_, kRenewEvery);
      (void)waited;  // what the next look finds counts
      continue;
    }
    std::unique_lock lock(mutex_);
    const auto over = [this] { return stopping_.load(); };
    // From when the last renewal was sent: a slow answer to a campaign takes its time from the
    // lease.
    const TimePoint renew = leads_until_ - kLease + kRenewEvery;
    changed_.wait_until(lock, status ? renew : Clock::now() + kPause, over);
  }
  SetTerm(0);
  if (lease_ == 0) return;
  const Status ended = client_.EndLease(lease_);
  (void)ended;
}

}  // namespace forebay
