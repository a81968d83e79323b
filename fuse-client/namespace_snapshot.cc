#include "fuse-client/namespace_snapshot.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/model/limits.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/messages.h"

namespace forebay {

namespace {

namespace fs = std::filesystem;

enum class LinkPhase : std::uint32_t { kListing = 0, kReady = 1, kFailed = 2 };

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Older generations; a mount that still maps one keeps it, the name is free to go.
void RemoveOtherGenerations(const std::string& folder, std::uint64_t keep) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".fbs" && path.filename() != SnapshotName(keep)) {
      fs::remove(path, error);
    }
  }
}

std::string BeingListed(const std::string& link) {
  return "\"" + link + "\" is being listed for the first time";
}

/// What the parts of the set `name` wait for; "" = nothing, or it is no set.
std::string UnlistedPart(const KnownLinks& known, const std::string& name) {
  for (const proto::LinkState& link : known.links) {
    const bool is_part = !name.empty() && link.spec().set() == name;
    if (is_part && !link.has_generation()) return BeingListed(link.spec().name());
  }
  return "";
}

std::string ColonAnd(const std::string& reason) { return reason.empty() ? "" : ": " + reason; }

/// True for failures of a transfer that asking for the link again may cure: nobody there, or the
/// generation has been replaced meanwhile.
bool IsPassing(Code code) {
  return code == Code::kUnavailable || code == Code::kTimeout || code == Code::kOverloaded ||
         code == Code::kNotFound;
}

Error NoSuchLink(const std::string& name) {
  return Error{Code::kNotFound,
               "the coordinator has no link \"" + name + "\"; see `forebay links`"};
}

}  // namespace

bool IsLater(const proto::LinkState& offered, const proto::LinkState& shown) {
  return offered.has_generation() && offered.spec().id() == shown.spec().id() &&
         offered.generation().generation() > shown.generation().generation();
}

std::string FolderOf(const MountedNamespace& found) {
  return found.cluster_dir + "/" + UuidFromBytes(found.link.spec().id()).ToString();
}

Task<Result<NamespaceSource::Answer>> NamespaceSource::AskAt(std::string coordinator,
                                                             std::string link) {
  proto::GetLinksRequest request;
  request.set_name(link);
  const Deadline deadline = Deadline::After(options_.call_timeout);
  const Result<RpcReply> reply =
      co_await pool_.Call(coordinator, Method::kGetLinks, request, deadline);
  if (!reply) {
    Error why = reply.error();
    // What says that nobody is there names the address already.
    const bool named = why.message.starts_with(coordinator);
    why.message.insert(0, named ? "coordinator " : "coordinator " + coordinator + ": ");
    co_return Fail(std::move(why));
  }
  Answer answer;
  answer.coordinator = coordinator;
  const Status parsed = ParseMessage(reply->message, answer.reply);
  if (!parsed) co_return Fail(parsed.error().Within("coordinator " + coordinator));
  if (!link.empty() && answer.reply.links_size() == 0) co_return Fail(NoSuchLink(link));
  co_return answer;
}

/// One round over the coordinators, from the one that answered last; then the one that a standby
/// names.
Task<Result<NamespaceSource::Answer>> NamespaceSource::AskForLinks(std::string link) {
  std::vector<std::string> places = options_.coordinators;
  if (!led_.empty()) {
    std::erase(places, led_);
    places.insert(places.begin(), led_);
  }
  Result<Answer> answer = Fail(Code::kUnavailable, "no coordinator is configured");
  std::vector<std::string> standbys;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TimePoint asked = Clock::now();
    Result<Answer> answered = co_await AskAt(places[i], link);
    const bool final = answered || answered.error().code == Code::kNotFound ||
                       answered.error().code == Code::kDenied;
    answer = std::move(answered);
    if (final) {
      led_ = places[i];
      break;
    }
    if (Clock::now() - asked < kStandbyPatience) standbys.push_back(places[i]);
    if (i + 1 < places.size() || standbys.empty()) continue;
    std::string leader = co_await LeaderNamedBy(pool_, std::exchange(standbys, {}));
    const bool asked_it = std::find(places.begin(), places.end(), leader) != places.end();
    if (!leader.empty() && !asked_it) places.push_back(std::move(leader));
  }
  co_return answer;
}

