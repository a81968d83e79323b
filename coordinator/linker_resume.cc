// Links that were there before this process: their files are opened, found elsewhere, or made anew.
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/executors.h"
#include "coordinator/frozen_links.h"
#include "coordinator/linker.h"

namespace forebay {

Task<Status> Linker::Resume() {
  const std::vector<Link> all = parts_.links.All();
  for (const Link& link : all) {
    if (!link.generation) {
      Status begun = co_await BeginAgain(link);
      if (!begun) co_return begun;
      continue;
    }
    auto open = [this, id = link.spec.id, generation = *link.generation] {
      return parts_.index.Open(id, generation, false);
    };
    Status opened = co_await parts_.offload.Run(std::move(open));
    // A refresh that was interrupted builds on it at once; one that was lost must be whole to be
    // back.
    const bool wanted_whole = !link.task_id.empty() || IsListingLost(link);
    if (opened && wanted_whole) {
      // Behind this call: reading a large file takes longer than a takeover may.
      ++verifying_;
      Spawn(context_, VerifyAndGoOn(link));
    } else if (!opened) {
      opened = co_await FindOrList(link, opened.error());
    }
    if (!opened) co_return opened;
  }
  for (const Link& link : all) {
    if (!link.previous) continue;
    auto open = [this, id = link.spec.id, generation = *link.previous] {
      return parts_.index.Open(id, generation, false);
    };
    // A mount that still uses it keeps what it has fetched: nothing to do when it is gone.
    (void)co_await parts_.offload.Run(std::move(open));
  }
  Status pruned = co_await PruneFiles();
  ++verifying_;
  Spawn(context_, VerifyFiles(all));
  co_return pruned;
}

/// Looks whether the open file of `link`'s generation is whole, while it is served already.
Task<void> Linker::VerifyAndGoOn(Link link) {
  Status done = co_await Verify(link);
  const std::optional<Link> known = parts_.links.FindById(link.spec.id);
  const bool same = known && known->task_id == link.task_id && known->generation &&
                    known->generation->generation() == link.generation->generation();
  if (same && !stopping_) {
    done = done ? co_await GoOn(*known) : co_await FindOrList(*known, done.error());
    if (!done) spdlog::error("link '{}': {}", link.spec.name, done.error().message);
  }
  --verifying_;
  ended_.NotifyAll();
}

/// `link` has no generation: the listing that an earlier process did not end goes on; one that
/// failed after the generation was lost begins anew.
Task<Status> Linker::BeginAgain(Link link) {
  if (!link.task_id.empty()) {
    Begin(link);
    co_return Status();
  }
  Status relisted = co_await ListAnew(std::move(link));
  co_return relisted;
}

/// Under a task of its own.
Task<Status> Linker::ListAnew(Link link) {
  auto relist = [this, id = link.spec.id] { return parts_.links.Relist(id); };
  Status relisted = co_await parts_.offload.Run(std::move(relist));
  if (!relisted) co_return relisted;
  const std::optional<Link> now = parts_.links.FindById(link.spec.id);
  if (now) Begin(*now);
  co_return Status();
}

/// The file of `link`'s generation is here, and whole where that was asked.
Task<Status> Linker::GoOn(Link link) {
  if (!IsListingLost(link)) {
    if (!link.task_id.empty()) Begin(link);
    co_return Status();
  }
  spdlog::info("the listing of the frozen link '{}' is found again", link.spec.name);
  auto confirm = [this, id = link.spec.id, checked = link.checked_unix_s] {
    return parts_.links.Confirm(id, checked);
  };
  Status confirmed = co_await parts_.offload.Run(std::move(confirm));
  co_return confirmed;
}

/// The file of `link`'s generation is not here, or damaged, because of `why`.
Task<Status> Linker::FindOrList(Link link, Error why) {
  Status found = co_await parts_.find(link.spec.id, *link.generation);
  if (found) {
    Status gone_on = co_await GoOn(std::move(link));
    co_return gone_on;
  }
  const Error lost{why.code, why.message + "; " + found.error().message};
  Status relisted = co_await ListAgain(link, lost);
  co_return relisted;
}

/// The file of `link`'s generation is lost, because of `why`.
Task<Status> Linker::ListAgain(Link link, Error why) {
  const std::optional<Link> known = parts_.links.FindById(link.spec.id);
  const bool current = known && known->task_id == link.task_id && known->generation &&
                       known->generation->generation() == link.generation->generation();
  if (!current) co_return Status();  // it is listed already, or gone
  spdlog::warn("the listing of link '{}' is lost ({}): it is listed again", link.spec.name,
               why.message);
  if (IsListingLost(*known) && !known->task_id.empty()) {
    Begin(*known);
    co_return Status();
  }
  Status relisted = co_await ListAnew(*known);
  co_return relisted;
}

/// kCorrupt: the current generation's file is damaged. Success where there is nothing to compare.
Task<Status> Linker::Verify(Link link) {
  if (!link.generation) co_return Status();
  auto verify = [this, link] { return parts_.index.Verify(link.spec.id, *link.generation); };
  Status verified = co_await parts_.offload.Run(std::move(verify));
  if (!verified && verified.error().code == Code::kCorrupt) co_return verified;
  co_return Status();
}

/// Reads what an earlier process wrote, while links are served already: a mount compares what it
/// fetches with the digest itself, and a refresh first verifies what it builds on.
Task<void> Linker::VerifyFiles(std::vector<Link> links) {
  for (const Link& link : links) {
    if (stopping_) break;
    if (!link.generation) continue;
    Status verified = co_await Verify(link);
    if (verified || stopping_) continue;
    // What began meanwhile does not build on it: it verified first.
    const std::optional<Link> known = parts_.links.FindById(link.spec.id);
    if (!known || !known->generation || !known->task_id.empty()) continue;
    if (known->generation->generation() != link.generation->generation()) continue;
    Status again = co_await FindOrList(*known, verified.error());
    if (!again) spdlog::error("link '{}': {}", link.spec.name, again.error().message);
  }
  --verifying_;
  ended_.NotifyAll();
}

/// The task that `forebay link` waits for; "" where the link is there. One whose listing was lost,
/// and could not be made again, is not: it is listed anew.
Task<Result<std::string>> Linker::TaskOf(LinkRegistry::Added added) {
  const Link& link = added.link;
  const bool lost = link.HasLostGeneration() || IsListingLost(link);
  if (added.is_new || !lost || !link.task_id.empty()) co_return link.task_id;
  Result<proto::RefreshReply> begun = co_await StartRefresh(link.spec, "", RefreshCause::kAsked);
  if (!begun) co_return Fail(begun.error());
  co_return begun->task_id();
}

/// The listing of the frozen `link` is lost: looks for it again, under a task.
Task<Result<proto::RefreshReply>> Linker::TryAgain(Link link) {
  auto begin = [this, id = link.spec.id] {
    return parts_.links.BeginRefresh(id, "", RefreshCause::kAsked);
  };
  Result<LinkRegistry::Added> begun = co_await parts_.offload.Run(std::move(begin));
  if (!begun) co_return Fail(begun.error());
  if (begun->is_new) {
    ++verifying_;
    Spawn(context_, FindAgain(begun->link));
  }
  proto::RefreshReply reply;
  reply.set_link(link.spec.name);
  reply.set_task_id(begun->link.task_id);
  // One that runs already ends with what this one would.
  reply.set_started(true);
  co_return reply;
}

Task<void> Linker::FindAgain(Link link) {
  auto open = [this, link]() -> Status {
    Status opened = parts_.index.Open(link.spec.id, *link.generation, false);
    if (opened) opened = parts_.index.Verify(link.spec.id, *link.generation);
    return opened;
  };
  Status found = co_await parts_.offload.Run(std::move(open));
  if (found) {
    found = co_await GoOn(link);
  } else {
    found = co_await FindOrList(link, found.error());
  }
  if (!found) spdlog::error("link '{}': {}", link.spec.name, found.error().message);
  --verifying_;
  ended_.NotifyAll();
}

}  // namespace forebay
