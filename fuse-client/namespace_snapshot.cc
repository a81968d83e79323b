#include "fuse-client/namespace_snapshot.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/model/limits.h"
#include "common/wire/client_pool.h"
#include "common/wire/coordinators.h"
#include "common/wire/messages.h"
#include "fuse-client/error_log.h"

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

/// Of transfers that were cut short with their process: each is up to a whole listing. One that
/// goes on writes all the time.
void RemoveLeftovers(const std::string& folder) {
  constexpr std::chrono::hours kWrittenWithin{1};
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".tmp") continue;
    std::error_code gone;
    const auto written = entry.last_write_time(gone);
    if (!gone && now - written > kWrittenWithin) fs::remove(entry.path(), gone);
  }
}

std::optional<proto::GetLinksReply> ReplyKeptIn(const std::string& folder) {
  const Result<std::string> bytes = ReadWholeFile(folder + "/link.pb");
  proto::GetLinksReply reply;
  if (!bytes || !ParseMessage(*bytes, reply) || reply.links_size() != 1) return std::nullopt;
  return reply;
}

/// All but what mounts that go on showing the link have said in `.forebay/errors`: they keep it
/// there. The link.pb goes last: by it the folder is found again after an error.
std::error_code RemoveListing(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const bool last = entry.path().filename() == "link.pb";
    if (!last && !IsErrorFile(entry.path().string())) fs::remove_all(entry.path(), error);
    if (error) return error;
  }
  if (!error) fs::remove(folder + "/link.pb", error);
  std::error_code not_empty;
  if (!error) fs::remove(folder, not_empty);
  return error;
}

/// Who said it, and that it has shown this.
Fence HeardFrom(const proto::GetLinksReply& said) {
  KnownLinks known;
  known.fence = FromProto(said.fence());
  known.links_version = said.links_version();
  return HeardFrom(known);
}

/// Links that had the name of `found` and were removed: nobody mounts them any more, and a mount
/// that goes on showing one holds its file. `said`: of the coordinator that names it; one with an
/// old copy of its state may name a link that was removed.
void RemoveEarlierLinks(const MountedNamespace& found, const Fence& said) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(found.cluster_dir, error)) {
    const std::string folder = entry.path().string();
    const std::optional<proto::GetLinksReply> kept = ReplyKeptIn(folder);
    if (!kept) {
      std::error_code not_empty;
      if (RemoveOldErrors(folder, "")) fs::remove(folder, not_empty);
      continue;
    }
    if (kept->links(0).spec().name() != found.link.spec().name()) continue;
    if (kept->links(0).spec().id() == found.link.spec().id()) continue;
    if (!Believes(HeardFrom(*kept), said)) continue;
    if (RemoveListing(folder)) continue;
    spdlog::info("the listing of an earlier link \"{}\" is removed: {}", found.link.spec().name(),
                 folder);
  }
}

std::string ColonAnd(const std::string& reason) { return reason.empty() ? "" : ": " + reason; }

/// What a mount's user can do, who may have set what the command reads alone.
template <typename Answer>
std::string GaveUp(const Result<Answer>& answer) {
  const std::string sentence = "; gave up waiting";
  if (answer || answer.error().code != Code::kUnavailable) return sentence;
  return sentence +
         ": start forebay-coordinator, or name another one with --coordinator HOST:PORT "
         "or FOREBAY_MOUNT_COORDINATOR";
}

/// Of a link without a generation: it is listed for the first time, or anew because that was lost.
std::string BeingListed(const proto::LinkState& link) {
  const std::string name = "\"" + link.spec().name() + "\"";
  if (link.error().empty()) return name + " is being listed";
  return name + " is not listed yet, and its last listing failed" + ColonAnd(link.error());
}

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

Fence HeardFrom(const KnownLinks& said) {
  Fence heard = said.fence;
  if (heard.state) heard.state->links = std::max(heard.state->links, said.links_version);
  return heard;
}

bool TellsWhatHasGone(const Fence& shown, const KnownLinks& said) {
  if (said.from_disk) return false;
  // Of the release before: an empty state cannot be told from links that were all taken away.
  if (said.fence.epoch == 0) return !said.links.empty();
  return said.links_version > 0 && Believes(shown, said.fence);
}

std::string FolderOf(const MountedNamespace& found) {
  return found.cluster_dir + "/" + UuidFromBytes(found.link.spec().id()).ToString();
}

Task<Result<NamespaceSource::Answer>> NamespaceSource::AskAt(std::string coordinator,
                                                             std::string link, CallHandle* call) {
  proto::GetLinksRequest request;
  request.set_name(link);
  *request.mutable_mount() = self_;
  const Deadline deadline = Deadline::After(options_.call_timeout);
  const Result<RpcReply> reply =
      co_await pool_.Call(coordinator, Method::kGetLinks, request, deadline, call);
  if (!reply) {
    Error why = reply.error();
    // What says that nobody is there names the address already.
    const bool named = why.message.starts_with(coordinator);
    why.message.insert(0, named ? "coordinator " : "coordinator " + coordinator + ": ");
    const Status gone =
        why.code == Code::kNotFound ? co_await CheckGone(coordinator, link) : Status();
    if (!gone) co_return Fail(gone.error());
    co_return Fail(std::move(why));
  }
  Answer answer;
  answer.coordinator = coordinator;
  const Status parsed = ParseMessage(reply->message, answer.reply);
  if (!parsed) co_return Fail(parsed.error().Within("coordinator " + coordinator));
  if (!link.empty() && answer.reply.links_size() == 0) co_return Fail(NoSuchLink(link));
  const Status knowing = CheckKnowing(answer);
  if (!knowing) co_return Fail(knowing.error());
  co_return answer;
}