/// One link, and no set.
Task<Result<NamespaceSource::Answer>> NamespaceSource::AskForLink(std::string link) {
  Result<Answer> answer = co_await AskForLinks(link);
  if (answer && answer->reply.links(0).spec().name() != link) co_return Fail(NoSuchLink(link));
  co_return answer;
}

Task<Result<MountedNamespace>> NamespaceSource::Obtain(std::string link, Deadline deadline) {
  TimePoint next_message = Clock::now();
  for (;;) {
    Result<Answer> answer = co_await AskForLink(link);
    std::string waiting_for;
    if (!answer) {
      const Code code = answer.error().code;
      if (code == Code::kNotFound || code == Code::kDenied) co_return Fail(answer.error());
      Result<MountedNamespace> stored = FromDisk(link);
      if (stored) co_return stored;
      waiting_for = answer.error().message;
    } else {
      const auto phase = static_cast<LinkPhase>(answer->reply.links(0).state());
      if (answer->reply.links(0).has_generation()) {
        Result<MountedNamespace> found = co_await FromCoordinator(std::move(*answer));
        if (found || !IsPassing(found.error().code)) co_return found;
        waiting_for = found.error().message;
      } else if (phase == LinkPhase::kFailed) {
        co_return Fail(Code::kInvalid, "listing \"" + link + "\" failed" +
                                           ColonAnd(answer->reply.links(0).error()) +
                                           "; see `forebay tasks`");
      } else {
        waiting_for = BeingListed(link);
      }
    }
    if (deadline.Remaining() <= options_.retry_pause) {
      co_return Fail(Code::kUnavailable, waiting_for + "; gave up waiting");
    }
    if (Clock::now() >= next_message) {
      spdlog::warn("{}, waiting…", waiting_for);
      next_message = Clock::now() + options_.message_every;
    }
    co_await SleepFor(options_.retry_pause);
  }
}

Task<Result<MountedNamespace>> NamespaceSource::FromCoordinator(Answer answer) {
  MountedNamespace found;
  found.cluster = UuidFromBytes(answer.reply.cluster());
  found.link = answer.reply.links(0);
  found.cluster_dir = options_.state_dir + "/" + found.cluster.ToString();
  const std::string folder = FolderOf(found);
  const Status made = MakePrivateFolder(folder);
  if (!made) co_return Fail(made.error());
  Result<std::shared_ptr<const Snapshot>> snapshot =
      co_await fetcher_.Obtain(found.link, answer.coordinator, folder);
  if (!snapshot) co_return Fail(snapshot.error());
  found.snapshot = std::move(*snapshot);
  const Status written = WriteFileAtomically(folder + "/link.pb", answer.reply.SerializeAsString());
  if (!written) co_return Fail(written.error());
  RemoveOtherGenerations(folder, found.link.generation().generation());
  Remember(found);
  co_return found;
}

// Adds the addresses that led to this cluster, so that only they lead to its files later.
void NamespaceSource::Remember(const MountedNamespace& found) const {
  const std::string file = found.cluster_dir + "/coordinators";
  std::string text = ReadWholeFile(file).value_or("");
  const std::vector<std::string> known = Lines(text);
  bool changed = false;
  for (const std::string& address : options_.coordinators) {
    if (std::find(known.begin(), known.end(), address) != known.end()) continue;
    text += address + "\n";
    changed = true;
  }
  if (!changed) return;
  const Status written = WriteFileAtomically(file, text);
  if (!written) {
    spdlog::warn("{}; a remount without a coordinator will not find its files",
                 written.error().message);
  }
}

