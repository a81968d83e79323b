#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/model/link_set.h"
#include "coordinator/linker.h"
#include "coordinator/task_sum.h"

// Links that are made and removed together.
namespace forebay {

/// The links that a request with parts means, each checked against S3.
Task<Result<std::vector<LinkSpec>>> Linker::SpecsOf(proto::LinkRequest request) {
  const std::string set = request.name();
  const Status named = ValidateLinkName(set);
  if (!named) co_return Fail(named.error());
  if (!request.manifest().empty()) {
    co_return Fail(Code::kInvalid,
                   "a manifest names the objects of one link: link it by itself, or each prefix "
                   "with a manifest of its own");
  }
  std::vector<SetPart> parts;
  for (const proto::LinkPart& part : request.parts()) {
    Result<S3Location> location = ParseS3Location("s3://" + part.bucket() + "/" + part.prefix());
    if (!location) co_return Fail(location.error());
    parts.push_back({.name = part.name(), .location = std::move(*location)});
  }
  const Status good = ValidateParts(set, parts);
  if (!good) co_return Fail(good.error());
  request.clear_parts();
  std::vector<LinkSpec> specs;
  for (const SetPart& part : parts) {
    request.set_name(LinkOfPart(set, part.name));
    request.set_bucket(part.location.bucket);
    request.set_prefix(part.location.prefix);
    Result<LinkSpec> spec = co_await SpecOf(request);
    if (!spec) co_return Fail(spec.error());
    spec->set = set;
    specs.push_back(std::move(*spec));
  }
  co_return specs;
}

Task<Result<proto::LinkReply>> Linker::StartSet(proto::LinkRequest request) {
  proto::LinkReply reply;
  reply.set_name(request.name());
  const bool dry_run = request.dry_run();
  Result<std::vector<LinkSpec>> specs = co_await SpecsOf(std::move(request));
  if (!specs) co_return Fail(specs.error());
  if (stopping_) co_return Fail(Code::kUnavailable, "the coordinator is stopping");
  if (dry_run) {
    const Status fits = parts_.links.CheckAddSet(*specs);
    if (!fits) co_return Fail(fits.error());
    co_return reply;
  }
  // As StartLink.
  auto add = [this, wanted = std::move(*specs)] {
    Result<std::vector<LinkRegistry::Added>> added = parts_.links.AddSet(wanted);
    if (!added) return added;
    for (const LinkRegistry::Added& each : *added) {
      if (each.is_new) asio::post(context_, [this, link = each.link] { Begin(link); });
    }
    return added;
  };
  Result<std::vector<LinkRegistry::Added>> added = co_await parts_.offload.Run(std::move(add));
  if (!added) co_return Fail(added.error());
  std::vector<std::string> tasks;
  for (LinkRegistry::Added& each : *added) {
    Result<std::string> task = co_await TaskOf(std::move(each));
    if (!task) co_return Fail(task.error());
    tasks.push_back(*std::move(task));
  }
  reply.set_task_id(JoinTaskIds(tasks));
  co_return reply;
}

Task<Result<std::vector<Link>>> Linker::Remove(std::string name) {
  auto remove = [this, name = std::move(name)] {
    Result<std::vector<Link>> removed = parts_.links.Remove(name);
    if (removed) ForgetSoon(*removed);
    return removed;
  };
  Result<std::vector<Link>> removed = co_await parts_.offload.Run(std::move(remove));
  co_return removed;
}

/// Any thread.
void Linker::ForgetSoon(const std::vector<Link>& removed) {
  for (const Link& link : removed) {
    spdlog::info("link '{}' is removed", link.spec.name);
    asio::post(context_, [this, id = link.spec.id] { Spawn(context_, Forget(id)); });
  }
}

}  // namespace forebay