/// What was mounted here has gone where the coordinator that does not know it would know it.
Task<Status> NamespaceSource::CheckGone(std::string coordinator, std::string link) {
  const Result<KnownLinks> here = LinksOnDisk(link);
  if (!here) co_return Status();
  const Result<Answer> all = co_await AskAt(coordinator, "", nullptr);
  if (!all) co_return Fail(all.error());
  const Fence said = FromProto(all->reply.fence());
  const bool other = UuidFromBytes(all->reply.cluster()) != here->cluster;
  if (other || said.epoch == 0 || Believes(here->fence, said)) co_return Status();
  co_return Fail(Code::kUnavailable, "coordinator " + coordinator + " does not know \"" + link +
                                         "\" and is an older one (" + DescribeFence(said) +
                                         ") than the one that showed it here (" +
                                         DescribeFence(here->fence) +
                                         "): stop it, or see docs/DEPLOY.md, Backups");
}

Status NamespaceSource::CheckKnowing(const Answer& answer) {
  const proto::GetLinksReply& reply = answer.reply;
  const bool empty = reply.fence().epoch() != 0 && reply.links_version() == 0;
  std::string mounted;
  if (empty) {
    ForEachOnDisk([&](const std::string&, const proto::GetLinksReply& kept) {
      if (kept.cluster() == reply.cluster()) mounted = kept.links(0).spec().name();
      return mounted.empty();
    });
  }
  const bool said_before = std::exchange(said_empty_, !mounted.empty());
  if (mounted.empty()) return {};
  Error why{Code::kUnavailable, "coordinator " + answer.coordinator +
                                    " has an empty state, and \"" + mounted +
                                    "\" of its cluster was mounted here: give it its "
                                    "backup with `forebay restore`"};
  if (!said_before) spdlog::warn("{}; what is known here is shown meanwhile", why.message);
  return Fail(std::move(why));
}

/// One round over the coordinators, from the one that answered last; then the one that a standby
/// names.
Task<Result<NamespaceSource::Answer>> NamespaceSource::AskForLinks(std::string link) {
  std::vector<std::string> places = options_.coordinators;
  if (!led_.empty()) {
    std::erase(places, led_);
    places.insert(places.begin(), led_);
  }
  Unanswered unanswered;
  std::vector<std::string> standbys;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TimePoint asked = Clock::now();
    CallHandle call;
    Result<Answer> answer = co_await AskAt(places[i], link, &call);
    const bool refused = !answer && RefusedToBeAsked(answer.error(), call);
    const bool final = answer || answer.error().code == Code::kNotFound ||
                       (answer.error().code == Code::kDenied && !refused);
    if (final) {
      led_ = places[i];
      co_return answer;
    }
    unanswered.Note(places[i], answer.error(), refused);
    if (!refused && Clock::now() - asked < kStandbyPatience) standbys.push_back(places[i]);
    if (i + 1 < places.size() || standbys.empty()) continue;
    std::string leader = co_await LeaderNamedBy(pool_, std::exchange(standbys, {}));
    const bool asked_it = std::find(places.begin(), places.end(), leader) != places.end();
    if (!leader.empty() && !asked_it) places.push_back(std::move(leader));
  }
  co_return Fail(unanswered.Sum());
}

/// One link, and no set.
Task<Result<NamespaceSource::Answer>> NamespaceSource::AskForLink(std::string link) {
  Result<Answer> answer = co_await AskForLinks(link);
  if (answer && answer->reply.links(0).spec().name() != link) co_return Fail(NoSuchLink(link));
  co_return answer;
}

/// Whoever has started the program may see no log.
void NamespaceSource::SayWaiting(const std::string& what, Deadline deadline, TimePoint* next) {
  constexpr std::chrono::hours kAsGoodAsForEver{24};
  if (Clock::now() < *next) return;
  *next = Clock::now() + options_.message_every;
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline.Remaining());
  const std::string sentence =
      what + (left > kAsGoodAsForEver
                  ? "; waiting as long as it takes"
                  : "; waiting for " + std::to_string(left.count()) + " s at most");
  spdlog::warn("{}", sentence);
  if (!std::exchange(told_waiting_, true) && options_.tell_waiting) options_.tell_waiting(sentence);
}