void NamespaceSource::ForEachOnDisk(
    const std::function<bool(const std::string& folder, const proto::GetLinksReply& reply)>& visit)
    const {
  std::error_code error;
  for (const fs::directory_entry& cluster : fs::directory_iterator(options_.state_dir, error)) {
    const std::string dir = cluster.path().string();
    const std::vector<std::string> known = Lines(ReadWholeFile(dir + "/coordinators").value_or(""));
    const bool ours =
        std::any_of(options_.coordinators.begin(), options_.coordinators.end(),
                    [&](const std::string& address) {
                      return std::find(known.begin(), known.end(), address) != known.end();
                    });
    if (!ours) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
      const std::string folder = entry.path().string();
      const Result<std::string> bytes = ReadWholeFile(folder + "/link.pb");
      proto::GetLinksReply reply;
      if (!bytes || !ParseMessage(*bytes, reply) || reply.links_size() != 1) continue;
      if (!visit(folder, reply)) return;
    }
  }
}

Result<MountedNamespace> NamespaceSource::FromDisk(const std::string& link) const {
  Result<MountedNamespace> found =
      Fail(Code::kNotFound, "nothing of \"" + link + "\" is in " + options_.state_dir);
  ForEachOnDisk([&](const std::string& folder, const proto::GetLinksReply& reply) {
    if (reply.links(0).spec().name() != link) return true;
    const std::uint64_t generation = reply.links(0).generation().generation();
    auto snapshot = OpenVerified(folder + "/" + SnapshotName(generation), reply.links(0));
    if (!snapshot) {
      found = Fail(snapshot.error());
      return false;
    }
    spdlog::warn("no coordinator answers; mounting generation {} of \"{}\" from {}", generation,
                 link, folder);
    found = MountedNamespace{UuidFromBytes(reply.cluster()), reply.links(0), std::move(*snapshot),
                             fs::path(folder).parent_path().string(), true};
    return false;
  });
  return found;
}

/// Of a name, or all with "".
Result<KnownLinks> NamespaceSource::LinksOnDisk(const std::string& name) const {
  KnownLinks known;
  known.from_disk = true;
  ForEachOnDisk([&](const std::string& folder, const proto::GetLinksReply& reply) {
    const proto::LinkSpec& spec = reply.links(0).spec();
    if (!name.empty() && spec.name() != name && spec.set() != name) return true;
    known.cluster = UuidFromBytes(reply.cluster());
    known.cluster_dir = fs::path(folder).parent_path().string();
    known.links.push_back(reply.links(0));
    return true;
  });
  if (known.links.empty()) {
    return Fail(Code::kNotFound, "no link was mounted before from " + options_.state_dir);
  }
  return known;
}

Task<Result<proto::LinkState>> NamespaceSource::Look(std::string link) {
  Result<Answer> answer = co_await AskForLink(std::move(link));
  if (!answer) co_return Fail(answer.error());
  co_return answer->reply.links(0);
}

Task<Result<KnownLinks>> NamespaceSource::Links(std::string name) {
  Result<Answer> answer = co_await AskForLinks(std::move(name));
  if (!answer) co_return Fail(answer.error());
  KnownLinks known;
  known.cluster = UuidFromBytes(answer->reply.cluster());
  known.cluster_dir = options_.state_dir + "/" + known.cluster.ToString();
  known.links.assign(answer->reply.links().begin(), answer->reply.links().end());
  co_return known;
}

Task<Result<KnownLinks>> NamespaceSource::WaitForLinks(std::string name, Deadline deadline) {
  TimePoint next_message = Clock::now();
  for (;;) {
    Result<KnownLinks> known = co_await Links(name);
    const Code code = known ? Code::kUnavailable : known.error().code;
    if (code == Code::kDenied || code == Code::kNotFound) co_return known;
    std::string waiting_for = known ? UnlistedPart(*known, name) : known.error().message;
    if (waiting_for.empty()) co_return known;
    if (!known) {
      Result<KnownLinks> stored = LinksOnDisk(name);
      if (stored) co_return stored;
    }
    if (deadline.Remaining() <= options_.retry_pause) {
      co_return Fail(Code::kUnavailable, waiting_for + "; gave up waiting");
    }
    if (Clock::now() >= next_message) {
      spdlog::warn("{}, waiting…", waiting_for);
      next_message = Clock::now() + options_.message_every;
    }
    co_await SleepFor(options_.retry_pause);
  }
}

}  // namespace forebay
