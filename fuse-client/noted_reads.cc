#include "fuse-client/noted_reads.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/messages.h"
#include "fuse-client/in_flight.h"

namespace forebay {

namespace {

constexpr Duration kTimeout = std::chrono::seconds(2);

}  // namespace

NotedReads::Notes& NotedReads::NotesFor(PlaceTeller& teller, const Uuid& link) {
  const auto found = std::ranges::find_if(
      open_, [&](const Notes& notes) { return notes.teller == &teller && notes.link == link; });
  if (found != open_.end()) return *found;
  Notes& notes = open_.emplace_back();
  notes.teller = &teller;
  notes.link = link;
  notes.message.set_link(BytesOf(link));
  notes.message.set_store(teller.store);
  return notes;
}

NotedReads::Notes NotedReads::Take(std::size_t which) {
  Notes taken = std::move(open_[which]);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
  return taken;
}

void NotedReads::Note(PlaceTeller& teller, std::uint64_t segment, const BlockRequest& request) {
  Notes& notes = NotesFor(teller, request.link);
  const auto next = static_cast<std::uint32_t>(notes.message.jobs_size());
  const auto [job, is_new] = notes.jobs.try_emplace(request.job, next);
  if (is_new) notes.message.add_jobs(request.job);
  proto::NotedRead& read = *notes.message.add_reads();
  *read.mutable_block() = ToProto(request.block);
  read.set_bytes(request.range.size());
  read.set_job(job->second);
  read.set_segment(segment);
  ++unsaid_;
  if (notes.message.reads_size() >= kReadsAtOnce) {
    Spawn(parts_.context, Say(Take(static_cast<std::size_t>(&notes - open_.data()))));
  } else if (!waits_) {
    waits_ = true;
    Spawn(parts_.context, SayLater());
  }
}

Task<void> NotedReads::SayLater() {
  const InFlight counted(parts_.in_flight);
  co_await SleepFor(kPatience);
  waits_ = false;
  while (!open_.empty()) Spawn(parts_.context, Say(Take(open_.size() - 1)));
}

Task<void> NotedReads::Say(Notes notes) {
  const InFlight counted(parts_.in_flight);
  const Deadline deadline = Deadline::After(kTimeout);
  Result<RpcReply> reply =
      co_await parts_.pool.Call(notes.teller->address, Method::kNoteReads, notes.message, deadline);
  unsaid_ -= static_cast<std::size_t>(notes.message.reads_size());
  proto::NoteReadsReply answer;
  const bool taken = reply && ParseMessage(reply->message, answer).has_value();
  if (!taken || answer.renamed()) KnownPlaces::Forget(*notes.teller);
  for (const std::uint32_t moved : answer.moved()) {
    if (moved >= static_cast<std::uint32_t>(notes.message.reads_size())) break;
    const proto::NotedRead& read = notes.message.reads(static_cast<int>(moved));
    parts_.places->Forget(notes.link, FromProto(read.block()));
  }
  if (!reply) spdlog::debug("{} took no notes: {}", notes.teller->address, reply.error().message);
}

}  // namespace forebay
