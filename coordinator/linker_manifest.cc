#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <utility>

#include "common/model/key_filter.h"
#include "common/model/key_rules.h"
#include "common/s3/list_parser.h"
#include "coordinator/linker.h"

// Links of which a manifest says what they show.
namespace forebay {
namespace {

/// Of so many bad lines the message tells; the rest is counted.
constexpr std::size_t kToldOf = 3;
/// A manifest may have 256 MiB.
constexpr std::chrono::seconds kManifestLook{60};

class TextSink final : public BodySink {
 public:
  explicit TextSink(std::size_t bytes) { text_.reserve(bytes); }
  void OnAttempt() override { text_.clear(); }
  void OnData(ByteView bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

/// `looked_up`: S3 was asked for what the other lines name.
Error BadManifest(const ManifestSource& source, const LinkManifest& manifest, bool looked_up) {
  std::string text = "manifest " + source.location + ": ";
  const std::size_t told = std::min(kToldOf, manifest.bad.size());
  for (std::size_t i = 0; i < told; ++i) text += (i == 0 ? "" : "; ") + manifest.bad[i].reason;
  const std::uint64_t more = manifest.bad_lines() - told;
  if (more > 0) text += fmt::format("; and {} more like these", more);
  if (!looked_up && !manifest.names.empty())
    text += "; whether S3 has what the other lines name is looked up when these are right";
  text += source.skip_bad ? "; it leaves nothing to link" : "; or leave them out with --skip-bad";
  return Error{Code::kInvalid, std::move(text)};
}

/// The link reads its manifest as it reads its objects: at one endpoint, in one region.
Error ManifestElsewhere(const ManifestSource& source, const LinkOrigin& origin, const Error& why) {
  return Error{Code::kInvalid,
               fmt::format("manifest {} cannot be read where its objects are (bucket {}, region "
                           "{}): put it into that bucket, or into one of the same region and "
                           "endpoint; {}",
                           source.location, origin.bucket, origin.region, why.message)};
}

}  // namespace

Task<Result<std::string>> Linker::FetchManifest(LinkOrigin origin, S3Location at,
                                                Deadline deadline) {
  origin.bucket = at.bucket;
  origin.prefix.clear();
  HeadRequest asked{.origin = origin, .key = at.prefix};
  Result<ObjectHead> head = co_await parts_.store.Head(std::move(asked), deadline);
  if (!head && head.error().code == Code::kNotFound) {
    co_return Fail(Code::kNotFound, fmt::format("there is no such object: correct its name, or put "
                                                "it there ({})",
                                                head.error().message));
  }
  if (!head) co_return Fail(head.error());
  if (head->size > kMaxManifestBytes) {
    co_return Fail(Code::kInvalid, "it is larger than 256 MiB: link its prefix, or split it");
  }
  TextSink sink(head->size);
  if (head->size == 0) co_return sink.Take();
  GetRequest request{.origin = std::move(origin),
                     .key = at.prefix,
                     .etag = head->etag,
                     .object_size = head->size,
                     .offset = 0,
                     .length = head->size};
  Status got = co_await parts_.store.Get(std::move(request), sink, deadline);
  if (!got) co_return Fail(got.error());
  co_return sink.Take();
}

Task<Result<LinkManifest>> Linker::ReadManifest(ManifestSource source, LinkOrigin origin,
                                                S3Location root, Deadline deadline) {
  const std::string where = "manifest " + source.location;
  Result<S3Location> at = ParseS3Location(source.location);
  if (!at) co_return Fail(at.error());
  Result<std::string> text = co_await FetchManifest(std::move(origin), *at, deadline);
  if (!text) co_return Fail(text.error().Within(where));
  auto parse = [source, root, at = *at, text = std::move(*text)]() mutable {
    const S3Location base = source.behind_prefix ? root : S3Location{at.bucket, ""};
    return ParseLinkManifest(std::move(text), base, root);
  };
  Result<LinkManifest> manifest = co_await parts_.offload.Run(std::move(parse));
  if (!manifest) co_return Fail(manifest.error().Within(where));
  if (!manifest->bad.empty() && (!source.skip_bad || manifest->names.empty()))
    co_return Fail(BadManifest(source, *manifest, false));
  co_return manifest;
}

/// Whether the manifest can be read with the link's own origin.
Task<Status> Linker::LookForManifest(ManifestSource source, LinkOrigin origin, Deadline deadline) {
  Result<S3Location> at = ParseS3Location(source.location);
  if (!at) co_return Fail(at.error());
  HeadRequest asked{.origin = origin, .key = at->prefix};
  asked.origin.bucket = at->bucket;
  asked.origin.prefix.clear();
  Result<ObjectHead> head = co_await parts_.store.Head(std::move(asked), deadline);
  if (head) co_return Status();
  if (IsS3Away(head.error())) co_return Fail(head.error());
  co_return Fail(ManifestElsewhere(source, origin, head.error()));
}

/// Where the names of a manifest lie. The origin of `options` is complete for the bucket that was
/// asked for, else for that of the manifest; `partial` is what was asked for.
Task<Result<LinkOrigin>> Linker::FindRoot(LinkOptions options, LinkOrigin partial,
                                          Deadline deadline) {
  LinkSpec& spec = options.spec;
  S3Location root;
  if (spec.manifest.behind_prefix) {
    if (!spec.origin.prefix.empty() && !spec.origin.prefix.ends_with('/'))
      spec.origin.prefix += '/';
    root = {.bucket = spec.origin.bucket, .prefix = spec.origin.prefix};
  }
  Result<LinkManifest> manifest = co_await ReadManifest(spec.manifest, spec.origin, root, deadline);
  if (!manifest) co_return Fail(manifest.error());
  if (manifest->bucket != spec.origin.bucket) {
    partial.bucket = manifest->bucket;
    auto complete = [this, partial, style = options.path_style] {
      return parts_.complete_origin(partial, style);
    };
    Result<LinkOrigin> origin = co_await parts_.offload.Run(std::move(complete));
    if (!origin) co_return Fail(origin.error());
    spec.origin = std::move(*origin);
    // Each listing reads it so.
    Status readable = co_await LookForManifest(spec.manifest, spec.origin, deadline);
    if (!readable) co_return Fail(readable.error());
  }
  spec.origin.prefix = std::move(manifest->prefix);
  co_return spec.origin;
}

/// Reads what the manifest names now.
Task<Status> Linker::ReadNames(Link link, std::shared_ptr<Listing> listing) {
  const LinkSpec& spec = link.spec;
  const S3Location root{.bucket = spec.origin.bucket, .prefix = spec.origin.prefix};
  std::function<Task<Result<LinkManifest>>(Deadline)> ask = [this, &spec, &root](Deadline by) {
    return ReadManifest(spec.manifest, spec.origin, root, by);
  };
  S3Wait wait = WaitOf(link);
  // Each question begins it anew.
  wait.say_after = std::max<Duration>(wait.say_after, kManifestLook);
  Task<Result<LinkManifest>> asked = AskS3<LinkManifest>(wait, listing->ended, std::move(ask));
  Result<LinkManifest> manifest = co_await std::move(asked);
  if (!manifest) co_return Fail(manifest.error());
  Result<KeyFilter> filter = KeyFilter::Parse(spec.includes, spec.excludes);
  if (!filter) co_return Fail(filter.error());
  std::vector<LinkManifest::Name>& names = manifest->names;
  std::erase_if(names, [&](const LinkManifest::Name& name) {
    return !filter->Shows(std::string_view(name.key).substr(root.prefix.size()));
  });
  for (const LinkManifest::Name& name : names) listing->keys.push_back(name.key);
  listing->manifest = std::make_shared<LinkManifest>(*std::move(manifest));
  co_return Status();
}

/// Looks up what the manifest names, or what of it is known at the parts.
Task<Status> Linker::ListNames(Link link, Plan plan, std::shared_ptr<Listing> listing) {
  const LinkOrigin& origin = link.spec.origin;
  NameLister::Job job{.origin = origin,
                      .prefix = origin.prefix,
                      .keys = std::move(listing->keys),
                      .ranges = plan.spool->found()};
  // Parts that are files lie anywhere; what is in a folder lies together.
  job.each_alone = job.keys.size() <= plan.parts.size();
  Listing* const counted = listing.get();
  const NameLister::Progress progress = [this, counted, task = link.task_id](std::uint64_t objects,
                                                                             std::uint64_t bytes) {
    counted->objects += objects;
    counted->bytes += bytes;
    parts_.tasks.Progress(task, counted->objects, counted->bytes);
  };
  NameListerOptions options;
  options.page_keys = parts_.listing.page_keys;
  options.wait = WaitOf(link);
  listing->names = NameLister::Create(parts_.store, std::move(job), std::move(options), *plan.spool,
                                      parts_.workers, progress);
  if (stopping_ || listing->cancelled)
    co_return Fail(Code::kUnavailable, "the listing was interrupted");
  if (!parts_.links.FindById(link.spec.id)) co_return Fail(Code::kNotFound, "the link was removed");
  Status listed = co_await listing->names->Run();
  if (!listed) co_return listed;
  auto find = [plan, listing] { return FindMissing(*plan.spool, listing->names->keys()); };
  Result<std::vector<std::size_t>> missing = co_await parts_.offload.Run(std::move(find));
  if (!missing) co_return Fail(missing.error());
  co_return TakeMissing(link, plan, *missing, *listing);
}

/// What was looked up in vain, by its places among the names.
Status Linker::TakeMissing(const Link& link, const Plan& plan,
                           const std::vector<std::size_t>& missing, Listing& listing) {
  const std::vector<std::string>& keys = listing.names->keys();
  const bool is_part = !plan.parts.empty();
  LinkManifest of_part;  // nothing was read for it
  LinkManifest& manifest = is_part ? of_part : *listing.manifest;
  std::uint64_t files_gone = 0;
  for (const std::size_t place : missing) {
    const std::string what = fmt::format("s3://{}/{} is not there: correct it",
                                         link.spec.origin.bucket, Printable(keys[place]));
    if (!is_part) {
      const std::uint64_t line = manifest.names[place].line;
      manifest.AddBad({.line = line, .reason = manifest.Place(line) + " " + what});
      continue;
    }
    manifest.AddBad({.line = 0, .reason = what});
    listing.gone.push_back(keys[place]);
    const auto path = RelativeKey(link.spec.origin.prefix, keys[place]);
    const auto row = path ? plan.previous->Resolve(*path) : std::nullopt;
    if (row && !row->is_directory()) ++files_gone;
  }
  const bool nothing_left =
      is_part ? files_gone == plan.previous->totals().objects : missing.size() == keys.size();
  // The same as for a prefix with nothing below it.
  if (!missing.empty() && nothing_left)
    return Fail(BadManifest(link.spec.manifest, manifest, true));
  return ReportBad(link, manifest);
}

/// Of what cannot be linked: fails with it, or shows it as the report of the task.
Status Linker::ReportBad(const Link& link, const LinkManifest& manifest) {
  if (manifest.bad.empty()) return {};
  if (!link.spec.manifest.skip_bad) return Fail(BadManifest(link.spec.manifest, manifest, true));
  std::vector<proto::TaskFailure> failures;
  for (const LinkManifest::Bad& bad : manifest.bad) {
    if (failures.size() >= TaskBook::kFailuresKept) break;
    proto::TaskFailure& failure = failures.emplace_back();
    failure.set_key(bad.line > 0 ? manifest.Place(bad.line) : link.spec.manifest.location);
    failure.set_reason(bad.reason);
  }
  parts_.tasks.AddFailures(link.task_id, failures);
  std::optional<proto::TaskState> task = parts_.tasks.Find(link.task_id);
  if (task) {
    task->set_failed(manifest.bad_lines());
    parts_.tasks.Show(*task);
  }
  spdlog::warn("link '{}': {} lines of manifest {} are left out; the first: {}", link.spec.name,
               manifest.bad_lines(), link.spec.manifest.location, manifest.bad.front().reason);
  return {};
}

}  // namespace forebay
