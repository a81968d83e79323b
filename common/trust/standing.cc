#include "common/trust/standing.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace forebay {
namespace {

/// Members whose grace was logged; more are logged again.
constexpr std::size_t kMostExcused = 4096;

Error NoList() {
  return Error{Code::kInvalid, "the list of members that were revoked cannot be read"};
}

Result<Revocation> OneOf(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return Fail(NoList());
  Revocation one{.role = RoleOfWord(line.substr(0, first)),
                 .id = std::string(line.substr(first + 1, last - first - 1))};
  const std::string_view number = line.substr(last + 1);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), one.until_unix_s);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  if (!whole || one.role == proto::ROLE_UNKNOWN || !CheckMemberId(one.id)) return Fail(NoList());
  return one;
}

}  // namespace

std::int64_t IssueTime(const std::vector<Revocation>& revoked, const Identity& member,
                       std::int64_t now_unix_s) {
  for (const Revocation& each : revoked) {
    if (each.role == member.role && each.id == member.id)
      now_unix_s = std::max(now_unix_s, each.until_unix_s + 1);
  }
  return now_unix_s;
}

std::string TextOf(const std::vector<Revocation>& revocations) {
  std::string text;
  for (const Revocation& each : revocations) {
    text += std::string(RoleWord(each.role)) + " " + each.id + " " +
            std::to_string(each.until_unix_s) + "\n";
  }
  return text;
}

Result<std::vector<Revocation>> RevocationsOf(std::string_view text) {
  std::vector<Revocation> all;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || all.size() == kMaxRevocations) return Fail(NoList());
    Result<Revocation> one = OneOf(text.substr(0, end));
    if (!one) return Fail(one.error());
    all.push_back(std::move(*one));
    text.remove_prefix(end + 1);
  }
  return all;
}

void Standing::NoteCoordinator(std::int64_t now_unix_s) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t gone = std::chrono::seconds(kCoordinatorGone).count();
  if (answers_since_ == 0 || now_unix_s - answered_unix_s_ > gone) answers_since_ = now_unix_s;
  answered_unix_s_ = now_unix_s;
  if (now_unix_s - answers_since_ >= std::chrono::seconds(kTimeToRenew).count())
    worked_unix_s_ = std::max(worked_unix_s_, now_unix_s);
}

void Standing::NoteIssued(std::int64_t unix_s) {
  const std::scoped_lock lock(mutex_);
  issued_unix_s_ = std::max(issued_unix_s_, unix_s);
}

bool Standing::Excuses(std::int64_t ended_unix_s, std::int64_t now_unix_s) const {
  const std::scoped_lock lock(mutex_);
  const bool had_time = now_unix_s - issued_unix_s_ >= std::chrono::seconds(kTimeToRenew).count();
  const bool could_renew =
      worked_unix_s_ >= ended_unix_s || (had_time && issued_unix_s_ >= ended_unix_s);
  return now_unix_s < ended_unix_s + std::chrono::seconds(kGrace).count() && !could_renew;
}

bool Standing::IsFirstExcuse(const Identity& member) {
  const std::scoped_lock lock(mutex_);
  if (excused_.size() >= kMostExcused) excused_.clear();
  return excused_.insert(NameOf(member)).second;
}

void Standing::SetRevoked(std::vector<Revocation> revoked) {
  const std::scoped_lock lock(mutex_);
  if (revoked == revoked_) return;
  revoked_ = std::move(revoked);
  revision_.fetch_add(1, std::memory_order_release);
}

void Standing::SetBelieved(std::vector<std::string> hashes) {
  const std::scoped_lock lock(mutex_);
  if (hashes == believed_) return;
  believed_ = std::move(hashes);
  revision_.fetch_add(1, std::memory_order_release);
}

bool Standing::IsBelieved(std::string_view authority_hash) const {
  const std::scoped_lock lock(mutex_);
  return believed_.empty() || authority_hash.empty() ||
         std::ranges::find(believed_, authority_hash) != believed_.end();
}

std::vector<Revocation> Standing::revoked() const {
  const std::scoped_lock lock(mutex_);
  return revoked_;
}

bool Standing::IsRevoked(proto::Role role, std::string_view id, std::int64_t issued_unix_s) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(revoked_, [&](const Revocation& each) {
    return each.role == role && each.id == id && issued_unix_s <= each.until_unix_s;
  });
}

}  // namespace forebay