Task<Result<MountedNamespace>> NamespaceSource::Obtain(std::string link, Deadline deadline) {
  TimePoint next_message = Clock::now();
  for (;;) {
    Result<Answer> answer = co_await AskForLink(link);
    std::string waiting_for;
    if (!answer) {
      const Code code = answer.error().code;
      if (code == Code::kNotFound || code == Code::kDenied) co_return Fail(answer.error());
      const std::optional<KeptLink> kept = FindOnDisk(link, "");
      if (kept) {
        Result<MountedNamespace> stored = FromDisk(*kept, "no coordinator answers");
        if (stored) co_return stored;
      }
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
        waiting_for = BeingListed(answer->reply.links(0));
        // The coordinator has lost the listing of a link that was mounted here before.
        const std::optional<KeptLink> kept = FindOnDisk(link, answer->reply.links(0).spec().id());
        if (kept) {
          Result<MountedNamespace> stored = FromDisk(*kept, waiting_for);
          if (stored) co_return stored;
        }
      }
    }
    if (deadline.Remaining() <= options_.retry_pause) {
      co_return Fail(Code::kUnavailable, waiting_for + GaveUp(answer));
    }
    SayWaiting(waiting_for, deadline, &next_message);
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
  RemoveLeftovers(folder);
  Result<std::shared_ptr<const Snapshot>> snapshot =
      co_await fetcher_.Obtain(found.link, answer.coordinator, folder);
  if (!snapshot) co_return Fail(snapshot.error());
  found.snapshot = std::move(*snapshot);
  const Status written = WriteFileAtomically(folder + "/link.pb", answer.reply.SerializeAsString());
  if (!written) co_return Fail(written.error());
  RemoveOtherGenerations(folder, found.link.generation().generation());
  RemoveEarlierLinks(found, FromProto(answer.reply.fence()));
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
      const std::optional<proto::GetLinksReply> kept = ReplyKeptIn(folder);
      if (kept && !visit(folder, *kept)) return;
    }
  }
}

/// What the parts of the set `name` wait for; "" = nothing, or it is no set.
std::string NamespaceSource::UnlistedPart(const KnownLinks& known, const std::string& name) const {
  for (const proto::LinkState& link : known.links) {
    const bool is_part = !name.empty() && link.spec().set() == name;
    if (!is_part || link.has_generation()) continue;
    if (!FindOnDisk(link.spec().name(), link.spec().id())) return BeingListed(link);
  }
  return "";
}

/// The folder of what was mounted last under the name: a link that was removed and made anew has
/// several. With an id that very link's alone.
std::optional<NamespaceSource::KeptLink> NamespaceSource::FindOnDisk(const std::string& name,
                                                                     const std::string& id) const {
  std::optional<KeptLink> found;
  fs::file_time_type newest;
  ForEachOnDisk([&](const std::string& folder, const proto::GetLinksReply& reply) {
    const proto::LinkSpec& spec = reply.links(0).spec();
    if (spec.name() != name || (!id.empty() && spec.id() != id)) return true;
    std::error_code gone;
    const fs::file_time_type written = fs::last_write_time(folder + "/link.pb", gone);
    if (gone || (found && written <= newest)) return true;
    newest = written;
    found = KeptLink{folder, reply};
    return true;
  });
  return found;
}

/// `why` it is not the coordinator's, for the log.
Result<MountedNamespace> NamespaceSource::FromDisk(const KeptLink& kept, const std::string& why) {
  const proto::LinkState& link = kept.reply.links(0);
  const std::uint64_t generation = link.generation().generation();
  auto snapshot = OpenVerified(kept.folder + "/" + SnapshotName(generation), link);
  if (!snapshot) return Fail(snapshot.error());
  spdlog::warn("{}; mounting generation {} of \"{}\" from {}", why, generation, link.spec().name(),
               kept.folder);
  return MountedNamespace{UuidFromBytes(kept.reply.cluster()), link, std::move(*snapshot),
                          fs::path(kept.folder).parent_path().string(), true};
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
    const Fence fence = HeardFrom(reply);
    const auto links = [](const Fence& each) { return each.state ? each.state->links : 0; };
    if (std::pair(fence.epoch, links(fence)) > std::pair(known.fence.epoch, links(known.fence)))
      known.fence = fence;
    return true;
  });
  if (known.links.empty()) {
    return Fail(Code::kNotFound, "no link was mounted before from " + options_.state_dir);
  }
  return known;
}

Fence NamespaceSource::HeardOf(const std::string& link) const {
  const Result<KnownLinks> here = LinksOnDisk(link);
  return here ? here->fence : Fence();
}

Task<Result<KnownLinks>> NamespaceSource::Links(std::string name) {
  Result<Answer> answer = co_await AskForLinks(std::move(name));
  if (!answer) co_return Fail(answer.error());
  KnownLinks known;
  known.cluster = UuidFromBytes(answer->reply.cluster());
  known.cluster_dir = options_.state_dir + "/" + known.cluster.ToString();
  known.fence = FromProto(answer->reply.fence());
  known.links_version = answer->reply.links_version();
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
      co_return Fail(Code::kUnavailable, waiting_for + GaveUp(known));
    }
    SayWaiting(waiting_for, deadline, &next_message);
    co_await SleepFor(options_.retry_pause);
  }
}

}  // namespace forebay
