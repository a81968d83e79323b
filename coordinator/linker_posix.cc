#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/model/key_rules.h"
#include "coordinator/linker.h"

// Links that show what the metadata of their objects says.
namespace forebay {
namespace {

/// Looked for at once: for each of these batches the listing is read anew up to it.
constexpr std::size_t kFoundAtOnce = 100'000;
/// Asked about until the answers go to the disk: so many questions a crash repeats at most.
constexpr std::size_t kAskedAtOnce = 5'000;

/// The next objects that S3 must be asked about and that `spool` has no answer for. Begins the
/// spool again when what it has is of another listing. Blocks.
Result<std::vector<ListedObject>> FindToAsk(const ListedLink& listed, const Snapshot* previous,
                                            PosixSpool& spool) {
  std::vector<ListedObject> found;
  std::size_t answered = spool.answers().size();
  std::size_t place = 0;
  bool is_other = false;
  const Status read = ForEachListed(listed, [&](const ListedObject& object) -> Status {
    if (!PosixAnswers::MustAsk(previous, object)) return {};
    if (place < answered) {
      is_other = spool.answers()[place++].object != PosixSpool::IdOf(object);
    } else {
      found.push_back(object);
    }
    const bool enough = is_other || found.size() == kFoundAtOnce;
    return enough ? Fail(Code::kUnavailable, "no more is wanted") : Status();
  });
  if (is_other || (read && place < answered)) {
    Status cleared = spool.Clear();
    if (!cleared) return Fail(cleared.error());
    return FindToAsk(listed, previous, spool);
  }
  if (!read && found.size() < kFoundAtOnce) return Fail(read.error());
  return found;
}

}  // namespace

ListedLink Linker::ListedBy(const Link& link, const Plan& plan, const Listing& listing) {
  const bool is_single = IsSingleObjectPrefix(link.spec.origin.prefix);
  const bool keeps_lines = listing.names && !plan.parts.empty();
  return {.spool = is_single ? nullptr : plan.spool.get(),
          .single = listing.single,
          .manifest = listing.manifest.get(),
          .known_lines = keeps_lines ? plan.previous.get() : nullptr};
}

/// Asks S3 about all objects that were listed and that the generation before does not know.
Task<Status> Linker::AskPosix(Link link, Plan plan, std::shared_ptr<Listing> listing) {
  auto open = [path = parts_.index.ListingFolderOf(link.spec.id) + "/posix"] {
    return PosixSpool::Open(path);
  };
  Result<std::unique_ptr<PosixSpool>> spool = co_await parts_.offload.Run(std::move(open));
  if (!spool) co_return Fail(spool.error());
  listing->posix = *std::move(spool);
  const std::size_t before = listing->posix->answers().size();
  for (;;) {
    auto find = [link, plan, listing] {
      return FindToAsk(ListedBy(link, plan, *listing), plan.previous.get(), *listing->posix);
    };
    Result<std::vector<ListedObject>> found = co_await parts_.offload.Run(std::move(find));
    if (!found) co_return Fail(found.error());
    if (found->empty()) break;
    Status asked = co_await AskBatch(link, std::move(*found), listing);
    if (!asked) co_return asked;
  }
  const std::size_t all = listing->posix->answers().size();
  spdlog::info("link '{}': S3 was asked for the metadata of {} of {} objects", link.spec.name,
               all >= before ? all - before : all, listing->objects);
  co_return Status();
}

Task<Status> Linker::AskBatch(Link link, std::vector<ListedObject> objects,
                              std::shared_ptr<Listing> listing) {
  for (std::size_t at = 0; at < objects.size(); at += kAskedAtOnce) {
    if (stopping_ || listing->cancelled)
      co_return Fail(Code::kUnavailable, "the listing was interrupted");
    if (!parts_.links.FindById(link.spec.id))
      co_return Fail(Code::kNotFound, "the link was removed");
    const auto begin = objects.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t count = std::min(kAskedAtOnce, objects.size() - at);
    std::vector<ListedObject> some(begin, begin + static_cast<std::ptrdiff_t>(count));
    PosixAskerOptions options;
    options.wait = WaitOf(link);
    listing->asker = PosixAsker::Create(parts_.store, link.spec.origin, std::move(some), options);
    Result<std::vector<PosixSpool::Answer>> answers = co_await listing->asker->Run();
    listing->asker.reset();
    if (!answers) co_return Fail(answers.error().Within("asking for the objects' metadata"));
    auto keep = [listing, answers = *std::move(answers)] {
      return listing->posix->Append(answers);
    };
    Status kept = co_await parts_.offload.Run(std::move(keep));
    if (!kept) co_return kept;
  }
  co_return Status();
}

}  // namespace forebay
